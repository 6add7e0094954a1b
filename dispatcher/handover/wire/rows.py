"""A frame with rows: one batch as a stream of Arrow, which has the frame without them in its metadata."""

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


def encode_rows(frame: Frame[Any], rows: pa.RecordBatch) -> pa.Buffer:
    """A frame of `Records` with its rows, one for each of the batch's sequences. Raises `Unencodable`."""
    message = frame.message
    assert isinstance(message, Records), message
    told = len(message.batch.sequences)
    if rows.num_rows != told:
        raise Unencodable(message, f"it has {rows.num_rows} rows for {told} sequences")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows, custom_metadata={HEADER: encode(frame)})
    return sink.getvalue()


def decode(data: bytes | memoryview) -> tuple[Frame[Any], pa.RecordBatch | None]:
    """The frame, and its rows if it has any, which go on using `data`. Raises `UnknownFormat`, `Malformed`.

    Rows are checked whole, so that nobody who reads them can be led astray.
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
        rows, metadata = stream.read_next_batch_with_custom_metadata()
    rows.validate(full=True)
    # Arrow reads names as they come.
    _ = rows.schema.names
    if metadata is None or HEADER not in metadata:
        raise Malformed("has rows and no header")
    return metadata[HEADER], rows


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
