"""The JSON forms behind `vnodectl key`: a JSON-shaped document in, one out, or a `StorageKeyError`."""

from storage_keys.column import decode_whole, encode_column
from storage_keys.document import Document, as_document, as_integer, field, integer, items, order, text
from storage_keys.errors import MalformedKey, about, shown
from storage_keys.json_value import from_hex, from_json, to_json
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.range import KeyRange, table_range, vnode_range
from storage_keys.type_name import parse_type
from storage_keys.vnode import check_vnode_count, prefix_of, vnode_of

Answer = dict[str, object]


def encode(document: object) -> Answer:
    """`{"type", "value", "descending"?, "nulls"?}` to `{"hex"}`."""
    found = as_document(document)
    type_ = parse_type(text(found, "type"))
    return {"hex": encode_column(type_, from_json(type_, field(found, "value")), order(found)).hex()}


def decode(document: object) -> Answer:
    """`{"type", "hex", "descending"?, "nulls"?}` to `{"value"}`."""
    found = as_document(document)
    type_ = parse_type(text(found, "type"))
    return {"value": to_json(decode_whole(type_, from_hex(text(found, "hex")), order(found)))}


def storage(document: object) -> Answer:
    """`{"table_id", "columns", "distribution", "vnode_count"}` to `{"hex", "prefix", "vnode"}`.

    A column is what `encode` takes; `distribution` holds positions in `columns`.
    """
    found = as_document(document)
    vnode_count = _vnode_count(found)
    columns, row = _columns(found)
    distribution = tuple(_name_of(position, columns) for position in items(found, "distribution"))
    schema = KeySchema(integer(found, "table_id"), columns, distribution)
    prefix = schema.prefix(row)
    return {"hex": schema.storage_key(row).hex(), "prefix": prefix, "vnode": vnode_of(prefix, vnode_count)}


def vnode(document: object) -> Answer:
    """`{"columns", "vnode_count"}` to `{"hash", "prefix", "vnode"}`; every column is hashed, in order."""
    found = as_document(document)
    vnode_count = _vnode_count(found)
    columns, row = _columns(found)
    # A table of no other columns: it names the column that it refuses.
    hash_ = KeySchema(0, columns, tuple(row)).hash_of(row)
    prefix = prefix_of(hash_)
    return {"hash": hash_, "prefix": prefix, "vnode": vnode_of(prefix, vnode_count)}


def range_(document: object) -> Answer:
    """`{"table_id"}`, with `vnode` or `first` and `last` also `vnode_count`, to `{"start", "end"}`."""
    found = as_document(document)
    keys = _key_range(found)
    return {"start": keys.start.hex(), "end": None if keys.end is None else keys.end.hex()}


def _key_range(found: Document) -> KeyRange:
    table_id = integer(found, "table_id")
    if "vnode" in found:
        if "first" in found or "last" in found:
            raise MalformedKey("pass either 'vnode' or 'first' and 'last', not both")
        only = integer(found, "vnode")
        return vnode_range(table_id, only, only, _vnode_count(found))
    if "first" in found or "last" in found:
        return vnode_range(table_id, integer(found, "first"), integer(found, "last"), _vnode_count(found))
    return table_range(table_id)


def _columns(found: Document) -> tuple[tuple[KeyColumn, ...], dict[str, object]]:
    """The columns, named by their position, and the row of their values."""
    columns, row = [], {}
    for position, item in enumerate(items(found, "columns")):
        name = str(position)
        with about(name):
            column = as_document(item, "a column")
            type_ = parse_type(text(column, "type"))
            row[name] = from_json(type_, field(column, "value"))
            columns.append(KeyColumn(name, type_, order(column)))
    return tuple(columns), row


def _name_of(position: object, columns: tuple[KeyColumn, ...]) -> str:
    found = as_integer(position, "a distribution column")
    if not 0 <= found < len(columns):
        raise MalformedKey(f"distribution column {shown(found)} is none of the {len(columns)} columns")
    return columns[found].name


def _vnode_count(found: Document) -> int:
    vnode_count = integer(found, "vnode_count")
    check_vnode_count(vnode_count)
    return vnode_count
