from dataclasses import dataclass
from typing import Any, Final

from dispatcher.handover.job import Defer, Restart, Seal, Settle, Start, Tell
from dispatcher.handover.simulator.run import Outcome, Run
from dispatcher.handover.simulator.world import World

COORDINATOR: Final = -1
"""Its lane; a unit's lane is its number."""


@dataclass(slots=True)
class Turn:
    """An event on a lane, and what it led to. `phase`: that of the unit after it, where it was another before."""

    lane: int
    event: Any
    effects: list[Any]
    phase: str | None = None


class Turns:
    """A tracer of a world, from its beginning on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.turns: list[Turn] = []
        self._of_job: Turn | None = None
        self._of_unit: Turn | None = None
        self._phase_before: str | None = None

    def __call__(self, who: str, what: Any) -> None:
        if who:
            self._begin(COORDINATOR if who == "coordinator" else int(who.removeprefix("unit ")), what)
            return
        # An effect of the coordinator may come after what its earlier ones led to at a unit.
        turn = (
            self._of_job
            if isinstance(what, Tell | Start | Defer | Seal | Restart | Settle)
            else self._of_unit
        )
        assert turn is not None
        turn.effects.append(what)

    def finish(self) -> list[Turn]:
        """After the last step."""
        turn = self._of_unit
        if turn is not None:
            phase = self._phase(turn.lane)
            turn.phase = None if phase == self._phase_before else phase
            self._of_unit = None
        return self.turns

    def _begin(self, lane: int, event: Any) -> None:
        self.finish()
        turn = Turn(lane, event, [])
        self.turns.append(turn)
        if lane == COORDINATOR:
            self._of_job = turn
        else:
            self._of_unit, self._phase_before = turn, self._phase(lane)

    def _phase(self, unit: int) -> str | None:
        """None where it has left."""
        return type(self.world.units[unit].phase).__name__ if unit in self.world.units else None


def name(lane: int) -> str:
    return "coordinator" if lane == COORDINATOR else f"unit {lane}"


def traced(run: Run) -> tuple[list[Turn], Outcome]:
    """Of a run that has not begun."""
    turns = run.world.trace = Turns(run.world)
    outcome = run.finish()
    return turns.finish(), outcome
