"""Structured Streaming: one mapping version pinned for each micro-batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from dispatcher.routing import dispatch
from dispatcher.subscription import Subscription
from meta.mapping.publication import MappingVersion


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch and the mapping by which it is routed. A batch that is run again may get a newer one."""

    id: int
    mapping: MappingVersion

    @property
    def version(self) -> int:
        return self.mapping.version


def each_batch(
    subscription: Subscription, keys: Sequence[str], write: Callable[[DataFrame, Batch], None]
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: `write` gets the batch's rows dispatched by `keys`, and what it is.

    The version stays pinned until `write` returns, so all that runs the DataFrame must be inside it.
    """

    def run(rows: DataFrame, batch_id: int) -> None:
        with subscription.pin() as mapping:
            write(dispatch(rows, mapping, keys), Batch(batch_id, mapping))

    return run
