"""When a version settles: as soon as no living applier has yet to acknowledge it."""

from meta.lifecycle import Fragment, Moment, progress
from meta.mapping.publication import Phase
from meta.store.database import Transaction


def settle(tx: Transaction, fragment: Fragment, moment: Moment) -> bool:
    """Settles the current version of a held fragment if it may; whether it did."""
    if fragment.current.phase is Phase.SETTLED:
        return False
    if not progress(fragment, tx.subscribers.of(fragment.name), moment).may_settle:
        return False
    version, phase = fragment.current.version, fragment.current.phase
    return tx.fragments.change_phase(fragment.name, version, phase, Phase.SETTLED, now_ms=moment.now_ms)
