"""Adaptive fragments follow their workers by themselves; by which rules, `meta.rescaling.adaptive` says."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from meta.callers.access import ITSELF
from meta.errors import MetaError, RescaleInFlight, StaleBase
from meta.lifecycle import Cause, Fragment, Moment, Worker
from meta.mapping.errors import MappingError
from meta.mapping.publication import MappingVersion, decode_body
from meta.observability.trouble import Troubles
from meta.rescaling.adaptive import NobodyLives, TooFewLive, TooManyVanished, Wish, hindrance, wish
from meta.rescaling.goal import Goal, OnUnits
from meta.rescaling.rescale import Rescales
from meta.store.database import Database, Transaction

REST_MS = 60_000


@dataclass(frozen=True, slots=True)
class Adapting:
    database: Database
    rescales: Rescales
    troubles: Troubles
    # The current version of each fragment, under its digest: decoded once, and looked at every second.
    _decoded: dict[str, tuple[str, MappingVersion]] = field(default_factory=dict)
    # When each fragment was refused last, by name.
    _refused_at_ms: dict[str, int] = field(default_factory=dict)

    def run(self, fragments: Iterable[Fragment], moment: Moment) -> None:
        """Rescales each adaptive fragment that should run on other units, and may do so now."""
        adaptive = [fragment for fragment in fragments if fragment.adaptive is not None]
        for name in self._decoded.keys() - {fragment.name for fragment in adaptive}:
            del self._decoded[name]
            self._refused_at_ms.pop(name, None)
        if not adaptive:
            return
        with self.database.reading() as tx:
            workers = tx.workers.all()
            wishes = [(fragment, self._wish(tx, fragment, workers, moment)) for fragment in adaptive]
        for fragment, wished in wishes:
            if wished is not None and not self._rests(fragment.name, moment):
                self._rescale(fragment, wished, moment)

    def _wish(
        self, tx: Transaction, fragment: Fragment, workers: Sequence[Worker], moment: Moment
    ) -> Wish | None:
        """None too where something hinders it."""
        version = self._version(tx, fragment)
        began_at_ms = tx.versions.began_at_ms(fragment.name, fragment.current.version)
        # A replica may have gone on since the fragment was read; the next round sees it all.
        if fragment.adaptive is None or version is None or began_at_ms is None:
            return None
        policy, current = fragment.adaptive, fragment.current
        wished = wish(policy, version, workers, moment)
        if wished is None:
            self.troubles.over(_subject(fragment))
            return None
        hindered = hindrance(policy, wished, version, current, began_at_ms, workers, moment)
        if isinstance(hindered, TooManyVanished | TooFewLive | NobodyLives):
            self.troubles.tell(_subject(fragment), str(hindered), logging.WARNING)
        return None if hindered else wished

    def _version(self, tx: Transaction, fragment: Fragment) -> MappingVersion | None:
        digest, known = self._decoded.get(fragment.name, (None, None))
        if digest == fragment.current.digest:
            return known
        body = tx.versions.body(fragment.name, fragment.current.version)
        if body is None:
            return None
        version = decode_body(body)
        self._decoded[fragment.name] = (fragment.current.digest, version)
        return version

    def _rests(self, fragment_name: str, moment: Moment) -> bool:
        """What it was refused it will be refused again for a while, and each try leaves a plan and an audit entry."""
        refused_at_ms = self._refused_at_ms.get(fragment_name)
        return refused_at_ms is not None and abs(moment.now_ms - refused_at_ms) < REST_MS

    def _rescale(self, fragment: Fragment, wished: Wish, moment: Moment) -> None:
        goal = Goal(OnUnits(frozenset(unit.id for unit in wished.units)))
        try:
            planned = self.rescales.plan(fragment.name, goal, by=ITSELF, cause=Cause.ADAPTIVE)
            # Only on the version that was decided on: another one may be young, or of an operator.
            if planned.stored.base_version == fragment.current.version:
                self.rescales.apply(planned.stored.token, by=ITSELF)
        except (StaleBase, RescaleInFlight):
            return  # another replica was quicker, or an operator
        except (MetaError, MappingError) as error:
            self._refused_at_ms[fragment.name] = moment.now_ms
            self.troubles.tell(_subject(fragment), f"cannot follow its workers: {error}", logging.WARNING)


def _subject(fragment: Fragment) -> str:
    return f"fragment {fragment.name}: adaptive"
