"""`diff`, `explain`, `locate`, `groups`, `loads`, `subscribers`, `audit` and `status`."""

import json
from typing import Any

import pytest

from meta.vnodectl.client import ServiceError
from meta.vnodectl.location import key_value
from tests.vnodectl.terminal import Operator, ids, row


def test_diff_shows_the_runs_that_changed_their_owner(operator: Operator) -> None:
    units = operator.begin()
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes")
    found = operator.reads("diff", operator.name)
    assert (found["from"], found["to"], found["moves"]) == (2, 3, 16)
    shown = operator.sees("diff", operator.name)
    assert shown.startswith(f"{operator.name} version 2 to 3, 64 vnodes: moves 16, assigned 0, released 0\n")
    first = found["runs"][0]
    vnodes = f"{first['first']}..{first['last']}"
    count = first["last"] - first["first"] + 1
    assert row(shown, vnodes) == [vnodes, str(count), str(first["from"]), str(units[3])]
    assert operator.reads("diff", operator.name, "--from", "3", "--to", "2")["moves"] == 16
    assert "no vnode changed its owner" in operator.sees("diff", operator.name, "--from", "2", "--to", "2")


def unwrapped(shown: str) -> str:
    """Without the lines and the borders of a table."""
    return " ".join(shown.replace("│", " ").split())


def test_explain_says_why_of_a_plan_and_of_the_last_rescale(operator: Operator) -> None:
    first, second, third, fourth = operator.begin()
    planned = operator.reads("plan", operator.name, "--units", ids([first, second, third, fourth]))
    of_plan = operator.sees("explain", planned["token"])
    assert "moves 16 of 64 vnodes,\nand fewer than 16 is not possible" in of_plan
    assert f"unit {first} has 22 and its share is 16, so at most 16: it gives 6 and keeps 16" in of_plan
    assert f"unit {second} has 21 and its share is 16, so at most 16: it gives 5 and keeps 16" in of_plan
    assert "That is 16 in all" in of_plan
    assert "nobody has applied it" in of_plan
    assert f"unit {fourth} is new and its share is 16" in unwrapped(of_plan)
    operator.sees("apply", planned["token"])
    explained = operator.reads("explain", operator.name)
    assert explained["plan"]["applied_version"] == 3
    assert sum(group["count"] for group in explained["reasons"]) == 16
    moved = {move["vnode"] for move in planned["moves"]}
    runs = [run for group in explained["reasons"] for run in group["vnodes"]]
    assert {vnode for low, high in runs for vnode in range(low, high + 1)} == moved
    assert "it became version 3" in operator.sees("explain", operator.name)


def test_explain_says_what_a_rollback_and_a_defragmentation_move_for(operator: Operator) -> None:
    first, second, *_ = operator.begin()
    operator.sees("rescale", operator.name, "--units", ids([first, second]), "--yes")
    back = operator.reads("plan", operator.name, "--to-version", "1")
    assert "The mapping of version 1 is asked for as it was" in unwrapped(
        operator.sees("explain", back["token"])
    )
    operator.sees("rollback", operator.name, "--yes")
    versions = operator.reads("mapping", "history", operator.name)
    assert "rollback" in {version["cause"] for version in versions["items"]}


def test_explain_tells_how_many_units_may_round_up(operator: Operator) -> None:
    units = operator.begin()
    planned = operator.reads("plan", operator.name, "--units", ids([units[0], units[2], units[3]]))
    shown = operator.sees("explain", planned["token"])
    assert "(1 of the 3 units may have 22, the others 21)" in " ".join(shown.split())
    assert f"unit {units[1]} leaves: all its 21 vnodes move" in shown


def test_a_fragment_without_a_plan_has_nothing_to_explain(operator: Operator) -> None:
    operator.sees("fragment", "create", operator.name, "--key", "k:int", "--parallelism", "1")
    assert f"`vnodectl plan {operator.name}` makes one" in operator.is_told("explain", operator.name)


def test_locate_takes_values_by_the_types_of_the_key(operator: Operator) -> None:
    create = ["fragment", "create", operator.name, "--parallelism", "3", "--table-id", "7", "--table-id", "9"]
    operator.sees(*create, "--key", "tailnum:string", "--key", "number:bigint")
    found = operator.reads("locate", operator.name, "007", "-5")
    asked = {"key": ["007", -5]}
    answer = operator.http.post(f"/v1/fragments/{operator.name}/locate", json=asked).raise_for_status().json()
    assert found == answer
    assert found["unit"] == operator.owners(1)[found["vnode"]]
    shown = operator.sees("locate", operator.name, "007", "-5")
    where = f"vnode {found['vnode']}, on unit {found['unit']} of worker {found['worker']} (version 1)"
    assert shown.splitlines()[0] == where
    keys = found["ranges"][0]
    assert [keys["table_id"] for keys in found["ranges"]] == [7, 9]
    assert row(shown, "7") == ["7", keys["start"], keys["end"]]
    only = operator.reads("locate", operator.name, "007", "-5", "--table-id", "9")
    assert only["ranges"] == found["ranges"][1:]
    assert operator.reads("locate", operator.name, "\\N", "\\N")["vnode"] != found["vnode"]


def test_locate_says_what_a_key_is_made_of(operator: Operator) -> None:
    operator.sees("fragment", "create", operator.name, "--parallelism", "1", "--key", "n:bigint")
    told = operator.is_told("locate", operator.name, "1", "2")
    assert told == f"{operator.name} has the distribution key (n bigint): give 1 values, not 2"
    assert "n: 'x' is no bigint: write a whole number" in operator.is_told("locate", operator.name, "x")


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("string", "5", "5"),
        ("int", "-5", -5),
        ("decimal(10,2)", "12.50", "12.50"),
        ("double", "1e3", 1000.0),
        ("float", "-inf", "-Infinity"),
        ("double", "NaN", "NaN"),
        ("boolean", "TRUE", True),
        ("binary", "0x00FF", {"hex": "00ff"}),
        ("date", "2013-01-31", "2013-01-31"),
        ("timestamp", "1000000", 1000000),
        ("interval day to second", "7", 7),
        ("struct<a:int,b:string>", '[1, "x"]', [1, "x"]),
        ("array<int>", "[1, null]", [1, None]),
        ("string", r"\N", None),
    ],
)
def test_a_typed_value_is_read_by_its_columns_type(type_name: str, text: str, value: Any) -> None:
    assert key_value({"name": "k", "type": type_name}, text) == value


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("int", "1_0"),
        ("bigint", "1.5"),
        ("boolean", "1"),
        ("binary", "0xf"),
        ("double", "x"),
        ("array<int>", "["),
    ],
)
def test_what_is_no_value_of_a_type_is_told(type_name: str, text: str) -> None:
    with pytest.raises(ServiceError, match=r"^k: .* is no "):
        key_value({"name": "k", "type": type_name}, text)


def test_groups_are_one_for_each_unit_or_as_many_as_are_asked_for(operator: Operator) -> None:
    units = operator.begin()
    shown = operator.sees("groups", operator.name)
    assert shown.startswith(f"{operator.name} version 2, 3 tasks\n")
    assert row(shown, "0")[1:3] == [str(units[0]), "22"]
    eight = operator.reads("groups", operator.name, "--tasks", "8")
    assert len(eight["tasks"]) == 8
    assert sum(task["count"] for task in eight["tasks"]) == 64
    assert "8 tasks" in operator.sees("groups", operator.name, "--tasks", "8")


def test_loads_are_bars_by_unit(operator: Operator) -> None:
    units = operator.begin()
    assert f"{operator.name}: no loads are known" in operator.sees("loads", operator.name)
    loads = [3.0 if owner == units[1] else 1.0 for owner in operator.owners(2)]
    body = {"loads": loads, "observed_for_ms": 60_000}
    operator.http.put(f"/v1/fragments/{operator.name}/loads/r1", json=body).raise_for_status()
    found = operator.reads("loads", operator.name)
    assert {unit["id"] for unit in found["units"]} == set(units[:3])
    shown = operator.sees("loads", operator.name)
    assert row(shown, str(units[1]))[3] == "█" * 40
    assert 10 < len(row(shown, str(units[0]))[3]) < 20
    assert f"the largest is {found['max_over_mean']:.2f} times the mean; 1 report" in shown


def test_subscribers_are_listed_with_their_lag(operator: Operator) -> None:
    operator.begin()
    operator.hear("behind[/b]", 1, "reader")
    operator.hear("job", 2)
    shown = operator.sees("subscribers", operator.name)
    assert row(shown, "behind[/b]")[1:4] == ["reader", "1", "1"]
    assert row(shown, "job")[1:4] == ["applier", "2", "0"]
    assert row(shown, "job")[-1] == "no"
    assert {item["name"] for item in operator.reads("subscribers", operator.name)["items"]} == {
        "behind[/b]",
        "job",
    }


def test_audit_says_who_did_what(operator: Operator) -> None:
    operator.begin()
    entries = operator.reads("audit", "--subject", operator.name)["items"]
    assert {entry["subject"] for entry in entries} == {operator.name}
    assert len(entries) >= 3
    newest = operator.reads("audit", "--subject", operator.name, "--limit", "1")["items"]
    assert newest == entries[:1]
    shown = operator.sees("audit", "--subject", operator.name)
    assert entries[0]["action"] in shown
    assert entries[0]["caller"] in shown


def test_history_shows_the_newest_and_says_how_many_there_are_before(operator: Operator) -> None:
    units = operator.begin()
    for chosen in (units, units[:2], units):
        operator.sees("rescale", operator.name, "--units", ids(chosen), "--yes")
    shown = operator.sees("mapping", "history", operator.name, "--limit", "2")
    assert [line.split("│")[1].strip() for line in shown.splitlines() if "│" in line] == ["5", "4"]
    assert shown.endswith("older ones, as far as they are kept: see --limit and --all\n")
    every = operator.reads("mapping", "history", operator.name, "--all")["items"]
    assert [version["version"] for version in every] == [5, 4, 3, 2, 1]


def test_status_is_the_whole_picture(operator: Operator) -> None:
    units = operator.begin()
    operator.hear("late[/x]", 2)
    operator.sees("rescale", operator.name, "--units", ids(units), "--yes", "--no-wait")
    shown = operator.sees("status")
    assert shown.startswith("service ready: database ok, etcd ok, compared ")
    fragment = row(shown, operator.name, "3")
    assert fragment[2:7] == ["rescaling", "4", "1.00", "1", "1"]
    assert row(shown, f"{operator.name} 3", "0/1")[-2:] == ["0/16", "late[/x]"]
    picture = operator.reads("status")
    assert picture["service"]["status"] == "ok"
    assert operator.name in {worker["name"] for worker in picture["workers"]}
    (found,) = [found for found in picture["fragments"] if found["name"] == operator.name]
    assert found["progress"]["waiting_for"][0]["name"] == "late[/x]"
    first, *others = operator.reads("status", "--fragments", "1")["fragments"]
    assert [each["name"] for each in others if "progress" in each] == [], "one is looked at closer"
    assert first["lost_units"] or first["phase"] != "settled", "what needs attention comes first"


def test_status_watches_until_it_is_told_to_stop(operator: Operator) -> None:
    """As a real process, one document a line; Ctrl-C ends it with exit code 130."""
    operator.begin()
    with operator.begins("status", "--watch", "--every", "0.2", "--json") as watching:
        assert watching.stdout
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
        assert first["service"]["status"] == second["service"]["status"] == "ok"
        assert operator.interrupts(watching) == 130
