"""The words in which a scan plan says why it is as it is."""

from collections.abc import Sequence
from typing import Final

NAMED_MAX: Final = 4


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {nouns or noun + 's'}"


def percent(part: int, total: int) -> str:
    return f"{100 * part / total:.3g} %"


def listed(names: Sequence[str], count: int) -> str:
    """The first few of `count` names."""
    named = names[:NAMED_MAX]
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return ", ".join(named) + more
