"""Appliers that never acknowledge, that have nothing to do, or that fall silent all at once."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from signal import SIGCONT, SIGSTOP
from time import monotonic

import httpx

from dispatcher.subscription import Subscription
from meta.mapping.publication import Phase
from tests.faults.history import History
from tests.faults.load import Operator
from tests.faults.observed import Observed
from tests.faults.witness import POLL_S, Thread

Observing = Callable[..., AbstractContextManager[Observed]]
Eventually = Callable[..., None]
TIMEOUT_MS = 3_000
APPLIERS = 3


def current(seen: Observed) -> tuple[int, Phase]:
    found = History.read(seen.cluster.database_url, seen.fragment).current
    return found.version, found.phase


def waited_for(seen: Observed) -> list[str]:
    progress = httpx.get(f"{seen.cluster.urls[0]}/v1/fragments/{seen.fragment}/progress", trust_env=False)
    return [waiting["name"] for waiting in progress.raise_for_status().json()["waiting_for"]]


def apply(seen: Observed, count: int) -> int:
    """A rescale whose applier the operator is not; its version."""
    token = seen.operator.plan_change(count)
    return int(seen.operator.apply(token).json()["version"])


def test_an_applier_that_never_acknowledges_is_waited_for_while_it_lives_and_nothing_else_begins(
    under_load: Observing, eventually: Eventually
) -> None:
    with under_load(loaded=False, applier_timeout_ms=TIMEOUT_MS) as seen:
        path = f"/v1/fragments/{seen.fragment}/subscribers/stubborn"
        beat = {"name": "stubborn", "role": "applier"}
        with closing(Operator(seen.cluster.urls, seen.fragment, seen.operator.units)) as other:

            def beats() -> None:
                other.ask("PUT", path, beat)

            with Thread("stubborn", seen.testimony, beats, POLL_S):
                eventually(lambda: require(other.answers[200] > 0))
                version = apply(seen, 2)
                until = monotonic() + 2 * TIMEOUT_MS / 1000
                while monotonic() < until:
                    found, phase = current(seen)
                    assert found == version
                    assert phase is not Phase.SETTLED
                    token = seen.operator.plan_change(3)
                    refused = seen.operator.apply(token)
                    assert refused.status_code == httpx.codes.CONFLICT
                    assert refused.json()["type"] == "/problems/rescale-in-flight"
                eventually(lambda: require(waited_for(seen) == ["stubborn"]))
            eventually(lambda: require(current(seen) == (version, Phase.SETTLED)))


def test_an_idle_applier_acknowledges_without_a_batch(under_load: Observing, eventually: Eventually) -> None:
    with under_load(loaded=False, applier=False) as seen:
        url = seen.cluster.urls[0]
        with Subscription(url, seen.fragment, name="idle", role="applier", poll_ms=200) as idle:
            version = apply(seen, 2)
            eventually(lambda: require(current(seen) == (version, Phase.SETTLED)))
            assert [adoption.version for adoption in idle.history] == [version - 1, version]
            subscribers = History.read(seen.cluster.database_url, seen.fragment).acknowledged
            assert subscribers[idle.id] == version, "it was heard, and not only given up"


def test_all_subscribers_silent_at_once_are_given_up_in_time_and_follow_when_they_are_back(
    under_load: Observing, eventually: Eventually
) -> None:
    with (
        under_load(loaded=False, applier=False, applier_timeout_ms=TIMEOUT_MS) as seen,
        job(seen) as appliers,
    ):
        version = apply(seen, 2)
        eventually(lambda: require(current(seen) == (version, Phase.SETTLED)))
        appliers.send_signal(SIGSTOP)
        version, began = apply(seen, 3), monotonic()
        assert current(seen) == (version, Phase.RESCALING)
        assert waited_for(seen) == [f"applier {number}" for number in range(APPLIERS)]
        eventually(lambda: require(current(seen) == (version, Phase.SETTLED)))
        assert monotonic() - began > TIMEOUT_MS / 1000 / 2, "its last beat is at most some hundred ms old"
        newest = apply(seen, 2)
        eventually(lambda: require(current(seen) == (newest, Phase.SETTLED)))
        appliers.send_signal(SIGCONT)

        def followed() -> None:
            acknowledged = History.read(seen.cluster.database_url, seen.fragment).acknowledged
            assert set(acknowledged.values()) == {newest}

        eventually(followed)
        # It ends when it hears no more of us.
        said = [tuple(map(int, line.split())) for line in appliers.communicate()[0].splitlines()]
    for number in range(APPLIERS):
        used = [version for applier, version in said if applier == number]
        assert used == sorted(set(used)), "none goes back"
        assert used[-1] == newest


@contextmanager
def job(seen: Observed) -> Iterator["subprocess.Popen[str]"]:
    """A process with all the fragment's appliers, each of which has begun to work."""
    command = [
        sys.executable,
        "-m",
        "tests.faults.appliers",
        seen.cluster.urls[0],
        seen.fragment,
        str(APPLIERS),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for _ in range(APPLIERS):
                assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def require(condition: bool) -> None:
    assert condition
