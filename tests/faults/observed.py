"""A fragment under load, with witnesses, whose invariants are checked while faults are done and after them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import httpx

from dispatcher.subscription import Subscription
from dispatcher.view import Role
from meta.mapping.publication import Phase
from tests.faults.cluster import WORKER, Deployment
from tests.faults.history import require_published
from tests.faults.load import Operator
from tests.faults.witness import POLL_S, EtcdReader, HttpReader, Job, Reader, Testimony, Thread

Eventually = Callable[..., None]
# The bound of every recovery: an etcd's or a database's start, and some rounds of reconciliation.
CONVERGED_S = 30


@dataclass
class Observed:
    """`restored`: whether the database lost what came after a backup."""

    cluster: Deployment
    fragment: str
    operator: Operator
    testimony: Testimony
    etcd: EtcdReader
    witnesses: tuple[str, ...]
    eventually: Eventually
    load: Thread | None = None
    restored: bool = False

    def rest(self) -> None:
        """Ends the load, and waits until everything it did is settled and published."""
        if self.load is not None:
            self.load.stop()

        def converged() -> None:
            # It is waited for like any applier.
            self.operator.beat()
            require_published(self.cluster, self.fragment)

        self.eventually(converged, CONVERGED_S)

    def wait_progress(self, versions: int = 2, within_s: float = CONVERGED_S) -> None:
        """Until as many more versions were promised."""
        before = self.operator.newest

        def promised() -> None:
            assert self.operator.newest >= before + versions, self.operator.answers

        self.eventually(promised, within_s)

    def require_last_seen_by(self, witness: str, version: int, phase: Phase | None = None) -> None:
        found = self.testimony.last_seen_by(witness)
        assert found is not None
        assert found[0] == version
        assert phase in (None, found[1])

    def require_followed(self, version: int, *witnesses: str) -> None:
        """Each of these saw `version` or a newer one."""
        for witness in witnesses:
            found = self.testimony.last_seen_by(witness)
            assert found is not None, witness
            assert found[0] >= version, witness

    def wait_seen(self, version: int, within_s: float = CONVERGED_S) -> None:
        """Until every witness saw `version` or a newer one."""
        self.eventually(lambda: self.require_followed(version, *self.witnesses), within_s)


def create(cluster: Deployment, name: str, **more: object) -> list[int]:
    """A fragment on all four units of the worker, which are returned."""
    with httpx.Client(base_url=cluster.urls[-1], timeout=30, trust_env=False) as http:
        units = http.put(f"/v1/workers/{WORKER}", json={"parallelism": 4}).raise_for_status().json()["units"]
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": name, "distribution_key": key, "parallelism": 4, "vnode_count": 64, **more}
        http.post("/v1/fragments", json=request).raise_for_status()
    return list(units)


@contextmanager
def observed(
    cluster: Deployment,
    name: str,
    eventually: Eventually,
    *,
    loaded: bool = True,
    applier: bool = True,
    **more: object,
) -> Iterator[Observed]:
    """With `loaded` an operator rescales all the time, else it acts as the test says. `more` is of the fragment."""
    units = create(cluster, name, **more)
    testimony = Testimony()
    with ExitStack() as here:
        operator = here.enter_context(closing(Operator(cluster.urls, name, units)))
        etcd = here.enter_context(closing(EtcdReader(cluster.etcd.endpoint, name, testimony)))
        readers: list[HttpReader | Reader | Job] = [
            here.enter_context(closing(HttpReader(cluster.urls, name, testimony))),
            Reader(here.enter_context(_subscription(cluster.urls[0], name, "reader")), testimony),
        ]
        if applier:
            readers.append(
                Job(here.enter_context(_subscription(cluster.urls[-1], name, "applier")), testimony)
            )
        for reader in readers:
            here.enter_context(Thread(reader.name, testimony, reader.step, POLL_S))
        witnesses = (etcd.name, *(reader.name for reader in readers))
        seen = Observed(cluster, name, operator, testimony, etcd, witnesses, eventually)
        if loaded:
            seen.load = here.enter_context(Thread("operator", testimony, operator.step, POLL_S))
            seen.wait_progress()
        yield seen
        _require_invariants(seen)


def _subscription(url: str, fragment: str, role: Role) -> Subscription:
    return Subscription(url, fragment, name=role, role=role, poll_ms=200)


def _require_invariants(seen: Observed) -> None:
    seen.cluster.require_alive()
    seen.rest()
    history = require_published(seen.cluster, seen.fragment)
    seen.wait_seen(history.current.version)
    history.require_sound(seen.fragment)
    history.require_kept(seen.operator, restored=seen.restored)
    history.require_seen(seen.testimony)
    seen.cluster.require_discreet()
