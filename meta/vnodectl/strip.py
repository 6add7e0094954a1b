"""A mapping as a strip of cells, one for each vnode, as in the figures of the consistent-hash seed."""

from collections import Counter
from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Group
from rich.text import Text

CELLS_MAX = 2048
CELLS_A_ROW = 64
UNITS_MAX = 24
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


def strip(owners: Owners, previous: Owners | None = None) -> Group:
    """Each unit has a letter and a colour, by its id; where the owner is not the `previous` one, a bold capital.

    A cell of several vnodes shows the first that moved, or else its first. `previous` may have another vnode count.
    """
    if previous is not None and len(previous) != len(owners):
        previous = [previous[vnode * len(previous) // len(owners)] for vnode in range(len(owners))]
    vnodes_a_cell = -(-len(owners) // CELLS_MAX)
    vnodes_a_row = CELLS_A_ROW * vnodes_a_cell
    rows = [
        _row(range(first, min(first + vnodes_a_row, len(owners))), vnodes_a_cell, owners, previous)
        for first in range(0, len(owners), vnodes_a_row)
    ]
    return Group(*rows, _legend(owners, previous, vnodes_a_cell))


def _row(vnodes: range, vnodes_a_cell: int, owners: Owners, previous: Owners | None) -> Text:
    row = Text.assemble((f"{vnodes.start:>6} ", "dim"))
    for first in vnodes[::vnodes_a_cell]:
        cell = range(first, min(first + vnodes_a_cell, vnodes.stop))
        moved = [vnode for vnode in cell if previous is not None and owners[vnode] != previous[vnode]]
        row.append(*_cell(owners[moved[0] if moved else first], moved=bool(moved)))
    return row


def _cell(owner: int | None, *, moved: bool) -> tuple[str, str]:
    if owner is None:
        return ".", "dim"
    # The service's ids begin at 1.
    symbol = SYMBOLS[(owner - 1) % len(SYMBOLS)]
    colour = COLOURS[(owner - 1) % len(COLOURS)]
    return (symbol.upper(), f"bold underline black on {colour}") if moved else (symbol, f"black on {colour}")


def _legend(owners: Owners, previous: Owners | None, vnodes_a_cell: int) -> Columns:
    vnodes = Counter(owners)
    units = sorted({owner for owner in (*owners, *(previous or ())) if owner is not None})
    entries = [
        Text.assemble(_cell(unit, moved=False), f" unit {unit}: {vnodes[unit]}") for unit in units[:UNITS_MAX]
    ]
    if len(units) > UNITS_MAX:
        entries.append(Text(f"and {len(units) - UNITS_MAX} units more", style="dim"))
    if previous is not None and list(previous) != list(owners):
        entries.append(Text("CAPITALS moved here", style="bold"))
    if vnodes_a_cell > 1:
        which = "" if previous is None else ", a CAPITAL one where any moved"
        entries.append(Text(f"one cell is {vnodes_a_cell} vnodes{which}", style="dim"))
    return Columns(entries, padding=(0, 3))
