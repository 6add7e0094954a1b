"""A table's storage key: `table_id | vnode prefix | column 1 | column 2 | ...`."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from storage_keys import document as documents
from storage_keys.column import ASCENDING, Order, decode_canonical, encode_canonical
from storage_keys.errors import (
    MalformedKey,
    SchemaMismatch,
    StorageKeyError,
    TrailingBytes,
    Truncated,
    ValueOutOfRange,
    about,
    shown,
)
from storage_keys.hash import hash_canonical, hash_class, hash_id
from storage_keys.range import HEAD_BYTES, prefix_bytes, table_bytes
from storage_keys.type_name import parse_type
from storage_keys.types import KeyType, check_depth
from storage_keys.value import Canonical, Value, canonical, restore
from storage_keys.vnode import prefix_of

FORMAT_VERSION: Final = 1
KEY_BYTES_MAX: Final = 65_535
TOO_LONG_ADVICE: Final = "shorten the column, or key on its hash"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    name: str
    type: KeyType
    order: Order = ASCENDING

    def __post_init__(self) -> None:
        with about(self.name):
            _require_type(self.type)


@dataclass(frozen=True, slots=True)
class DecodedKey:
    """What a storage key holds: its vnode prefix, and the value of each key column by name, None for NULL."""

    prefix: int
    row: dict[str, Value | None]


@dataclass(frozen=True, slots=True)
class KeySchema:
    """How a table's rows become keys.

    `distribution` names the columns of the key that decide the vnode, in the order in which they are hashed;
    they may be any of the key's. With none of them, every row is in the same vnode (a singleton table).
    A struct or an array may be in the key but not in the distribution, and no type may be nested more than 32 deep:
    `UnsupportedType` names the column.
    """

    table_id: int
    columns: tuple[KeyColumn, ...]
    distribution: tuple[str, ...]

    def __post_init__(self) -> None:
        table_bytes(self.table_id)
        _require_names(self.distribution)
        names = tuple(column.name for column in self.columns)
        _refuse_repeated(names, "a key column")
        for column in self.columns:
            with about(column.name):
                check_depth(column.type)
        _refuse_repeated(self.distribution, "a distribution column")
        for name in self.distribution:
            if name not in names:
                known = ", ".join(names)
                raise MalformedKey(f"distribution column {name!r} is not in the key; use some of: {known}")
        for name, type_ in zip(self.distribution, self.distribution_types, strict=True):
            with about(name):
                hash_class(type_)

    @property
    def distribution_types(self) -> tuple[KeyType, ...]:
        types = {column.name: column.type for column in self.columns}
        return tuple(types[name] for name in self.distribution)

    @property
    def hash_id(self) -> str:
        return hash_id(self.distribution_types)

    def hash_of(self, row: Mapping[str, object]) -> int:
        """H of a row's distribution columns, signed. A column that is missing from the row is refused, not NULL."""
        return self._hash_of(self._canonical_row(row))

    def prefix(self, row: Mapping[str, object]) -> int:
        """The vnode prefix of a row, 0..65535; refuses what `hash_of` refuses."""
        return prefix_of(self.hash_of(row))

    def storage_key(self, row: Mapping[str, object]) -> bytes:
        """The key of a row, at most 65,535 bytes. Columns that are not of the key are ignored."""
        values = self._canonical_row(row)
        parts = [table_bytes(self.table_id), prefix_bytes(prefix_of(self._hash_of(values)))]
        parts += [encode_canonical(column.type, values[column.name], column.order) for column in self.columns]
        key = b"".join(parts)
        check_key_bytes(len(key))
        return key

    def decode(self, key: bytes) -> DecodedKey:
        """The inverse of `storage_key`, whatever the bytes: `storage_key` of the row is `key`, or a refusal.

        Refused are another table's key, bytes after the last column and a prefix that is not that of the row.
        The row is as equal values are: a decimal at the type's scale, no -0.0, one NaN.
        """
        check_key_bytes(len(key))
        if len(key) < HEAD_BYTES:
            raise Truncated(HEAD_BYTES, len(key), "the head of a key")
        table_id, prefix = int.from_bytes(key[:4], "big"), int.from_bytes(key[4:HEAD_BYTES], "big")
        if table_id != self.table_id:
            raise SchemaMismatch("the table id", str(self.table_id), str(table_id))
        values = self._decoded_columns(key)
        expected = prefix_of(self._hash_of(values))
        if prefix != expected:
            raise MalformedKey(
                f"the key is stored under prefix {prefix}, but its distribution columns hash to {expected}; "
                "was it written under another key schema?"
            )
        return DecodedKey(prefix, self._restored_row(values))

    def require_same(self, other: "KeySchema") -> None:
        """Refuse to go on unless `other` gives every row the same key."""
        if self.hash_id != other.hash_id:
            raise SchemaMismatch("the hash id", self.hash_id, other.hash_id)
        theirs = other.to_json()
        for name, ours in self.to_json().items():
            if ours != theirs[name]:
                raise SchemaMismatch(
                    f"{name!r} of the key schema", json.dumps(ours), json.dumps(theirs[name])
                )

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
            # Not `about`, which would take a quarter of the time of a row.
            try:
                values[column.name] = None if value is None else canonical(column.type, value)
            except StorageKeyError as error:
                raise error.in_column(column.name) from None
        return values

    def _decoded_columns(self, key: bytes) -> dict[str, Canonical | None]:
        values: dict[str, Canonical | None] = {}
        position = HEAD_BYTES
        for column in self.columns:
            try:
                values[column.name], used = decode_canonical(column.type, key[position:], column.order)
            except StorageKeyError as error:
                raise error.in_column(column.name) from None
            position += used
        if position < len(key):
            raise TrailingBytes(position, len(key), "the key")
        return values

    def _restored_row(self, values: Mapping[str, Canonical | None]) -> dict[str, Value | None]:
        row: dict[str, Value | None] = {}
        for column in self.columns:
            value = values[column.name]
            try:
                row[column.name] = None if value is None else restore(column.type, value)
            except StorageKeyError as error:
                raise error.in_column(column.name) from None
        return row

    def _hash_of(self, values: Mapping[str, Canonical | None]) -> int:
        return hash_canonical(self.distribution_types, [values[name] for name in self.distribution])


def check_key_bytes(length: int) -> None:
    """Refuse a key that is longer than 65,535 bytes."""
    if length > KEY_BYTES_MAX:
        what = "the length of a storage key in bytes"
        raise ValueOutOfRange(what, length, 0, KEY_BYTES_MAX, TOO_LONG_ADVICE)


def _require_type(found: object) -> None:
    if not isinstance(found, KeyType):
        raise MalformedKey(f'a key column has a key type, not {shown(found)}; use parse_type("bigint")')


def _require_names(found: object) -> None:
    if isinstance(found, str):
        # It would be taken letter by letter.
        raise MalformedKey(f"distribution is a tuple of names; write ({found!r},)")


def _refuse_repeated(names: tuple[str, ...], what: str) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise MalformedKey(f"{name!r} is {what} {times} times; name it once")


def _column(found: object) -> KeyColumn:
    column = documents.as_document(found, "a key column")
    name, type_name = documents.text(column, "name"), documents.text(column, "type")
    with about(name):
        return KeyColumn(name, parse_type(type_name), documents.order(column))


def _name(found: object) -> str:
    if not isinstance(found, str):
        raise MalformedKey(f"a distribution column must be a column name, not {shown(found)}")
    return found
