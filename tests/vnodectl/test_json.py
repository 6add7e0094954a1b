"""`--json` of every command: one document on standard output, and nothing else.

As real processes too, of which a few run by default: starting one takes most of its time.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from deploy.process import ServiceProcess
from tests.vnodectl.terminal import Operator, ids

NAME = "in-json"


@pytest.fixture(scope="module")
def there(shared_service: ServiceProcess) -> Iterator[Operator]:
    """With a fragment at version 2, whose job reports loads and has acknowledged."""
    with httpx.Client(base_url=shared_service.url) as http:
        operator = Operator(http, shared_service.url, NAME)
        operator.sees("worker", "add", "a1", "--units", "1")
        operator.begin()
        operator.hear("job", 2)
        body = {"loads": [1.0] * 64, "observed_for_ms": 60_000}
        http.put(f"/v1/fragments/{NAME}/loads/r1", json=body).raise_for_status()
        yield operator


def document(operator: Operator, *arguments: str) -> Any:
    """Of a real process."""
    ran = operator.runs(*arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("\n") == 1
    return json.loads(ran.stdout)


LOOKS = [
    ("worker list", {"items"}),
    (f"worker show {NAME}", {"name", "units", "labels", "draining", "alive", "fragments"}),
    ("fragment list", {"items"}),
    (f"fragment show {NAME}", {"fragment", "progress", "subscribers"}),
    (f"mapping show {NAME}", {"fragment", "version", "owners", "previous_owners"}),
    (f"mapping history {NAME}", {"items"}),
    (f"plan {NAME} --parallelism 2", {"token", "certificate", "summary", "moves", "goal"}),
    (f"diff {NAME}", {"from", "to", "moves", "runs"}),
    (f"explain {NAME}", {"plan", "reasons", "givers"}),
    (f"locate {NAME} 5", {"hash", "prefix", "vnode", "unit", "worker", "version", "ranges"}),
    (f"groups {NAME} --tasks 2", {"version", "tasks"}),
    (f"loads {NAME}", {"loads", "units", "max_over_mean", "verdict", "reason"}),
    (f"subscribers {NAME}", {"items"}),
    ("status --fragments 1", {"service", "workers", "fragments"}),
    ("audit --limit 3", {"items"}),
]
DEFAULT = ("worker list", f"explain {NAME}", f"locate {NAME} 5", "audit --limit 3")


@pytest.mark.parametrize(("command", "fields"), LOOKS)
def test_what_only_looks(there: Operator, command: str, fields: set[str]) -> None:
    assert fields <= set(there.reads(*command.split()))


@pytest.mark.parametrize(
    ("command", "fields"),
    [pytest.param(*look, marks=() if look[0] in DEFAULT else pytest.mark.slow) for look in LOOKS],
)
def test_what_only_looks_as_real_processes(there: Operator, command: str, fields: set[str]) -> None:
    assert fields <= set(document(there, *command.split()))
    text = there.runs(*command.split())
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.count("\n") > 1


@pytest.mark.parametrize("document", [Operator.reads, pytest.param(document, marks=pytest.mark.slow)])
def test_what_changes_something(operator: Operator, document: Callable[..., Any]) -> None:
    name, job = operator.name, f"job-{operator.name}"
    worker = document(operator, "worker", "add", name, "--units", "4", "--label", "zone=a")
    assert worker["labels"] == {"zone": "a"}
    key = ["--key", "k:int"]
    made = document(operator, "fragment", "create", job, *key, "--parallelism", "2")
    assert (made["name"], made["version"]) == (job, 1)
    rule = document(operator, "fragment", "policy", job, "--adaptive", "1:2")["parallelism"]["adaptive"]
    assert (rule["min"], rule["max"]) == (1, 2)
    assert document(operator, "fragment", "policy", job, "--fixed")["parallelism"] == {"fixed": 2}
    units = ids(worker["units"])
    moved = document(operator, "rescale", job, "--units", units, "--yes")
    assert (moved["rescale"]["version"], moved["progress"]["phase"]) == (2, "settled")
    assert moved["plan"]["token"] == moved["rescale"]["token"]
    assert document(operator, "apply", moved["plan"]["token"])["rescale"]["version"] == 2
    assert document(operator, "rollback", job, "--yes")["rescale"]["version"] == 3
    assert document(operator, "drain", name, "--yes")["worker"]["draining"] is True
    assert document(operator, "worker", "remove", name, "--yes") == {"removed": name}


def test_asking_is_on_standard_error_and_progress_at_a_terminal_alone(operator: Operator) -> None:
    units = operator.begin()
    ran = operator.runs("rescale", operator.name, "--units", ids(units), "--json", answers="y\n")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["rescale"]["version"] == 3
    assert "Apply? [y/n]" in ran.stderr
    assert f"{operator.name}: version 3" not in ran.stderr


def test_a_question_that_nobody_answers_is_a_no(operator: Operator) -> None:
    units = operator.begin()
    ran = operator.runs("rescale", operator.name, "--units", ids(units))
    assert ran.returncode == 1
    assert "Aborted" in ran.stderr
    assert operator.newest["version"] == 2


def test_abort_and_a_refusal(operator: Operator) -> None:
    units = operator.begin()
    operator.hear("late", 2)
    begun = document(operator, "rescale", operator.name, "--units", ids(units), "--yes", "--no-wait")
    assert begun["progress"] is None
    assert document(operator, "abort", operator.name)["rescale"]["phase"] == "aborted"
    refused = operator.runs("fragment", "show", "nowhere", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")
    told = json.loads(refused.stderr)
    assert (told["type"], told["status"]) == ("/problems/fragment-not-found", 404)
