from collections.abc import Iterable
from random import Random
from typing import Final

from dispatcher.handover.event import Advanced, Read
from dispatcher.handover.message import Batch

BEGINNING: Final = -1
END: Final = 1_000_000
LATE_MAX: Final = 6
WATERMARKS_SHARE: Final = 0.3

Item = tuple[int, int] | int
"""A record, by key and event time; or a watermark."""


class Sources:
    """The source partitions of a job, each a list of records and watermarks; who reads it, and how far it is.

    `distributors`: how many units may read, the first ones; None: all. Batches have up to `batch_records`.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        records: int,
        vnodes: int,
        random: Random,
        distributors: int | None = None,
        batch_records: int = 1,
    ) -> None:
        self.names = names
        self.batch_records = batch_records
        self.distributors = distributors
        self.items: dict[str, list[Item]] = {name: [] for name in names}
        for at in range(records):
            self.items[random.choice(names)].append(
                (random.randrange(vnodes), at + random.randrange(LATE_MAX))
            )
        for name in names:
            self.items[name] = _with_watermarks(self.items[name], random)
        self.position = dict.fromkeys(names, 0)
        self.reader: dict[str, int] = {}
        self.paused: set[int] = set()

    def may_read(self, units: Iterable[int]) -> list[int]:
        return sorted(units)[: self.distributors]

    def readers(self, units: Iterable[int]) -> dict[str, int]:
        """The unit of each partition where a job begins."""
        may = self.may_read(units)
        return {name: may[at % len(may)] for at, name in enumerate(self.names)}

    def readable(self) -> list[str]:
        return [
            name
            for name, unit in self.reader.items()
            if unit not in self.paused and self.position[name] < len(self.items[name])
        ]

    def read(self, source: str) -> tuple[int, Read[int] | Advanced, int]:
        """The unit, what it reads, and the event time of that."""
        at = self.position[source]
        self.position[source] = at + 1
        match self.items[source][at]:
            case (key, time):
                first, count = at * self.batch_records, 1 + at % self.batch_records
                sequences = tuple(range(first, first + count))
                return self.reader[source], Read(Batch(key, source, sequences, count)), time
            case int(time):
                return self.reader[source], Advanced(source, time), time

    def times(self, positions: dict[str, int]) -> dict[str, int]:
        """How far each partition has said it is, up to its position."""
        return {
            name: max([BEGINNING, *(item for item in self.items[name][:at] if isinstance(item, int))])
            for name, at in positions.items()
        }

    @property
    def read_count(self) -> int:
        return sum(self.position.values())

    @property
    def exhausted(self) -> bool:
        return all(self.position[name] == len(items) for name, items in self.items.items())

    def start(self, source: str, unit: int) -> None:
        assert source not in self.reader, source
        self.reader[source] = unit

    def stop(self, source: str) -> None:
        del self.reader[source]

    def pause(self, unit: int) -> None:
        self.paused.add(unit)

    def resume(self, unit: int) -> None:
        self.paused.discard(unit)

    def positions(self) -> dict[str, int]:
        return dict(self.position)

    def rewind(self, positions: dict[str, int]) -> None:
        self.position = dict(positions)
        self.reader.clear()
        self.paused.clear()


def _with_watermarks(records: list[Item], random: Random) -> list[Item]:
    """One here and there, as high as what comes after it allows, and one at the end."""
    items: list[Item] = []
    for at, record in enumerate(records):
        if random.random() < WATERMARKS_SHARE:
            items.append(min(item[1] for item in records[at:] if isinstance(item, tuple)))
        items.append(record)
    return [*items, END]
