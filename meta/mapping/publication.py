"""What is published of a mapping version, as values and as bytes.

Two etcd values for each fragment: `current`, small and changing, and one immutable body for each
version. Same value, same bytes: canonical JSON (sorted keys, no spaces, ASCII), and a body's digest is
taken over those bytes. Decoding accepts exactly what encoding writes; everything else, from anywhere,
is `MalformedPublication`. A new field is therefore a new `FORMAT`.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from meta.mapping.errors import Malformed, MalformedPublication, MappingError
from meta.mapping.mapping import VnodeMapping
from meta.mapping.unit import Unit, sorted_units
from storage_keys.errors import shown
from storage_keys.vnode import PREFIX_COUNT

_Decoded = TypeVar("_Decoded")

FORMAT = 1
DEFAULT_ROOT = "/vnodemap/v1"

_VERSION_MAX = 2**63 - 1
_VERSION_DIGITS = 19

_FRAGMENT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Phase(StrEnum):
    """The phases of a published version, in order."""

    RESCALING = "rescaling"
    ACCEPTED = "accepted"
    SETTLED = "settled"

    @property
    def rank(self) -> int:
        return list(Phase).index(self)


@dataclass(frozen=True, slots=True)
class Current:
    """A fragment's newest version: the value under `current_key`. `digest` is that version's body's."""

    version: int
    phase: Phase
    digest: str

    def __post_init__(self) -> None:
        _check_version(self.version)
        if not isinstance(self.digest, str) or not _DIGEST.fullmatch(self.digest):
            raise Malformed(f"a digest is 64 lower-case hex digits, not {shown(self.digest)}")

    def supersedes(self, other: "Current | None") -> bool:
        """Whether (version, phase) grew: only then it is published, or followed by a reader."""
        return other is None or (self.version, self.phase.rank) > (other.version, other.phase.rank)

    def contradicts(self, other: "Current | None") -> bool:
        """Whether both name one version with two bodies, which no correct history does."""
        return other is not None and self.version == other.version and self.digest != other.digest

    def encode(self) -> bytes:
        return _canonical({"digest": self.digest, "phase": self.phase.value, "version": self.version})

    @classmethod
    def decode(cls, value: bytes) -> "Current":
        """Raises `MalformedPublication`."""
        fields = _json_object(value, {"digest", "phase", "version"})
        try:
            current = cls(fields["version"], Phase(fields["phase"]), fields["digest"])
        except ValueError as error:
            raise MalformedPublication(f"current: {error}") from error
        return _require_same(current, current.encode(), value)


@dataclass(frozen=True, slots=True)
class Base:
    """The version that a rescale starts from, F."""

    version: int
    units: tuple[Unit, ...]
    mapping: VnodeMapping

    def __post_init__(self) -> None:
        _check_version(self.version)
        _check_units(self.units, self.mapping)


@dataclass(frozen=True, slots=True)
class MappingVersion:
    """A body: the mapping F', and F in `previous` (None in a fragment's first version).

    `units` are sorted by id and hold every owner; a unit that owns nothing may be among them.
    Raises `Malformed`, also where a vnode of `mapping` has no owner.
    """

    fragment: str
    version: int
    hash_id: str
    units: tuple[Unit, ...]
    mapping: VnodeMapping
    previous: Base | None = None

    def __post_init__(self) -> None:
        check_fragment_name(self.fragment)
        _check_version(self.version)
        if not isinstance(self.hash_id, str) or not self.hash_id:
            raise Malformed(f"a hash id is a text that is not empty, not {shown(self.hash_id)}")
        _check_units(self.units, self.mapping)
        if None in self.mapping.owners:
            vnode = self.mapping.owners.index(None)
            raise Malformed(f"vnode {vnode} has no owner; only complete mappings are published")
        if self.previous is not None and self.previous.version >= self.version:
            raise Malformed(f"version {self.version} cannot follow version {self.previous.version}")

    @property
    def vnode_count(self) -> int:
        return self.mapping.vnode_count


def encode_body(version: MappingVersion) -> bytes:
    previous = version.previous
    return _canonical(
        {
            "format": FORMAT,
            "fragment": version.fragment,
            "hash_id": version.hash_id,
            "owners": str(version.mapping),
            "previous": None
            if previous is None
            else {
                "owners": str(previous.mapping),
                "units": _units_json(previous.units),
                "version": previous.version,
            },
            "units": _units_json(version.units),
            "version": version.version,
        }
    )


def decode_body(body: bytes) -> MappingVersion:
    """The inverse of `encode_body`. Raises `MalformedPublication`."""
    fields = _json_object(body, {"format", "fragment", "hash_id", "owners", "previous", "units", "version"})
    if fields["format"] != FORMAT:
        raise MalformedPublication(
            f"the body's format is {shown(fields['format'])} and this program reads {FORMAT}; upgrade it"
        )
    try:
        version = MappingVersion(
            fragment=fields["fragment"],
            version=fields["version"],
            hash_id=fields["hash_id"],
            units=_units_of(fields["units"]),
            mapping=_mapping_of(fields["owners"]),
            previous=None if fields["previous"] is None else _base_of(fields["previous"]),
        )
    except MappingError as error:
        raise MalformedPublication(f"body: {error}") from error
    return _require_same(version, encode_body(version), body)


def units_in_body(body: bytes) -> tuple[frozenset[int], frozenset[int]]:
    """The ids of the units of F', and of F where there is one: what `decode_body` has, of a body that is our own.

    For who looks through the bodies of all fragments, since it is quicker by a factor of 20.
    """
    fields = json.loads(body)
    previous = fields["previous"]
    return _unit_ids(fields["units"]), _unit_ids(previous["units"]) if previous else frozenset()


def digest(body: bytes) -> str:
    """SHA-256 of the bytes, in hex."""
    return hashlib.sha256(body).hexdigest()


def check_fragment_name(fragment: str) -> None:
    """Raises `Malformed`. The name is one step of an etcd key and of a URL."""
    if not isinstance(fragment, str) or not _FRAGMENT_NAME.fullmatch(fragment):
        raise Malformed(
            "a fragment's name is 1 to 200 letters, digits, '_', '.' or '-' and starts with a letter,"
            f" a digit or '_'; {shown(fragment)} is not"
        )


def fragment_prefix(fragment: str, root: str = DEFAULT_ROOT) -> str:
    """What the keys of a fragment begin with, and no other fragment's."""
    check_fragment_name(fragment)
    return f"{root}/fragments/{fragment}/"


def current_key(fragment: str, root: str = DEFAULT_ROOT) -> str:
    return f"{fragment_prefix(fragment, root)}current"


def version_key(fragment: str, version: int, root: str = DEFAULT_ROOT) -> str:
    """Zero-padded, so that etcd lists the bodies in order of versions."""
    _check_version(version)
    return f"{fragment_prefix(fragment, root)}versions/{version:0{_VERSION_DIGITS}d}"


def _units_json(units: tuple[Unit, ...]) -> dict[str, list[list[float]]]:
    """By worker, since a worker's name would otherwise come once for each of its units."""
    by_worker: dict[str, list[list[float]]] = {}
    for unit in units:
        # 2 and 2.0 are one weight, so they are one text.
        by_worker.setdefault(unit.worker, []).append([unit.id, float(unit.weight)])
    return by_worker


def _unit_ids(by_worker: Mapping[str, list[list[int]]]) -> frozenset[int]:
    return frozenset(unit_id for members in by_worker.values() for unit_id, _weight in members)


def _units_of(by_worker: Any) -> tuple[Unit, ...]:
    if not isinstance(by_worker, dict):
        raise Malformed("units are listed by worker")
    units = []
    for worker, members in by_worker.items():
        if not isinstance(members, list):
            raise Malformed("a worker has a list of units")
        for member in members:
            match member:
                case [unit_id, weight]:
                    units.append(Unit(unit_id, worker, weight))
                case _:
                    raise Malformed("a unit is its id and its weight")
    return sorted_units(units)


def _mapping_of(owners: Any) -> VnodeMapping:
    if not isinstance(owners, str):
        raise Malformed("owners are a text of runs")
    # The most vnodes that a fragment may have: a few hostile bytes must not make us allocate more.
    return VnodeMapping.parse(owners, PREFIX_COUNT)


def _base_of(fields: Any) -> Base:
    if not isinstance(fields, dict) or fields.keys() != {"owners", "units", "version"}:
        raise Malformed("previous has owners, units and version")
    return Base(fields["version"], _units_of(fields["units"]), _mapping_of(fields["owners"]))


def _check_version(version: int) -> None:
    if type(version) is not int or not 1 <= version <= _VERSION_MAX:
        raise Malformed(f"a version is an integer from 1, not {shown(version)}")


def _check_units(units: tuple[Unit, ...], mapping: VnodeMapping) -> None:
    if units != sorted_units(units):
        raise Malformed("units are sorted by id")
    strangers = set(mapping.units) - {unit.id for unit in units}
    if strangers:
        raise Malformed(f"unit {min(strangers)} owns vnodes and is not among the units")


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _json_object(value: bytes, names: set[str]) -> dict[str, Any]:
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise MalformedPublication(f"not JSON: {shown(value)}") from error
    if not isinstance(fields, dict) or fields.keys() != names:
        raise MalformedPublication(f"not an object with {', '.join(sorted(names))}: {shown(value)}")
    return fields


def _require_same(decoded: _Decoded, canonical: bytes, value: bytes) -> _Decoded:
    if canonical != value:
        raise MalformedPublication(f"not in canonical form: {shown(value)}")
    return decoded
