"""The use cases of a rescale: plan -> token -> apply -> publish -> accept -> acknowledge -> settle, or abort.

The one place that orders effects: SQL first, in one transaction, then etcd, which may lag and is brought up by
`Reconciling`. Source: design.md, "Jobs, fragments, rescales".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from meta.callers.access import AuditEntry, Caller
from meta.errors import (
    AlreadyAccepted,
    AlreadyAppliedOtherwise,
    FragmentExists,
    NothingToRollBack,
    NotInFlight,
    PlanLost,
    RescaleNotFound,
    VersionNotCurrent,
    VersionNotFound,
)
from meta.hearing import Hearing
from meta.lifecycle import Cause, Fragment, Moment, NewVersion, Rescale, RescalePhase, RescalePlan
from meta.mapping.publication import Current, Phase
from meta.reconciliation.publishing import Publishing, require_known
from meta.registry.fragments import FragmentRequest, add_fragment, held_fragment, known_fragment
from meta.rescaling.goal import Goal, ToVersion
from meta.rescaling.handover import Handover
from meta.rescaling.planning import DryRun, advance, as_before, basis_of, dry_run, planned_under
from meta.rescaling.settling import settle
from meta.store.database import Database, Transaction, retry_conflicts


@dataclass(frozen=True, slots=True)
class Rescales:
    """The rescales of all fragments, from a fragment's first version on."""

    database: Database
    publishing: Publishing
    hearing: Hearing

    @retry_conflicts
    def create_fragment(self, request: FragmentRequest, *, by: Caller) -> Fragment:
        """A fragment with its first version, settled at once."""
        moment = self.hearing.now()
        published = self.publishing.published(request.name)
        with self.database.transaction() as tx:
            if tx.fragments.get(request.name) is not None:
                raise FragmentExists(request.name)
            require_known(tx, request.name, published)
            fragment = add_fragment(tx, request, moment, by=by)
        self.publishing.publish(fragment.name)
        return fragment

    @retry_conflicts
    def plan(self, fragment_name: str, goal: Goal, *, by: Caller, cause: Cause | None = None) -> DryRun:
        """A dry run on the current version, kept under a token until it expires.

        `cause` is its version's to be: by default that an operator asked for a rescale, or to roll back.
        """
        moment = self.hearing.now()
        with self.publishing.observation.planning(fragment_name):
            with self.database.reading() as tx:
                basis = basis_of(tx, known_fragment(tx, fragment_name), goal, moment)
            planned = dry_run(basis, goal, cause or _cause(goal))
        with self.database.transaction() as tx:
            tx.plans.add(planned.stored, planned.reasons)
            tx.audit.add(_entry(moment, by, "plan", planned.stored, {}))
        return planned

    @retry_conflicts
    def apply(
        self,
        token: str,
        *,
        by: Caller,
        handover: Handover | None = None,
        require: Callable[[Fragment], None] = lambda _fragment: None,
    ) -> Rescale:
        """Makes the plan the fragment's next version, and publishes it. The same token has the same answer.

        `require` is shown the fragment before a plan is applied for the first time, and may raise.
        """
        moment = self.hearing.now()
        with self.database.reading() as tx:
            fragment_name = planned_under(tx, token).fragment
        published = self.publishing.published(fragment_name)
        with self.database.transaction() as tx:
            fragment = held_fragment(tx, fragment_name)
            planned = planned_under(tx, token)
            if planned.applied_version is None:
                require(fragment)
                require_known(tx, fragment_name, published)
                _apply(tx, planned, handover, moment, by)
            rescale = known_rescale(tx, planned.id)
            if rescale.handover != handover:
                raise AlreadyAppliedOtherwise(fragment_name, rescale.applied_version)
        self.publishing.publish(fragment_name)
        return rescale

    def roll_back(
        self, fragment_name: str, to_version: int | None, *, by: Caller, handover: Handover | None = None
    ) -> Rescale:
        """Plans and applies the mapping of an earlier version, by default the last one before that had settled.

        Units of it that are gone are replaced. A rescale like any other: raises as `plan` and `apply`.
        """
        if to_version is None:
            to_version = self._settled_before(fragment_name)
        goal = Goal(ToVersion(to_version))
        planned = self.plan(fragment_name, goal, by=by)
        return self.apply(planned.stored.token, by=by, handover=handover)

    def _settled_before(self, fragment_name: str) -> int:
        with self.database.reading() as tx:
            version = known_fragment(tx, fragment_name).current.version
            before = tx.versions.settled_before(fragment_name, version)
        if before is None:
            raise NothingToRollBack(fragment_name, version)
        return before

    @retry_conflicts
    def accept(self, fragment_name: str, version: int, *, by: Caller) -> Current:
        """The point of no return, asked for by an applier before anything uses `version`."""
        now_ms = self.hearing.now().now_ms
        # In etcd a version that a restored database has in flight may have been aborted long ago.
        published = self.publishing.published(fragment_name)
        with self.database.transaction() as tx:
            require_known(tx, fragment_name, published)
            accepted = tx.fragments.change_phase(
                fragment_name, version, Phase.RESCALING, Phase.ACCEPTED, now_ms=now_ms
            )
            fragment = known_fragment(tx, fragment_name)
            current = fragment.current
            if version > current.version:
                raise VersionNotFound(fragment_name, version, fragment.oldest_version, current.version)
            if version < current.version:
                raise VersionNotCurrent(fragment_name, version, current.version)
            if accepted:
                tx.audit.add(AuditEntry(now_ms, by, "accept", fragment_name, {"version": version}))
        if accepted:
            self.publishing.publish(fragment_name)
        return current

    @retry_conflicts
    def abort(self, rescale_id: str, *, by: Caller) -> Rescale:
        """Before it was accepted: one more version, settled at once, in which nothing has moved.

        An aborted rescale has the same answer again.
        """
        moment = self.hearing.now()
        with self.database.reading() as tx:
            fragment_name = known_rescale(tx, rescale_id).fragment
        published = self.publishing.published(fragment_name)
        with self.database.transaction() as tx:
            tx.fragments.hold(fragment_name)
            rescale = known_rescale(tx, rescale_id)
            if rescale.phase is not RescalePhase.ABORTED:
                require_known(tx, fragment_name, published)
                _abort(tx, rescale, moment, by)
                rescale = known_rescale(tx, rescale_id)
        self.publishing.publish(fragment_name)
        return rescale

    def abort_current(self, fragment_name: str, *, by: Caller) -> Rescale:
        """The rescale that is in flight, or was the last and is aborted. Raises `NotInFlight`, `PlanLost`."""
        with self.database.reading() as tx:
            current = known_fragment(tx, fragment_name).current
            caused = tx.versions.cause(fragment_name, current.version)
        cause, rescale_id = caused or (None, None)
        if current.phase is Phase.SETTLED and cause is not Cause.ABORT:
            raise NotInFlight(fragment_name, current.version)
        if rescale_id is None:
            raise PlanLost(fragment_name, current.version)
        return self.abort(rescale_id, by=by)

    def rescale(self, rescale_id: str) -> Rescale:
        with self.database.reading() as tx:
            return known_rescale(tx, rescale_id)

    def newest(self, limit: int, *, after: tuple[int, str] | None, fragment: str | None) -> list[Rescale]:
        """At most `limit` rescales, the last applied first: see the repository."""
        with self.database.reading() as tx:
            if fragment is not None:
                known_fragment(tx, fragment)
            return tx.rescales.newest(limit, after=after, fragment=fragment)


def known_rescale(tx: Transaction, rescale_id: str) -> Rescale:
    found = tx.rescales.get(rescale_id)
    if found is None:
        raise RescaleNotFound(rescale_id)
    return found


def _cause(goal: Goal) -> Cause:
    return Cause.ROLLBACK if isinstance(goal.aim, ToVersion) else Cause.RESCALE


def _apply(
    tx: Transaction, planned: RescalePlan, handover: Handover | None, moment: Moment, by: Caller
) -> None:
    version = advance(tx, planned, moment)
    tx.rescales.begin(planned.id, version, handover, now_ms=moment.now_ms)
    settle(tx, known_fragment(tx, planned.fragment), moment)
    tx.audit.add(_entry(moment, by, "apply", planned, {"version": version}))


def _abort(tx: Transaction, rescale: Rescale, moment: Moment, by: Caller) -> None:
    if not rescale.steps:
        raise NotInFlight(rescale.fragment, rescale.version)
    # Also where a version before the newest one was: what was used cannot be taken back.
    if rescale.phase is not RescalePhase.RESCALING or RescalePhase.ACCEPTED in rescale.phases:
        raise AlreadyAccepted(rescale.fragment, rescale.version, rescale.phase)
    fragment = known_fragment(tx, rescale.fragment)
    assert fragment.current.version == rescale.version, "what is rescaling is current"
    before = NewVersion.of(as_before(tx, fragment), Phase.SETTLED, Cause.ABORT, rescale.id)
    aborted = tx.fragments.end_version(
        fragment.name, fragment.current, RescalePhase.ABORTED, before, now_ms=moment.now_ms
    )
    assert aborted, "it is held"
    detail = {
        "rescale": rescale.id,
        "aborted_version": fragment.current.version,
        "version": before.current.version,
        "moves": before.moves,
    }
    tx.audit.add(AuditEntry(moment.now_ms, by, "abort", fragment.name, detail))


def _entry(
    moment: Moment, by: Caller, action: str, planned: RescalePlan, facts: Mapping[str, Any]
) -> AuditEntry:
    detail = {
        "plan": planned.id,
        "base_version": planned.base_version,
        "moves": planned.certificate.moves,
        **facts,
    }
    return AuditEntry(moment.now_ms, by, action, planned.fragment, detail)
