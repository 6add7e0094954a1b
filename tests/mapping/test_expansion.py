"""Source partition expansion (SEP-5): what each situation gives."""

from collections.abc import Mapping, Sequence

import pytest

from meta.mapping.errors import Malformed
from meta.mapping.expansion import MODULO, Modulo, assign, by_partition, by_system_stream_partition
from meta.mapping.expansion_errors import (
    CannotExpand,
    JoinedStreamsDisagree,
    NotAMultiple,
    PartitionVanished,
    PreviousTaskGone,
)
from meta.mapping.source_partition import SourcePartition, Stream

CLICKS = Stream("kafka", "clicks")
ORDERS = Stream("kafka", "orders")
RULES = Stream("kafka", "rules")

Tasks = Mapping[str, Sequence[SourcePartition]]


def of(stream: Stream, *numbers: int) -> list[SourcePartition]:
    return [SourcePartition(stream, number) for number in numbers]


def all_of(stream: Stream, count: int) -> list[SourcePartition]:
    return of(stream, *range(count))


def shown(tasks: Tasks) -> dict[str, str]:
    """Short: {"Partition 0": "clicks 0 2, orders 0"}."""
    short = {}
    for task, partitions in tasks.items():
        streams = dict.fromkeys(partition.stream for partition in partitions)
        short[task] = ", ".join(
            " ".join([stream.name, *(str(p.number) for p in partitions if p.stream == stream)])
            for stream in streams
        )
    return short


def first_run(*counts: tuple[Stream, int]) -> dict[str, tuple[SourcePartition, ...]]:
    return assign([p for stream, count in counts for p in all_of(stream, count)], by_partition, {})


# What the proposal says


def test_sep_5_example_partitions_0_and_2_go_to_one_task_and_1_and_3_to_one() -> None:
    grown = assign(all_of(CLICKS, 4), by_partition, first_run((CLICKS, 2)))
    assert shown(grown) == {"Partition 0": "clicks 0 2", "Partition 1": "clicks 1 3"}


def test_the_groupers_on_a_first_run() -> None:
    partitions = [*all_of(CLICKS, 2), *all_of(ORDERS, 3)]
    assert shown(assign(partitions, by_partition, {})) == {
        "Partition 0": "clicks 0, orders 0",
        "Partition 1": "clicks 1, orders 1",
        "Partition 2": "orders 2",
    }
    assert shown(assign(partitions, by_system_stream_partition, {})) == {
        "SystemStreamPartition [kafka, clicks, 0]": "clicks 0",
        "SystemStreamPartition [kafka, clicks, 1]": "clicks 1",
        "SystemStreamPartition [kafka, orders, 0]": "orders 0",
        "SystemStreamPartition [kafka, orders, 1]": "orders 1",
        "SystemStreamPartition [kafka, orders, 2]": "orders 2",
    }


def test_a_stateless_job_is_grouped_anew_whatever_it_lists() -> None:
    assert shown(assign(of(CLICKS, 5, 1))) == {"Partition 1": "clicks 1", "Partition 5": "clicks 5"}


def test_modulo_is_the_proposals_default_algorithm() -> None:
    assert [MODULO.partition_before_expansion(number, 8, 2) for number in range(4)] == [0, 1, 0, 1]


# Histories


def test_a_stream_that_is_added_goes_as_the_grouper_has_it_and_may_bring_tasks() -> None:
    grown = assign([*all_of(CLICKS, 2), *all_of(ORDERS, 3)], by_partition, first_run((CLICKS, 2)))
    assert shown(grown) == {
        "Partition 0": "clicks 0, orders 0",
        "Partition 1": "clicks 1, orders 1",
        "Partition 2": "orders 2",
    }


def test_a_previous_assignment_is_kept_under_another_grouper() -> None:
    before = first_run((CLICKS, 2))
    grown = assign([*all_of(CLICKS, 2), *all_of(ORDERS, 1)], by_system_stream_partition, before)
    assert shown(grown) == {
        "Partition 0": "clicks 0",
        "Partition 1": "clicks 1",
        "SystemStreamPartition [kafka, orders, 0]": "orders 0",
    }


def test_a_custom_groupers_tasks_keep_their_names_and_partitions() -> None:
    before = {"ältere": of(CLICKS, 0, 1), "☃\n": of(CLICKS, 3, 2), "no input": []}
    grown = assign(all_of(CLICKS, 8), by_partition, before)
    assert shown(grown) == {"ältere": "clicks 0 1 4 5", "☃\n": "clicks 2 3 6 7", "no input": ""}


def test_two_tasks_of_three_partitions_are_no_sign_that_there_were_two_partitions() -> None:
    # Modulo 2 agrees with all three partitions, yet the keys of partition 3 of 6 were in partition 0 of 3.
    before = {"even": of(CLICKS, 0, 2), "odd": of(CLICKS, 1)}
    grown = assign(all_of(CLICKS, 6), by_partition, before)
    assert shown(grown) == {"even": "clicks 0 2 3 5", "odd": "clicks 1 4"}


def test_the_order_of_the_input_does_not_matter() -> None:
    before = first_run((CLICKS, 12), (ORDERS, 2))
    partitions = [*all_of(CLICKS, 24), *all_of(ORDERS, 4)]
    turned = dict(reversed([(task, tuple(reversed(held))) for task, held in before.items()]))
    there, back = assign(partitions, previous=before), assign(partitions[::-1], previous=turned)
    assert list(there.items()) == list(back.items())
    assert list(there) == [f"Partition {number}" for number in range(12)]


# Broadcast partitions


def test_broadcast_partitions_are_read_by_every_task_listed_or_not() -> None:
    partitions = all_of(CLICKS, 2)
    expected = {"Partition 0": "clicks 0, rules 0", "Partition 1": "clicks 1, rules 0"}
    assert shown(assign(partitions, broadcast=of(RULES, 0))) == expected
    assert shown(assign([*partitions, *of(RULES, 0)], broadcast=of(RULES, 0))) == expected


def test_broadcast_partitions_follow_an_expansion() -> None:
    before = assign(all_of(CLICKS, 2), by_partition, {}, broadcast=of(RULES, 0))
    grown = assign(all_of(CLICKS, 4), by_partition, before, broadcast=of(RULES, 0, 1))
    assert shown(grown) == {"Partition 0": "clicks 0 2, rules 0 1", "Partition 1": "clicks 1 3, rules 0 1"}


def test_some_partitions_of_a_stream_may_be_broadcast_while_it_does_not_grow() -> None:
    before = assign(all_of(RULES, 3), by_partition, {}, broadcast=of(RULES, 0))
    assert shown(before) == {"Partition 1": "rules 0 1", "Partition 2": "rules 0 2"}
    assert assign(all_of(RULES, 3), by_partition, before, broadcast=of(RULES, 0)) == before
    with pytest.raises(Malformed, match=r"kafka.rules\[3\] is new and kafka.rules\[0\] is broadcast"):
        assign(all_of(RULES, 6), by_partition, before, broadcast=of(RULES, 0))


def test_a_broadcast_stream_that_grew_is_not_quietly_read_by_one_task() -> None:
    before = assign([*all_of(CLICKS, 2), *of(RULES, 0)], by_partition, {}, broadcast=of(RULES, 0))
    with pytest.raises(Malformed, match=r"list all partitions of kafka.rules in broadcast, or none"):
        assign([*all_of(CLICKS, 2), *all_of(RULES, 2)], by_partition, before, broadcast=of(RULES, 0))


def test_broadcast_partitions_alone_make_no_task_to_read_them() -> None:
    with pytest.raises(Malformed, match=r"no task would read kafka.rules\[0\]"):
        assign([], broadcast=of(RULES, 0))
    assert assign([]) == {}


def test_a_partition_that_was_broadcast_and_is_no_more_has_too_many_tasks() -> None:
    before = assign(all_of(CLICKS, 2), by_partition, {}, broadcast=of(RULES, 0))
    with pytest.raises(Malformed, match="'Partition 0' and 'Partition 1' both read") as error:
        assign([*all_of(CLICKS, 2), *of(RULES, 0)], by_partition, before)
    assert "list it in broadcast" in str(error.value)


def test_a_broadcast_stream_that_is_read_no_more_is_taken_out_of_previous() -> None:
    before = assign(all_of(CLICKS, 2), by_partition, {}, broadcast=of(RULES, 0))
    with pytest.raises(Malformed, match="take the stream out of previous if the job is to read it no more"):
        assign(all_of(CLICKS, 2), by_partition, before)
    assert assign(all_of(CLICKS, 2), by_partition, first_run((CLICKS, 2))) == first_run((CLICKS, 2))


# Joined streams

JOINED = [[CLICKS, ORDERS]]


def test_a_joined_stream_that_expanded_still_meets_the_other() -> None:
    before = first_run((CLICKS, 4), (ORDERS, 4))
    grown = assign([*all_of(CLICKS, 8), *all_of(ORDERS, 4)], by_partition, before, joined=JOINED)
    assert shown(grown)["Partition 1"] == "clicks 1 5, orders 1"


def test_joined_streams_of_unequal_first_counts_would_not_meet() -> None:
    partitions = [*all_of(CLICKS, 4), *all_of(ORDERS, 8)]
    for previous in (None, {}, first_run((CLICKS, 4), (ORDERS, 8))):
        with pytest.raises(JoinedStreamsDisagree, match=r"kafka.clicks 4, kafka.orders 8") as error:
            assign(partitions, by_partition, previous, joined=JOINED)
        assert error.value.streams == [["kafka", "clicks"], ["kafka", "orders"]]
        assert error.value.initial_counts == [4, 8]


def test_equal_counts_now_do_not_help_joined_streams_that_began_apart() -> None:
    before = first_run((CLICKS, 4), (ORDERS, 8))
    with pytest.raises(JoinedStreamsDisagree):
        assign([*all_of(CLICKS, 8), *all_of(ORDERS, 8)], by_partition, before, joined=JOINED)


def test_joined_streams_have_no_common_task_by_system_stream_partition() -> None:
    partitions = [*all_of(CLICKS, 2), *all_of(ORDERS, 2)]
    before = assign(all_of(CLICKS, 2), by_system_stream_partition, {})
    for previous in ({}, before):
        with pytest.raises(JoinedStreamsDisagree, match="group by partition from the first run on"):
            assign(partitions, by_system_stream_partition, previous, joined=JOINED)


def test_the_grouper_is_not_blamed_for_counts_or_for_what_previous_tasks_decide() -> None:
    counts = first_run((CLICKS, 4), (ORDERS, 8))
    with pytest.raises(JoinedStreamsDisagree, match="unequal numbers of partitions"):
        assign([*all_of(CLICKS, 8), *all_of(ORDERS, 8)], by_system_stream_partition, counts, joined=JOINED)
    apart = {"a": of(CLICKS, 0), "b": of(ORDERS, 0)}
    with pytest.raises(
        JoinedStreamsDisagree, match=r"'b' reads kafka.orders\[0\] by the previous assignment"
    ):
        assign([*all_of(CLICKS, 2), *all_of(ORDERS, 2)], by_system_stream_partition, apart, joined=JOINED)


def test_a_new_stream_goes_beside_the_one_it_is_joined_with() -> None:
    before = assign(all_of(ORDERS, 4), by_partition, first_run((ORDERS, 2)))
    grown = assign([*all_of(CLICKS, 6), *all_of(ORDERS, 4)], by_partition, before, joined=JOINED)
    assert shown(grown) == {
        "Partition 0": "clicks 0 2 4, orders 0 2",
        "Partition 1": "clicks 1 3 5, orders 1 3",
    }


def test_a_new_stream_that_cannot_meet_the_one_it_is_joined_with_is_refused() -> None:
    with pytest.raises(JoinedStreamsDisagree, match=r"kafka.orders 2, kafka.clicks 3"):
        assign([*all_of(CLICKS, 3), *all_of(ORDERS, 2)], by_partition, first_run((ORDERS, 2)), joined=JOINED)


def test_groups_that_share_a_stream_are_one() -> None:
    payments = Stream("kafka", "payments")
    partitions = [*all_of(CLICKS, 4), *all_of(payments, 4), *all_of(ORDERS, 4)]
    grown = assign(
        partitions,
        by_partition,
        first_run((payments, 2)) | {"Partition 2": [], "Partition 3": []},
        joined=[[CLICKS, ORDERS], [RULES], [ORDERS, payments]],
        broadcast=of(RULES, 0),
    )
    assert shown(grown)["Partition 0"] == "clicks 0 2, orders 0 2, payments 0 2, rules 0"


def test_joined_streams_that_a_previous_assignment_keeps_apart_are_shown() -> None:
    before = {"a": of(CLICKS, 0), "b": [*of(CLICKS, 1), *of(ORDERS, 0)], "c": of(ORDERS, 1)}
    with pytest.raises(
        JoinedStreamsDisagree, match=r"'a' reads kafka.clicks\[0\] and 'b' reads kafka.orders\[0\]"
    ):
        assign([*all_of(CLICKS, 2), *all_of(ORDERS, 2)], by_partition, before, joined=JOINED)


def test_a_joined_stream_without_partitions_is_malformed() -> None:
    with pytest.raises(Malformed, match=r"kafka.orders is joined and none of its partitions is listed"):
        assign(all_of(CLICKS, 2), joined=JOINED)


# What Samza leaves open


def test_a_count_that_is_no_multiple_of_the_previous_is_refused_with_the_next_that_is() -> None:
    with pytest.raises(NotAMultiple, match="a multiple of 4, the next is 8") as error:
        assign(all_of(CLICKS, 6), by_partition, first_run((CLICKS, 4)))
    assert (error.value.previous_count, error.value.count, error.value.next_count) == (4, 6, 8)


def test_a_multiple_of_the_first_count_but_not_of_the_previous_one_is_refused() -> None:
    before = assign(all_of(CLICKS, 4), by_partition, first_run((CLICKS, 2)))
    with pytest.raises(NotAMultiple):
        assign(all_of(CLICKS, 6), by_partition, before)


def test_a_previous_assignment_without_a_task_that_had_keys_is_refused() -> None:
    before = first_run((CLICKS, 4))
    del before["Partition 1"]
    for count in (4, 8):
        with pytest.raises(PreviousTaskGone, match=r"none for kafka.clicks\[1\]"):
            assign(all_of(CLICKS, count), by_partition, before)


def test_a_stream_that_shrank_is_refused() -> None:
    for left in ([0, 1], [0, 1, 3]):
        with pytest.raises(PartitionVanished, match="'Partition 2' read") as error:
            assign(of(CLICKS, *left), by_partition, first_run((CLICKS, 4)))
        assert (error.value.partition, error.value.whole_stream) == (["kafka", "clicks", 2], False)


def test_a_stream_that_vanished_altogether_is_refused_until_it_is_taken_out_of_previous() -> None:
    before = first_run((CLICKS, 2), (ORDERS, 3))
    with pytest.raises(PartitionVanished, match="take the stream out of previous") as error:
        assign(all_of(CLICKS, 2), by_partition, before)
    assert error.value.whole_stream
    without = {task: [p for p in held if p.stream != ORDERS] for task, held in before.items()}
    assert shown(assign(all_of(CLICKS, 2), by_partition, without)) == {
        "Partition 0": "clicks 0",
        "Partition 1": "clicks 1",
        "Partition 2": "",
    }


def test_partitions_with_holes_are_malformed_in_a_stateful_job() -> None:
    for previous in ({}, first_run((CLICKS, 2))):
        with pytest.raises(Malformed, match=r"kafka.clicks\[3\] and not kafka.clicks\[2\]"):
            assign(of(CLICKS, 0, 1, 3), by_partition, previous)
    with pytest.raises(Malformed, match=r"kafka.clicks\[2147483647\] and not kafka.clicks\[0\]"):
        assign(of(CLICKS, 2**31 - 1), by_partition, {})


def test_a_partition_named_twice_is_malformed() -> None:
    with pytest.raises(Malformed, match=r"partitions has kafka.clicks\[0\] twice"):
        assign(of(CLICKS, 0, 0))
    with pytest.raises(Malformed, match=r"broadcast has kafka.clicks\[0\] twice"):
        assign(of(ORDERS, 0), broadcast=of(CLICKS, 0, 0))
    with pytest.raises(Malformed, match=r"'a' lists kafka.clicks\[0\] twice"):
        assign(of(CLICKS, 0), by_partition, {"a": of(CLICKS, 0, 0)})
    with pytest.raises(Malformed, match=r"'a' and 'b' both read kafka.clicks\[0\]"):
        assign(of(CLICKS, 0), by_partition, {"a": of(CLICKS, 0), "b": of(CLICKS, 0)})


def test_values_that_make_no_partition_are_malformed() -> None:
    for number in (True, -1, 2**31, 1.0, "1", None):
        with pytest.raises(Malformed, match="an integer from 0 to 2147483647"):
            SourcePartition(CLICKS, number)  # type: ignore[arg-type]
    for name in ("", None, 3, b"clicks"):
        with pytest.raises(Malformed, match="texts that are not empty"):
            Stream("kafka", name)  # type: ignore[arg-type]
        with pytest.raises(Malformed, match="texts that are not empty"):
            Stream(name, "clicks")  # type: ignore[arg-type]
    for task in ("", None):
        with pytest.raises(Malformed, match="the name of a previous task"):
            assign(of(CLICKS, 0), by_partition, {task: of(CLICKS, 0)})  # type: ignore[dict-item]


@pytest.mark.parametrize("answer", ["", None, 7, b"a", ["a"]])
def test_a_grouper_that_answers_no_name_is_refused(answer: object) -> None:
    for previous in (None, {}, {"a": of(CLICKS, 0)}):
        with pytest.raises(Malformed, match=r"for kafka.orders\[0\] the grouper answers"):
            assign(of(ORDERS, 0) + of(CLICKS, *range(len(previous or ()))), lambda _: answer, previous)  # type: ignore[arg-type,return-value]


# Algorithms of the user


class SplitLast(Modulo):
    """Grows by one: the new partition takes half of the keys of partition 0."""

    def partition_before_expansion(self, number: int, count: int, initial_count: int) -> int:  # noqa: ARG002
        return number if number < initial_count else 0

    def can_expand(self, previous_count: int, count: int) -> bool:
        return count >= previous_count


class Ranges(Modulo):
    """Splits every partition in two that lie side by side, so that old partitions get other keys."""

    def partition_before_expansion(self, number: int, count: int, initial_count: int) -> int:
        return number * initial_count // count


class Wrong(Modulo):
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def partition_before_expansion(self, number: int, count: int, initial_count: int) -> int:  # noqa: ARG002
        return self.answer  # type: ignore[return-value]


def test_an_algorithm_of_the_user_may_know_expansions_that_are_no_multiples() -> None:
    tasks = first_run((CLICKS, 2))
    for count in (3, 4):
        tasks = assign(all_of(CLICKS, count), by_partition, tasks, algorithm=SplitLast())
    assert shown(tasks) == {"Partition 0": "clicks 0 2 3", "Partition 1": "clicks 1"}


class PowersOfTwo(Modulo):
    def can_expand(self, previous_count: int, count: int) -> bool:
        return count % previous_count == 0 and (count // previous_count).bit_count() == 1


def test_an_expansion_that_an_algorithm_of_the_user_refuses_names_no_count_that_it_may_refuse_too() -> None:
    with pytest.raises(CannotExpand, match="from which the expansion algorithm cannot expand to 6") as error:
        assign(all_of(CLICKS, 6), by_partition, first_run((CLICKS, 2)), algorithm=PowersOfTwo())
    assert "multiple" not in str(error.value)


def test_an_algorithm_that_takes_old_partitions_from_their_tasks_is_refused() -> None:
    with pytest.raises(Malformed, match=r"takes kafka.clicks\[1\] from task 'Partition 1' to 'Partition 0'"):
        assign(all_of(CLICKS, 4), by_partition, first_run((CLICKS, 2)), algorithm=Ranges())


@pytest.mark.parametrize("answer", [-1, 2, True, 0.0, None, "0"])
def test_an_algorithm_that_answers_no_partition_from_before_is_refused(answer: object) -> None:
    with pytest.raises(Malformed, match="must answer an integer from 0 to 1"):
        assign(all_of(CLICKS, 4), by_partition, first_run((CLICKS, 2)), algorithm=Wrong(answer))
