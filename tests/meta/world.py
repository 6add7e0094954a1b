"""The use cases on a clock that the test sets: what no service could be watched doing in a second."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, TypeVar

from meta.api.control import Control
from meta.callers.access import AccessRole, Caller
from meta.coordination.publisher import Publisher
from meta.hearing import Hearing
from meta.lifecycle import Beat, HandedOver, KeyField, Rescale, Role
from meta.mapping.publication import Current, MappingVersion, Phase, current_key, decode_body, digest
from meta.registry.fragments import FragmentRequest
from meta.rescaling.goal import Goal, OnUnits
from meta.store.database import Database

T = TypeVar("T")

APPLIER_TIMEOUT_MS = 3_000
WORKER_TIMEOUT_MS = 4_000
DAY_MS = 24 * 3600 * 1000

OPERATOR = Caller("operator", AccessRole.OPERATOR, "request-1")
READER = Caller("reader", AccessRole.READER, "request-2")


@dataclass
class World:
    """A service without its process: fragment `flights` on the first units of this fleet, three by default."""

    database: Database
    publisher: Publisher
    now_ms: int = 1_000_000
    fleet: Mapping[str, int] = field(default_factory=lambda: {"w1": 2, "w2": 2})
    parallelism: int = 3

    def __post_init__(self) -> None:
        self.start()
        for worker, units in self.fleet.items():
            self.workers.register(
                worker, parallelism=units, heartbeat_timeout_ms=WORKER_TIMEOUT_MS, by=OPERATOR
            )
        self.create("flights", self.parallelism)

    def start(self) -> None:
        """The service, started on the database as it is now."""
        self.hearing = Hearing(lambda: self.now_ms)
        control = Control.over(self.database, self.publisher, self.hearing, ())
        self.workers, self.fragments = control.workers, control.fragments
        self.rescales, self.history = control.rescales, control.history
        self.subscribing, self.reconciling = control.subscribing, control.reconciling
        self.publishing, self.retention = control.publishing, control.retention

    def create(self, fragment: str, parallelism: int = 2, vnode_count: int = 256) -> None:
        key = (KeyField("tailnum", "string"),)
        request = FragmentRequest(fragment, vnode_count, key, parallelism, APPLIER_TIMEOUT_MS)
        self.rescales.create_fragment(request, by=OPERATOR)

    def plan(self, *unit_ids: int) -> str:
        goal = Goal(OnUnits(frozenset(unit_ids)))
        return self.rescales.plan("flights", goal, by=OPERATOR).stored.token

    def apply(self, *unit_ids: int) -> Rescale:
        return self.apply_token(self.plan(*unit_ids))

    def apply_token(self, token: str) -> Rescale:
        return self.rescales.apply(token, by=OPERATOR)

    def hear(
        self,
        name: str,
        version: int | None,
        role: Role = Role.APPLIER,
        handed_over: HandedOver | None = None,
    ) -> None:
        self.subscribing.hear("flights", Beat(name, name, role, version, handed_over), by=OPERATOR)

    def pass_time(self, span_ms: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Time passes as for a service that runs: it reconciles each second."""
        for _ in range(span_ms // 1_000):
            self.now_ms += 1_000
            meanwhile()
            self.reconciling.run()

    def beat(self, *workers: str) -> None:
        for worker in workers:
            self.workers.beat(worker)

    def announce(self, version: int, body: bytes, fragment: str = "flights") -> None:
        """Another service writes into this etcd; its bodies do not matter."""
        announced = Current(version, Phase.SETTLED, digest(body))
        self.publisher.etcd.put(current_key(fragment, self.publisher.root), announced.encode())

    def body(self, version: int) -> MappingVersion:
        return decode_body(self.history.body("flights", version))

    def audit(self, limit: int = 20) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Who did what to `flights`, with what detail; the newest first."""
        with self.database.reading() as tx:
            entries = tx.audit.newest(limit, subject="flights")
        return [(entry.caller.name, entry.action, entry.subject, dict(entry.detail)) for entry in entries]

    @property
    def waiting_for(self) -> list[str]:
        return [applier.name for applier in self.subscribing.progress("flights").progress.waiting_for]

    @property
    def subscribers(self) -> list[str]:
        return [follower.subscriber.id for follower in self.subscribing.progress("flights").followers]

    @property
    def current(self) -> tuple[int, Phase]:
        with self.database.reading() as tx:
            fragment = tx.fragments.get("flights")
        assert fragment is not None
        return fragment.current.version, fragment.current.phase

    @property
    def published(self) -> tuple[int, Phase] | None:
        found = self.publisher.etcd.get(current_key("flights", self.publisher.root))
        current = Current.decode(found.value) if found else None
        return (current.version, current.phase) if current else None


def at_once(*actions: Callable[[], T]) -> list[T]:
    """What each gave, all released at one instant in threads of their own."""
    ready = Barrier(len(actions))

    def released(action: Callable[[], T]) -> T:
        ready.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(released, actions))
