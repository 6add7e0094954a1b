"""What a plan says of itself, in words."""

from typing import Any


def changes(planned: Any) -> bool:
    return bool(planned["owners"] != planned["previous_owners"])


def certified(planned: Any, vnode_count: int) -> str:
    """How many moves, and why they are not too many, on two lines."""
    certificate = planned["certificate"]
    moves, gap = certificate["moves"], certificate["gap"]
    if moves == 0 and gap == 0:
        return f"moves 0 of {vnode_count} vnodes"
    said = f"moves {moves} of {vnode_count} vnodes,\nand "
    if gap is None:
        before, after = certificate["max_load_before"], certificate["max_load"]
        least = certificate["max_load_lower_bound"]
        return (
            f"{said}the largest load goes from {before:.4g} to {after:.4g}; below {least:.4g} is not possible"
        )
    if planned["remaining_moves"]:
        return f"{said}that is all that the budget allows in this step"
    if gap:
        return (
            f"{said}{gap} of them are spent on fewer runs; {certificate['lower_bound']} would be the fewest"
        )
    return f"{said}fewer than {certificate['lower_bound']} is not possible"
