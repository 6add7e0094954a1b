"""A mapping as a strip of cells, one for each vnode, as in the figures of the consistent-hash seed."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.columns import Columns
from rich.console import Group
from rich.text import Text

CELLS_MAX = 2048
CELLS_A_ROW = 64
SYMBOLS = "abcdefghijklmnopqrstuvwxyz"
COLOURS = (
    "dodger_blue2",
    "dark_orange",
    "green3",
    "medium_orchid",
    "gold3",
    "turquoise2",
    "hot_pink",
    "spring_green4",
    "slate_blue1",
    "indian_red",
)

Owners = Sequence[int | None]


def units_of(*mappings: Owners) -> list[int]:
    """All owners, sorted: strips that are to be compared get their letters from the same units."""
    return sorted({owner for owners in mappings for owner in owners if owner is not None})


def strip(owners: Owners, previous: Owners | None = None, *, units: list[int] | None = None) -> Group:
    """Each unit has a letter and a colour; a vnode whose owner is not the `previous` one is a bold capital.

    `units`: those to give letters to, by default the owners in both.
    """
    if units is None:
        units = units_of(owners, previous or ())
    place_of = {unit: place for place, unit in enumerate(units)}
    vnodes_a_cell = -(-len(owners) // CELLS_MAX)
    rows = [
        _row(
            range(first, min(first + CELLS_A_ROW * vnodes_a_cell, len(owners)), vnodes_a_cell),
            owners,
            previous,
            place_of,
        )
        for first in range(0, len(owners), CELLS_A_ROW * vnodes_a_cell)
    ]
    return Group(*rows, _legend(owners, previous, place_of, vnodes_a_cell))


def _row(vnodes: range, owners: Owners, previous: Owners | None, place_of: Mapping[int, int]) -> Text:
    row = Text(f"{vnodes.start:>6} ", style="dim")
    for vnode in vnodes:
        owner = owners[vnode]
        moved = previous is not None and owner != previous[vnode]
        row.append(*_cell(None if owner is None else place_of[owner], moved=moved))
    return row


def _cell(place: int | None, *, moved: bool) -> tuple[str, str]:
    """`place` is the owner's among the units; a vnode of nobody has none."""
    if place is None:
        return ".", "dim"
    symbol = SYMBOLS[place % len(SYMBOLS)]
    colour = COLOURS[place % len(COLOURS)]
    return (symbol.upper(), f"bold underline black on {colour}") if moved else (symbol, f"black on {colour}")


def _legend(
    owners: Owners, previous: Owners | None, place_of: Mapping[int, int], vnodes_a_cell: int
) -> Columns:
    vnodes = Counter(owners)
    entries = [
        Text.assemble(_cell(place, moved=False), f" unit {unit}: {vnodes[unit]}")
        for unit, place in place_of.items()
    ]
    if previous is not None:
        entries.append(Text("CAPITALS moved here", style="bold"))
    if vnodes_a_cell > 1:
        entries.append(Text(f"one cell is {vnodes_a_cell} vnodes", style="dim"))
    return Columns(entries, padding=(0, 3))
