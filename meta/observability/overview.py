"""What SQL knows, as Prometheus's gauges: one read for each scrape, and none that a scrape waits for without end."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from meta.hearing import Hearing
from meta.lifecycle import Moment, Worker
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Phase
from meta.observability.metrics import Metrics
from meta.observability.trouble import Troubles
from meta.store.database import Database, Transaction
from meta.store.overview import Audience, FragmentHead

# What was read is good for so long: several scrapers are one read.
FRESH_S = 1.0
# A scrape does not wait longer for the database.
PATIENCE_S = 2.0
# Nor for mappings that it has not seen yet: the next scrape goes on with those.
_COUNTING_S = 0.5
_BODIES_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Ownership:
    """How many vnodes each unit of a version has."""

    version: int
    vnodes: dict[int, int]

    @property
    def imbalance(self) -> float:
        counts = self.vnodes.values()
        return max(counts) * len(counts) / sum(counts)


@dataclass(frozen=True, slots=True)
class Seen:
    """One read: `ownerships` may lack fragments, whose turn comes with the next."""

    moment: Moment
    fragments: list[FragmentHead]
    audiences: list[Audience]
    workers: list[Worker]
    ownerships: dict[str, Ownership] = field(default_factory=dict)


class Overview:
    """For one event loop."""

    def __init__(self, database: Database, hearing: Hearing, metrics: Metrics) -> None:
        self._database = database
        self._hearing = hearing
        self._metrics = metrics
        self._seen: Seen | None = None
        self._seen_at = -FRESH_S
        self._reading: asyncio.Future[Seen] | None = None
        self._thread = ThreadPoolExecutor(1, "overview")
        self._troubles = Troubles()

    async def exposition(self) -> bytes:
        """In Prometheus's text format. Without what SQL knows where the database does not answer in time."""
        await self._refresh()
        return await asyncio.to_thread(self._rendered, self._seen)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _refresh(self) -> None:
        if monotonic() - self._seen_at < FRESH_S:
            return
        if self._reading is None:
            known = self._seen.ownerships if self._seen else {}
            self._reading = asyncio.get_running_loop().run_in_executor(self._thread, self._read, known)
        reading = self._reading
        done, _ = await asyncio.wait([reading], timeout=PATIENCE_S)
        if not done:
            self._seen = None
            return
        if self._reading is reading:
            self._reading = None
        self._take(reading)

    def _take(self, reading: asyncio.Future[Seen]) -> None:
        try:
            self._seen = reading.result()
        except sa.exc.SQLAlchemyError as error:
            said = getattr(error, "orig", error)
            self._troubles.tell("metrics", f"the database cannot be read: {said}", logging.WARNING)
            self._seen = None
        else:
            self._troubles.over("metrics")
        self._seen_at = monotonic()

    def _read(self, known: dict[str, Ownership]) -> Seen:
        moment = self._hearing.now()
        with self._database.reading() as tx:
            fragments = tx.overview.fragments()
            return Seen(
                moment,
                fragments,
                tx.overview.audiences(moment),
                tx.workers.all(),
                _ownerships(tx, fragments, known),
            )

    def _rendered(self, seen: Seen | None) -> bytes:
        registry = CollectorRegistry()
        registry.register(_Gauges(seen))
        return generate_latest(self._metrics.registry) + generate_latest(registry)


def _ownerships(
    tx: Transaction, fragments: list[FragmentHead], known: dict[str, Ownership]
) -> dict[str, Ownership]:
    until = monotonic() + _COUNTING_S
    versions = {fragment.name: fragment.current.version for fragment in fragments}
    found = {name: had for name, had in known.items() if name in versions and had.version == versions[name]}
    missing = iter([name for name in versions if name not in found])
    while names := list(islice(missing, _BODIES_AT_ONCE)):
        for name, body in tx.overview.bodies(names).items():
            found[name] = ownership(versions[name], body)
            if monotonic() > until:
                return found
    return found


def ownership(version: int, body: bytes) -> Ownership:
    # Our own bytes, so without the whole decoding, which proves them.
    content = json.loads(body)
    counts = Counter(owner for owner in VnodeMapping.parse(content["owners"]).owners if owner is not None)
    listed = (unit for members in content["units"].values() for unit, _weight in members)
    return Ownership(version, {unit: counts[unit] for unit in listed})


class _Gauges:
    """A collector over one read."""

    def __init__(self, seen: Seen | None) -> None:
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "vnodemap_database_up", "1 if the database answered this scrape in time, else 0."
        )
        up.add_metric([], 1 if self._seen else 0)
        yield up
        if self._seen is not None:
            yield from _of_fragments(self._seen)
            yield from _of_ownerships(self._seen)
            yield from _of_subscribers(self._seen)
            yield _of_workers(self._seen)


def _gauge(name: str, text: str, labels: list[str], values: Iterable[tuple[list[str], float]]) -> Metric:
    found = GaugeMetricFamily(f"vnodemap_{name}", text, labels=labels)
    for of, value in values:
        found.add_metric(of, value)
    return found


def _of_fragments(seen: Seen) -> Iterator[Metric]:
    states = seen.fragments
    yield _gauge(
        "fragment_version",
        "The fragment's current mapping version.",
        ["fragment"],
        (([state.name], state.current.version) for state in states),
    )
    yield _gauge(
        "fragment_phase",
        "1 for the phase that the current version is in, 0 for the others.",
        ["fragment", "phase"],
        (([state.name, phase], phase is state.current.phase) for state in states for phase in Phase),
    )
    yield _gauge(
        "fragment_rescale_age_seconds",
        "For how long a rescale is in flight, 0 where none is.",
        ["fragment"],
        (([state.name], _age_s(state, seen.moment)) for state in states),
    )
    yield _gauge(
        "fragment_kept_versions",
        "Mapping versions that are kept.",
        ["fragment"],
        (([state.name], state.current.version - state.oldest_version + 1) for state in states),
    )


def _age_s(state: FragmentHead, moment: Moment) -> float:
    return 0.0 if state.current.phase is Phase.SETTLED else max(moment.now_ms - state.since_ms, 0) / 1000


def _of_ownerships(seen: Seen) -> Iterator[Metric]:
    ownerships = seen.ownerships
    alive = {unit for worker in seen.workers if worker.alive(seen.moment) for unit in worker.unit_ids}
    yield _gauge(
        "fragment_units",
        "Units of the current mapping.",
        ["fragment"],
        (([name], len(found.vnodes)) for name, found in ownerships.items()),
    )
    yield _gauge(
        "fragment_lost_units",
        "Units of the current mapping that are not on a worker that is alive.",
        ["fragment"],
        (([name], len(found.vnodes.keys() - alive)) for name, found in ownerships.items()),
    )
    yield _gauge(
        "fragment_imbalance_ratio",
        "The most that one unit has over the mean of all units, by number of vnodes.",
        ["fragment", "by"],
        (([name, "vnodes"], found.imbalance) for name, found in ownerships.items()),
    )


def _of_subscribers(seen: Seen) -> Iterator[Metric]:
    version = {state.name: state.current.version for state in seen.fragments}
    yield _gauge(
        "subscribers",
        "Registered subscribers: heard within the fragment's applier timeout, or silent for longer.",
        ["fragment", "role", "state"],
        (
            ([found.fragment, found.role, state], count)
            for found in seen.audiences
            for state, count in (("heard", found.heard), ("silent", found.silent))
        ),
    )
    yield _gauge(
        "subscriber_lag_versions",
        "Versions that the last of the subscribers that are heard has yet to acknowledge.",
        ["fragment", "role"],
        (
            ([found.fragment, found.role], max(version[found.fragment] - found.acknowledged_version, 0))
            for found in seen.audiences
            if found.heard and found.fragment in version
        ),
    )


def _of_workers(seen: Seen) -> Metric:
    counts = Counter(_state(worker, seen.moment) for worker in seen.workers)
    return _gauge(
        "workers",
        "Registered workers by state; a draining one is alive too.",
        ["state"],
        (([state], counts[state]) for state in ("alive", "draining", "dead")),
    )


def _state(worker: Worker, moment: Moment) -> str:
    if not worker.alive(moment):
        return "dead"
    return "draining" if worker.draining else "alive"
