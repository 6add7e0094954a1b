from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

Times = Mapping[str, int]
"""For each source partition, a time of which no record is left that is older."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What a unit knows of event time, of each source partition by itself: its reader may change, its promise stays.

    `floor` has every partition; `heard` is what each unit has said on its own stream.
    """

    floor: Times = field(default_factory=dict)
    heard: Mapping[int, Times] = field(default_factory=dict)

    def hears(self, sender: int, source: str, time: int) -> Self:
        said = self.heard.get(sender, {})
        return replace(self, heard={**self.heard, sender: later(said, {source: time})})

    @property
    def times(self) -> Times:
        """For the keys that are in no handover."""
        return self.since(self.floor, self.heard)

    def since(self, known: Times, senders: Iterable[int]) -> Times:
        """`known`, and what the `senders` have said since."""
        for sender in senders:
            known = later(known, self.heard.get(sender, {}))
        return known


def later(times: Times, others: Times) -> Times:
    """The later of both, for each partition."""
    if not others:
        return times
    return {**times, **{source: max(time, times.get(source, time)) for source, time in others.items()}}


def earlier(times: Times, others: Times) -> Times:
    """The earlier of both, for the partitions that both know."""
    return {source: min(time, others[source]) for source, time in times.items() if source in others}


def event_time(times: Times) -> int | None:
    """None where no partition is known."""
    return min(times.values(), default=None)
