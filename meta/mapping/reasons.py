from collections.abc import Sequence
from functools import cached_property

from meta.mapping.stretches import Ids, members, stretches
from meta.mapping.unit import Unit


class Reasons:
    """Why a plan moves a vnode, in plain words: called with vnode, source and target (unit ids).

    `have` is what each of `units` owns before the plan and `quota` what it shall own. `before`, `goal` and `after`
    are slots of `units`: where the plan starts, what the fewest moves lead to, and where the plan ends.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        have: Ids,
        quota: Ids,
        before: Ids,
        goal: Ids,
        after: Ids,
    ) -> None:
        self._units = units
        self._have = have
        self._quota = quota
        self._before = before
        self._goal = goal
        self._after = after

    def __call__(self, vnode: int, source: int, target: int) -> str:
        giver, taker = self._slot_of.get(source), self._slot_of[target]
        parts = [self._why_given(vnode, source, giver), self._why_taken(vnode, taker)]
        worker = self._units[taker].worker
        if giver is not None and self._units[giver].worker == worker:
            parts.append(f"it stays on worker {worker}")
        if vnode in self._joining:
            parts.append(f"it joins a run of unit {target}")
        return "; ".join(parts)

    def _why_given(self, vnode: int, source: int, giver: int | None) -> str:
        if giver is None:
            return f"unit {source} is gone"
        if self._units[giver].weight == 0:
            return f"unit {source} is drained (weight 0)"
        if self._have[giver] > self._quota[giver] and self._goal[vnode] != giver:
            return f"unit {source} has {self._have[giver]} and keeps {self._quota[giver]}, its share"
        return f"unit {source} gets another for it"

    def _why_taken(self, vnode: int, taker: int) -> str:
        unit, have = self._units[taker].id, self._have[taker]
        if have >= self._quota[taker] or self._goal[vnode] != taker:
            return f"with unit {unit} it saves a run"
        if have:
            return f"unit {unit} has {have} and its share is {self._quota[taker]}"
        return f"unit {unit} is new and its share is {self._quota[taker]}"

    @cached_property
    def _slot_of(self) -> dict[int, int]:
        return {unit.id: slot for slot, unit in enumerate(self._units)}

    @cached_property
    def _joining(self) -> frozenset[int]:
        """The vnodes that end in one run with a vnode that its owner had before."""
        firsts, lengths = stretches(self._after)
        stayed = (self._before == self._after).cumsum()
        held = stayed[firsts + lengths - 1] - stayed[firsts] + (self._before[firsts] == self._after[firsts])
        return frozenset(members(firsts[held > 0], lengths[held > 0]).tolist())
