"""Where records go: by the sets of the node that has the key (step 3)."""

from dataclasses import replace

from dispatcher.handover.controller.phase import Moving, Phase, Transition, version_of
from dispatcher.handover.controller.rules import Here, joining, nodes
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.message import Path, Records
from dispatcher.handover.outcome import Heard, Take
from dispatcher.handover.version import K


def route(here: Here, phase: Phase[K], key: K) -> tuple[int, Path]:
    """The unit to which an own record goes; one that has to wait does so here."""
    if isinstance(phase, Moving):
        return way(here, phase, key) or (here.unit, Path.DIRECT)
    return version_of(phase).owners[key], Path.ORDINARY


def way(here: Here, phase: Moving[K], key: K) -> tuple[int, Path] | None:
    """None where the record has to wait."""
    rescale = phase.rescale
    giver, receiver = rescale.giver(key), rescale.receiver(key)
    if giver == receiver:
        return giver, Path.ORDINARY
    sets = phase.distributor.sets.get(giver)
    # Mend b: until its sets are here.
    if sets is None:
        return None if here.rules.holds_all else (giver, Path.ORDINARY)
    if not here.rules.consults_giver and not switched(phase) and not _seen_in_seed(phase, key):
        return giver, Path.ORDINARY
    if key in sets.whitelist:
        return giver, Path.ORDINARY
    return None if key in sets.hold else (receiver, Path.DIRECT)


def switched(phase: Moving[K]) -> bool:
    """Whether it goes by F' for good: it has as many empty sets as there are nodes."""
    sets = phase.distributor.sets
    return len(sets) == len(nodes(phase.rescale)) and not any(of.hold for of in sets.values())


def _seen_in_seed(phase: Moving[K], key: K) -> bool:
    """F(K) == Z, which leaves, or F'(K) == U, which is new: what the seed asks, in the place of mend g."""
    rescale = phase.rescale
    return rescale.removes(rescale.giver(key)) or rescale.receiver(key) in joining(rescale)


def take(here: Here, phase: Phase[K], heard: Heard[K], records: Records[K]) -> Transition[K]:
    """What a unit does with records that have come to it, its own included."""
    key, own = records.batch.key, version_of(phase)
    match phase:
        case Moving(rescale=rescale, distributor=distributor):
            if heard.sender == here.unit and way(here, phase, key) is None:
                return replace(phase, distributor=distributor.with_held(records)), ()
            if here.unit in (rescale.giver(key), rescale.receiver(key)):
                return phase, (Take(records),)
        # A new owner may not have heard of the next version.
        case _ if own.owners[key] == here.unit or heard.version > own.number:
            return phase, (Take(records),)
    raise IllegalEvent(phase, heard)
