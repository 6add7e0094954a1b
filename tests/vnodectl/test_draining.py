"""`vnodectl drain`, until the worker may be removed."""

import json

from tests.vnodectl.terminal import Operator, ids, row


def two_workers(operator: Operator) -> tuple[str, str]:
    """A fragment on both units of one worker, with two free units on the other."""
    old, new = f"old-{operator.name}", f"new-{operator.name}"
    for worker in (old, new):
        operator.sees("worker", "add", worker, "--units", "2")
    operator.creates("--parallelism", "2")
    units = operator.get("workers", old)["units"]
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes")
    return old, new


def test_a_drained_worker_is_left_and_removed(operator: Operator) -> None:
    old, _ = two_workers(operator)
    in_use = operator.is_told("worker", "remove", old, "--yes")
    assert operator.name in in_use
    refused = operator.types("drain", old, answers="n\n")
    assert refused.exit_code == 1
    assert f"on it: {operator.name}. Drain it?" in " ".join(refused.stderr.split())
    assert not operator.get("workers", old)["draining"]
    told = operator.sees("drain", old, answers="y\n")
    begun, left = told.splitlines()
    assert begun == f"{operator.name}: 256 of 256 vnodes move, it goes to version 3"
    assert left == f"no fragment is on worker {old}: it may be removed with `vnodectl worker remove {old}`"
    assert len(operator.get("fragments", operator.name)["units"]) == 2
    assert row(operator.sees("worker", "list"), old)[2] == "draining"
    assert operator.sees("worker", "remove", old, answers="y\n") == f"worker {old} is removed\n"
    assert "is not registered" in operator.is_told("worker", "show", old)


def test_draining_is_taken_back(operator: Operator) -> None:
    old, _ = two_workers(operator)
    operator.sees("drain", old, "--yes", "--no-wait")
    assert operator.sees("drain", old, "--undo") == f"worker {old} takes part again\n"
    assert not operator.get("workers", old)["draining"]


def test_a_job_that_is_late_keeps_its_worker_and_exit_code_1_says_so(operator: Operator) -> None:
    old, _ = two_workers(operator)
    operator.hear("late", 2)
    late = operator.types("drain", old, "--yes", "--timeout", "0.3", "--json")
    assert late.exit_code == 1
    report = json.loads(late.stdout)
    assert report["worker"]["fragments"] == [operator.name]
    assert report["fragments"][0]["rescale"]["version"] == 3
    again = operator.types("drain", old, "--yes", "--timeout", "0.3")
    assert again.exit_code == 2
    assert "is under way" in again.stdout
    assert f"still on it: {operator.name}" in again.stdout
    operator.hear("late", 3)
    assert operator.reads("drain", old, "--yes") == {
        "worker": operator.get("workers", old),
        "fragments": [],
    }


def test_an_adaptive_fragment_is_left_to_itself(operator: Operator) -> None:
    old, _ = two_workers(operator)
    operator.sees("fragment", "policy", operator.name, "--adaptive", "1:2", "--cool-down-ms", "60000")
    report = operator.reads("drain", old, "--yes", "--no-wait")
    # It shall not go on to others' workers.
    operator.sees("fragment", "policy", operator.name, "--fixed")
    assert report["fragments"] == [{"fragment": operator.name, "rescale": None, "refused": None}]


def test_a_worker_that_is_not_there(operator: Operator) -> None:
    assert "is not registered" in operator.is_told("drain", f"no-{operator.name}", "--yes")
