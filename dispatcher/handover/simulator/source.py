from random import Random

from dispatcher.handover.message import Batch


class Sources:
    """The source partitions of a job, each a list of records, with the unit that reads it and how far it is."""

    def __init__(self, names: tuple[str, ...], records: int, vnodes: int, random: Random) -> None:
        self.names = names
        self.keys: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(records):
            self.keys[random.choice(names)].append(random.randrange(vnodes))
        self.position = dict.fromkeys(names, 0)
        self.reader: dict[str, int] = {}
        self.paused: set[int] = set()

    def readable(self) -> list[str]:
        return [
            name
            for name, unit in self.reader.items()
            if unit not in self.paused and self.position[name] < len(self.keys[name])
        ]

    def read(self, source: str) -> tuple[int, Batch[int]]:
        at = self.position[source]
        self.position[source] = at + 1
        return self.reader[source], Batch(self.keys[source][at], source, (at,), 1)

    @property
    def read_count(self) -> int:
        return sum(self.position.values())

    @property
    def exhausted(self) -> bool:
        return all(self.position[name] == len(keys) for name, keys in self.keys.items())

    def start(self, source: str, unit: int) -> None:
        assert source not in self.reader, source
        self.reader[source] = unit

    def stop(self, source: str) -> None:
        del self.reader[source]

    def pause(self, unit: int) -> None:
        self.paused.add(unit)

    def resume(self, unit: int) -> None:
        self.paused.discard(unit)

    def positions(self) -> dict[str, int]:
        return dict(self.position)

    def rewind(self, positions: dict[str, int]) -> None:
        self.position = dict(positions)
        self.reader.clear()
        self.paused.clear()
