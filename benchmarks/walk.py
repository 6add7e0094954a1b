"""A walk of 30 rescales, and who takes part in it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from uhashring import HashRing

from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import plan
from meta.mapping.unit import Unit

Owners = npt.NDArray[np.int64]
# The owners once the units are these; called for one rescale after the other.
Place = Callable[[list[int]], Owners]

WALK: list[list[int]] = json.loads(
    (Path(__file__).parents[1] / "tests" / "mapping" / "walk-30.json").read_text()
)["steps"]
FIRST = list(range(16))


def alone(ids: Sequence[int]) -> list[Unit]:
    """Each on a worker of its own, as the others know no workers."""
    return [Unit(unit_id, f"w{unit_id}") for unit_id in ids]


def ours(vnode_count: int, defragment: int = 0) -> Place:
    mapping = VnodeMapping.unowned(vnode_count)

    def place(ids: list[int]) -> Owners:
        nonlocal mapping
        mapping = plan(mapping, alone(ids), defragment=defragment).mapping
        return mapping.array

    return place


def ring(vnode_count: int, options: dict[str, Any]) -> Place:
    """One ring, to which nodes are added and from which they are removed."""
    nodes = HashRing([], **options)
    unit_of: dict[str, int] = {}

    def place(ids: list[int]) -> Owners:
        wanted = {f"unit-{unit_id}": unit_id for unit_id in ids}
        for name in [name for name in unit_of if name not in wanted]:
            nodes.remove_node(name)
            del unit_of[name]
        for name, unit_id in wanted.items():
            if name not in unit_of:
                nodes.add_node(name)
                unit_of[name] = unit_id
        return np.array([unit_of[nodes.get_node(f"vnode-{vnode}")] for vnode in range(vnode_count)])

    return place
