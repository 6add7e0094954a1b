import re
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, isqrt
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from meta.mapping.errors import Malformed, SiblingsDisagree, UnrelatedVnodeCounts
from meta.mapping.unit import UNIT_ID_MAX
from storage_keys.errors import shown

# A bound against nonsense, far above any fragment's count (storage keys stop at 65,536).
VNODE_COUNT_MAX = 1 << 24

# Who owns a vnode that nobody owns, in `VnodeMapping.array`.
NOBODY = -1

# One for each word of the text, where every word is a run.
_TEXT_RUN = re.compile(r"(?:\A| )(-|[0-9]{1,19})(?:\*([0-9]{1,8}))?(?= |\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent vnodes of one owner; `last` is included."""

    first: int
    last: int
    owner: int | None

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class PartitionGroup:
    """The vnodes of one unit, as one scan partition; each run is one range to open."""

    unit: int
    slot: int
    runs: tuple[Run, ...]


class VnodeMapping:
    """Which unit owns each vnode: `owners[v]` is its id, None where nobody does. Raises `Malformed`."""

    __slots__ = ("_array", "_owners")

    _array: npt.NDArray[np.int64]
    _owners: tuple[int | None, ...] | None

    def __init__(self, owners: tuple[int | None, ...]) -> None:
        _require_size(len(owners))
        self._keep(_array_of(owners), tuple(owners))

    @classmethod
    def from_array(cls, array: npt.NDArray[np.integer[Any]]) -> Self:
        """The mapping with this `array`, of which a copy is kept. Raises `Malformed`."""
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise Malformed(f"owners are one dimension of integers, not {array.ndim} of {array.dtype}")
        _require_size(len(array))
        if array.min() < NOBODY or array.max() > UNIT_ID_MAX:
            raise Malformed(f"an owner is a unit id from 0 to {UNIT_ID_MAX}, or {NOBODY} for nobody")
        mapping = cls.__new__(cls)
        mapping._keep(array.astype(np.int64), None)
        return mapping

    def _keep(self, array: npt.NDArray[np.int64], owners: tuple[int | None, ...] | None) -> None:
        array.flags.writeable = False
        self._array = array
        self._owners = owners

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[npt.NDArray[np.int64]]]:
        # An array that is read back as it is could be written to.
        return type(self).from_array, (self.array,)

    def __eq__(self, other: object) -> bool:
        return np.array_equal(self.array, other.array) if isinstance(other, VnodeMapping) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.array.tobytes())

    def __repr__(self) -> str:
        return f"VnodeMapping.parse({str(self)!r})"

    @property
    def array(self) -> npt.NDArray[np.int64]:
        """Read-only, with `NOBODY` for None."""
        return self._array

    @property
    def owners(self) -> tuple[int | None, ...]:
        """Made from `array` at its first use, which 65,536 vnodes notice."""
        if self._owners is None:
            owners: list[int | None] = self.array.tolist()
            if self.array.min() == NOBODY:
                owners = [None if owner == NOBODY else owner for owner in owners]
            self._owners = tuple(owners)
        return self._owners

    @classmethod
    def unowned(cls, vnode_count: int) -> Self:
        _require_size(vnode_count)
        return cls.from_array(np.full(vnode_count, NOBODY))

    @classmethod
    def parse(cls, text: str, vnode_count_max: int = VNODE_COUNT_MAX) -> Self:
        """The inverse of `str(mapping)`. Raises `Malformed`, also above `vnode_count_max`."""
        runs = _TEXT_RUN.findall(text)
        owners = [NOBODY if owner == "-" else int(owner) for owner, _ in runs]
        lengths = [int(length or 1) for _, length in runs]
        if len(runs) != text.count(" ") + 1 or not all(lengths):
            strange = next(word for word in text.split(" ") if _is_strange(word))
            raise Malformed(f"a run of owners is like 7*64, 7 or -*3, not {shown(strange)}")
        if max(owners) > UNIT_ID_MAX:
            raise Malformed(f"an owner is a unit id from 0 to {UNIT_ID_MAX}, or - for nobody")
        if sum(lengths) > vnode_count_max:
            raise Malformed(f"the owners are more than {vnode_count_max} vnodes")
        return cls.from_array(np.repeat(np.array(owners, np.int64), lengths))

    def __str__(self) -> str:
        """The text form: runs in order of vnodes, `-` where nobody owns: `0*64 1 -*2 2*189`."""
        starts = self.run_starts
        lengths = np.diff(starts, append=self.vnode_count)
        return " ".join(map(_run_text, self.array[starts].tolist(), lengths.tolist()))

    @property
    def vnode_count(self) -> int:
        return len(self.array)

    @property
    def units(self) -> tuple[int, ...]:
        """The ids of the units that own anything, sorted."""
        ids: list[int] = np.unique(self.array[self.run_starts]).tolist()
        return tuple(ids if ids[0] != NOBODY else ids[1:])

    @property
    def slot_owners(self) -> tuple[int, ...]:
        """The slot of each vnode's owner, its rank among `units`. Raises `Malformed` where a vnode has none."""
        if self.array.min() == NOBODY:
            vnode = int(np.argmin(self.array))
            raise Malformed(f"vnode {vnode} has no owner, so no slot; plan a mapping first")
        return tuple(np.searchsorted(np.array(self.units), self.array).tolist())

    def vnodes_of(self, unit: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.array == unit).tolist()) if unit != NOBODY else ()

    @property
    def run_starts(self) -> npt.NDArray[np.intp]:
        """The first vnode of each of `runs()`."""
        changes = np.flatnonzero(self.array[1:] != self.array[:-1])
        return np.concatenate(([0], changes + 1))

    @property
    def run_count(self) -> int:
        """`len(self.runs())`, without building them."""
        return len(self.run_starts)

    def runs(self) -> tuple[Run, ...]:
        """Maximal runs in order of vnodes, those of nobody included."""
        firsts: list[int] = self.run_starts.tolist()
        lasts = [first - 1 for first in firsts[1:]] + [self.vnode_count - 1]
        owners: list[int] = self.array[firsts].tolist()
        return tuple(
            Run(first, last, None if owner == NOBODY else owner)
            for first, last, owner in zip(firsts, lasts, owners, strict=True)
        )

    def partition_groups(self) -> tuple[PartitionGroup, ...]:
        """One group for each of `units`, in order of slots."""
        runs_of: dict[int, list[Run]] = {unit: [] for unit in self.units}
        for run in self.runs():
            if run.owner is not None:
                runs_of[run.owner].append(run)
        return tuple(
            PartitionGroup(unit, slot, tuple(runs)) for slot, (unit, runs) in enumerate(runs_of.items())
        )

    def multiplied(self, factor: int) -> Self:
        """With `factor` times as many vnodes: those made of vnode v, v * factor and the following, keep its owner.

        No key changes its owner (storage-keys.md), and there are as many runs. Raises `Malformed`.
        """
        _require_factor(factor)
        _require_size(self.vnode_count * factor)
        return self.from_array(np.repeat(self.array, factor))

    def divided(self, factor: int) -> Self:
        """The inverse of `multiplied`. Raises `SiblingsDisagree`, `Malformed`."""
        _require_factor(factor)
        if self.vnode_count % factor:
            counts = _nearest_divisors(self.vnode_count, self.vnode_count / factor)
            fewer = f"; use a count of {' or '.join(map(str, counts))}" if counts else ""
            raise Malformed(f"{self.vnode_count} vnodes cannot be divided by {shown(factor)}{fewer}")
        self._require_agreement(factor)
        return self.from_array(self.array[::factor])

    def _require_agreement(self, factor: int) -> None:
        groups = self.array.reshape(-1, factor)
        disagreeing = np.flatnonzero((groups != groups[:, :1]).any(axis=1))
        if not len(disagreeing):
            return
        first = int(disagreeing[0])
        ids: dict[int, None] = dict.fromkeys(groups[first].tolist())
        # The divisors that all first vnodes of runs have are those by which it can be divided.
        most = gcd(factor, int(np.gcd.reduce(self.run_starts)))
        raise SiblingsDisagree(
            factor,
            groups=len(disagreeing),
            first=first,
            owners=tuple(None if owner == NOBODY else owner for owner in ids),
            possible=self.vnode_count // most if most > 1 else None,
        )

    def with_vnode_count(self, vnode_count: int) -> Self:
        """`multiplied` or `divided`, to `vnode_count`. Raises what they do."""
        _require_size(vnode_count)
        require_related(self.vnode_count, vnode_count)
        if vnode_count >= self.vnode_count:
            return self.multiplied(vnode_count // self.vnode_count)
        return self.divided(self.vnode_count // vnode_count)


def require_related(vnode_count: int, other: int) -> None:
    """Raises `UnrelatedVnodeCounts` where neither is a multiple of the other."""
    if other % vnode_count and vnode_count % other:
        raise UnrelatedVnodeCounts(vnode_count, other, _nearest_counts(vnode_count, other))


def _array_of(owners: tuple[int | None, ...]) -> npt.NDArray[np.int64]:
    # Types before values: True is equal to 1, and would hide among integers.
    types = set(map(type, owners))
    if not types <= {int, type(None)}:
        strange = next(owner for owner in owners if type(owner) not in (int, type(None)))
        raise Malformed(f"an owner is a unit id or null, not {shown(strange)}")
    listed = [NOBODY if owner is None else owner for owner in owners] if type(None) in types else owners
    outside = Malformed(f"an owner is a unit id from 0 to {UNIT_ID_MAX}, or null")
    try:
        array = np.array(listed, np.int64)
    except OverflowError:
        raise outside from None
    if array.min() < 0 and np.count_nonzero(array < 0) != owners.count(None):
        raise outside
    return array


def _require_size(vnode_count: int) -> None:
    """Raises `Malformed`. Which counts a fragment may have is `storage_keys`' rule, and narrower."""
    if type(vnode_count) is not int or not 1 <= vnode_count <= VNODE_COUNT_MAX:
        raise Malformed(f"a vnode count is an integer from 1 to {VNODE_COUNT_MAX}, not {shown(vnode_count)}")


def _require_factor(factor: int) -> None:
    if type(factor) is not int or factor < 1:
        raise Malformed(f"a factor of vnode counts is an integer from 1, not {shown(factor)}")


def _nearest_counts(vnode_count: int, wanted: int) -> tuple[int, ...]:
    """The multiples or divisors of `vnode_count` on either side of `wanted`, without `vnode_count` itself."""
    if wanted < vnode_count:
        return _nearest_divisors(vnode_count, wanted)
    below = wanted - wanted % vnode_count
    return tuple(c for c in (below, below + vnode_count) if vnode_count < c <= VNODE_COUNT_MAX)


def _nearest_divisors(number: int, wanted: float) -> tuple[int, ...]:
    """Those below and above `wanted`, which is none of them, without `number` itself."""
    divisors = _divisors(number)[:-1]
    at = bisect(divisors, wanted)
    return divisors[max(0, at - 1) : at + 1]


def _divisors(number: int) -> tuple[int, ...]:
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return tuple(sorted({*small, *(number // divisor for divisor in small)}))


def _is_strange(word: str) -> bool:
    run = _TEXT_RUN.fullmatch(word)
    return run is None or int(run[2] or 1) == 0


def _run_text(owner: int, length: int) -> str:
    name = "-" if owner == NOBODY else str(owner)
    return name if length == 1 else f"{name}*{length}"
