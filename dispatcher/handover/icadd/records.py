"""Where records go: to the operators, into hold, or on to another unit. An own record is one from this unit."""

from dataclasses import replace

from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.icadd.phase import Collecting, Given, Interrogating, Phase, Transition, version_of
from dispatcher.handover.icadd.rules import Here
from dispatcher.handover.message import Path, Records
from dispatcher.handover.outcome import Heard, Post, Take
from dispatcher.handover.version import K


def route(here: Here, phase: Phase[K], key: K) -> tuple[int, Path]:
    """The unit to which an own record goes."""
    return heading(here, phase, key, here.unit), Path.ORDINARY


def take(here: Here, phase: Phase[K], heard: Heard[K], records: Records[K]) -> Transition[K]:
    """What a unit does with records that have come to it, its own included."""
    key = records.batch.key
    if _is_ahead(here, phase, heard, key):
        if not here.rules.whitelists_taken:
            return phase, (Take(records),)
    elif (to := heading(here, phase, key, heard.sender)) != here.unit:
        return phase, (Post(to, records),)
    match phase:
        # Interrogation, rule 1.1.
        case Interrogating(rescale=rescale, whitelist=whitelist) if (
            rescale.giver(key) == here.unit != rescale.receiver(key)
        ):
            return replace(phase, whitelist=whitelist | {key}), (Take(records),)
        # Collection, rule 1.2.
        case Collecting(hold=hold) if key in hold:
            return replace(phase, hold={**hold, key: (*hold[key], records)}), ()
        case _:
            return phase, (Take(records),)


def _is_ahead(here: Here, phase: Phase[K], heard: Heard[K], key: K) -> bool:
    """The version rule: whether the record is to be taken because its sender is upgraded, and this unit is not."""
    own = version_of(phase)
    if heard.version <= own.number:
        return False
    # Mend A: the old owner alone knows that it has no state.
    return heard.sender == own.owners[key] or not here.rules.takes_from_old_owner


def heading(here: Here, phase: Phase[K], key: K, sender: int) -> int:
    """The unit to which a record from `sender` goes; this one, where it is passed downstream or held."""
    match phase:
        # Collection, rules 1.1 and 1.2.
        case Collecting(whitelist=whitelist, hold=hold) if key in whitelist or key in hold:
            return here.unit
        # Collection, rule 3.
        case Collecting(rescale=rescale) | Given(rescale=rescale) if rescale.receiver(key) == here.unit:
            giver = rescale.giver(key)
            if giver != here.unit:
                return here.unit if sender == giver else giver
            if not here.rules.leaves_unmoved:
                raise IllegalEvent(phase, f"a record of {key} that it would send to itself")
            return here.unit
        # Interrogation, rules 1 and 2, by F; Collection, rule 2, and whatever is finished, by F'.
        case _:
            return version_of(phase).owners[key]
