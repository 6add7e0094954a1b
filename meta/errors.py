"""What the service refuses. The fields are the facts; the message says what to do."""

from dataclasses import dataclass


class MetaError(Exception):
    """A request that cannot be carried out as things stand."""

    def __str__(self) -> str:
        return self.detail

    @property
    def detail(self) -> str:
        raise NotImplementedError


@dataclass(eq=False)
class WorkerNotFound(MetaError):
    worker: str

    @property
    def detail(self) -> str:
        return f"worker {self.worker} is not registered; register it with `vnodectl worker add {self.worker}`"


@dataclass(eq=False)
class WorkerDiffers(MetaError):
    worker: str
    parallelism: int

    @property
    def detail(self) -> str:
        return (
            f"worker {self.worker} is already registered with {self.parallelism} units; "
            "its number of units cannot change, register another worker"
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
    fragment: str
    version: int
    current_version: int

    @property
    def detail(self) -> str:
        return f"fragment {self.fragment} has no version {self.version}; it has 1 to {self.current_version}"


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
            f"wait until it has settled: `vnodectl fragment show {self.fragment}` says for whom it waits"
        )


@dataclass(eq=False)
class UnitsNotAlive(MetaError):
    units: list[int]

    @property
    def detail(self) -> str:
        return (
            f"units {', '.join(map(str, self.units))} are not on a registered worker that is alive; "
            "`vnodectl worker list` shows those that are"
        )


@dataclass(eq=False)
class DatabaseBehind(MetaError):
    """etcd has a later version than SQL."""

    fragment: str
    version: int
    published_version: int

    @property
    def detail(self) -> str:
        return (
            f"etcd has version {self.published_version} of {self.fragment}, the database only {self.version}: it was "
            "restored from an older backup. Restore a newer one, or point the service at this database's own etcd"
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
