"""The options of `plan` and `rescale`, and what the service makes of them."""

from typing import Any

import pytest
import typer

from meta.vnodectl.goal import Goal, Level
from meta.vnodectl.handover import Handover, Order, Protocol, Rounds
from tests.vnodectl.terminal import Operator, ids


@pytest.mark.parametrize(
    ("goal", "body"),
    [
        (Goal(parallelism=4), {"parallelism": 4}),
        (Goal(units=["1,3"]), {"units": [1, 3]}),
        (Goal(units=["1,3", "4"]), {"units": [1, 3, 4]}),
        (Goal(add_units=["5"], remove_units=["1, 2"]), {"add_units": [5], "remove_units": [1, 2]}),
        (Goal(to_version=3), {"to_version": 3}),
        (Goal(vnodes=512), {"vnode_count": 512}),
        (Goal(defragment=0), {"defragment": 0}),
        (Goal(weight=["3=2.5", "4=0"]), {"weights": {"3": 2.5, "4": 0.0}}),
        (Goal(level=Level.WORKERS, budget=8), {"level": "workers", "budget": 8}),
        (Goal(by_load=True, count_slack=0.5), {"by_load": True, "count_slack": 0.5}),
        (Goal(label=["zone=a", "x=b=c"]), {"labels": {"zone": "a", "x": "b=c"}}),
    ],
)
def test_options_are_the_apis_fields(goal: Goal, body: dict[str, Any]) -> None:
    assert goal.body() == body


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (Goal(), "for example --parallelism 4"),
        (Goal(parallelism=4, units=["1"]), "give one goal, not 2"),
        (Goal(to_version=1, add_units=["1"], remove_units=["2"]), "give one goal, not 3"),
        (Goal(remove_units=["1;2"]), "--remove-units takes ids with commas between them, not '1;2'"),
        (Goal(weight=["3"]), "--weight takes NAME=VALUE, not '3'"),
        (Goal(weight=["a=1"]), "--weight takes UNIT=NUMBER, for example 3=2.5"),
        (Goal(label=["=x"]), "--label takes NAME=VALUE, not '=x'"),
    ],
)
def test_goals_that_are_none_say_what_would_be_one(goal: Goal, words: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        goal.body()
    assert words in str(caught.value)


def test_a_handover_is_the_apis_field() -> None:
    assert Handover().body == {}
    assert Handover(Protocol.STOP_START).body == {"handover": {"protocol": "stop-start"}}
    paced = Handover(Protocol.ORDERED, parallel=4, order=Order.HOTTEST_LAST).body["handover"]
    assert paced["pacing"] == {"rounds": "parallel", "parallel": 4, "order": "hottest-last"}


@pytest.mark.parametrize(
    "handover",
    [
        Handover(pacing=Rounds.ALL),
        Handover(Protocol.ICADD, order=Order.HOTTEST_FIRST),
        Handover(Protocol.ICADD, Rounds.MATCHING, parallel=2),
    ],
)
def test_a_handover_that_says_too_little_is_refused(handover: Handover) -> None:
    with pytest.raises(typer.BadParameter, match="goes with --p"):
        _ = handover.body


def test_the_service_takes_every_goal(operator: Operator) -> None:
    first, second, third, fourth = operator.begin()
    for options, goal in (
        (["--parallelism", "2"], {"parallelism": 2}),
        (["--units", ids([first, fourth])], {"units": [first, fourth]}),
        (
            ["--add-units", str(fourth), "--remove-units", ids([first, second])],
            {"add_units": [fourth], "remove_units": [first, second]},
        ),
        (["--to-version", "1"], {"to_version": 1}),
        (["--vnodes", "128"], {"vnode_count": 128}),
        (["--weight", f"{first}=3", "--budget", "2"], {"weights": {str(first): 3.0}, "budget": 2}),
        (["--level", "workers", "--defragment", "4"], {"level": "workers", "defragment": 4}),
    ):
        planned = operator.reads("plan", operator.name, *options)
        assert goal.items() <= planned["goal"].items(), options
        assert operator.sees("plan", operator.name, *options)
    assert operator.newest["version"] == 2
    assert third in operator.newest["owners"]


def test_only_units_of_workers_with_a_label_are_chosen(operator: Operator) -> None:
    operator.begin()
    labelled = f"l{operator.name}"
    operator.sees("worker", "add", labelled, "--units", "2", "--label", f"group={operator.name}")
    chosen = operator.get("workers", labelled)["units"]
    options = ["--parallelism", "2", "--label", f"group={operator.name}"]
    assert operator.reads("plan", operator.name, *options)["units"] == chosen


def test_a_budget_tells_what_remains(operator: Operator) -> None:
    units = operator.begin()
    planned = operator.types("plan", operator.name, "--units", ids(units), "--budget", "3")
    assert "moves 3 of 64 vnodes,\nand that is all that the budget allows in this step" in planned.stdout
    assert "is not possible" not in planned.stdout, "it is the budget that allows no more"
    assert planned.output.count("13 moves are left by the budget") == 1


def test_another_vnode_count_moves_nothing_and_shows_both_strips(operator: Operator) -> None:
    operator.begin()
    shown = operator.sees("plan", operator.name, "--vnodes", "128")
    assert "moves 0 of 128 vnodes" in shown
    rescaled = operator.reads("rescale", operator.name, "--vnodes", "128", "--yes")
    assert rescaled["rescale"]["version"] == 3
    assert operator.get("fragments", operator.name)["vnode_count"] == 128
