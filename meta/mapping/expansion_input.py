"""What is listed of each stream now and in the previous assignment, and whether that can be so."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from meta.mapping.errors import Malformed
from meta.mapping.expansion_errors import PartitionVanished, PreviousTaskGone
from meta.mapping.source_partition import SourcePartition, Stream, is_name, readable
from storage_keys.errors import shown

Tasks = Mapping[str, Collection[SourcePartition]]
"""The partitions that each task reads, by the task's name."""


@dataclass(frozen=True, slots=True)
class StreamInput:
    """`own` partitions have one task each, `shared` ones are broadcast; both by their numbers, sorted.

    `past` is the previous task of each partition; `was_shared` says that a previous task read a shared one.
    """

    stream: Stream
    own: Mapping[int, SourcePartition]
    shared: Mapping[int, SourcePartition]
    past: Mapping[int, str]
    was_shared: bool

    @property
    def count(self) -> int:
        return len(self.own) + len(self.shared)

    def at(self, number: int) -> SourcePartition:
        return SourcePartition(self.stream, number)


def stream_inputs(
    partitions: Iterable[SourcePartition], broadcast: Iterable[SourcePartition], previous: Tasks
) -> dict[Stream, StreamInput]:
    """Of every stream that is named anywhere, sorted. Raises `Malformed`, also for a partition that is named twice."""
    listed = _by_stream(partitions, "partitions")
    shared = _by_stream(broadcast, "broadcast")
    past, were_shared = _past(previous, shared)
    inputs = {}
    for stream in sorted({*listed, *shared, *past}):
        apart = shared.get(stream, {})
        own = {number: item for number, item in listed.get(stream, {}).items() if number not in apart}
        inputs[stream] = StreamInput(stream, own, apart, past.get(stream, {}), stream in were_shared)
    return inputs


def _by_stream(
    partitions: Iterable[SourcePartition], what: str
) -> dict[Stream, Mapping[int, SourcePartition]]:
    found: dict[Stream, dict[int, SourcePartition]] = defaultdict(dict)
    for item in partitions:
        of_stream = found[item.stream]
        if item.number in of_stream:
            raise Malformed(f"{what} has {item} twice; list it once")
        of_stream[item.number] = item
    return {stream: dict(sorted(of_stream.items())) for stream, of_stream in found.items()}


def _past(
    previous: Tasks, shared: Mapping[Stream, Collection[int]]
) -> tuple[dict[Stream, dict[int, str]], set[Stream]]:
    """The previous task of each partition that is not broadcast, and the streams of which some were."""
    past: dict[Stream, dict[int, str]] = defaultdict(dict)
    were_shared: set[Stream] = set()
    for task, partitions in previous.items():
        if not is_name(task):
            raise Malformed(f"the name of a previous task is a text that is not empty, not {shown(task)}")
        for partition in partitions:
            if partition.number in shared.get(partition.stream, ()):
                were_shared.add(partition.stream)
                continue
            readers = past[partition.stream]
            if partition.number in readers:
                raise Malformed(_read_twice(partition, readers[partition.number], task))
            readers[partition.number] = task
    return past, were_shared


def _read_twice(partition: SourcePartition, task: str, other: str) -> str:
    if task == other:
        return f"previous task {readable(task)!r} lists {partition} twice; list it once"
    return (
        f"previous tasks {readable(task)!r} and {readable(other)!r} both read {partition}, and one partition has one"
        " task; take it from one of them, list it in broadcast if every task reads it, or take the stream out of"
        " previous if the job is to read it no more"
    )


def require_nothing_vanished(entry: StreamInput) -> None:
    missing = entry.past.keys() - entry.own.keys()
    if missing:
        lowest = min(missing)
        raise PartitionVanished(entry.at(lowest), entry.past[lowest], whole_stream=not entry.count)


def require_whole(entry: StreamInput) -> None:
    """Without all of a stream's partitions nobody knows where its keys are. Broadcast ones may be a selection."""
    listed = entry.own.keys() | entry.shared.keys()
    if entry.own and max(listed) != len(listed) - 1:
        lowest = next(number for number in range(len(listed)) if number not in listed)
        raise Malformed(
            f"partitions has {entry.at(max(listed))} and not {entry.at(lowest)}; list every partition of the stream"
        )


def require_traceable(entry: StreamInput) -> None:
    """Of a stream that the previous assignment knows: whether it says where all of its keys were."""
    new = [number for number in entry.own if number not in entry.past]
    if entry.shared and new:
        raise Malformed(
            f"{entry.at(new[0])} is new and {next(iter(entry.shared.values()))} is broadcast, so nobody knows"
            f" which tasks had its keys; list all partitions of {entry.stream} in broadcast, or none"
        )
    highest = max(entry.past, default=-1)
    if new and new[0] < highest:
        raise PreviousTaskGone(entry.at(new[0]), entry.at(highest))
