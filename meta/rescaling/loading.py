"""The loads that dispatchers report: kept, smoothed, and judged."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from meta.errors import BadLoads, TooMany
from meta.hearing import Hearing
from meta.lifecycle import Fragment
from meta.mapping.load import max_load_of, plan_by_load
from meta.mapping.load_policy import LoadPolicy, Verdict, smoothed, verdict
from meta.mapping.publication import MappingVersion
from meta.registry.fragments import known_fragment
from meta.rescaling.loads import HALF_LIFE_S, KnownLoads, loads_known
from meta.rescaling.planning import mapping_version
from meta.store.database import Database, Transaction, retry_conflicts
from meta.store.loads import ReportedLoads

REPORTERS_MAX = 256
# With more vnodes a verdict takes it for granted that a plan levels the loads wholly.
PLANNED_VNODES_MAX = 8_192
POLICY = LoadPolicy()


@dataclass(frozen=True, slots=True)
class Unevenness:
    """Loads over the units of a version, weights counted as `LoadCertificate` does."""

    mean_load: float
    max_load: float

    @property
    def max_over_mean(self) -> float | None:
        return self.max_load / self.mean_load if self.mean_load else None

    @property
    def exceeded(self) -> bool:
        return POLICY.exceeded(self.mean_load, self.max_load)


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A fragment's loads as they stand. `verdict` and `unevenness` are None where none are known."""

    version: MappingVersion
    known: KnownLoads
    unevenness: Unevenness | None
    verdict: Verdict | None
    exceeded_since_ms: int | None

    @property
    def unit_loads(self) -> dict[int, float]:
        """By id, of all units of the version."""
        loads = dict.fromkeys((unit.id for unit in self.version.units), 0.0)
        if self.known.loads is not None:
            ids, slots = np.unique(self.version.mapping.array, return_inverse=True)
            sums = np.bincount(slots, self.known.loads)
            loads |= dict(zip(ids.tolist(), sums.tolist(), strict=True))
        return loads


@dataclass(frozen=True, slots=True)
class Loading:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def report(
        self, fragment_name: str, reporter: str, counts: npt.NDArray[np.float64], observed_for_ms: int
    ) -> None:
        """What `reporter` counted of each vnode in the last `observed_for_ms`. Raises `BadLoads`, `TooMany`.

        It weighs by the time since the reporter's last report: the same one sent twice counts once.
        """
        now_ms = self.hearing.now().now_ms
        with self.database.transaction() as tx:
            fragment = known_fragment(tx, fragment_name)
            _require_all(fragment, counts)
            before = tx.loads.held(fragment_name, reporter)
            if before is None and tx.loads.count(fragment_name) >= REPORTERS_MAX:
                raise TooMany(
                    "reporters of loads",
                    REPORTERS_MAX,
                    REPORTERS_MAX + 1,
                    "let each dispatcher keep its name; those that stop are forgotten after a day",
                )
            rates = _smoothed(before, counts * (1_000 / observed_for_ms), now_ms)
            tx.loads.save(fragment_name, ReportedLoads(reporter, rates, now_ms))
            self._note_exceeded(tx, fragment, now_ms)

    def loaded(self, fragment_name: str) -> Loaded:
        now_ms = self.hearing.now().now_ms
        with self.database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            version = mapping_version(tx, fragment, fragment.current.version)
            known = loads_known(tx, fragment, now_ms)
            since_ms = tx.loads.exceeded_since_ms(fragment_name)
            began_at_ms = tx.versions.began_at_ms(fragment_name, version.version)
        assert began_at_ms is not None
        if known.loads is None:
            return Loaded(version, known, None, None, since_ms)
        found = unevenness(version, known.loads)
        # The fragment's own beginning counts as a rescale: smoothing starts up, too.
        judged = _judged(
            version, known.loads, found, _seconds(since_ms, now_ms), _seconds(began_at_ms, now_ms)
        )
        return Loaded(version, known, found, judged, since_ms)

    def _note_exceeded(self, tx: Transaction, fragment: Fragment, now_ms: int) -> None:
        loads = loads_known(tx, fragment, now_ms).loads
        assert loads is not None, "one was just reported"
        version = mapping_version(tx, fragment, fragment.current.version)
        tx.loads.set_exceeded(fragment.name, now_ms if unevenness(version, loads).exceeded else None)


def unevenness(version: MappingVersion, loads: npt.NDArray[np.float64]) -> Unevenness:
    bearing = sum(unit.weight > 0 for unit in version.units)
    max_load = max_load_of(version.mapping, version.units, loads.tolist())
    return Unevenness(float(loads.sum()) / bearing, max_load)


def _judged(
    version: MappingVersion,
    loads: npt.NDArray[np.float64],
    found: Unevenness,
    exceeded_s: float,
    since_rescale_s: float,
) -> Verdict:
    def judged(planned_max_load: float) -> Verdict:
        return verdict(
            POLICY,
            mean_load=found.mean_load,
            max_load=found.max_load,
            planned_max_load=planned_max_load,
            exceeded_s=exceeded_s,
            since_rescale_s=since_rescale_s,
        )

    # A plan takes its time, and is made only where it is what decides and who asks need not wait for many seconds.
    hopeful = judged(found.mean_load)
    if not hopeful.act or version.vnode_count > PLANNED_VNODES_MAX:
        return hopeful
    planned = plan_by_load(version.mapping, version.units, loads)
    return judged(max_load_of(planned.mapping, version.units, loads.tolist()))


def _smoothed(
    before: ReportedLoads | None, rates: npt.NDArray[np.float64], now_ms: int
) -> npt.NDArray[np.float64]:
    if before is None or len(before.loads) != len(rates):
        return rates
    return smoothed(before.loads, rates, _seconds(before.observed_at_ms, now_ms), HALF_LIFE_S)


def _seconds(since_ms: int | None, now_ms: int) -> float:
    """0 also where the clock went back."""
    return 0.0 if since_ms is None else max(0, now_ms - since_ms) / 1_000


def _require_all(fragment: Fragment, counts: npt.NDArray[np.float64]) -> None:
    if len(counts) != fragment.vnode_count:
        raise BadLoads(
            f"loads: these are of {len(counts)} vnodes and {fragment.name} has {fragment.vnode_count}; give one for "
            "each, and read the mapping again where its vnode count has changed"
        )
