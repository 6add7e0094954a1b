from typing import Any

from dispatcher.handover.drained_time import relays_nothing, told_of_all
from dispatcher.handover.icadd.handing import hear, obey
from dispatcher.handover.icadd.phase import Phase, Settled, hearers, version_of
from dispatcher.handover.icadd.records import route, take
from dispatcher.handover.icadd.rules import Rules
from dispatcher.handover.protocol import Protocol


def icadd(rules: Rules = Rules()) -> Protocol[Any, Phase[Any]]:  # noqa: B008 - frozen
    return Protocol(
        rules=rules,
        settled=Settled,
        version_of=version_of,
        route=route,
        take=take,
        hear=hear,
        obey=obey,
        hearers=hearers,
        relays=relays_nothing,
        told=told_of_all,
        drains_time=True,
    )
