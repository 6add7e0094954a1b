"""`vnodectl scan explain`: the scan planner over JSON documents, without a table (offline-json.md)."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from dispatcher.scan.plan import ScanGroup, plan_scan
from dispatcher.table.file import DataFile, Kind
from meta.mapping.errors import Malformed
from meta.mapping.fields import require_known
from meta.mapping.mapping import VnodeMapping
from storage_keys.document import Document, as_document, as_integer, integer, items, order, text
from storage_keys.errors import MalformedKey, ValueOutOfRange, about, shown
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import parse_filters
from storage_keys.pruning import RANGES_MAX_DEFAULT, prune
from storage_keys.range import KeyRange, PrefixRun, prefix_range
from storage_keys.type_name import parse_type
from storage_keys.types import KeyType
from storage_keys.vnode import PREFIX_COUNT, check_vnode_count, prefixes_of, vnode_of

BYTES_MAX: Final = (1 << 60) - 1
"""Of all vnodes together."""

_OPTIONAL: Final = ("tasks", "stats", "filters", "ranges_max")
_FIELDS: Final = ("vnode_count", "owners", "schema", "key", "distribution", "table_id", *_OPTIONAL)

Answer = dict[str, object]


def explain(document: object) -> Answer:
    """The answer document. Raises `StorageKeyError` for whatever JSON cannot be planned, and nothing else."""
    found = as_document(document)
    try:
        require_known(found, _FIELDS)
        return _explained(
            {name: value for name, value in found.items() if name not in _OPTIONAL or value is not None}
        )
    except Malformed as error:
        raise MalformedKey(str(error)) from None


def _explained(document: Document) -> Answer:
    mapping = _mapping(document)
    types = _types(document)
    schema = _key_schema(document, types)
    ranges_max = _ranges_max(document)
    pruned = prune(schema, parse_filters(document.get("filters", []), types), ranges_max=ranges_max)
    plan = plan_scan(
        mapping,
        _stats(document, mapping.vnode_count),
        # `plan_scan` refuses what is no number of tasks.
        tasks=cast("int | None", document.get("tasks")),
        pruned=pruned,
        ranges_max=ranges_max,
    )
    ranges = [_ranges(group, schema.table_id, pruned.ranges) for group in plan.groups]
    return {
        "groups": [
            _group(group, of_group, mapping.vnode_count)
            for group, of_group in zip(plan.groups, ranges, strict=True)
        ],
        "ranges_opened": sum(map(len, ranges)),
        "vnodes_pruned": plan.vnodes_pruned,
        "skew": plan.skew,
        "why": list(plan.why),
    }


def _group(group: ScanGroup, ranges: list[KeyRange], vnode_count: int) -> Answer:
    return {
        "unit": group.unit,
        "vnodes": _vnodes(group.prefixes, vnode_count),
        "ranges": [
            {"start": one.start.hex(), "end": None if one.end is None else one.end.hex()} for one in ranges
        ],
        "bytes": group.bytes_read,
        "needs_lookup": group.needs_lookup,
    }


def _vnodes(prefixes: Iterable[PrefixRun], vnode_count: int) -> list[list[int]]:
    """Runs of vnodes that have a prefix in these intervals, whose order they are in."""
    found: list[list[int]] = []
    for run in prefixes:
        first, last = vnode_of(run.first, vnode_count), vnode_of(run.last, vnode_count)
        if found and first <= found[-1][1] + 1:
            found[-1][1] = last
        else:
            found.append([first, last])
    return found


def _ranges(group: ScanGroup, table_id: int, wanted: Sequence[KeyRange]) -> list[KeyRange]:
    """The keys in `wanted`, which are sorted and do not meet, that have the group's prefixes."""
    found = []
    for run in group.prefixes:
        within = prefix_range(table_id, run)
        at = max(bisect_right(wanted, within.start, key=lambda one: one.start) - 1, 0)
        while at < len(wanted) and (within.end is None or wanted[at].start < within.end):
            found.append(within.intersection(wanted[at]))
            at += 1
    return [one for one in found if not one.is_empty]


def _mapping(document: Document) -> VnodeMapping:
    vnode_count = integer(document, "vnode_count")
    check_vnode_count(vnode_count)
    owners = items(document, "owners")
    if len(owners) != vnode_count:
        raise MalformedKey(
            f"vnode_count is {vnode_count} and there are {len(owners)} owners; name one for each vnode"
        )
    # The mapping refuses what are no ids.
    return VnodeMapping(cast("tuple[int | None, ...]", tuple(owners)))


def _types(document: Document) -> dict[str, KeyType]:
    types: dict[str, KeyType] = {}
    for item in items(document, "schema"):
        column = as_document(item, "a column")
        name, type_name = text(column, "name"), text(column, "type")
        if name in types:
            raise MalformedKey(f"{shown(name)} is in the schema twice; name it once")
        with about(name):
            types[name] = parse_type(type_name)
    return types


def _key_schema(document: Document, types: Mapping[str, KeyType]) -> KeySchema:
    columns = []
    for item in items(document, "key"):
        column = as_document(item, "a key column")
        name = _known(text(column, "name"), types)
        with about(name):
            columns.append(KeyColumn(name, types[name], order(column)))
    distribution = tuple(_known(name, types) for name in items(document, "distribution"))
    return KeySchema(integer(document, "table_id"), tuple(columns), distribution)


def _known(name: object, types: Mapping[str, KeyType]) -> str:
    if not isinstance(name, str) or name not in types:
        raise MalformedKey(f"{shown(name)} is no column of the schema; use some of: {', '.join(types)}")
    return name


def _ranges_max(document: Document) -> int:
    return _within(
        "ranges_max",
        as_integer(document.get("ranges_max", RANGES_MAX_DEFAULT), "ranges_max"),
        1,
        PREFIX_COUNT,
    )


def _stats(document: Document, vnode_count: int) -> list[DataFile]:
    """The table as the planner takes it: a file for each vnode that has anything."""
    listed = items(document, "stats") if "stats" in document else []
    files = [_file(as_document(item, "a vnode's stats"), vnode_count) for item in listed]
    if len({file.first_prefix for file in files}) < len(files):
        raise MalformedKey("stats has a vnode twice; name each once")
    _within("the bytes of all stats", sum(file.size_bytes for file in files), 0, BYTES_MAX)
    return files


def _file(stats: Document, vnode_count: int) -> DataFile:
    vnode = _within("a vnode", integer(stats, "vnode"), 0, vnode_count - 1)
    size_bytes = _within("a vnode's bytes", integer(stats, "bytes"), 0, BYTES_MAX)
    rows = 0 if stats.get("rows") is None else _within("a vnode's rows", integer(stats, "rows"), 0, BYTES_MAX)
    return DataFile("", rows, size_bytes, *prefixes_of(vnode, vnode, vnode_count), 0, Kind.ROWS)


def _within(what: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueOutOfRange(what, value, low, high)
    return value
