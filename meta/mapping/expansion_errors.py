"""Why source partitions cannot be assigned such that every key stays with its task."""

from collections.abc import Mapping

from meta.mapping.errors import PlanError
from meta.mapping.source_partition import SourcePartition, Stream, readable


class ExpansionError(PlanError):
    """There is no assignment that keeps every key with its task, so the previous one stays."""


class NotAMultiple(ExpansionError):
    name = "not-a-multiple"

    def __init__(self, stream: Stream, previous_count: int, count: int) -> None:
        self.stream, self.previous_count, self.count = stream, previous_count, count
        following = -(-count // previous_count) * previous_count
        super().__init__(
            f"{stream} has {count} partitions and had {previous_count}: with hash(key) % {count} its keys lie across"
            f" the previous partitions; expand it to a multiple of {previous_count}, the next is {following}"
        )


class PreviousTaskGone(ExpansionError):
    """`partition` is the lowest one of its stream that the previous assignment should have, and has not."""

    name = "previous-task-gone"

    def __init__(self, partition: SourcePartition, highest: SourcePartition) -> None:
        self.partition, self.highest = partition, highest
        super().__init__(
            f"previous has a task for {highest} and none for {partition}: the task with its keys is gone;"
            " pass the previous assignment with all of its tasks"
        )


class PartitionVanished(ExpansionError):
    """`task` is the previous reader of `partition`; `whole_stream` says that nothing of its stream is left."""

    name = "partition-vanished"

    def __init__(self, partition: SourcePartition, task: str, *, whole_stream: bool) -> None:
        self.partition, self.task, self.whole_stream = partition, task, whole_stream
        facts = f"task {readable(task)!r} read {partition}"
        super().__init__(
            f"{facts}, and no partition of {partition.stream} is listed now; list them, or take the stream out of"
            " previous if the job is to read it no more"
            if whole_stream
            else f"{facts}, which is not listed now, and a stream only grows: list all of its partitions, or, if it"
            " was made anew with fewer, take the stream out of previous and drop its state"
        )


class JoinedStreamsDisagree(ExpansionError):
    """`counts` holds, for each stream of the group, the partitions that it had before any expansion."""

    name = "joined-streams-disagree"

    def __init__(self, counts: Mapping[Stream, int], why: str) -> None:
        self.counts = dict(counts)
        streams = ", ".join(map(str, counts))
        super().__init__(f"equal keys of the joined streams {streams} would not meet in one task: {why}")
