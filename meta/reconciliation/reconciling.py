"""What the service does by itself, every second: see `run`."""

from dataclasses import dataclass

from meta.etcd.errors import EtcdError
from meta.hearing import Hearing
from meta.lifecycle import Moment
from meta.mapping.publication import Phase
from meta.reconciliation.comparison import Comparison
from meta.reconciliation.publishing import Publishing
from meta.registry.fragments import held_fragment
from meta.rescaling.adapting import Adapting
from meta.rescaling.settling import settle
from meta.rescaling.superseding import Superseding
from meta.store.database import Database, retry_conflicts


@dataclass(slots=True)
class Reconciling:
    """`done_at_ms`: when all of it was done last, as far as the database goes; etcd may be away."""

    database: Database
    publishing: Publishing
    comparison: Comparison
    superseding: Superseding
    adapting: Adapting
    hearing: Hearing
    done_at_ms: int | None = None

    @retry_conflicts
    def run(self) -> None:
        """Brings etcd up to SQL, or SQL up to etcd, for every fragment; then settles what is due, and so on."""
        # First: whatever a restored database has in flight, etcd may know better.
        self._publish()
        moment = self.hearing.now()
        with self.database.reading() as tx:
            fragments = tx.fragments.all()
        in_flight = [fragment for fragment in fragments if fragment.current.phase is not Phase.SETTLED]
        changed = [self._go_on(fragment.name, moment) for fragment in in_flight]
        self.adapting.run(fragments, moment)
        if any(changed):
            self._publish()
        self.done_at_ms = self.hearing.now().now_ms

    def _go_on(self, fragment_name: str, moment: Moment) -> bool:
        """Supersedes or settles the version in flight where that is due; whether it did."""
        superseded = self.superseding.look_after(fragment_name, moment)
        # Each in a transaction of its own, so that none waits for the others.
        with self.database.transaction() as tx:
            return settle(tx, held_fragment(tx, fragment_name), moment) or superseded

    def _publish(self) -> None:
        """What etcd is not known to have as SQL has it. No transaction is open meanwhile: etcd may take its time."""
        with self.database.reading() as tx:
            heads = tx.publications.heads()
        seen = self.publishing.publisher.seen
        try:
            self.comparison.run(heads)
            self.publishing.publish_all(
                name
                for name, head in heads.items()
                if (known := seen.get(name)) is None
                or known.current != head.current
                or name in self.publishing.conflicts
            )
        except EtcdError as error:
            self.publishing.away(error)
        else:
            self.publishing.reached()
