"""Source partitions to tasks, such that a key stays with its task when a stream grows (Samza's SEP-5).

A stateful job's tasks are fixed, since their stores are. When a stream gets more partitions, each new one goes to the
task that had the partition from which its keys came, so that no state moves. SEP-5's algorithm, for a partition of a
stream that the previous assignment knows:

  1. where there is no previous assignment, the task is the grouper's;
  2. taskNumForStream = the number of tasks that the previous assignment has reading the stream;
  3. previousPartitionIdx = getPartitionBeforeExpansion(partition, currentPartitionCount, taskNumForStream);
  4. the task is that of previousPartitionIdx in the previous assignment.

Rule 2 takes the number of tasks for the stream's first partition count, as it is under both groupers. An assignment by
a custom grouper may have fewer tasks; the stream's previous count then stands for the first one, which is as good.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Protocol

from meta.mapping.errors import Malformed
from meta.mapping.expansion_errors import JoinedStreamsDisagree, NotAMultiple
from meta.mapping.expansion_input import (
    StreamInput,
    Tasks,
    require_nothing_vanished,
    require_traceable,
    require_whole,
    stream_inputs,
)
from meta.mapping.source_partition import SourcePartition, Stream, readable
from storage_keys.errors import shown

Grouper = Callable[[SourcePartition], str]
"""The name of the task that reads a partition when a job runs for the first time."""


def by_partition(partition: SourcePartition) -> str:
    """GroupByPartition: partition n of every stream is read by one task, so joined streams meet."""
    return f"Partition {partition.partition}"


def by_system_stream_partition(partition: SourcePartition) -> str:
    """GroupBySystemStreamPartition: a task for each partition of each stream."""
    stream = partition.stream
    return f"SystemStreamPartition [{stream.system}, {stream.name}, {partition.partition}]"


class ExpansionAlgorithm(Protocol):
    """SEP-5's InputStreamPartitionExpansionAlgorithm: what is known of how a stream's producers place their keys."""

    def partition_before_expansion(self, partition: int, count: int, initial_count: int) -> int:
        """The partition, one of `initial_count`, that had the keys of `partition`, one of `count` now.

        A partition that is older than the expansion keeps its records, so it must stay with its task: an algorithm
        that answers otherwise is refused.
        """
        ...

    def can_expand(self, previous_count: int, count: int) -> bool:
        """Whether each of `count` partitions has keys of only one of `previous_count`; true where they are equal."""
        ...


class Modulo:
    """The default: for producers that place a key at `hash(key) % count`, whose counts only ever multiply."""

    def partition_before_expansion(self, partition: int, count: int, initial_count: int) -> int:  # noqa: ARG002
        return partition % initial_count

    def can_expand(self, previous_count: int, count: int) -> bool:
        return count % previous_count == 0


MODULO = Modulo()


@dataclass(frozen=True, slots=True)
class _Assigned:
    """The task of each of a stream's own partitions; `initial_count` is its count before any expansion."""

    input: StreamInput
    task_of: Mapping[int, str]
    initial_count: int


def assign(
    partitions: Iterable[SourcePartition],
    grouper: Grouper = by_partition,
    previous: Tasks | None = None,
    *,
    algorithm: ExpansionAlgorithm = MODULO,
    joined: Iterable[Iterable[Stream]] = (),
    broadcast: Iterable[SourcePartition] = (),
) -> dict[str, tuple[SourcePartition, ...]]:
    """The partitions of each task, sorted; tasks in the order of their first partitions.

    `previous` is None for a stateless job, which goes as `grouper` has it, and empty on the first run of a stateful
    one, which does so too but must list its streams whole. Otherwise a partition that a previous task read stays with
    it, a new one goes where its keys were, and a new stream goes as `grouper` has it, or beside a stream that it is
    joined with. `joined` holds groups of streams whose equal keys must meet in a task; `broadcast` partitions are read
    by every task, and may be among `partitions` or not.

    Raises `ExpansionError` where keys would leave their tasks or each other, `Malformed` for what makes no sense.
    """
    inputs = stream_inputs(partitions, broadcast, previous or {})
    groups = _merged(joined)
    checked = inputs.keys() if previous is not None else {stream for group in groups for stream in group}
    for entry in inputs.values():
        require_nothing_vanished(entry)
        if entry.stream in checked:
            require_whole(entry)
    known = {entry.stream: _expanded(entry, algorithm) for entry in inputs.values() if _is_known(entry)}
    assigned = {
        stream: known.get(stream) or _new(entry, _partners(stream, groups, known), grouper, algorithm)
        for stream, entry in inputs.items()
    }
    for group in groups:
        _require_meeting(_members(group, assigned), grouper, algorithm)
    return _tasks(assigned.values(), previous or {})


def _is_known(entry: StreamInput) -> bool:
    return bool(entry.past) or entry.was_shared


def _expanded(entry: StreamInput, algorithm: ExpansionAlgorithm) -> _Assigned:
    """A stream of the previous assignment (rules 2 to 4)."""
    require_traceable(entry)
    if entry.shared:
        return _Assigned(entry, {index: entry.past[index] for index in entry.own}, entry.count)
    readers = [entry.past[index] for index in range(len(entry.past))]
    if not algorithm.can_expand(len(readers), entry.count):
        raise NotAMultiple(entry.stream, len(readers), entry.count)
    for initial_count in _initial_counts(readers, algorithm):
        tasks = [readers[origin] for origin in _origins(entry, initial_count, algorithm)]
        if tasks[: len(readers)] == readers:
            return _Assigned(entry, dict(enumerate(tasks)), initial_count)
    index = next(index for index, task in enumerate(readers) if tasks[index] != task)
    raise Malformed(
        f"the expansion algorithm takes {entry.at(index)} from task {readable(readers[index])!r} to"
        f" {readable(tasks[index])!r}, and the records in it would go along; use one under which the partitions that"
        " there were keep their keys"
    )


def _initial_counts(readers: Sequence[str], algorithm: ExpansionAlgorithm) -> Iterator[int]:
    """What may stand for the stream's count before any expansion, the better first."""
    tasks = len(set(readers))
    if algorithm.can_expand(tasks, len(readers)):
        yield tasks
    yield len(readers)


def _origins(entry: StreamInput, initial_count: int, algorithm: ExpansionAlgorithm) -> list[int]:
    """The partition, of `initial_count`, from which each of the stream's own partitions has its keys."""
    count = entry.count
    origins = [algorithm.partition_before_expansion(index, count, initial_count) for index in entry.own]
    for index, origin in zip(entry.own, origins, strict=True):
        if type(origin) is not int or not 0 <= origin < initial_count:
            raise Malformed(
                f"the expansion algorithm answers {shown(origin)} for {entry.at(index)}; it must answer an integer"
                f" from 0 to {initial_count - 1}, one of the partitions before the expansion"
            )
    return origins


def _new(
    entry: StreamInput, partners: Sequence[_Assigned], grouper: Grouper, algorithm: ExpansionAlgorithm
) -> _Assigned:
    """A stream that no previous task read: the grouper's, but where it must meet a known one, beside that."""
    for partner in partners:
        if not entry.own or _apart(grouper, entry, partner.input):
            continue
        if algorithm.can_expand(partner.initial_count, entry.count):
            origins = _origins(entry, partner.initial_count, algorithm)
            task_of = {
                index: partner.task_of[origin] for index, origin in zip(entry.own, origins, strict=True)
            }
            return _Assigned(entry, task_of, partner.initial_count)
    return _Assigned(
        entry, {index: grouper(partition) for index, partition in entry.own.items()}, entry.count
    )


def _apart(grouper: Grouper, entry: StreamInput, other: StreamInput) -> bool:
    """Whether the grouper gives each of the streams tasks of its own."""
    return grouper(entry.at(0)) != grouper(other.at(0))


def _merged(joined: Iterable[Iterable[Stream]]) -> list[frozenset[Stream]]:
    """The groups, those that share a stream made one: what meets the same stream meets."""
    groups: list[frozenset[Stream]] = []
    for group in map(frozenset, joined):
        touching = [other for other in groups if other & group]
        groups = [other for other in groups if not other & group]
        groups.append(group.union(*touching))
    return groups


def _partners(
    stream: Stream, groups: Iterable[frozenset[Stream]], known: Mapping[Stream, _Assigned]
) -> list[_Assigned]:
    """The known streams that a new one is joined with and that have no broadcast partition."""
    group: frozenset[Stream] = next((group for group in groups if stream in group), frozenset())
    return [known[other] for other in sorted(group) if other in known and not known[other].input.shared]


def _members(group: Iterable[Stream], assigned: Mapping[Stream, _Assigned]) -> list[_Assigned]:
    """The streams of a joined group, but those that every task reads whole."""
    for stream in sorted(group):
        if stream not in assigned:
            raise Malformed(f"{stream} is joined and none of its partitions is listed; list them")
    members = [assigned[stream] for stream in group if assigned[stream].task_of]
    return sorted(members, key=lambda member: (member.initial_count, member.input.stream))


def _require_meeting(members: Sequence[_Assigned], grouper: Grouper, algorithm: ExpansionAlgorithm) -> None:
    """Equal keys are where a stream of `common` partitions, the divisor of all their counts, had one partition."""
    if len(members) < 2:
        return
    common = gcd(*(member.initial_count for member in members))
    readers: dict[int, tuple[_Assigned, int]] = {}
    for member in members:
        entry = member.input
        for index, origin in zip(entry.own, _origins(entry, common, algorithm), strict=True):
            other, other_index = readers.setdefault(origin, (member, index))
            if member.task_of[index] != other.task_of[other_index]:
                counts = {each.input.stream: each.initial_count for each in members}
                raise JoinedStreamsDisagree(
                    counts, _why(members, grouper, (member, index), (other, other_index))
                )


def _why(
    members: Sequence[_Assigned], grouper: Grouper, one: tuple[_Assigned, int], other: tuple[_Assigned, int]
) -> str:
    """What to do about joined streams that do not meet, such as in these two partitions."""
    if any(_apart(grouper, members[0].input, member.input) for member in members):
        return "the grouper gives each stream tasks of its own; group by partition from the first run on"
    if len({member.initial_count for member in members}) > 1:
        had = ", ".join(f"{member.input.stream} {member.initial_count}" for member in members)
        return (
            f"before any expansion they had unequal numbers of partitions ({had}); copy them into streams with the"
            " same number and join those"
        )
    places = " and ".join(
        f"{readable(member.task_of[index])!r} reads {member.input.at(index)}"
        for member, index in (other, one)
    )
    return f"{places} by the previous assignment; start without previous, and build the state anew"


def _tasks(assigned: Iterable[_Assigned], previous: Tasks) -> dict[str, tuple[SourcePartition, ...]]:
    """Previous tasks stay even with nothing to read: they may have state."""
    tasks: dict[str, list[SourcePartition]] = defaultdict(list)
    shared: list[SourcePartition] = []
    for member in assigned:
        own = member.input.own
        shared.extend(member.input.shared.values())
        for index, task in member.task_of.items():
            tasks[task].append(own[index])
    for task in sorted(previous):
        tasks.setdefault(task, [])
    if shared and not tasks:
        raise Malformed(
            f"no task would read {shared[0]}: all partitions are broadcast, and those make no tasks; list"
            " at least one that is not"
        )
    return {
        task: tuple(sorted([*partitions, *shared])) if shared else tuple(partitions)
        for task, partitions in tasks.items()
    }
