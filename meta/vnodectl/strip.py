"""A mapping as a strip of cells, one for each vnode, as in the figures of the consistent-hash seed."""

from collections.abc import Sequence

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
    vnodes_a_cell = -(-len(owners) // CELLS_MAX)
    rows = [
        _row(
            range(first, min(first + CELLS_A_ROW * vnodes_a_cell, len(owners)), vnodes_a_cell),
            owners,
            previous,
            units,
        )
        for first in range(0, len(owners), CELLS_A_ROW * vnodes_a_cell)
    ]
    return Group(*rows, _legend(owners, previous, units, vnodes_a_cell))


def _row(vnodes: range, owners: Owners, previous: Owners | None, units: list[int]) -> Text:
    row = Text(f"{vnodes.start:>6} ", style="dim")
    for vnode in vnodes:
        owner = owners[vnode]
        moved = previous is not None and owner != previous[vnode]
        row.append(*_cell(owner, moved=moved, units=units))
    return row


def _cell(owner: int | None, *, moved: bool, units: list[int]) -> tuple[str, str]:
    if owner is None:
        return ".", "dim"
    place = units.index(owner)
    symbol = SYMBOLS[place % len(SYMBOLS)]
    colour = COLOURS[place % len(COLOURS)]
    return (symbol.upper(), f"bold underline black on {colour}") if moved else (symbol, f"black on {colour}")


def _legend(owners: Owners, previous: Owners | None, units: list[int], vnodes_a_cell: int) -> Columns:
    entries = [_entry(unit, sum(owner == unit for owner in owners), units) for unit in units]
    if previous is not None:
        entries.append(Text("CAPITALS moved here", style="bold"))
    if vnodes_a_cell > 1:
        entries.append(Text(f"one cell is {vnodes_a_cell} vnodes", style="dim"))
    return Columns(entries, padding=(0, 3))


def _entry(unit: int, vnodes: int, units: list[int]) -> Text:
    return Text.assemble(_cell(unit, moved=False, units=units), f" unit {unit}: {vnodes}")
