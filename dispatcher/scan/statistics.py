"""What a table's files say of its vnode prefixes. Pure.

The bytes of a file are taken to be spread evenly over its prefixes: where one prefix dominates, it has files of its
own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from dispatcher.table.arrays import Flags, Numbers
from dispatcher.table.file import DataFile, Kind
from storage_keys.vnode import PREFIX_BITS, PREFIX_COUNT

_WEIGHT_BITS: Final = 62
_LAST: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """`files` by path, and of each, at the same place of the arrays, what it says.

    A weight is a number of bytes times `1 << scale`, so that a byte can be spread over many prefixes.
    """

    files: tuple[DataFile, ...]
    firsts: Numbers
    lasts: Numbers
    sizes: Numbers
    scale: int

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> Self:
        """The same whatever the order of `files`, which have less than 2**62 bytes together."""
        known = tuple(sorted(files, key=lambda file: (file.path, file.first_prefix, file.last_prefix)))
        sizes = [file.size_bytes for file in known]
        scale = min(PREFIX_BITS, _WEIGHT_BITS - sum(sizes).bit_length())
        assert scale >= 0
        return cls(
            known,
            _numbers([file.first_prefix for file in known]),
            _numbers([file.last_prefix for file in known]),
            _numbers([size << scale for size in sizes]),
            scale,
        )

    def weights(self) -> Numbers:
        """Of each of the 65,536 prefixes."""
        least, larger = np.divmod(self.sizes, self.lasts - self.firsts + 1)
        steps = np.zeros(PREFIX_COUNT + 1, np.int64)
        np.add.at(steps, self.firsts, least + 1)
        np.add.at(steps, self.firsts + larger, -1)
        np.add.at(steps, self.lasts + 1, -least)
        found: Numbers = np.cumsum(steps)[:-1]
        return found

    def at(self, prefix: int) -> tuple[Numbers, Numbers]:
        """The places of the files that may have the prefix, and what each adds to its weight."""
        places = np.flatnonzero((self.firsts <= prefix) & (self.lasts >= prefix))
        firsts = self.firsts[places]
        least, larger = np.divmod(self.sizes[places], self.lasts[places] - firsts + 1)
        return places, least + (prefix - firsts < larger)

    def within(self, firsts: Numbers, lasts: Numbers) -> Numbers:
        """The places of the files that may have a prefix of these sorted runs, which do not meet."""
        if not len(firsts):
            return firsts
        nearest = np.searchsorted(lasts, self.firsts)
        begins = firsts[np.minimum(nearest, len(firsts) - 1)]
        return np.flatnonzero((nearest < len(firsts)) & (begins <= self.lasts))

    def merging(self) -> Flags:
        """Of each prefix, whether a change in one file may hide a row in another, which is of a smaller sequence."""
        changes = np.array([file.kind is Kind.CHANGES for file in self.files], bool)
        if not changes.any():
            return np.zeros(PREFIX_COUNT, bool)
        sequences = _numbers([file.sequence for file in self.files])
        oldest = _smallest_over(self.firsts, self.lasts, sequences)
        newest = _smallest_over(self.firsts[changes], self.lasts[changes], -sequences[changes])
        return (newest < _LAST) & (-newest > oldest)


def _smallest_over(firsts: Numbers, lasts: Numbers, values: Numbers) -> Numbers:
    """For each prefix the smallest of the values whose interval has it.

    A sparse table the other way round: each interval is two that overlap and whose length is a power of two; then each
    of these becomes two of half the length.
    """
    levels = np.full((PREFIX_BITS + 1, PREFIX_COUNT), _LAST, np.int64)
    level = np.frexp(lasts - firsts + 1)[1] - 1
    np.minimum.at(levels, (level, firsts), values)
    np.minimum.at(levels, (level, lasts + 1 - (1 << level)), values)
    for at in range(PREFIX_BITS, 0, -1):
        half = 1 << at - 1
        np.minimum(levels[at - 1], levels[at], out=levels[at - 1])
        np.minimum(levels[at - 1, half:], levels[at, :-half], out=levels[at - 1, half:])
    found: Numbers = levels[0]
    return found


def _numbers(found: list[Any]) -> Numbers:
    return np.array(found, np.int64)
