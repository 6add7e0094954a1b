"""Why source partitions cannot be assigned such that every key stays with its task.

The errors' fields are for JSON: a stream is `[system, name]`, and a partition `[system, name, number]`.
"""

from collections.abc import Mapping

from meta.mapping.errors import PlanError
from meta.mapping.source_partition import SourcePartition, Stream, readable


class ExpansionError(PlanError):
    """There is no assignment that keeps every key with its task, so the previous one stays. Only a base: no `name`."""


class NotAMultiple(ExpansionError):
    """Of streams whose producers place a key at `hash(key) % count`; `next_count` is the lowest that would do."""

    name = "not-a-multiple"

    def __init__(self, stream: Stream, previous_count: int, count: int) -> None:
        self.stream = _stream(stream)
        self.previous_count, self.count = previous_count, count
        self.next_count = -(-count // previous_count) * previous_count
        super().__init__(
            f"{stream} has {count} partitions and had {previous_count}: with hash(key) % {count} its keys lie across"
            f" the previous partitions; expand it to a multiple of {previous_count}, the next is {self.next_count}"
        )


class CannotExpand(ExpansionError):
    """An algorithm of the user says so; it does not say which counts would do."""

    name = "cannot-expand"

    def __init__(self, stream: Stream, previous_count: int, count: int) -> None:
        self.stream = _stream(stream)
        self.previous_count, self.count = previous_count, count
        super().__init__(
            f"{stream} has {count} partitions and had {previous_count}, from which the expansion algorithm cannot"
            f" expand to {count}; expand it to a count that the algorithm can, or use the algorithm of its producers"
        )


class PreviousTaskGone(ExpansionError):
    """`partition` is the lowest one of its stream that the previous assignment should have, and has not."""

    name = "previous-task-gone"

    def __init__(self, partition: SourcePartition, highest: SourcePartition) -> None:
        self.partition, self.highest = _partition(partition), _partition(highest)
        super().__init__(
            f"previous has a task for {highest} and none for {partition}: the task with its keys is gone;"
            " pass the previous assignment with all of its tasks"
        )


class PartitionVanished(ExpansionError):
    """`task` is the previous reader of `partition`; `whole_stream` says that nothing of its stream is left."""

    name = "partition-vanished"

    def __init__(self, partition: SourcePartition, task: str, *, whole_stream: bool) -> None:
        self.partition, self.task, self.whole_stream = _partition(partition), task, whole_stream
        facts = f"task {readable(task)!r} read {partition}"
        super().__init__(
            f"{facts}, and no partition of {partition.stream} is listed now; list them, or take the stream out of"
            " previous if the job is to read it no more"
            if whole_stream
            else f"{facts}, which is not listed now, and a stream only grows: list all of its partitions, or, if it"
            " was made anew with fewer, take the stream out of previous and drop its state"
        )


class JoinedStreamsDisagree(ExpansionError):
    """`streams` is the group; `initial_counts`, in its order, the partitions that each had before any expansion."""

    name = "joined-streams-disagree"

    def __init__(self, initial_counts: Mapping[Stream, int], why: str) -> None:
        self.streams = [_stream(stream) for stream in initial_counts]
        self.initial_counts = list(initial_counts.values())
        streams = ", ".join(map(str, initial_counts))
        super().__init__(f"equal keys of the joined streams {streams} would not meet in one task: {why}")


def _stream(stream: Stream) -> list[str]:
    return [stream.system, stream.name]


def _partition(partition: SourcePartition) -> list[str | int]:
    return [partition.stream.system, partition.stream.name, partition.number]
