from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher.handover.errors import Gap


@dataclass(frozen=True, slots=True)
class Links:
    """The numbers of a unit's streams: of the next frame to each unit, and of the next from each."""

    outgoing: Mapping[int, int] = field(default_factory=dict)
    incoming: Mapping[int, int] = field(default_factory=dict)

    def sent(self, to: int) -> tuple["Links", int]:
        """And the number of the frame that is sent."""
        number = self.outgoing.get(to, 0)
        return Links({**self.outgoing, to: number + 1}, self.incoming), number

    def received(self, sender: int, number: int) -> "Links":
        """Raises `Gap`."""
        expected = self.incoming.get(sender, 0)
        if number != expected:
            raise Gap(sender, expected=expected, number=number)
        return Links(self.outgoing, {**self.incoming, sender: number + 1})

    def opened(self, unit: int) -> "Links":
        """New streams count from 0."""
        return Links({**self.outgoing, unit: 0}, {**self.incoming, unit: 0})
