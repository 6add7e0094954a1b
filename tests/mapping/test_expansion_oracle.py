"""Source partition expansion against SEP-5's own words, and against producers that hash keys, on every small case."""

import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import lcm

import pytest

from meta.mapping.expansion import Grouper, assign, by_partition, by_system_stream_partition
from meta.mapping.expansion_errors import JoinedStreamsDisagree, NotAMultiple, PartitionVanished
from meta.mapping.source_partition import SourcePartition, Stream

CLICKS = Stream("kafka", "clicks")
ORDERS = Stream("kafka", "orders")

COUNT_MAX = 12

Ssp = tuple[str, str, int]


def histories(length_max: int = 4) -> Iterator[tuple[int, ...]]:
    """Every row of counts up to `COUNT_MAX`, each a multiple of the one before: a first count, up to 3 expansions."""
    rows: list[tuple[int, ...]] = [(count,) for count in range(1, COUNT_MAX + 1)]
    while rows:
        yield from rows
        rows = [
            (*row, count)
            for row in rows
            if len(row) < length_max
            for count in range(row[-1], COUNT_MAX + 1)
            if count % row[-1] == 0
        ]


def plain(ssps: Iterable[Ssp], grouper: str) -> dict[str, set[Ssp]]:
    """Samza's GroupByPartition and GroupBySystemStreamPartition."""
    tasks: dict[str, set[Ssp]] = defaultdict(set)
    for system, stream, partition in ssps:
        by_ssp = f"SystemStreamPartition [{system}, {stream}, {partition}]"
        tasks[f"Partition {partition}" if grouper == "partition" else by_ssp].add((system, stream, partition))
    return dict(tasks)


def sep_5(ssps: set[Ssp], previous: Mapping[str, set[Ssp]], grouper: str) -> dict[str, set[Ssp]]:
    """The proposal's algorithm, step by step."""
    if not previous:
        return plain(ssps, grouper)
    previous_mapping = {ssp: task for task, held in previous.items() for ssp in held}
    tasks: dict[str, set[Ssp]] = defaultdict(set)
    for system, stream, partition in ssps:
        task_num = len({task for ssp, task in previous_mapping.items() if ssp[:2] == (system, stream)})
        before = partition % task_num
        tasks[previous_mapping[system, stream, before]].add((system, stream, partition))
    return dict(tasks)


GROUPERS: Mapping[str, Grouper] = {
    "partition": by_partition,
    "system-stream-partition": by_system_stream_partition,
}

Tasks = Mapping[str, Sequence[SourcePartition]]


def partitions_of(counts: Mapping[Stream, int]) -> list[SourcePartition]:
    return [SourcePartition(stream, number) for stream, count in counts.items() for number in range(count)]


def as_ssps(tasks: Tasks) -> dict[str, set[Ssp]]:
    return {task: {(p.stream.system, p.stream.name, p.number) for p in held} for task, held in tasks.items()}


def readers(tasks: Tasks, stream: Stream) -> list[str]:
    """The task of each partition of a stream."""
    by_number = {p.number: task for task, held in tasks.items() for p in held if p.stream == stream}
    return [by_number[number] for number in range(len(by_number))]


@pytest.mark.parametrize("grouper", GROUPERS)
def test_one_stream_in_every_small_history_is_as_the_proposal_says(grouper: str) -> None:
    runs = 0
    for history in histories():
        ours: Tasks = {}
        theirs: dict[str, set[Ssp]] = {}
        for count in history:
            ours = assign(partitions_of({CLICKS: count}), GROUPERS[grouper], ours)
            theirs = sep_5({("kafka", "clicks", number) for number in range(count)}, theirs, grouper)
            assert as_ssps(ours) == theirs
            runs += 1
    assert runs > 300


@pytest.mark.parametrize("length", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grouper", GROUPERS)
def test_two_streams_in_every_pair_of_small_histories_are_as_the_proposal_says(
    grouper: str, length: int
) -> None:
    short = [history for history in histories(length) if len(history) == length]
    for clicks, orders in product(short, short):
        ours: Tasks = {}
        theirs: dict[str, set[Ssp]] = {}
        for counts in zip(clicks, orders, strict=True):
            partitions = partitions_of(dict(zip((CLICKS, ORDERS), counts, strict=True)))
            ours = assign(partitions, GROUPERS[grouper], ours)
            theirs = sep_5({(p.stream.system, p.stream.name, p.number) for p in partitions}, theirs, grouper)
            assert as_ssps(ours) == theirs


@pytest.mark.parametrize("grouper", GROUPERS)
def test_where_nothing_expanded_the_plain_grouper_is_repeated(grouper: str) -> None:
    for clicks, orders in product(range(COUNT_MAX + 1), repeat=2):
        partitions = partitions_of({CLICKS: clicks, ORDERS: orders})
        expected = plain([(p.stream.system, p.stream.name, p.number) for p in partitions], grouper)
        stateless = assign(partitions, GROUPERS[grouper])
        first = assign(partitions, GROUPERS[grouper], {})
        again = assign(partitions, GROUPERS[grouper], first)
        assert as_ssps(stateless) == as_ssps(first) == as_ssps(again) == expected


def test_every_count_after_every_small_history_is_accepted_or_refused_for_its_reason() -> None:
    for history in histories(3):
        tasks: Tasks = {}
        for count in history:
            tasks = assign(partitions_of({CLICKS: count}), by_partition, tasks)
        for count in range(COUNT_MAX * 2):
            if count < history[-1]:
                with pytest.raises(PartitionVanished):
                    assign(partitions_of({CLICKS: count}), by_partition, tasks)
            elif count % history[-1]:
                with pytest.raises(NotAMultiple):
                    assign(partitions_of({CLICKS: count}), by_partition, tasks)
            else:
                assert (
                    len(readers(assign(partitions_of({CLICKS: count}), by_partition, tasks), CLICKS)) == count
                )


def meet(tasks: Tasks) -> bool:
    """Whether producers that hash send every key of two streams to one task: tried for every hash there is."""
    clicks, orders = readers(tasks, CLICKS), readers(tasks, ORDERS)
    period = lcm(len(clicks), len(orders))
    return all(clicks[key % len(clicks)] == orders[key % len(orders)] for key in range(period))


def test_joined_streams_are_refused_exactly_where_an_equal_key_would_not_meet() -> None:
    outcomes = {True: 0, False: 0}
    short = [history for history in histories(2) if len(history) == 2]
    for clicks, orders in product(short, short):
        before = assign(partitions_of({CLICKS: clicks[0], ORDERS: orders[0]}), by_partition, {})
        partitions = partitions_of({CLICKS: clicks[1], ORDERS: orders[1]})
        free = assign(partitions, by_partition, before)
        outcomes[meet(free)] += 1
        if meet(free):
            assert assign(partitions, by_partition, before, joined=[[CLICKS, ORDERS]]) == free
        else:
            with pytest.raises(JoinedStreamsDisagree):
                assign(partitions, by_partition, before, joined=[[CLICKS, ORDERS]])
    assert min(outcomes.values()) > 50


def test_joined_streams_with_any_two_previous_tasks_meet_or_are_refused_if_they_cannot() -> None:
    """Every custom assignment of up to 4 partitions, each stream then as it was, or doubled."""
    rows = [row for length in range(1, 5) for row in product("ab", repeat=length)]
    outcomes = {True: 0, False: 0}
    for clicks, orders in product(rows, rows):
        previous: dict[str, list[SourcePartition]] = {"a": [], "b": []}
        for stream, row in ((CLICKS, clicks), (ORDERS, orders)):
            for number, task in enumerate(row):
                previous[task].append(SourcePartition(stream, number))
        partitions = partitions_of({CLICKS: len(clicks) * 2, ORDERS: len(orders)})
        free = assign(partitions, by_partition, previous)
        outcomes[meet(free)] += 1
        if meet(free):
            assert assign(partitions, by_partition, previous, joined=[[CLICKS, ORDERS]]) == free
        else:
            with pytest.raises(JoinedStreamsDisagree):
                assign(partitions, by_partition, previous, joined=[[CLICKS, ORDERS]])
    assert min(outcomes.values()) > 20


@pytest.mark.parametrize("known", range(1, 7))
@pytest.mark.parametrize("new", range(1, 13))
def test_a_new_stream_meets_the_one_it_is_joined_with_or_is_refused(known: int, new: int) -> None:
    before = assign(partitions_of({CLICKS: known}), by_partition, {})
    partitions = partitions_of({CLICKS: known * 2, ORDERS: new})
    if new % known == 0:
        assert meet(assign(partitions, by_partition, before, joined=[[CLICKS, ORDERS]]))
    else:
        with pytest.raises(JoinedStreamsDisagree):
            assign(partitions, by_partition, before, joined=[[CLICKS, ORDERS]])


@pytest.mark.parametrize("seed", range(40))
def test_streams_that_any_groups_connect_are_one_group(seed: int) -> None:
    choice = random.Random(seed)
    streams = [Stream("kafka", f"s{number:02}") for number in range(12)]
    joined = [choice.sample(streams, choice.choice([0, 1, 2, 2, 3])) for _ in range(choice.randint(1, 8))]
    connected = {stream: {stream} for stream in streams}
    for _ in streams:
        for group in joined:
            whole = set().union(*(connected[stream] for stream in group))
            connected |= {stream: whole | connected[stream] for stream in whole}
    expected = [sorted(connected[stream]) for stream in streams if len(connected[stream]) > 1]
    partitions = partitions_of(dict.fromkeys(streams, 1))
    if not expected:
        assert len(assign(partitions, by_system_stream_partition, joined=joined)) == len(streams)
        return
    with pytest.raises(JoinedStreamsDisagree) as error:
        assign(partitions, by_system_stream_partition, joined=joined)
    assert error.value.streams == [[stream.system, stream.name] for stream in expected[0]]


def partition_of(key: str, count: int) -> int:
    """What a producer does."""
    return zlib.crc32(key.encode()) % count


@pytest.mark.parametrize("seed", range(60))
def test_a_key_stays_with_its_task_through_any_expansions(seed: int) -> None:
    """Also when the first assignment is a custom grouper's, and for records that wait in old partitions."""
    choice = random.Random(seed)
    streams = [Stream("kafka", f"s{number}") for number in range(choice.randint(1, 3))]
    counts = {stream: choice.randint(1, 9) for stream in streams}
    grouper = choice.choice(list(GROUPERS.values()))
    tasks: Tasks = assign(partitions_of(counts), grouper, {})
    if choice.random() < 0.5:
        custom: dict[str, list[SourcePartition]] = defaultdict(list)
        for partition in partitions_of(counts):
            custom[choice.choice("abcd")].append(partition)
        tasks = custom
    keys = [f"key {number}" for number in range(200)]
    first = {stream: readers(tasks, stream) for stream in streams}
    homes = {
        (stream, key): first[stream][partition_of(key, counts[stream])] for stream in streams for key in keys
    }
    past_counts = {stream: {count} for stream, count in counts.items()}
    for _ in range(choice.randint(1, 4)):
        for stream in streams:
            counts[stream] *= choice.choice([1, 1, 2, 3])
            past_counts[stream].add(counts[stream])
        tasks = assign(partitions_of(counts), grouper, tasks)
        for stream in streams:
            now = readers(tasks, stream)
            assert set(now) == set(first[stream])
            assert all(
                now[partition_of(key, count)] == homes[stream, key]
                for key in keys
                for count in past_counts[stream]
            )
