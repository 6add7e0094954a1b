from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from meta.mapping.amount import is_amount
from meta.mapping.errors import Malformed
from storage_keys.errors import shown

UNIT_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """A parallel unit, the smallest place where an actor runs.

    `weight` is its share relative to the others' weights; 0 drains it. Raises `Malformed`.
    """

    id: int
    worker: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        # Not isinstance: True would pass for unit 1.
        if type(self.id) is not int or not 0 <= self.id <= UNIT_ID_MAX:
            raise Malformed(f"a unit id is an integer from 0 to {UNIT_ID_MAX}, not {shown(self.id)}")
        if not isinstance(self.worker, str) or not self.worker:
            raise Malformed(f"unit {self.id}: a worker is a name that is not empty, not {shown(self.worker)}")
        if not is_amount(self.weight):
            raise Malformed(f"unit {self.id}: a weight is a finite number from 0, not {shown(self.weight)}")
        object.__setattr__(self, "weight", float(self.weight))


def sorted_units(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """By id. Raises `Malformed` where an id comes twice."""
    by_id = tuple(sorted(units, key=lambda unit: unit.id))
    for unit, following in pairwise(by_id):
        if unit.id == following.id:
            raise Malformed(f"unit {unit.id} is listed twice; list each unit once")
    return by_id
