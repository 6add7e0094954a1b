from typing import Any

from dispatcher.handover.ordered.event_time import hearers, relays, told_now
from dispatcher.handover.ordered.handing import hear, obey
from dispatcher.handover.ordered.phase import Phase, Settled, version_of
from dispatcher.handover.ordered.records import route, take
from dispatcher.handover.ordered.rules import Rules
from dispatcher.handover.protocol import Protocol


def ordered(rules: Rules = Rules()) -> Protocol[Any, Phase[Any]]:  # noqa: B008 - frozen
    return Protocol(
        rules=rules,
        settled=Settled,
        version_of=version_of,
        route=route,
        take=take,
        hear=hear,
        obey=obey,
        hearers=hearers,
        relays=relays,
        told=told_now,
    )
