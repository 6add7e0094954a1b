"""The invariants of handover.md, checked from what is delivered to the units and what they want done.

The witness knows where each record is, and where the state of each vnode. It knows no protocol.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dispatcher.handover.message import Batch


class Kind(StrEnum):
    """What can be wrong, by the names of `vnodectl handover simulate`."""

    TWO_OWNERS = "two-owners"
    LOST = "lost"
    DOUBLED = "doubled"
    ORDER = "order"
    OVERWRITTEN = "overwritten"
    STUCK = "stuck"
    UNBOUNDED = "unbounded"
    WATERMARK = "watermark"


class Violation(Exception):
    def __init__(self, kind: Kind, detail: str) -> None:
        self.kind = kind
        self.detail = detail
        super().__init__(f"{kind}: {detail}")


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was true at a snapshot: how many records of each (vnode, source) were read, and so applied.

    `keys`: those that there was state of.
    """

    read: dict[tuple[int, str], int]
    keys: frozenset[int]


Record = tuple[str, int]


class Witness:
    """One run. Each method raises `Violation`. `held`: the records that had to wait somewhere.

    A key that is not among the `holders` has no state; that of a `fleeting` key ends with the record that finds it.
    `overtaking` is the number of records that were applied before an older one of their partition, where no order is
    promised.
    `cut`: giver and receiver of each vnode whose state is on its way; `parallel`: how many a unit may have there.
    """

    def __init__(
        self,
        holders: dict[int, int],
        bytes_max: int,
        *,
        keeps_order: bool = True,
    ) -> None:
        self.holders: dict[int, int | None] = dict(holders)
        self.bytes_max = bytes_max
        self.keeps_order = keeps_order
        self.fleeting: frozenset[int] = frozenset()
        self.overtaking = 0
        self.parallel: int | None = None
        self.cut: dict[int, tuple[int, int]] = {}
        self.moving: dict[int, tuple[bytes, ...]] = {}
        self.read: Counter[tuple[int, str]] = Counter()
        self.applied: dict[tuple[int, str], set[int]] = {}
        self.ordinals: dict[Record, int] = {}
        self.origins: dict[Record, int] = {}
        self.inside: Counter[tuple[int, int]] = Counter()
        self.at: dict[Record, int] = {}
        self.given: Counter[int] = Counter()
        self.under_way: Counter[int] = Counter()
        self.waiting: dict[int, dict[Record, int]] = {}
        self.times: dict[int, int] = {}
        self.hops: Counter[Record] = Counter()
        self.held: set[Record] = set()

    def reads(self, unit: int, batch: Batch[int], time: int, units: int) -> None:
        """`units`: how many have given `unit` credit."""
        self.waiting.setdefault(batch.key, {})[_record(batch)] = time
        lane = (batch.key, batch.source)
        record = _record(batch)
        self.ordinals[record] = self.read[lane]
        self.origins[record] = unit
        self.read[lane] += 1
        self.hops[record] = 0
        self.under_way[unit] += batch.size_bytes
        self.enters(unit, batch)
        self._require_bound(
            f"is not applied of what unit {unit} read", self.under_way[unit], units * self.bytes_max
        )

    def enters(self, unit: int, batch: Batch[int]) -> None:
        record = _record(batch)
        self.inside[unit, self.origins[record]] += batch.size_bytes
        self.at[record] = unit

    def leaves(self, unit: int, batch: Batch[int]) -> None:
        record = _record(batch)
        self.inside[unit, self.origins[record]] -= batch.size_bytes
        del self.at[record]
        self.hops[record] += 1

    def gives(self, unit: int, batch: Batch[int]) -> None:
        """To the operators."""
        record = _record(batch)
        self.inside[unit, self.origins[record]] -= batch.size_bytes
        self.at.pop(record, None)
        self.given[unit] += batch.size_bytes

    def applies(self, unit: int, batch: Batch[int]) -> None:
        record = _record(batch)
        self.given[unit] -= batch.size_bytes
        self.under_way[self.origins[record]] -= batch.size_bytes
        ordinal, applied = self.ordinals[record], self.applied.setdefault((batch.key, batch.source), set())
        what = f"unit {unit} applies {record_name(record)} of vnode {batch.key}"
        if ordinal in applied:
            raise Violation(Kind.DOUBLED, f"{what}, which was applied before")
        found = batch.key in self.holders
        if self.holders.setdefault(batch.key, unit) != unit:
            raise Violation(Kind.TWO_OWNERS, f"{what}, whose state is {self._whereabouts(batch.key)}")
        missing = ordinal - sum(other < ordinal for other in applied)
        if missing and self.keeps_order:
            raise Violation(Kind.ORDER, f"{what}, and {missing} older of its partition are not")
        self.overtaking += missing > 0
        applied.add(ordinal)
        if found and batch.key in self.fleeting:
            del self.holders[batch.key]
        del self.waiting[batch.key][record]

    def collects(self, unit: int, key: int) -> None:
        if self.holders.get(key) != unit:
            raise Violation(
                Kind.TWO_OWNERS,
                f"unit {unit} gives away vnode {key}, whose state is {self._whereabouts(key)}",
            )
        self.holders[key] = None

    def cuts(self, giver: int, receiver: int, key: int) -> None:
        self.cut[key] = giver, receiver
        for side, unit in enumerate((giver, receiver)):
            vnodes = sorted(other for other, units in self.cut.items() if units[side] == unit)
            if self.parallel is not None and len(vnodes) > self.parallel:
                what = ("gives", "receives")[side]
                raise Violation(
                    Kind.UNBOUNDED,
                    f"unit {unit} {what} vnodes {vnodes} at once, and {self.parallel} are allowed",
                )

    def collected(self, key: int, chunks: tuple[bytes, ...]) -> None:
        self.moving[key] = chunks

    def installs(self, unit: int, key: int, chunks: tuple[bytes, ...]) -> None:
        if self.holders.get(key, unit) is not None:
            raise Violation(
                Kind.OVERWRITTEN, f"unit {unit} takes state of vnode {key}, which is {self._whereabouts(key)}"
            )
        if self.moving.pop(key, None) != chunks:
            raise Violation(Kind.LOST, f"unit {unit} takes other state of vnode {key} than was given")
        self.holders[key] = unit
        self.cut.pop(key, None)

    def drops(self, unit: int, key: int) -> None:
        if self.holders[key] == unit:
            raise Violation(Kind.LOST, f"unit {unit} drops the state of vnode {key}, which is its own")

    def keys_at(self, unit: int) -> frozenset[int]:
        return frozenset(key for key, holder in self.holders.items() if holder == unit)

    def applied_at(self, unit: int) -> dict[int, int]:
        """How many records are applied of each key that is there."""
        counts = dict.fromkeys(self.keys_at(unit), 0)
        for (key, _), applied in self.applied.items():
            if key in counts:
                counts[key] += len(applied)
        return counts

    def advances(self, unit: int, keys: frozenset[int], time: int) -> None:
        for key in keys & self.keys_at(unit):
            self.times[key] = max(time, self.times.get(key, time))
            for record, of_record in self.waiting.get(key, {}).items():
                if of_record < time:
                    raise Violation(
                        Kind.WATERMARK,
                        f"unit {unit} is at event time {time} for vnode {key}, and {record_name(record)} of"
                        f" {of_record} is not applied",
                    )

    def rests(self, unit: int, batch: Batch[int]) -> None:
        """After the step in which `unit` got the batch."""
        record = _record(batch)
        origin = self.origins[record]
        if self.at.get(record) == unit:
            self.held.add(record)
        self._require_bound(f"of unit {origin} is at unit {unit}", self.inside[unit, origin], self.bytes_max)

    def _require_bound(self, where: str, bytes_there: int, bytes_max: int) -> None:
        if bytes_there > bytes_max:
            raise Violation(Kind.UNBOUNDED, f"{bytes_there} bytes {where}, and {bytes_max} are allowed")

    def loses(self, unit: int, what: str) -> None:
        raise Violation(Kind.LOST, f"unit {unit} has left, and there comes {what}")

    def departs(self, unit: int) -> None:
        kept = [key for key, holder in self.holders.items() if holder == unit]
        if kept or self.given[unit] or any(held for (at, _), held in self.inside.items() if at == unit):
            raise Violation(Kind.LOST, f"unit {unit} leaves with state of vnodes {kept} or with records")

    def seals(self) -> Sighting:
        """Raises where a record is in neither snapshot."""
        self.require_all_applied("the snapshot")
        return Sighting(dict(self.read), frozenset(self.holders))

    def restarts(self, sighting: Sighting, holders: dict[int, int]) -> None:
        self.read = Counter(sighting.read)
        self.applied = {lane: set(range(count)) for lane, count in sighting.read.items()}
        self.holders = {key: holders[key] for key in holders if key in sighting.keys}
        self.moving.clear()
        self.cut.clear()
        self.inside.clear()
        self.at.clear()
        self.given.clear()
        self.under_way.clear()
        self.waiting.clear()
        self.times.clear()

    def ends(self, holders: dict[int, int], end: int | None) -> None:
        self.require_all_applied("the end")
        expected = {key: holders[key] for key in self.holders}
        if self.holders != expected:
            raise Violation(Kind.LOST, f"at the end the state is at {self.holders}, not at {expected}")
        late = [key for key in expected if self.times.get(key) != end]
        if late and end is not None:
            raise Violation(Kind.STUCK, f"event time of vnodes {late} is at {self.times}, not at the end")

    def require_all_applied(self, when: str) -> None:
        missing = sum(self.read.values()) - sum(map(len, self.applied.values()))
        if missing or self.moving:
            raise Violation(
                Kind.LOST, f"{missing} records and state of {sorted(self.moving)} are missing at {when}"
            )

    def _whereabouts(self, key: int) -> str:
        holder = self.holders.get(key)
        if key not in self.holders:
            return "nowhere"
        return "on its way" if holder is None else f"at unit {holder}"


def _record(batch: Batch[Any]) -> Record:
    return batch.source, batch.sequences[0]


def record_name(record: Record) -> str:
    return f"{record[0]}#{record[1]}"
