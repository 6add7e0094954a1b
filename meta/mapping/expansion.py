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
from meta.mapping.expansion_errors import CannotExpand, ExpansionError, JoinedStreamsDisagree, NotAMultiple
from meta.mapping.expansion_input import (
    StreamInput,
    Tasks,
    require_nothing_vanished,
    require_traceable,
    require_whole,
    stream_inputs,
)
from meta.mapping.source_partition import SourcePartition, Stream, is_name, readable
from storage_keys.errors import shown

Grouper = Callable[[SourcePartition], str]
"""The name of the task, never empty, that reads a partition when a job runs for the first time."""


def by_partition(partition: SourcePartition) -> str:
    """GroupByPartition: partition n of every stream is read by one task, so joined streams meet."""
    return f"Partition {partition.number}"


def by_system_stream_partition(partition: SourcePartition) -> str:
    """GroupBySystemStreamPartition: a task for each partition of each stream."""
    stream = partition.stream
    return f"SystemStreamPartition [{stream.system}, {stream.name}, {partition.number}]"


class ExpansionAlgorithm(Protocol):
    """SEP-5's InputStreamPartitionExpansionAlgorithm: what is known of how a stream's producers place their keys."""

    def partition_before_expansion(self, number: int, count: int, initial_count: int) -> int:
        """The partition, one of `initial_count`, that had the keys of `number`, one of `count` now.

        A partition that is older than the expansion keeps its records, so it must stay with its task: an algorithm
        that answers otherwise is refused.
        """
        ...

    def can_expand(self, previous_count: int, count: int) -> bool:
        """Whether each of `count` partitions has keys of only one of `previous_count`; true where they are equal."""
        ...


class Modulo:
    """The default: for producers that place a key at `hash(key) % count`, whose counts only ever multiply."""

    def partition_before_expansion(self, number: int, count: int, initial_count: int) -> int:  # noqa: ARG002
        return number % initial_count

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
    grouper = _checked(grouper)
    groups = _merged(joined)
    checked = inputs.keys() if previous is not None else {stream for group in groups for stream in group}
    for entry in inputs.values():
        require_nothing_vanished(entry)
        if entry.stream in checked:
            require_whole(entry)
    known = {entry.stream: _expanded(entry, algorithm) for entry in inputs.values() if _is_known(entry)}
    partners: dict[Stream, _Partners] = {}
    for group in groups:
        partners |= dict.fromkeys(group, _partners(group, known, grouper))
    assigned = {
        stream: known.get(stream) or _new(entry, partners.get(stream, {}), grouper, algorithm)
        for stream, entry in inputs.items()
    }
    for group in groups:
        _require_meeting(_members(group, assigned), grouper, algorithm)
    return _tasks(assigned.values(), previous or {})


def _checked(grouper: Grouper) -> Grouper:
    """Whatever else it answered, the next run would refuse as the name of a previous task."""

    def checked(partition: SourcePartition) -> str:
        task = grouper(partition)
        if not is_name(task):
            raise Malformed(
                f"the name of a task is a text that is not empty; for {partition} the grouper answers {shown(task)}"
            )
        return task

    return checked


def _is_known(entry: StreamInput) -> bool:
    return bool(entry.past) or entry.was_shared


def _expanded(entry: StreamInput, algorithm: ExpansionAlgorithm) -> _Assigned:
    """A stream of the previous assignment (rules 2 to 4)."""
    require_traceable(entry)
    if entry.shared:
        return _Assigned(entry, {number: entry.past[number] for number in entry.own}, entry.count)
    readers = [entry.past[number] for number in range(len(entry.past))]
    if not algorithm.can_expand(len(readers), entry.count):
        raise _cannot_expand(entry, len(readers), algorithm)
    for initial_count in _initial_counts(readers, algorithm):
        tasks = [readers[origin] for origin in _origins(entry, initial_count, algorithm)]
        if tasks[: len(readers)] == readers:
            return _Assigned(entry, dict(enumerate(tasks)), initial_count)
    moved = next(number for number, task in enumerate(readers) if tasks[number] != task)
    raise Malformed(
        f"the expansion algorithm takes {entry.at(moved)} from task {readable(readers[moved])!r} to"
        f" {readable(tasks[moved])!r}, and the records in it would go along; use one under which the partitions that"
        " there were keep their keys"
    )


def _cannot_expand(entry: StreamInput, previous_count: int, algorithm: ExpansionAlgorithm) -> ExpansionError:
    # Not isinstance: whoever derives from Modulo has other rules.
    refusal = NotAMultiple if type(algorithm) is Modulo else CannotExpand
    return refusal(entry.stream, previous_count, entry.count)


def _initial_counts(readers: Sequence[str], algorithm: ExpansionAlgorithm) -> Iterator[int]:
    """What may stand for the stream's count before any expansion, the better first."""
    tasks = len(set(readers))
    if algorithm.can_expand(tasks, len(readers)):
        yield tasks
    yield len(readers)


def _origins(entry: StreamInput, initial_count: int, algorithm: ExpansionAlgorithm) -> list[int]:
    """The partition, of `initial_count`, from which each of the stream's own partitions has its keys."""
    count = entry.count
    origins = [algorithm.partition_before_expansion(number, count, initial_count) for number in entry.own]
    for number, origin in zip(entry.own, origins, strict=True):
        if type(origin) is not int or not 0 <= origin < initial_count:
            raise Malformed(
                f"the expansion algorithm answers {shown(origin)} for {entry.at(number)}; it must answer an integer"
                f" from 0 to {initial_count - 1}, one of the partitions before the expansion"
            )
    return origins


_Partners = Mapping[str, Mapping[int, _Assigned]]
"""Known streams that a new one may go beside: by the grouper's task for their partition 0, and initial count."""


def _partners(group: Iterable[Stream], known: Mapping[Stream, _Assigned], grouper: Grouper) -> _Partners:
    """Of a joined group, those without a broadcast partition; of equal ones the first, since one is enough."""
    partners: dict[str, dict[int, _Assigned]] = defaultdict(dict)
    if all(stream in known for stream in group):
        return partners
    for stream in group:
        if stream in known and not known[stream].input.shared:
            partner = known[stream]
            partners[grouper(partner.input.at(0))].setdefault(partner.initial_count, partner)
    return partners


def _new(
    entry: StreamInput, partners: _Partners, grouper: Grouper, algorithm: ExpansionAlgorithm
) -> _Assigned:
    """A stream that no previous task read: the grouper's, but where it must meet a known one, beside that."""
    beside = partners.get(grouper(entry.at(0)), {}) if partners and entry.own else {}
    for initial_count, partner in beside.items():
        if algorithm.can_expand(initial_count, entry.count):
            origins = _origins(entry, initial_count, algorithm)
            task_of = {
                number: partner.task_of[origin] for number, origin in zip(entry.own, origins, strict=True)
            }
            return _Assigned(entry, task_of, initial_count)
    return _Assigned(
        entry, {number: grouper(partition) for number, partition in entry.own.items()}, entry.count
    )


def _merged(joined: Iterable[Iterable[Stream]]) -> list[tuple[Stream, ...]]:
    """The groups, those that share a stream made one: what meets the same stream meets. All is sorted."""
    group_of: dict[Stream, set[Stream]] = {}
    for group in joined:
        merged: set[Stream] = set()
        for stream in group:
            other = group_of.setdefault(stream, {stream})
            if other is not merged:
                smaller, merged = sorted((merged, other), key=len)
                merged |= smaller
                group_of.update(dict.fromkeys(smaller, merged))
    distinct = {id(group): group for group in group_of.values()}
    return sorted(tuple(sorted(group)) for group in distinct.values())


def _members(group: Iterable[Stream], assigned: Mapping[Stream, _Assigned]) -> list[_Assigned]:
    """The streams of a joined group, but those that every task reads whole."""
    for stream in group:
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
        for number, origin in zip(entry.own, _origins(entry, common, algorithm), strict=True):
            other, other_number = readers.setdefault(origin, (member, number))
            if member.task_of[number] != other.task_of[other_number]:
                raise JoinedStreamsDisagree(
                    {each.input.stream: each.initial_count for each in members},
                    _why(members, grouper, (other, other_number), (member, number)),
                )


def _why(
    members: Sequence[_Assigned], grouper: Grouper, one: tuple[_Assigned, int], other: tuple[_Assigned, int]
) -> str:
    """What to do about joined streams that do not meet, such as in these two partitions."""
    if len({member.initial_count for member in members}) > 1:
        had = ", ".join(f"{member.input.stream} {member.initial_count}" for member in members)
        return (
            f"before any expansion they had unequal numbers of partitions ({had}); copy them into streams with the"
            " same number and join those"
        )
    # Where all have previous tasks, the grouper decided nothing.
    new = any(not member.input.past for member in members)
    if new and len({grouper(member.input.at(0)) for member in members}) > 1:
        return "the grouper gives each stream tasks of its own; group by partition from the first run on"
    places = " and ".join(
        f"{readable(member.task_of[number])!r} reads {member.input.at(number)}"
        for member, number in (one, other)
    )
    return f"{places} by the previous assignment; start without previous, and build the state anew"


def _tasks(assigned: Iterable[_Assigned], previous: Tasks) -> dict[str, tuple[SourcePartition, ...]]:
    """Previous tasks stay even with nothing to read: they may have state."""
    tasks: dict[str, list[SourcePartition]] = defaultdict(list)
    shared: list[SourcePartition] = []
    for member in assigned:
        own = member.input.own
        shared.extend(member.input.shared.values())
        for number, task in member.task_of.items():
            tasks[task].append(own[number])
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
