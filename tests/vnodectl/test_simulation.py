"""`vnodectl handover`: the answer's form, the exit codes, and that a failure can be looked at."""

import json
import re

import pytest

from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Outcome, run
from tests.vnodectl.terminal import invoke

# Of the contract of the command, as it stands there.
EXAMPLE = """{"protocol": "ordered", "runs": 1000, "steps": 91234, "violations": {"two-owners": 0, "lost": 0, "doubled":
0, "order": 0, "overwritten": 0, "stuck": 0, "unbounded": 0, "watermark": 0}, "failed_seeds": [], "hops_max":
3, "hops_mean": 1.8}"""
BROKEN = ("--variant", "without-rule-3", "--from", "3", "--to", "3", "--remap")


def test_the_answer_has_the_fields_of_the_contract_with_exactly_its_kinds_of_violations() -> None:
    example = json.loads(EXAMPLE)
    for protocol in ("ordered", "icadd", "controller"):
        command = ("handover", "simulate", "--protocol", protocol, "--from", "3", "--to", "4", "--seeds", "2")
        answer = json.loads(invoke(*command, "--records", "6").stdout)
        assert list(answer) == [*example, "disordered"]
        assert answer["violations"] == example["violations"]
        assert {name: type(answer[name]) for name in example} == {
            name: type(value) for name, value in example.items()
        }


@pytest.mark.parametrize(
    "options",
    [
        "--protocol ordered --from 3 --to 4 --remap --seeds 3 --first-seed 7 --records 8 --vnodes 4 --crash --overlap"
        " --moving-sources --credit 1 --parallel 1",
        "--protocol ordered --from 3 --to 4 --seeds 3 --parallel all",
        "--protocol controller --from 3 --to 4 --seeds 3 --operators 2",
    ],
)
def test_the_options_of_the_contract_are_taken(options: str) -> None:
    ran = invoke("handover", "simulate", *options.split())
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["runs"] == 3


@pytest.mark.parametrize(
    "variant", ["exit-on-all-done", "keep-acquired-in-whitelist", "new-unit-normal", "non-fifo"]
)
def test_the_variants_of_the_contract_are_there(variant: str) -> None:
    command = ("handover", "simulate", "--protocol", "icadd", "--variant", variant, "--records", "6")
    assert invoke(*command, "--seeds", "1").exit_code in {0, 1}


@pytest.mark.parametrize("protocol", ["icadd", "controller"])
def test_as_it_is_written_a_protocol_breaks_and_that_is_no_failure(protocol: str) -> None:
    written = ("--protocol", protocol, "--from", "3", "--to", "3", "--remap", "--as-written")
    ran = invoke("handover", "simulate", "--seeds", "5", *written)
    assert ran.exit_code == 0
    seed = json.loads(ran.stdout)["failed_seeds"][0]
    assert ran.stderr.startswith(f"seed {seed}: ")
    for command in (["replay"], ["trace", "--svg", "-"]):
        assert invoke("handover", *command, "--seed", str(seed), "--shortest", *written).exit_code == 0


def test_nothing_is_broken_and_the_same_seeds_give_the_same_answer() -> None:
    command = "handover simulate --protocol ordered --from 3 --to 4 --seeds 20 --first-seed 5 --records 12 --vnodes 3"
    ran = invoke(*command.split(), "--crash", "--overlap", "--moving-sources", "--credit", "1")
    assert (ran.exit_code, ran.stderr) == (0, "")
    answer = json.loads(ran.stdout)
    assert (answer["protocol"], answer["runs"], answer["failed_seeds"]) == ("ordered", 20, [])
    assert not any(answer["violations"].values())
    assert answer["steps"] > 200
    assert 0 < answer["hops_mean"] <= answer["hops_max"] <= 3
    again = invoke(*command.split(), "--crash", "--overlap", "--moving-sources", "--credit", "1")
    assert again.stdout == ran.stdout


def test_what_is_broken_is_counted_and_the_shortest_trace_of_it_shown() -> None:
    ran = invoke("handover", "simulate", "--seeds", "20", *BROKEN)
    assert ran.exit_code == 1
    answer = json.loads(ran.stdout)
    assert answer["violations"]["two-owners"] == len(answer["failed_seeds"]) > 0
    first, *trace, last = ran.stderr.splitlines()
    assert first.startswith(f"seed {answer['failed_seeds'][0]}: two-owners: ")
    assert last.startswith("two-owners: ")
    replayed = invoke("handover", "replay", "--seed", str(answer["failed_seeds"][0]), *BROKEN)
    assert replayed.exit_code == 1
    assert len(trace) < len(replayed.stdout.splitlines()) / 2


def test_what_a_protocol_does_not_promise_is_counted_and_no_failure() -> None:
    ran = invoke("handover", "simulate", "--protocol", "icadd", "--seeds", "100", "--from", "3", "--to", "2")
    assert (ran.exit_code, ran.stderr) == (0, "")
    answer = json.loads(ran.stdout)
    assert answer["failed_seeds"] == []
    assert 0 < answer["disordered"]["runs"] <= answer["disordered"]["records"]


def test_a_protocol_runs_as_it_is_written() -> None:
    command = ("handover", "replay", "--protocol", "icadd", "--seed", "4", "--as-written")
    ran = invoke(*command)
    assert ran.exit_code == 0
    assert "that it would send to itself" in ran.stdout.splitlines()[-1]
    assert invoke(*command[:-1], "--variant", "as-written").stdout == ran.stdout
    assert invoke(*command, "--variant", "non-fifo").exit_code == 2


def test_replay_prints_the_whole_run() -> None:
    ran = invoke("handover", "replay", "--seed", "1")
    assert ran.exit_code == 0
    for line in ("unit 0: is to read p0", "coordinator: version 2 is published: ", "  version 2 is complete"):
        assert line in ran.stdout
    assert ran.stdout.endswith(" steps, and all held\n")
    assert invoke("handover", "replay", "--seed", "1").stdout == ran.stdout


def test_a_pacing_is_kept_and_where_it_is_not_that_is_seen() -> None:
    paced = ("handover", "simulate", "--vnodes", "8", "--seeds", "5", "--parallel", "1", "--hottest", "first")
    assert invoke(*paced).exit_code == 0
    broken = invoke(*paced, "--variant", "without-rounds", "--first-seed", "1")
    assert json.loads(broken.stdout)["violations"]["unbounded"] > 0
    assert re.search(
        r"unbounded: unit \d (gives|receives) vnodes \[.*\] at once, and 1 are allowed", broken.stderr
    )


@pytest.mark.parametrize("parallel", ["0", "-1", "some"])
def test_parallel_is_a_number_or_all(parallel: str) -> None:
    ran = invoke("handover", "simulate", "--seeds", "1", "--parallel", parallel)
    assert ran.exit_code == 2
    assert "1 or more, or all" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "known"),
    [
        (["--protocol", "teleport"], "unknown-protocol", "ordered"),
        (["--variant", "without-rule-12"], "unknown-variant", "without-rule-5"),
        (["--keys-at-once", "2"], "unsuitable-options", "are of controller, not of ordered"),
        (["--operators", "9"], "unsuitable-options", "ask for 8 at most"),
        (["--protocol", "controller", "--distributors", "3"], "unsuitable-options", "not 2 and 3"),
        (
            ["--protocol", "icadd", "--parallel", "1"],
            "unsuitable-options",
            "there all vnodes move at once; ordered",
        ),
        (
            ["--protocol", "controller", "--parallel", "1", "--hottest", "first"],
            "unsuitable-options",
            "--keys-at-once says how many vnodes wait at each unit; ordered takes --parallel and --hottest",
        ),
        (["--hottest", "last"], "unsuitable-options", "give --parallel, too"),
    ],
)
def test_options_that_nothing_can_be_run_with_are_refused(
    arguments: list[str], error: str, known: str
) -> None:
    for command in (["simulate"], ["replay", "--seed", "1"]):
        ran = invoke("handover", *command, *arguments)
        assert ran.exit_code == 2
        answer = json.loads(ran.stdout)
        assert answer["error"] == error
        assert known in answer["detail"]


def test_who_stops_a_simulation_learns_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(options: Options, seed: int) -> Outcome:
        if seed == 7:
            raise KeyboardInterrupt
        return run(options, seed)

    monkeypatch.setattr("dispatcher.handover.simulator.run.run", stopped)
    ran = invoke("handover", "simulate", "--protocol", "icadd", "--as-written", "--seeds", "50")
    assert ran.exit_code == 130
    assert re.search(r"stopped after 7 of 50 runs; failed seeds: \d", ran.stderr)


def test_of_a_run_that_holds_nothing_is_shorter() -> None:
    ran = invoke("handover", "replay", "--seed", "1", "--records", "2", "--shortest")
    assert ran.exit_code == 0
    assert "nothing breaks, so this is the whole run" in ran.stderr
