"""Each class of messages by its tag, which no other ever gets. Where a form changes, so does `header.FORMAT`."""

from collections.abc import Mapping
from typing import Any, Final

from dispatcher.handover.message import (
    Acquire,
    Batch,
    Credit,
    Done,
    Flush,
    Flushed,
    Path,
    Records,
    RelayedWatermark,
    Watermark,
)
from dispatcher.handover.wire.value import BLOB, COUNT, KEY, NUMBERS, TEXT, TIME, Choice, Entries, Fields

_PATH: Final = Choice((Path.ORDINARY, Path.DIRECT))
_BATCH: Final = Fields(Batch, {"key": KEY, "source": TEXT, "sequences": NUMBERS, "size_bytes": COUNT})

FORMS: Final[Mapping[int, Fields[Any]]] = {
    1: Fields(Records, {"batch": _BATCH, "origin": COUNT, "granter": COUNT, "path": _PATH}),
    2: Fields(
        Acquire, {"key": KEY, "index": COUNT, "count": COUNT, "state": BLOB, "times": Entries(TEXT, TIME)}
    ),
    3: Fields(Done, {}),
    4: Fields(Flush, {}),
    5: Fields(Flushed, {"origin": COUNT}),
    6: Fields(Watermark, {"source": TEXT, "time": TIME}),
    7: Fields(RelayedWatermark, {"source": TEXT, "time": TIME}),
    8: Fields(Credit, {"granter": COUNT, "path": _PATH, "source": TEXT, "size_bytes": COUNT}),
}
TAGS: Final[Mapping[type, int]] = {form.type: tag for tag, form in FORMS.items()}
