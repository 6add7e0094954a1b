"""Rows to parallel units: partition i of a dispatched DataFrame is slot i of the mapping version.

Native expressions only, so no Python runs in an executor, and no executor asks which mapping holds: the
version travels in the plan as look-up arrays.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from dispatcher.errors import DispatcherError
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import MappingVersion
from storage_keys.errors import about
from storage_keys.hash import hash_class, hash_id
from storage_keys.spark import quoted, types_of, vnode_column

VNODE: Final = "_vnode"
UNIT: Final = "_unit"
MAPPING_VERSION: Final = "_mapping_version"
ROUTING_COLUMNS: Final = (VNODE, UNIT, MAPPING_VERSION)


class ReservedColumns(DispatcherError):
    """Columns of the user's with names of ours; Spark compares names without their case."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(
            f"the columns {', '.join(names)} have names that vnodemap adds; rename or drop them first"
        )


class HashMismatch(DispatcherError):
    """The key columns would be hashed in another way than the fragment's, so rows would go astray."""

    def __init__(self, fragment: str, keys: tuple[str, ...], ours: str, theirs: str) -> None:
        self.fragment = fragment
        self.keys = keys
        self.ours = ours
        self.theirs = theirs
        super().__init__(
            f"the columns ({', '.join(keys)}) hash as {ours}, fragment {fragment} as {theirs};"
            " cast the columns, or name the ones that the fragment was created for"
        )


def route(df: DataFrame, mapping_version: MappingVersion, keys: Sequence[str]) -> DataFrame:
    """Add `_vnode` (int), `_unit` and `_mapping_version` (bigint), without a shuffle.

    `keys` are the distribution columns, in the order of the fragment's key. Raises `ReservedColumns`,
    `HashMismatch`, and `StorageKeyError` for a column that is missing or cannot be a key.
    """
    vnode = _vnode(df, mapping_version, keys)
    return df.withColumns(
        {
            VNODE: vnode,
            UNIT: _looked_up(mapping_version.mapping.owners, "bigint", vnode),
            MAPPING_VERSION: sf.lit(mapping_version.version).cast("bigint"),
        }
    )


def dispatch(df: DataFrame, mapping_version: MappingVersion, keys: Sequence[str]) -> DataFrame:
    """`route`, with each row moved to its unit: partition i holds the rows of `mapping.units[i]`.

    There are exactly as many partitions as units that own anything. Raises as `route`.
    """
    routed = route(df, mapping_version, keys)
    slot = slot_of(quoted(VNODE), mapping_version.mapping)
    # Routed before the shuffle: its rows are projected anyway, and what the columns add compresses away.
    # A projection of its own behind the shuffle costs a tenth of the whole.
    return routed.repartitionById(len(mapping_version.mapping.units), slot)


def slot_of(vnode: Column, mapping: VnodeMapping) -> Column:
    """The slot of the vnode's owner, as an int Column that fails the job rather than be NULL."""
    slot = _looked_up(mapping.slot_owners, "int", vnode)
    # repartitionById puts NULL into partition 0 without a word.
    return sf.coalesce(slot, sf.raise_error(sf.lit("a row has no slot: its vnode is NULL")).cast("int"))


def refuse_reserved(names: Iterable[str], reserved: Iterable[str]) -> None:
    ours = {name.lower() for name in reserved}
    clashing = tuple(name for name in names if name.lower() in ours)
    if clashing:
        raise ReservedColumns(clashing)


def _vnode(df: DataFrame, mapping_version: MappingVersion, keys: Sequence[str]) -> Column:
    refuse_reserved(df.columns, ROUTING_COLUMNS)
    types = types_of(df.schema, keys)
    for name, type_ in zip(keys, types, strict=True):
        with about(name):
            hash_class(type_)
    if hash_id(types) != mapping_version.hash_id:
        raise HashMismatch(mapping_version.fragment, tuple(keys), hash_id(types), mapping_version.hash_id)
    return vnode_column(types, [quoted(name) for name in keys], mapping_version.vnode_count)


def _looked_up(values: Iterable[int | None], sql_type: str, vnode: Column) -> Column:
    """`values[vnode]`; out of bounds fails the job.

    The array is one literal that Spark splits once, in planning: 65,536 literals would take it 22 s.
    """
    array = sf.split(sf.lit(",".join(map(str, values))), ",").cast(f"array<{sql_type}>")
    return sf.element_at(array, vnode + 1)
