"""A unit is lost in the middle of a rescale."""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing

from meta.mapping.publication import Phase, decode_body
from tests.faults.history import History
from tests.faults.load import Operator
from tests.faults.observed import Observed
from tests.faults.witness import POLL_S, Thread

Observing = Callable[..., AbstractContextManager[Observed]]
Eventually = Callable[..., None]
HEARTBEAT_TIMEOUT_MS = 1_500


def test_a_rescale_that_loses_a_unit_under_way_goes_on_without_it(
    under_load: Observing, eventually: Eventually
) -> None:
    with under_load(loaded=False) as seen:
        operator, worker = seen.operator, f"lost-{seen.fragment}"
        registration = {"parallelism": 1, "heartbeat_timeout_ms": HEARTBEAT_TIMEOUT_MS}

        def history() -> History:
            return History.read(seen.cluster.database_url, seen.fragment)

        # Acknowledges nothing but the first version, so that the rescale lasts.
        slow = Operator(seen.cluster.urls, seen.fragment, operator.units)
        beating = Operator(seen.cluster.urls, seen.fragment, operator.units)
        with (
            closing(slow),
            closing(beating),
            Thread("slow applier", seen.testimony, lambda: slow.hear(1), POLL_S) as holding,
        ):
            answer = beating.ask("PUT", f"/v1/workers/{worker}", registration)
            assert answer is not None
            (lost,) = answer.json()["units"]
            living = operator.units[:2]
            with Thread("worker", seen.testimony, lambda: beat(beating, worker), POLL_S):
                operator.units = [lost, *living]
                token = operator.plan_change(3)
                assert operator.apply(token).json()["version"] == 2
                assert lost in decode_body(history().bodies[2]).mapping.units

            def superseded() -> None:
                found = history()
                assert found.current.version == 3
                assert found.current.phase is not Phase.SETTLED
                assert "superseded" in found.phases[2]
                assert found.causes[3] == "superseding"
                assert set(decode_body(found.bodies[3]).mapping.units) == set(living)

            eventually(superseded, 30)
            holding.stop()
        operator.hear(3)
        operator.units = living
        seen.rest()
        assert (history().current.version, history().current.phase) == (3, Phase.SETTLED)
        seen.wait_seen(3)


def beat(operator: Operator, worker: str) -> None:
    operator.ask("POST", f"/v1/workers/{worker}/heartbeat", {})
