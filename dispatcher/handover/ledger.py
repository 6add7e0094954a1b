from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Self, TypeVar

from dispatcher.handover.errors import CreditUnspent
from dispatcher.handover.message import Batch, Credit, Path, Watermark
from dispatcher.handover.version import K

CREDIT_BYTES: Final = 4 << 20

N = TypeVar("N", tuple[int, Path], str)


@dataclass(frozen=True, slots=True)
class Ledger(Generic[K]):
    """What a unit has sent and nobody has applied yet, against the credit it has (rule 9); itself is a receiver, too.

    Credit comes back from whoever applies a batch, so where `outstanding` is empty, all that was sent is applied.
    `parked` are own batches without credit, and what is behind them: while there are any, the sources are paused.
    """

    credit_bytes: int = CREDIT_BYTES
    """Of each unit, for ordinary batches and again for direct ones."""
    outstanding: Mapping[tuple[int, Path], int] = field(default_factory=dict)
    of_source: Mapping[str, int] = field(default_factory=dict)
    parked: tuple[Batch[K] | Watermark, ...] = ()

    def affords(self, to: int, path: Path, size_bytes: int) -> bool:
        """A batch larger than all credit goes alone."""
        used = self.outstanding.get((to, path), 0)
        return not used or used + size_bytes <= self.credit_bytes

    def park(self, item: Batch[K] | Watermark) -> Self:
        return replace(self, parked=(*self.parked, item))

    def unpark(self) -> Self:
        return replace(self, parked=self.parked[1:])

    def spend(self, to: int, path: Path, batch: Batch[K]) -> Self:
        assert batch.size_bytes > 0, batch  # Of nothing, no credit would come back.
        return self._change((to, path), batch.source, batch.size_bytes)

    def restore(self, credit: Credit) -> Self:
        """Raises `CreditUnspent`."""
        return self._change((credit.granter, credit.path), credit.source, -credit.size_bytes)

    def _change(self, account: tuple[int, Path], source: str, size_bytes: int) -> Self:
        return replace(
            self,
            outstanding=_changed(self.outstanding, account, size_bytes),
            of_source=_changed(self.of_source, source, size_bytes),
        )

    def drained(self) -> bool:
        return not self.parked and not self.outstanding

    def released(self, source: str) -> bool:
        return source not in self.of_source and all(item.source != source for item in self.parked)


def _changed(amounts: Mapping[N, int], name: N, by: int) -> dict[N, int]:
    """Without those that are 0."""
    left = amounts.get(name, 0) + by
    if left < 0:
        raise CreditUnspent(name, spent=left - by, returned=-by)
    changed = {**amounts, name: left}
    if not left:
        del changed[name]
    return changed
