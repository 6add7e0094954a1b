"""From predicates to ranges of storage keys: which prefixes hold the rows, and which bytes below each of them.

Rows are sorted by (prefix, key), so bounds on the key narrow bytes below one prefix at a time. They are used as far
as the ranges stay few; what the ranges do not enforce exactly is left to the reader, as the residual.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Final

from storage_keys.column import encode_canonical
from storage_keys.domain import ANYTHING, NOTHING, Domain, domain_of
from storage_keys.errors import about
from storage_keys.hash import hash_canonical
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import Comparison, In, Predicate
from storage_keys.range import (
    ALL_PREFIXES,
    KeyRange,
    PrefixRun,
    merged,
    merged_runs,
    prefix_bytes,
    prefix_range,
    successor,
    table_bytes,
)
from storage_keys.types import Boolean
from storage_keys.value import Canonical
from storage_keys.vnode import PREFIX_COUNT, prefix_of

RANGES_MAX_DEFAULT: Final = 1024

_KEYS_HASHED_MAX: Final = 1 << 14
"""Distribution keys to try out whatever `ranges_max`: few of them may be within the prefixes asked for."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """What to read. No row that passes the predicates is outside of `ranges`; those inside must pass `residual` too.

    `ranges` are sorted and none touches the next. `prefixes` are the runs of vnode prefixes that they are in.
    `residual` keeps the order of the predicates, `why` is for people.
    """

    ranges: tuple[KeyRange, ...]
    prefixes: tuple[PrefixRun, ...]
    residual: tuple[Predicate, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Cell:
    """A prefix, and the columns that have one value each in it."""

    prefix: int
    fixed: Mapping[str, Canonical | None]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The ranges below a cell: the leading columns value by value, then ranges of the last one.

    Where a cell fixes a column, what is here of that column does not count. `enforced` names the columns of
    which these are exactly the values asked for.
    """

    columns: tuple[KeyColumn, ...]
    values: Mapping[str, tuple[bytes, ...]]
    ranges: tuple[KeyRange, ...]
    enforced: tuple[str, ...]


def prune(
    schema: KeySchema,
    predicates: Sequence[Predicate] = (),
    prefixes: Iterable[PrefixRun] = (ALL_PREFIXES,),
    ranges_max: int = RANGES_MAX_DEFAULT,
) -> Pruned:
    """The ranges to read for the rows in `prefixes` that pass all predicates, as exact as `ranges_max` allows.

    Never more ranges than `ranges_max`, or than `prefixes` have runs where these are more. Predicates on columns
    that are not in the key are residual. Raises `MalformedKey`, with the column's name, for a value that cannot be
    compared with its column.
    """
    asked = merged_runs(prefixes)
    domains, exact = _domains(schema, predicates)
    if never := [name for name, domain in domains.items() if domain.is_empty]:
        return _nothing(f"no value of {', '.join(never)} can pass")
    most = max(ranges_max, len(asked))
    cells, runs, why = _known_prefixes(schema, domains, asked, most)
    if not runs:
        return _nothing(f"none of the {_count(asked)} prefixes asked for can hold a row that passes")
    fixed = () if cells is None else schema.distribution
    bounds = _bounds(schema, domains, fixed, _count(runs) if cells is None else len(cells), most)
    if bounds is None:
        ranges = tuple(prefix_range(schema.table_id, run) for run in runs)
    else:
        where = cells or [_Cell(prefix, {}) for run in runs for prefix in run.prefixes]
        ranges = merged(chain.from_iterable(_below(schema.table_id, cell, bounds) for cell in where))
    enforced = () if bounds is None else bounds.enforced
    residual = tuple(
        one for one, same in zip(predicates, exact, strict=True) if not (same and one.column in enforced)
    )
    return Pruned(ranges, runs, residual, (why, *_explained(bounds, residual)))


def _nothing(*why: str) -> Pruned:
    return Pruned((), (), (), (*why, "nothing is read"))


def _domains(schema: KeySchema, predicates: Sequence[Predicate]) -> tuple[dict[str, Domain], list[bool]]:
    """What all predicates together leave of each column, and for each predicate whether that is all it says."""
    types = {column.name: column.type for column in schema.columns}
    domains, exact = dict.fromkeys(types, ANYTHING), []
    for predicate in predicates:
        name = predicate.column
        with about(name):
            domain, same = (
                domain_of(types[name], predicate) if name in types else (_untyped(predicate), False)
            )
        domains[name] = domains.get(name, ANYTHING).intersection(domain)
        exact.append(same)
    return domains, exact


def _untyped(predicate: Predicate) -> Domain:
    """What is known of a column that is not in the key: comparisons with nothing but NULL are never true."""
    match predicate:
        case Comparison(operator=operator, value=None) if operator != "<=>":
            return NOTHING
        case In(values=values) if all(value is None for value in values):
            return NOTHING
    return ANYTHING


def _known_prefixes(
    schema: KeySchema, domains: Mapping[str, Domain], asked: tuple[PrefixRun, ...], most: int
) -> tuple[list[_Cell] | None, tuple[PrefixRun, ...], str]:
    """A cell for each distribution key there can be, None while these are not few; the runs to read; and why."""
    key = f"the distribution key ({', '.join(schema.distribution)})"
    cells = _cells(schema, domains, asked, max(most, _KEYS_HASHED_MAX))
    if cells is None:
        return None, asked, f"{key} is not fixed: all {_count(asked)} prefixes asked for are read"
    runs = merged_runs(PrefixRun(prefix, prefix) for prefix in {cell.prefix for cell in cells})
    if len(runs) > most:
        why = f"{key} is one of {len(cells)}, in {len(runs)} runs of prefixes, and {most} ranges are allowed"
        return None, asked, f"{why}: all {_count(asked)} prefixes asked for are read"
    if not schema.distribution:
        return cells, runs, "the table is a singleton: its rows are all in one prefix"
    return cells, runs, f"{key} is fixed: {_count(runs)} of {_count(asked)} prefixes are read"


def _cells(
    schema: KeySchema, domains: Mapping[str, Domain], asked: tuple[PrefixRun, ...], tries_max: int
) -> list[_Cell] | None:
    """The distribution keys whose prefix is asked for, one by one; None where there may be more than `tries_max`."""
    # Without any predicate on it, even a short key (a boolean) is better read as the runs asked for.
    if schema.distribution and all(domains[name] == ANYTHING for name in schema.distribution):
        return None
    columns = {column.name: column for column in schema.columns}
    left, values = tries_max, []
    for name in schema.distribution:
        points = domains[name].points(columns[name].type, left)
        if points is None:
            return None
        left //= len(points)
        values.append(points)
    wanted = bytearray(PREFIX_COUNT)
    for run in asked:
        wanted[run.first : run.last + 1] = b"\1" * len(run.prefixes)
    types = schema.distribution_types
    keyed = ((prefix_of(hash_canonical(types, key)), key) for key in product(*values))
    return [
        _Cell(prefix, dict(zip(schema.distribution, key, strict=True)))
        for prefix, key in keyed
        if wanted[prefix]
    ]


def _bounds(
    schema: KeySchema, domains: Mapping[str, Domain], fixed: tuple[str, ...], paths: int, most: int
) -> _Bounds | None:
    """As many key columns as `most` ranges allow below `paths` cells, which fix the columns named; None: not one."""
    best: _Bounds | None = None
    values: dict[str, tuple[bytes, ...]] = {}
    done: tuple[str, ...] = ()
    for at, column in enumerate(schema.columns):
        if paths > most:
            break
        columns, name = schema.columns[: at + 1], column.name
        if name in fixed:
            done += (name,)
            best = _Bounds(columns, dict(values), (), done)
            continue
        domain = domains[name]
        if domain != ANYTHING:
            ranges = domain.column_ranges(column.type, column.order)
            few = paths * len(ranges) <= most
            # Too many for exact ranges: one from the first to the last still spares what is outside.
            last = ranges if few else (KeyRange(ranges[0].start, ranges[-1].end),)
            best = _Bounds(columns, dict(values), last, (*done, name) if few else done)
        elif not isinstance(column.type, Boolean):
            break
        points = domain.points(column.type, most // paths)
        if points is None:
            break
        values[name] = _encoded(column, points)
        done += (name,)
        paths *= len(points)
    return best


def _below(table_id: int, cell: _Cell, bounds: _Bounds) -> Iterator[KeyRange]:
    *leading, last = bounds.columns
    ways = [
        _encoded(column, [cell.fixed[column.name]])
        if column.name in cell.fixed
        else bounds.values[column.name]
        for column in leading
    ]
    ranges = bounds.ranges
    if last.name in cell.fixed:
        (only,) = _encoded(last, [cell.fixed[last.name]])
        ranges = (KeyRange(only, successor(only)),)
    head = table_bytes(table_id) + prefix_bytes(cell.prefix)
    for way in product(*ways):
        path = head + b"".join(way)
        yield from (one.below(path) for one in ranges)


def _encoded(column: KeyColumn, values: Iterable[Canonical | None]) -> tuple[bytes, ...]:
    return tuple(encode_canonical(column.type, value, column.order) for value in values)


def _count(runs: Iterable[PrefixRun]) -> int:
    return sum(len(run.prefixes) for run in runs)


def _explained(bounds: _Bounds | None, residual: tuple[Predicate, ...]) -> Iterator[str]:
    if bounds is not None:
        names = ", ".join(column.name for column in bounds.columns)
        yield f"below each prefix the keys are narrowed by {names}"
    if residual:
        names = ", ".join(dict.fromkeys(one.column for one in residual))
        yield f"predicates on {names} are left to the reader"
