"""What is drawn of a run, and how far down: heights are in px from the top of the lanes."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    """What an arrow is; a word is any frame that has neither records nor state."""

    RECORDS = "records"
    STATE = "state"
    WORD = "word"
    ORDER = "order"
    REPORT = "report"
    START = "start"


@dataclass(slots=True)
class Arrow:
    """`thing` goes from lane to lane. If it has not `arrived`, it ends below all, or nowhere: it was lost."""

    kind: Kind
    source: int
    target: int
    thing: object
    label: str
    title: str
    key: Any = None
    direct: bool = False
    begin: int = 0
    end: int | None = None
    arrived: bool = False

    @property
    def side(self) -> int:
        """To the right (1) or left (-1)."""
        return 1 if self.target > self.source else -1


@dataclass(frozen=True, slots=True)
class Text:
    """Beside a lane, on its left (-1) or right (1); `y` is its base line."""

    lane: int
    y: int
    side: int
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A batch of `key` is applied here, or waits."""

    lane: int
    y: int
    key: Any
    applied: bool


@dataclass(frozen=True, slots=True)
class Change:
    """Of a unit's phase."""

    lane: int
    y: int
    phase: str


@dataclass(slots=True)
class Span:
    """A lane is there; or, with a key, holds its state, which is being cut out where `leaving`."""

    lane: int
    begin: int
    key: Any = None
    leaving: bool = False
    end: int | None = None


@dataclass(slots=True)
class Sequence:
    """`end`: where the last event is over; what is under way then comes below, until `bottom`.

    `left_out`: how many frames are not drawn.
    """

    keys: tuple[Any, ...]
    arrows: list[Arrow] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    left_out: int = 0
    end: int = 0
    bottom: int = 0

    @property
    def lanes(self) -> list[int]:
        """Those on which there is anything."""
        return sorted({text.lane for text in self.texts} | {arrow.target for arrow in self.arrows})
