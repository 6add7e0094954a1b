"""Scans at random of the table of the story, and the rows that they must give."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from meta.mapping.mapping import VnodeMapping
from storage_keys.hash import hash_row
from storage_keys.types import BIGINT
from storage_keys.vnode import prefix_of
from tests.dispatcher.table.story import Story
from tests.dispatcher.table.visible import Row, visible

VNODE_COUNTS = [1, 12, 100, 256, 1000, 65_536]

# What is asked of a column, and whether a value of it passes.
Filter = tuple[Sequence[Any], Callable[[Any], bool]]
FILTERS: list[Filter] = [
    (("k", "=", 5), lambda k: k == 5),
    (("k", "<=>", None), lambda k: k is None),
    (("k", "in", [1, None, 7, 99]), lambda k: k in (1, 7)),
    (("k", "between", 3, 8), lambda k: k is not None and 3 <= k <= 8),
    (("k", ">", 2**40), lambda k: k is not None and k > 2**40),
    (("k", "<", 2**70), lambda k: k is not None),
    (("s", "=", "a"), lambda s: s == "a"),
    (("s", "is null"), lambda s: s is None),
    (("s", "=", None), lambda s: s == 0),
    (("s", "like", "a%"), lambda s: s == "a"),
    (("v", ">=", "8"), lambda v: v >= "8"),
    (("v", "like", "%00%"), lambda v: "00" in v),
]


@dataclass(frozen=True, slots=True)
class Question:
    mapping: VnodeMapping
    tasks: int | None
    version: int | None
    filters: tuple[Sequence[Any], ...]
    rows: list[Row]

    @classmethod
    def at_random(cls, story: Story, dice: random.Random) -> Self:
        version = dice.choice([None, None, *story.rows])
        chosen = dice.sample(FILTERS, dice.choice([0, 0, 1, 1, 2]))
        rows = [row for row in visible(story.table, version) if all(passes(row, each) for each in chosen)]
        tasks = dice.choice([None, 1, 3, 16])
        return cls(mapping(dice), tasks, version, tuple(one for one, _ in chosen), rows)

    @property
    def partitions(self) -> int:
        return self.tasks or len(self.mapping.units)


def passes(row: Row, filter_: Filter) -> bool:
    (column, *_), of_value = filter_
    return of_value(row["vks".index(column)])


def mapping(dice: random.Random) -> VnodeMapping:
    """Of up to six units, in runs or scattered."""
    vnode_count = dice.choice(VNODE_COUNTS)
    units = dice.sample(range(50), k=min(vnode_count, dice.randint(1, 6)))
    length = dice.choice([1, 1, 20])
    owners = [unit for _ in range(vnode_count // length + 1) for unit in [dice.choice(units)] * length]
    return VnodeMapping(tuple(owners[:vnode_count]))


def prefix(k: int | None) -> int:
    return prefix_of(hash_row([BIGINT], [k]))
