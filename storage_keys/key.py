"""A table's storage key: `table_id | vnode prefix | column 1 | column 2 | ...`."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from storage_keys import document as documents
from storage_keys.column import ASCENDING, Order, encode_canonical
from storage_keys.errors import (
    MalformedKey,
    SchemaMismatch,
    StorageKeyError,
    ValueOutOfRange,
    shown,
)
from storage_keys.hash import hash_canonical, hash_id
from storage_keys.range import prefix_bytes, table_bytes
from storage_keys.types import KeyType, parse_type
from storage_keys.value import Canonical, canonical
from storage_keys.vnode import prefix_of

FORMAT_VERSION: Final = 1
KEY_BYTES_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class KeyColumn:
    name: str
    type: KeyType
    order: Order = ASCENDING


@dataclass(frozen=True, slots=True)
class KeySchema:
    """How a table's rows become keys.

    `distribution` names the columns of the key that decide the vnode, in the order in which they are hashed;
    with none of them, every row is in the same vnode (a singleton table).
    """

    table_id: int
    columns: tuple[KeyColumn, ...]
    distribution: tuple[str, ...]

    def __post_init__(self) -> None:
        table_bytes(self.table_id)
        names = tuple(column.name for column in self.columns)
        _refuse_repeated(names, "a key column")
        _refuse_repeated(self.distribution, "a distribution column")
        for name in self.distribution:
            if name not in names:
                known = ", ".join(names)
                raise MalformedKey(f"distribution column {name!r} is not in the key; use some of: {known}")

    @property
    def distribution_types(self) -> tuple[KeyType, ...]:
        types = {column.name: column.type for column in self.columns}
        return tuple(types[name] for name in self.distribution)

    @property
    def hash_id(self) -> str:
        return hash_id(self.distribution_types)

    def prefix(self, row: Mapping[str, object]) -> int:
        """The vnode prefix of a row, 0..65535. A column that is missing from the row is refused, not NULL."""
        return self._prefix_of(self._canonical_row(row))

    def storage_key(self, row: Mapping[str, object]) -> bytes:
        """The key of a row, at most 65,535 bytes. Columns that are not of the key are ignored."""
        values = self._canonical_row(row)
        parts = [table_bytes(self.table_id), prefix_bytes(self._prefix_of(values))]
        parts += [encode_canonical(column.type, values[column.name], column.order) for column in self.columns]
        key = b"".join(parts)
        check_key_bytes(len(key))
        return key

    def require_same(self, other: "KeySchema") -> None:
        """Refuse to go on unless `other` gives every row the same key."""
        if self.hash_id != other.hash_id:
            raise SchemaMismatch("the hash id", self.hash_id, other.hash_id)
        if self != other:
            raise SchemaMismatch("the key schema", json.dumps(self.to_json()), json.dumps(other.to_json()))

    def to_json(self) -> dict[str, object]:
        """The schema as part of a table's metadata."""
        return {
            "format": FORMAT_VERSION,
            "hash_id": self.hash_id,
            "table_id": self.table_id,
            "columns": [
                {
                    "name": column.name,
                    "type": column.type.sql_name,
                    "descending": column.order.descending,
                    "nulls": column.order.nulls,
                }
                for column in self.columns
            ],
            "distribution": list(self.distribution),
        }

    @classmethod
    def from_json(cls, document: object) -> "KeySchema":
        """The schema in a table's metadata; another format version or hash id is refused."""
        found = documents.as_document(document, "the key schema")
        version = documents.integer(found, "format")
        if version != FORMAT_VERSION:
            raise SchemaMismatch("the key format", str(FORMAT_VERSION), shown(version))
        columns = tuple(_column(column) for column in documents.items(found, "columns"))
        distribution = tuple(_name(name) for name in documents.items(found, "distribution"))
        schema = cls(documents.integer(found, "table_id"), columns, distribution)
        stored = documents.text(found, "hash_id")
        if schema.hash_id != stored:
            raise SchemaMismatch("the hash id", schema.hash_id, stored)
        return schema

    def _canonical_row(self, row: Mapping[str, object]) -> dict[str, Canonical | None]:
        values: dict[str, Canonical | None] = {}
        for column in self.columns:
            if column.name not in row:
                raise MalformedKey("the row does not have it; pass None for NULL").in_column(column.name)
            value = row[column.name]
            try:
                values[column.name] = None if value is None else canonical(column.type, value)
            except StorageKeyError as error:
                raise error.in_column(column.name) from None
        return values

    def _prefix_of(self, values: Mapping[str, Canonical | None]) -> int:
        return prefix_of(hash_canonical(values[name] for name in self.distribution))


def check_key_bytes(length: int) -> None:
    """Refuse a key that is longer than 65,535 bytes."""
    if length > KEY_BYTES_MAX:
        raise ValueOutOfRange("the length of a storage key in bytes", length, 0, KEY_BYTES_MAX)


def _refuse_repeated(names: tuple[str, ...], what: str) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise MalformedKey(f"{name!r} is {what} {times} times; name it once")


def _column(found: object) -> KeyColumn:
    column = documents.as_document(found, "a key column")
    name, type_name = documents.text(column, "name"), documents.text(column, "type")
    try:
        return KeyColumn(name, parse_type(type_name), documents.order(column))
    except StorageKeyError as error:
        raise error.in_column(name) from None


def _name(found: object) -> str:
    if not isinstance(found, str):
        raise MalformedKey(f"a distribution column must be a column name, not {shown(found)}")
    return found
