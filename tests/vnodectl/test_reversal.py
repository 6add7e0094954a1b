"""`vnodectl abort` and `rollback`, and the ways in which a rescale ends."""

import json

from tests.vnodectl.terminal import Operator, ids


def test_a_rescale_that_nobody_accepted_is_aborted(operator: Operator) -> None:
    units = operator.begin()
    before = operator.owners(2)
    operator.hear("late", 2)
    begun = operator.reads("rescale", operator.name, "--units", ids(units), "--yes", "--no-wait")
    assert (begun["rescale"]["version"], begun["rescale"]["phase"], begun["progress"]) == (
        3,
        "rescaling",
        None,
    )
    told = operator.sees("abort", operator.name)
    assert (
        told == f"the rescale is taken back: {operator.name} is at version 4, with the owners of version 2\n"
    )
    assert operator.newest["owners"] == before
    waiting = operator.types("apply", begun["rescale"]["token"], "--json")
    assert (waiting.exit_code, waiting.stdout) == (1, ""), "whoever waits for it is not told that it is done"
    assert json.loads(waiting.stderr)["type"] == "/problems/aborted"
    assert "nothing to do" in operator.sees("rollback", operator.name, "--to-version", "2", "--yes")


def test_what_is_not_under_way_or_accepted_cannot_be_aborted(operator: Operator) -> None:
    units = operator.begin()
    assert operator.is_told("abort", operator.name)
    operator.hear("late", 2)
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes", "--no-wait")
    operator.http.post(f"/v1/fragments/{operator.name}/versions/3/acceptance").raise_for_status()
    refused = operator.types("abort", operator.name, "--json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert json.loads(refused.stderr)["type"] == "/problems/already-accepted"


def test_rollback_goes_to_the_version_before_and_asks_first(operator: Operator) -> None:
    units = operator.begin()
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes")
    refused = operator.types("rollback", operator.name, answers="n\n")
    assert refused.exit_code == 1
    assert "Roll back to version 2?" in refused.stderr
    assert operator.newest["version"] == 3
    shown = operator.sees("rollback", operator.name, answers="y\n")
    assert "moves 16 of 64 vnodes" in shown
    assert shown.endswith(f"{operator.name} is at version 4; no live job had to acknowledge it\n")
    assert operator.owners(4) == operator.owners(2)
    assert operator.reads("rollback", operator.name, "--to-version", "3", "--yes")["plan"]["goal"] == {
        "to_version": 3
    }
    assert operator.owners(5) == operator.owners(3)


def test_what_was_aborted_is_not_gone_back_to(operator: Operator) -> None:
    units = operator.begin()
    operator.hear("late", 2)
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes", "--no-wait")
    operator.sees("abort", operator.name)
    operator.hear("late", 4)
    assert "nothing to do" in operator.sees("rollback", operator.name)


def test_there_is_nothing_before_the_first_version(operator: Operator) -> None:
    operator.sees("fragment", "create", operator.name, "--key", "k:int", "--parallelism", "1")
    told = operator.is_told("rollback", operator.name)
    assert told.endswith("none before it had settled; there is nothing to roll back to")


def test_the_exit_code_tells_not_settled_from_refused(operator: Operator) -> None:
    """As real processes, with their progress on standard error."""
    units = operator.begin()
    operator.hear("late", 2)
    late = operator.runs(
        "rescale", operator.name, "--units", ids(units), "--yes", "--timeout", "0.3", "--json"
    )
    assert (late.returncode, late.stdout) == (1, "")
    told = json.loads(late.stderr.splitlines()[-1])
    assert (told["type"], told["version"]) == ("/problems/not-settled", 3)
    assert [applier["name"] for applier in told["progress"]["waiting_for"]] == ["late"]
    under_way = operator.runs("rescale", operator.name, "--units", ids(units[:2]), "--yes")
    assert (under_way.returncode, under_way.stderr.count("\n")) == (2, 1)
    assert under_way.stderr.startswith("error: a rescale of ")
