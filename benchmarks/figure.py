"""A line of what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of figures; `goals` says which of them are met."""

    name: str
    values: Mapping[str, float]
    goals: Mapping[str, bool]

    def document(self) -> dict[str, object]:
        return {"name": self.name, **self.values, "met": self.goals}

    def __str__(self) -> str:
        told = (f"{name} {_shown(value)}{self._goal(name)}" for name, value in self.values.items())
        return f"{self.name:46} {'  '.join(told)}"

    def _goal(self, name: str) -> str:
        return "" if name not in self.goals else " (met)" if self.goals[name] else " (MISSED)"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"
