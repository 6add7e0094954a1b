from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that can be left out, all in force but in the tests that show what each is good for."""

    copies: bool = True
    """1: a copy goes into every edge,"""
    hurries: bool = True
    """of Acquire and Drop with the first that comes,"""
    waits: bool = True
    """of the others with the last."""
    unites: bool = True
    """2: keys are added to those that were told before."""
    replaces: bool = True
    """3: a later state replaces the one before,"""
    replaces_by_none: bool = True
    """and so does none."""
    takes_first: bool = True
    """4: only the first copy of Acquire gives state."""
    drops_first: bool = True
    """5: only the first copy of Drop forgets."""
    counts: bool = True
    """6: a message is done when every copy is acknowledged,"""
    counts_by_edge: bool = True
    """on each edge for itself."""
