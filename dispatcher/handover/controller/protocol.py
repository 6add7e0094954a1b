from typing import Any

from dispatcher.handover.controller.event_time import hearers, relays
from dispatcher.handover.controller.handing import hear, obey
from dispatcher.handover.controller.phase import Phase, Settled, version_of
from dispatcher.handover.controller.records import route, take
from dispatcher.handover.controller.rules import Rules
from dispatcher.handover.drained_time import told_of_all
from dispatcher.handover.protocol import Protocol


def controller(rules: Rules = Rules()) -> Protocol[Any, Phase[Any]]:  # noqa: B008 - frozen
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
        told=told_of_all,
        drains_time=True,
    )
