"""Each class of messages by its tag, which no other ever gets. Where a form changes, so does `header.FORMAT`."""

from collections.abc import Mapping
from typing import Any
from typing import Final as Constant

from dispatcher.handover.message import (
    Acquire,
    Batch,
    Credit,
    Done,
    Final,
    Flush,
    Flushed,
    Path,
    Records,
    Redistribute,
    RelayedWatermark,
    Scaleup,
    Sets,
    Shutdown,
    Watermark,
)
from dispatcher.handover.wire.value import (
    BLOB,
    COUNT,
    KEY,
    KEY_SET,
    KEYS,
    NUMBERS,
    TEXT,
    TIME,
    Choice,
    Entries,
    Fields,
    Maybe,
)

_PATH: Constant = Choice((Path.ORDINARY, Path.DIRECT))
_BATCH: Constant = Fields(Batch, {"key": KEY, "source": TEXT, "sequences": NUMBERS, "size_bytes": COUNT})

FORMS: Constant[Mapping[int, Fields[Any]]] = {
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
    9: Fields(Shutdown, {}),
    10: Fields(Scaleup, {}),
    11: Fields(Sets, {"whitelist": KEY_SET, "hold": KEYS}),
    12: Fields(Final, {"keys": KEYS}),
    13: Fields(
        Redistribute, {"key": KEY, "index": COUNT, "count": COUNT, "state": BLOB, "next": Maybe(KEYS)}
    ),
}
TAGS: Constant[Mapping[type, int]] = {form.type: tag for tag, form in FORMS.items()}
