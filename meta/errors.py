"""What the service refuses as things stand. The fields are the facts; the message says what to do.

What is wrong with a request itself, whatever it asks for: `meta.callers.request_errors`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

SHOWN_MAX = 20


class MetaError(Exception):
    """A request that cannot be carried out as things stand."""

    def __str__(self) -> str:
        return self.detail

    @property
    def detail(self) -> str:
        raise NotImplementedError


def shown_some(found: Sequence[object]) -> str:
    """All of them, or the first ones and how many there are: a message is for people."""
    shown = ", ".join(map(str, found[:SHOWN_MAX]))
    return shown if len(found) <= SHOWN_MAX else f"{shown} and {len(found) - SHOWN_MAX} more"


@dataclass(eq=False)
class WorkerNotFound(MetaError):
    worker: str

    @property
    def detail(self) -> str:
        return f"worker {self.worker} is not registered; register it with `vnodectl worker add {self.worker}`"


@dataclass(eq=False)
class WorkerDiffers(MetaError):
    """A worker that registers again with fewer than its `parallelism` units."""

    worker: str
    parallelism: int

    @property
    def detail(self) -> str:
        return (
            f"worker {self.worker} is registered with {self.parallelism} units, which may become more and not fewer: "
            f"register it with {self.parallelism} or more; or drain it (`vnodectl drain {self.worker}`), remove "
            "it when no fragment is on it, and register it anew"
        )


@dataclass(eq=False)
class WorkerInUse(MetaError):
    """`fragments` have a mapping, or move away from one, that gives the worker's units vnodes."""

    worker: str
    fragments: list[str]

    @property
    def detail(self) -> str:
        return (
            f"worker {self.worker} cannot be removed while it is in use by {shown_some(self.fragments)}: drain it with "
            f"`vnodectl drain {self.worker}`, rescale these fragments (adaptive ones leave it by themselves), "
            "wait until they have settled, and remove it then"
        )


@dataclass(eq=False)
class TooMany(MetaError):
    """`what` there may be `limit` of, with those asked for now there would be `asked`."""

    what: str
    limit: int
    asked: int
    advice: str

    @property
    def detail(self) -> str:
        return (
            f"there may be at most {self.limit} {self.what} and this would make {self.asked}; {self.advice}"
        )


@dataclass(eq=False)
class FragmentNotFound(MetaError):
    fragment: str

    @property
    def detail(self) -> str:
        return f"there is no fragment {self.fragment}; `vnodectl fragment list` names those there are"


@dataclass(eq=False)
class FragmentExists(MetaError):
    fragment: str

    @property
    def detail(self) -> str:
        return f"fragment {self.fragment} exists already; choose another name, or rescale the one there is"


@dataclass(eq=False)
class BadFragment(MetaError):
    """`field` is the request's field that is wrong."""

    field: str
    reason: str

    @property
    def detail(self) -> str:
        return f"{self.field}: {self.reason}"


@dataclass(eq=False)
class VersionNotFound(MetaError):
    """None of those that are kept, which are from `oldest_version` to `current_version`."""

    fragment: str
    version: int
    oldest_version: int
    current_version: int

    @property
    def detail(self) -> str:
        forgotten = ", older ones are not kept" if self.version < self.oldest_version else ""
        return (
            f"fragment {self.fragment} has no version {self.version}; it has {self.oldest_version} to "
            f"{self.current_version}{forgotten}"
        )


@dataclass(eq=False)
class VersionNotCurrent(MetaError):
    fragment: str
    version: int
    current_version: int

    @property
    def detail(self) -> str:
        return (
            f"version {self.version} of {self.fragment} may not be used any more, "
            f"version {self.current_version} is current: read the mapping again"
        )


@dataclass(eq=False)
class PlanNotFound(MetaError):
    token: str

    @property
    def detail(self) -> str:
        return f"no plan has the token {self.token}; plan again and apply the token of that answer"


@dataclass(eq=False)
class PlanExpired(MetaError):
    fragment: str
    token: str

    @property
    def detail(self) -> str:
        return f"the plan {self.token} for {self.fragment} has expired; plan again"


@dataclass(eq=False)
class StaleBase(MetaError):
    fragment: str
    base_version: int
    current_version: int

    @property
    def detail(self) -> str:
        return (
            f"the plan stands on version {self.base_version} of {self.fragment}, "
            f"which is now at version {self.current_version}; plan again"
        )


@dataclass(eq=False)
class RescaleInFlight(MetaError):
    fragment: str
    version: int
    phase: str

    @property
    def detail(self) -> str:
        return (
            f"a rescale of {self.fragment} to version {self.version} is under way ({self.phase}); "
            f"wait until it has settled: `vnodectl fragment show {self.fragment}` says for whom it waits. As long as "
            f"nobody accepted it, `vnodectl abort {self.fragment}` takes it back"
        )


@dataclass(eq=False)
class UnitsNotAlive(MetaError):
    """`draining` are the workers that live and that some of the units are on."""

    units: list[int]
    draining: list[str] = field(default_factory=list)

    @property
    def detail(self) -> str:
        said = (
            f"units {shown_some(self.units)} are not on a registered worker that is alive and takes vnodes; "
            "`vnodectl worker list` shows those that are"
        )
        if not self.draining:
            return said
        return (
            f"{said}. Draining: {shown_some(self.draining)}; choose units of other workers, or take the draining "
            f"back with `vnodectl drain {self.draining[0]} --undo`"
        )


@dataclass(eq=False)
class DatabaseBehind(MetaError):
    """etcd has a later version than SQL, which adopts it in a moment."""

    fragment: str
    version: int
    published_version: int

    @property
    def detail(self) -> str:
        return (
            f"etcd is ahead of the database for {self.fragment} (version {self.published_version} there, "
            f"{self.version} here): it was restored from an older backup and adopts what etcd has; read the mapping "
            "again, then try again"
        )


@dataclass(eq=False)
class FragmentPublishedElsewhere(MetaError):
    """etcd has versions of a fragment that SQL does not know at all."""

    fragment: str
    published_version: int

    @property
    def detail(self) -> str:
        return (
            f"etcd has version {self.published_version} of {self.fragment}, which this database does not know: it is "
            "new or restored, or another service uses this etcd. Restore the database that belongs to this etcd, "
            "point the service at an etcd of its own, or choose another name"
        )


@dataclass(eq=False)
class DigestConflict(MetaError):
    """One version, two bodies: etcd holds one, SQL offers another, and nobody knows which history is right."""

    fragment: str
    version: int
    held: str
    offered: str

    @property
    def detail(self) -> str:
        return (
            f"version {self.version} of {self.fragment} is published with digest {self.held} but stored with "
            f"{self.offered}: the database and etcd hold different histories. Nothing was changed; point the service "
            "at the etcd that belongs to this database, or restore the database that belongs to this etcd"
        )


@dataclass(eq=False)
class UnitTaken(MetaError):
    """Since the database was restored it gave the id of a unit that etcd knows to another worker's."""

    fragment: str
    published_version: int
    unit: int
    worker: str
    published_worker: str

    @property
    def detail(self) -> str:
        return (
            f"etcd has version {self.published_version} of {self.fragment}, in which unit {self.unit} is on "
            f"{self.published_worker}; the database, restored from an older backup, gave that id to {self.worker}. "
            f"Nothing was adopted: remove {self.worker} (`vnodectl worker remove {self.worker}`) and register it again "
            "when the versions have been adopted, or restore a newer backup"
        )


@dataclass(eq=False)
class CannotAdopt(MetaError):
    """etcd has a later version than SQL, which cannot be taken over."""

    fragment: str
    version: int
    published_version: int
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"etcd has version {self.published_version} of {self.fragment}, the database only {self.version}, and it "
            f"cannot be adopted: {self.reason}. Nothing was changed; restore a newer backup of the database, or point "
            "the service at the etcd that belongs to this database"
        )


@dataclass(eq=False)
class BadGoal(MetaError):
    """`field` is the field of the goal that is wrong."""

    field: str
    reason: str

    @property
    def detail(self) -> str:
        return f"{self.field}: {self.reason}"


@dataclass(eq=False)
class UnitsNotLabelled(MetaError):
    units: list[int]
    labels: dict[str, str]

    @property
    def detail(self) -> str:
        wanted = ", ".join(f"{key}={value}" for key, value in self.labels.items())
        return f"units {shown_some(self.units)} are on workers without {wanted}; choose others, or ask for fewer labels"


@dataclass(eq=False)
class NoLoads(MetaError):
    fragment: str
    newest_age_ms: int | None

    @property
    def detail(self) -> str:
        told = (
            "nobody has reported any"
            if self.newest_age_ms is None
            else f"the newest report is {self.newest_age_ms // 1000} s old"
        )
        return (
            f"no loads of {self.fragment} are known that would count ({told}); let its dispatchers report some "
            f"(PUT /v1/fragments/{self.fragment}/loads/REPORTER), or plan without by_load"
        )


@dataclass(eq=False)
class BadLoads(MetaError):
    reason: str

    @property
    def detail(self) -> str:
        return self.reason


@dataclass(eq=False)
class BadKey(MetaError):
    """A key that is none of the fragment's distribution key."""

    reason: str

    @property
    def detail(self) -> str:
        return self.reason


@dataclass(eq=False)
class PreconditionFailed(MetaError):
    """`If-Match` names a state of the mapping that is not the one there is."""

    fragment: str
    etag: str

    @property
    def detail(self) -> str:
        return (
            f"the mapping of {self.fragment} is not what If-Match says, it is {self.etag} now; read it again and "
            "decide anew"
        )


@dataclass(eq=False)
class RescaleNotFound(MetaError):
    rescale: str

    @property
    def detail(self) -> str:
        return f"there is no rescale {self.rescale}; `GET /v1/rescales` lists those there are"


@dataclass(eq=False)
class NotInFlight(MetaError):
    fragment: str
    version: int

    @property
    def detail(self) -> str:
        return (
            f"no rescale of {self.fragment} is under way, version {self.version} has settled; "
            f"`vnodectl rollback {self.fragment}` goes back to the version before, by another rescale"
        )


@dataclass(eq=False)
class PlanLost(MetaError):
    """A version in flight that came from etcd: the database had lost it, and the plan with it."""

    fragment: str
    version: int

    @property
    def detail(self) -> str:
        return (
            f"version {self.version} of {self.fragment} was adopted from etcd, and its plan is lost, so it cannot be "
            f"aborted; once it has settled, `vnodectl rollback {self.fragment}` goes back"
        )


@dataclass(eq=False)
class AlreadyAccepted(MetaError):
    """An abort that came too late: `phase` is what the rescale has come to."""

    fragment: str
    version: int
    phase: str

    @property
    def detail(self) -> str:
        return (
            f"version {self.version} of {self.fragment} may be in use already (the rescale is {self.phase}), so it "
            f"cannot be aborted; once it has settled, go back by another rescale: `vnodectl rollback {self.fragment}`"
        )


@dataclass(eq=False)
class AlreadyAppliedOtherwise(MetaError):
    """`version` is what the plan led to when it was applied with another handover."""

    fragment: str
    version: int

    @property
    def detail(self) -> str:
        return (
            f"the plan was applied before, as version {self.version} of {self.fragment}, with another handover; "
            "ask for that one again to get its answer, or plan again"
        )


@dataclass(eq=False)
class NothingToRollBack(MetaError):
    fragment: str
    version: int

    @property
    def detail(self) -> str:
        return f"version {self.version} of {self.fragment} is its first, so there is none to go back to"


@dataclass(eq=False)
class NotMoving(MetaError):
    """`vnodes` are some of those that were reported."""

    fragment: str
    version: int
    vnodes: list[int]

    @property
    def detail(self) -> str:
        return (
            f"vnodes {', '.join(map(str, self.vnodes))} do not move to version {self.version} of {self.fragment}; "
            "report as handed over only vnodes whose owner changes"
        )


@dataclass(eq=False)
class TooManyLost(MetaError):
    """So many units of a version in flight are gone at once that it waits for them."""

    fragment: str
    version: int
    units: list[int]

    @property
    def detail(self) -> str:
        return (
            f"units {', '.join(map(str, self.units))} of version {self.version} of {self.fragment} are lost at once, "
            "too many for the others to take over by themselves: the rescale waits. Bring their workers back, or "
            "abort it"
        )
