"""`vnodectl` against the run's common service."""

import os
import socket
import subprocess
import sys

from meta.etcd.client import EtcdClient
from meta.mapping.publication import Current, Phase, current_key
from tests.vnodectl.terminal import Operator, cells, ids, letter, row


def test_a_worker_is_added_and_listed(operator: Operator) -> None:
    added = operator.sees("worker", "add", operator.name, "--units", "2", "--heartbeat-timeout-ms", "60000")
    assert added.startswith(f"worker {operator.name} has units ")
    assert operator.sees("worker", "add", operator.name, "--units", "2") == added
    assert row(operator.sees("worker", "list"), operator.name)[2] == "yes"
    assert len(operator.sees("worker", "add", operator.name, "--units", "3").split(",")) == 3
    assert "register it with 3 or more" in operator.is_told("worker", "add", operator.name, "--units", "2")


def test_a_fragment_is_created_and_listed(operator: Operator) -> None:
    created = operator.sees(
        "fragment", "create", operator.name, "--key", "k:int", "--key", "a[b]:date", "--parallelism", "2"
    )
    assert created == f"fragment {operator.name}: 256 vnodes on 2 units, version 1\n"
    listed = row(operator.sees("fragment", "list"), operator.name)
    assert listed[1:] == ["256", "2", "k int, a[b] date", "1", "settled"]
    assert "k int, a[b] date (xxh64-1:i64,i64)" in operator.sees("fragment", "show", operator.name)
    assert "exists already" in operator.is_told(
        "fragment", "create", operator.name, "--key", "k:int", "--parallelism", "1"
    )


def test_what_a_fragment_cannot_be(operator: Operator) -> None:
    create = ["fragment", "create", operator.name, "--parallelism", "2"]
    assert "use boolean" in operator.is_told(*create, "--key", "k:[/red]")
    assert "power of two" in operator.is_told(*create, "--key", "k:int", "--vnodes", "5000")
    for key in ("k", ":int", "k:"):
        result = operator.types(*create, "--key", key)
        assert result.exit_code == 2
        assert "NAME:TYPE" in result.stderr


def test_plan_shows_the_strips_and_the_token_that_apply_takes(operator: Operator) -> None:
    first, second, third, fourth = operator.begin()
    planned = operator.sees("plan", operator.name, "--units", ids([first, second, third, fourth]))
    assert f"version 2, to units {first}, {second}, {third}, {fourth}:" in planned
    assert "moves 16 of 64 vnodes, and fewer than 16 is not possible" in " ".join(planned.split())
    before, after = cells(planned)
    assert sorted(before) == sorted(letter(first) * 22 + letter(second) * 21 + letter(third) * 21)
    new = letter(fourth)
    assert (after.count(new.upper()), after.lower().count(new)) == (16, 16)
    assert [old for old, new in zip(before, after, strict=True) if new.islower() and new != old] == []
    assert f"unit {fourth}: 16" in planned
    token = planned.split()[-1]
    nobody = f"{operator.name} is at version 3; no live job had to acknowledge it"
    assert " ".join(operator.sees("apply", token).split()) == nobody
    assert " ".join(operator.sees("apply", token).split()) == nobody
    operator.sees("rescale", operator.name, "--units", ids([first, second]), "--yes")
    late = f"that plan became version 3; {operator.name} is now at 4"
    assert " ".join(operator.sees("apply", token).split()) == late
    operator.sees("rescale", operator.name, "--units", ids([first, second, third, fourth]), "--yes")
    assert [unit["id"] for unit in operator.newest["units"]] == [first, second, third, fourth]


def test_letters_stay_the_same_before_and_after_also_for_a_smaller_new_unit(operator: Operator) -> None:
    first, second, third, _ = operator.begin()
    operator.sees("rescale", operator.name, "--units", ids([second, third]), "--yes")
    before, after = cells(operator.sees("plan", operator.name, "--units", ids([first, second, third])))
    assert set(before) == {letter(second), letter(third)}
    assert set(after) == {letter(first).upper(), letter(second), letter(third)}


def test_rescale_asks_first(operator: Operator) -> None:
    first, second, third, fourth = operator.begin()
    chosen = ["rescale", operator.name, "--units", ids([first, third, fourth])]
    refused = operator.types(*chosen, answers="n\n")
    assert refused.exit_code == 1
    assert "Apply?" in refused.stderr
    assert operator.newest["version"] == 2
    assert f"{operator.name} is at version 3" in operator.sees(*chosen, answers="y\n")
    already = operator.sees(*chosen)
    assert already.endswith("nothing to do\n")
    assert cells(already) == []
    assert set(operator.newest["owners"]) == {first, third, fourth}
    assert second not in operator.newest["owners"]


def test_a_rescale_that_waits_for_a_late_applier_times_out_with_its_name(operator: Operator) -> None:
    units = operator.begin()
    operator.hear("late[/x]", 2)
    told = operator.is_told("rescale", operator.name, "--units", ids(units), "--yes", "--timeout", "0.3")
    assert "version 3 has not settled within 0.3 s, it waits for late[/x]" in told
    shown = operator.sees("fragment", "show", operator.name)
    assert "version 3, rescaling" in shown
    late = row(shown, "late[/x]")
    assert (late[1:4], late[-1]) == (["applier", "2", "1"], "yes")
    assert "is under way" in operator.is_told("rescale", operator.name, "--units", ids(units[:2]), "--yes")
    operator.hear("late[/x]", 3)
    shown = operator.sees("fragment", "show", operator.name)
    assert "version 3, settled" in shown
    assert "yes" not in shown


def test_goals_that_are_none(operator: Operator) -> None:
    for goal in ([], ["--units", "1", "--parallelism", "1"], ["--units", "1;2"], ["--parallelism", "0"]):
        result = operator.types("plan", operator.name, *goal)
        assert result.exit_code == 2, goal
        assert "Invalid value" in result.stderr
    assert "name the fragment" in operator.types("plan").stderr


def test_mapping_show_and_history(operator: Operator) -> None:
    units = operator.begin()
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes")
    newest = operator.sees("mapping", "show", operator.name)
    assert newest.startswith(f"{operator.name} version 3: moved 16 of 64 vnodes from version 2\n")
    (strip,) = cells(newest)
    found = operator.newest
    assert strip == "".join(
        letter(owner) if owner == previous else letter(owner).upper()
        for owner, previous in zip(found["owners"], found["previous_owners"], strict=True)
    )
    assert "CAPITALS moved here" in newest
    first = operator.sees("mapping", "show", operator.name, "--version", "1")
    assert first.startswith(f"{operator.name} version 1: the first mapping\n")
    assert cells(first)[0] == "".join(letter(owner) for owner in operator.owners(1))
    assert "it has 1 to 3" in operator.is_told("mapping", "show", operator.name, "--version", "4")
    history = operator.sees("mapping", "history", operator.name)
    assert row(history, "3")[1:3] == [", ".join(map(str, units)), "16"]
    assert row(history, "2")[1] == ", ".join(map(str, units[:3]))
    assert row(history, "1")[-1] == "created"


def test_what_is_not_there(operator: Operator) -> None:
    for command in (["fragment", "show"], ["mapping", "show"], ["mapping", "history"], ["watch"]):
        assert "there is no fragment nowhere" in operator.is_told(*command, "nowhere")
    assert "there is no fragment nowhere" in operator.is_told("plan", "nowhere", "--parallelism", "1")
    assert "no plan has the token x.y" in operator.is_told("apply", "x.y")


def test_no_service_answers(operator: Operator) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    told = operator.is_told("worker", "list", "--server", url)
    assert url in told
    assert "vnodectl serve" in told
    assert "VNODEMAP_SERVER" in told
    assert "is no URL" in operator.is_told("worker", "list", "--server", "http://127.0.0.1:x")
    for incomplete in ("oops", "localhost:7070"):
        assert "write http://HOST:PORT" in operator.is_told("worker", "list", "--server", incomplete)


def test_a_name_is_one_step_of_the_url_whatever_is_in_it(operator: Operator) -> None:
    for strange in ("f#", "f?x", "a/b", "a b", "a\nb", "é", ".."):
        assert operator.is_told("fragment", "show", strange)
        assert operator.is_told("plan", strange, "--parallelism", "1")
        assert operator.is_told("worker", "add", strange, "--units", "1")


def test_an_error_is_one_line_on_standard_error_and_exit_code_2() -> None:
    """As a real process: markup in what the user typed stays what it was."""
    typed = [sys.executable, "-m", "meta.vnodectl", "worker", "list", "--server", "http://127.0.0.1:1/[/red]"]
    result = subprocess.run(
        typed, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "80"}
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: no vnodemap service answers at http://127.0.0.1:1/[/red]")
    assert result.stderr.count("\n") == 1


def test_watch_tells_of_bytes_that_are_not_ours_and_goes_on(operator: Operator) -> None:
    operator.sees("worker", "add", operator.name, "--units", "1")
    operator.sees("fragment", "create", operator.name, "--key", "k:bigint", "--parallelism", "1")
    coordination = operator.http.get("/v1/coordination").json()["etcd"]
    key = current_key(operator.name, coordination["root"])
    command = [sys.executable, "-m", "meta.vnodectl", "watch", operator.name, "--server", operator.url]
    with (
        EtcdClient(coordination["endpoints"]) as etcd,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching,
    ):
        assert watching.stdout
        assert watching.stderr
        before = etcd.get(key)
        assert before is not None
        try:
            assert f"{operator.name} version 1 settled" in watching.stdout.readline()
            etcd.put(key, b"{not ours}")
            assert "not of this vnodemap" in watching.stderr.readline()
            etcd.put(key, Current(2, Phase.RESCALING, "ab" * 32).encode())
            assert f"{operator.name} version 2 rescaling" in watching.stdout.readline()
        finally:
            watching.terminate()
            # The service is others' too, and would tell of an etcd that is ahead of it.
            etcd.put(key, before.value)
