"""Where a job's records come from: a stream, and a partition of it (Samza's SystemStreamPartition)."""

from dataclasses import dataclass

from meta.mapping.errors import Malformed
from storage_keys.errors import shown

PARTITION_MAX = 2**31 - 1

# Kafka's longest topic; longer names are not worth a whole message.
_NAME_LENGTH_MAX = 249


def readable(name: str) -> str:
    """A name for a message: as it is, unless it is very long or would garble a terminal."""
    return name if name.isprintable() and len(name) <= _NAME_LENGTH_MAX else shown(name)


def is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """A topic, in the system (the cluster) that serves it. Raises `Malformed` where a name is empty or no text."""

    system: str
    name: str

    def __post_init__(self) -> None:
        if not (is_name(self.system) and is_name(self.name)):
            raise Malformed(
                "the names of a system and of a stream are texts that are not empty, not"
                f" {shown(self.system)} and {shown(self.name)}"
            )

    def __str__(self) -> str:
        return f"{readable(self.system)}.{readable(self.name)}"


@dataclass(frozen=True, slots=True, order=True)
class SourcePartition:
    """A partition of a stream, from 0. Raises `Malformed`."""

    stream: Stream
    number: int

    def __post_init__(self) -> None:
        # Not isinstance: True would pass for partition 1.
        if type(self.number) is not int or not 0 <= self.number <= PARTITION_MAX:
            raise Malformed(
                f"a partition of {self.stream} is an integer from 0 to {PARTITION_MAX}, not {shown(self.number)}"
            )

    def __str__(self) -> str:
        return f"{self.stream}[{self.number}]"
