"""On which units a fragment runs, for a parallelism: spread over workers first, current units kept."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from meta.mapping.errors import Malformed, NotEnoughUnits
from meta.mapping.mapping import VNODE_COUNT_MAX, VnodeMapping
from meta.mapping.unit import Unit, sorted_units
from storage_keys.errors import shown


def choose_units(
    available: Iterable[Unit], current: VnodeMapping | None, parallelism: int
) -> tuple[Unit, ...]:
    """`parallelism` of the live units, sorted by id; drained ones (weight 0) are left out.

    The owners of `current` stay where they can. More units come from the worker that has the fewest chosen
    ones (then the smaller name), the smallest id first. Units too many leave the worker that has the most,
    the one with the fewest vnodes first, then the highest id. Raises `NotEnoughUnits`, `Malformed`.
    """
    # Units above any vnode count would have nothing to own.
    if type(parallelism) is not int or not 1 <= parallelism <= VNODE_COUNT_MAX:
        raise Malformed(f"a parallelism is an integer from 1 to {VNODE_COUNT_MAX}, not {shown(parallelism)}")
    bearing = [unit for unit in sorted_units(available) if unit.weight > 0]
    if parallelism > len(bearing):
        raise NotEnoughUnits(parallelism, len(bearing))
    vnodes = Counter(() if current is None else current.owners)
    kept = [unit for unit in bearing if vnodes[unit.id]]
    spare = [unit for unit in bearing if not vnodes[unit.id]]
    if len(kept) < parallelism:
        chosen = [*kept, *_joining(kept, spare, parallelism - len(kept))]
    else:
        leaving = set(_leaving(kept, vnodes, len(kept) - parallelism))
        chosen = [unit for unit in kept if unit not in leaving]
    return tuple(sorted(chosen))


def _joining(kept: list[Unit], spare: list[Unit], count: int) -> Iterator[Unit]:
    chosen = Counter(unit.worker for unit in kept)
    spare_of = _by_worker(reversed(spare))
    queue = [(chosen[worker], worker) for worker in spare_of]
    heapify(queue)
    for _ in range(count):
        busy, worker = heappop(queue)
        yield spare_of[worker].pop()
        if spare_of[worker]:
            heappush(queue, (busy + 1, worker))


def _leaving(kept: list[Unit], vnodes: Mapping[int | None, int], count: int) -> Iterator[Unit]:
    def order(unit: Unit) -> tuple[int, int]:
        return vnodes[unit.id], -unit.id

    kept_of = _by_worker(sorted(kept, key=order, reverse=True))
    queue = [(-len(units), order(units[-1]), worker) for worker, units in kept_of.items()]
    heapify(queue)
    for _ in range(count):
        _, _, worker = heappop(queue)
        units = kept_of[worker]
        yield units.pop()
        if units:
            heappush(queue, (-len(units), order(units[-1]), worker))


def _by_worker(units: Iterable[Unit]) -> dict[str, list[Unit]]:
    by_worker: dict[str, list[Unit]] = {}
    for unit in units:
        by_worker.setdefault(unit.worker, []).append(unit)
    return by_worker
