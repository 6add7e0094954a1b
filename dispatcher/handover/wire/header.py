"""A frame without rows, and what a frame with rows says of them."""

from struct import Struct, error
from typing import Any, Final

from dispatcher.handover.errors import Unencodable, UnknownFormat
from dispatcher.handover.message import Frame
from dispatcher.handover.wire.message import FORMS, TAGS
from dispatcher.handover.wire.value import TEXT, Input

MAGIC: Final = b"vnf"
FORMAT: Final = 1

_START: Final = Struct("<3sBBQQQ")


def encode(frame: Frame[Any]) -> bytes:
    """A frame without rows. Raises `Unencodable`."""
    message = frame.message
    tag = TAGS[type(message)]
    out = bytearray()
    try:
        out += _START.pack(MAGIC, FORMAT, tag, frame.execution, frame.version, frame.number)
        TEXT.write(frame.digest, out)
        FORMS[tag].write(message, out)
    except (TypeError, ValueError, error) as reason:
        raise Unencodable(message, str(reason)) from reason
    return bytes(out)


def decode_header(data: memoryview) -> Frame[Any]:
    """Raises `UnknownFormat`, `Malformed`."""
    given = Input(data)
    magic, format_, tag, execution, version, number = given.unpack(_START)
    if magic != MAGIC:
        raise UnknownFormat(f"the bytes {magic.hex()} begin no frame")
    if format_ != FORMAT:
        raise UnknownFormat(f"a frame is of format {format_}, and {FORMAT} is known here")
    if tag not in FORMS:
        raise UnknownFormat(f"a frame has a message of kind {tag}, which is unknown here")
    digest = TEXT.read(given)
    message = FORMS[tag].read(given)
    given.end()
    return Frame(execution, version, digest, number, message)
