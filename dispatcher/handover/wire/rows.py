"""A frame with rows: one batch as a stream of Arrow, which has the frame without them in its metadata."""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from dispatcher.handover.errors import Malformed, Unencodable
from dispatcher.handover.message import Frame, Records
from dispatcher.handover.wire.arrow_message import is_compressed
from dispatcher.handover.wire.header import decode_header, encode

HEADER: Final = b"vnodemap.frame"

# How an encapsulated message of Arrow begins, and how a stream of them ends.
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUATION + bytes(4)

_VIEWS: Final = {
    view.id
    for view in (
        pa.string_view(),
        pa.binary_view(),
        pa.list_view(pa.null()),
        pa.large_list_view(pa.null()),
    )
}


def encode_rows(frame: Frame[Any], rows: pa.RecordBatch) -> pa.Buffer:
    """A frame of `Records` with its rows, one for each of the batch's sequences. Raises `Unencodable`."""
    message = frame.message
    assert isinstance(message, Records), message
    told = len(message.batch.sequences)
    if rows.num_rows != told:
        raise Unencodable(message, f"it has {rows.num_rows} rows for {told} sequences")
    header = encode(frame)
    sink = pa.BufferOutputStream()
    try:
        _check_fields(rows.schema)
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows, custom_metadata={HEADER: header})
    # Such as of a type that is nested more than 63 deep.
    except (pa.ArrowException, ValueError) as error:
        raise Unencodable(message, f"it has rows that Arrow or this format refuses ({error})") from error
    return sink.getvalue()


def decode(data: bytes | memoryview) -> tuple[Frame[Any], pa.RecordBatch | None]:
    """The frame, and its rows if it has any, which go on using `data`. Raises `UnknownFormat`, `Malformed`.

    Rows are checked whole, so that nobody who reads them can be led astray. `Records` may come without: only
    who applies them knows whether there is more to them than their numbers.
    """
    # Of bytes, which an Arrow buffer's own view is not.
    view = memoryview(data).cast("B")
    if bytes(view[:4]) != _CONTINUATION:
        return decode_header(view), None
    try:
        header, rows = _read(view)
    # What Arrow says of damaged bytes; a stream that is too short says StopIteration.
    except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
        raise Malformed(f"has rows that Arrow refuses ({error!r})") from error
    frame = decode_header(memoryview(header))
    if not isinstance(frame.message, Records) or rows.num_rows != len(frame.message.batch.sequences):
        raise Malformed(f"has {rows.num_rows} rows that its header does not tell of")
    return frame, rows


def _read(view: memoryview) -> tuple[bytes, pa.RecordBatch]:
    """The header and the rows. Raises `Malformed`, and whatever Arrow raises."""
    source = pa.BufferReader(pa.py_buffer(view))
    _check_messages(source)
    if bytes(view[source.tell() :][: len(_END) + 1]) != _END:
        raise Malformed("does not end behind its rows")
    source.seek(0)
    with pa.ipc.open_stream(source) as stream:
        _check_fields(stream.schema)
        rows, metadata = stream.read_next_batch_with_custom_metadata()
    rows.validate(full=True)
    if metadata is None or HEADER not in metadata:
        raise Malformed("has rows and no header")
    return metadata[HEADER], rows


def _check_fields(fields: Iterable[pa.Field]) -> None:
    """Raises `ValueError` for names and time zones that are not UTF-8, which Arrow takes as they come, and for views.

    All rows may view one buffer: few bytes could take long to check, and fill the memory of who copies them.
    """
    for field in fields:
        # Where it is read, it is decoded.
        _ = field.name
        _check_type(field.type)


def _check_type(type_: pa.DataType) -> None:
    if type_.id in _VIEWS:
        raise ValueError(f"a {type_} is a view; make it plain")
    if pa.types.is_timestamp(type_):
        _ = type_.tz
    elif pa.types.is_dictionary(type_):
        _check_type(type_.value_type)
    elif isinstance(type_, pa.BaseExtensionType):
        _check_type(type_.storage_type)
    _check_fields(type_.field(at) for at in range(type_.num_fields))


def _check_messages(source: pa.BufferReader) -> None:
    """Up to the first batch of rows. Raises `Malformed` for compressed ones: few bytes could fill the memory."""
    messages = pa.ipc.MessageReader.open_stream(source)
    kind = None
    while kind != "record batch":
        message = messages.read_next_message()
        kind = message.type
        if kind not in ("schema", "dictionary", "record batch"):
            raise Malformed(f"has a {kind} where rows are expected")
        if kind != "schema" and is_compressed(kind, memoryview(message.metadata)):
            raise Malformed("has compressed rows, which are not taken")
