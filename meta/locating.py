"""Where a key is: from its values to the vnode, the unit that owns it and the storage keys that it is among."""

from collections.abc import Sequence
from dataclasses import dataclass

from meta.errors import BadKey
from meta.lifecycle import Fragment, KeyField
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from meta.registry.fragments import known_fragment
from meta.rescaling.planning import mapping_version
from meta.store.database import Database
from storage_keys.errors import StorageKeyError, about
from storage_keys.hash import hash_row
from storage_keys.json_value import from_json
from storage_keys.range import KeyRange, PrefixRun, prefix_range
from storage_keys.type_name import parse_type
from storage_keys.vnode import prefix_of, vnode_of


@dataclass(frozen=True, slots=True)
class Located:
    """`ranges` are the keys of a table that share the key's vnode prefix, by table id."""

    hash: int
    prefix: int
    vnode: int
    unit: Unit
    version: int
    ranges: tuple[tuple[int, KeyRange], ...]


@dataclass(frozen=True, slots=True)
class Locating:
    database: Database

    def locate(self, fragment_name: str, key: Sequence[object], table_id: int | None = None) -> Located:
        """`key` in the JSON forms of `vnodectl key`, by the current version. Raises `BadKey`."""
        with self.database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            version = mapping_version(tx, fragment, fragment.current.version)
        return located(fragment, version, key, fragment.table_ids if table_id is None else (table_id,))


def located(
    fragment: Fragment, version: MappingVersion, key: Sequence[object], table_ids: Sequence[int]
) -> Located:
    """Raises `BadKey`."""
    hash_ = _hash(fragment.distribution_key, key)
    prefix = prefix_of(hash_)
    vnode = vnode_of(prefix, version.vnode_count)
    owner = int(version.mapping.array[vnode])
    run = PrefixRun(prefix, prefix)
    return Located(
        hash=hash_,
        prefix=prefix,
        vnode=vnode,
        unit=next(unit for unit in version.units if unit.id == owner),
        version=version.version,
        ranges=tuple((table_id, prefix_range(table_id, run)) for table_id in table_ids),
    )


def _hash(columns: Sequence[KeyField], key: Sequence[object]) -> int:
    if len(columns) != len(key):
        names = ", ".join(column.name for column in columns)
        raise BadKey(
            f"key: it has {len(key)} values and the distribution key {len(columns)} columns; give {names}"
        )
    types, values = [], []
    for column, found in zip(columns, key, strict=True):
        try:
            with about(column.name):
                type_ = parse_type(column.type)
                value = from_json(type_, found)
                hash_row([type_], [value])
        except StorageKeyError as error:
            raise BadKey(str(error)) from error
        types.append(type_)
        values.append(value)
    return hash_row(types, values)
