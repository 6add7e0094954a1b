"""Mapping versions on the wire."""

from collections import Counter
from typing import Self

from meta.api.wire.base import Response
from meta.lifecycle import Version
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Phase


class UnitOut(Response):
    id: int
    worker: str
    vnodes: int


class VersionOut(Response):
    """`owners` has one unit id for each vnode; `previous_owners` those of the version it was planned on."""

    fragment: str
    version: int
    vnode_count: int
    hash_id: str
    units: list[UnitOut]
    owners: list[int]
    previous_version: int | None
    previous_owners: list[int] | None
    moves: int
    phases: dict[Phase, int]

    @classmethod
    def of(cls, version: Version) -> Self:
        body = version.body
        vnodes = Counter(body.mapping.owners)
        return cls(
            fragment=body.fragment,
            version=body.version,
            vnode_count=body.vnode_count,
            hash_id=body.hash_id,
            units=[UnitOut(id=unit.id, worker=unit.worker, vnodes=vnodes[unit.id]) for unit in body.units],
            owners=owner_ids(body.mapping),
            previous_version=body.previous.version if body.previous else None,
            previous_owners=owner_ids(body.previous.mapping) if body.previous else None,
            moves=version.moves,
            phases={change.phase: change.at_ms for change in version.phases},
        )


def owner_ids(mapping: VnodeMapping) -> list[int]:
    """Of a mapping that is or may become a version: every vnode has an owner."""
    owners = [owner for owner in mapping.owners if owner is not None]
    assert len(owners) == mapping.vnode_count
    return owners
