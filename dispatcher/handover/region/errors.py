"""What is refused of a dataflow graph, before a job runs, and of a payload, in a handover."""

from collections.abc import Iterable

from dispatcher.handover.errors import HandoverError


class GraphError(HandoverError):
    """The base of what is wrong with a graph."""


class NoSuchOperator(GraphError):
    def __init__(self, source: str, target: str, name: str) -> None:
        self.edge = (source, target)
        self.name = name
        super().__init__(f"the edge {source!r} -> {target!r} names {name!r}, which is no operator; add it")


class DoubledEdge(GraphError):
    def __init__(self, source: str, target: str) -> None:
        self.edge = (source, target)
        super().__init__(
            f"the edge {source!r} -> {target!r} is there twice; put an operator into one of them"
        )


class Cycle(GraphError):
    """`operators`: the first is the last, too."""

    def __init__(self, operators: Iterable[str]) -> None:
        self.operators = tuple(operators)
        super().__init__(
            f"records go round in {' -> '.join(self.operators)}, where no message would come to an end; break the cycle"
        )


class RegionsUnited(GraphError):
    """Records of several regions, or of a region and of none, meet at an operator. `origins`: where each is from."""

    def __init__(self, operator: str, origins: Iterable[str]) -> None:
        self.operator = operator
        self.origins = tuple(origins)
        super().__init__(
            f"{operator!r} unites what {', '.join(map(repr, self.origins))} have keyed, each in its own way;"
            " distribute them by one key where they meet, with a keying operator on each way to it"
        )


class StateBeforeDistributor(GraphError):
    def __init__(self, operator: str, keying: str) -> None:
        self.operator = operator
        self.keying = keying
        super().__init__(
            f"{operator!r} has state by the keys of {keying!r}, which no distributor has distributed; put the"
            " distributor between the two"
        )


class KeysChanged(GraphError):
    """`operator`: where records with the new keys come to without a distributor."""

    def __init__(self, keying: str, region: str, operator: str) -> None:
        self.keying = keying
        self.region = region
        self.operator = operator
        super().__init__(
            f"{keying!r} changes keys inside the region of {region!r}, and {operator!r} gets them from there, at a unit"
            " that need not be their owner; put a distributor behind the keying"
        )


class SourceInRegion(GraphError):
    def __init__(self, source: str, region: str) -> None:
        self.source = source
        self.region = region
        super().__init__(
            f"{source!r} makes keys of its own inside the region of {region!r}: those that it makes after INTERROGATE"
            " has passed are not among the leaving, and their state stays behind; split it into a lister in front of a"
            " distributor and a reader behind it, which reads the keys that come in"
        )


class StateNotKeyed(GraphError):
    def __init__(self, operator: str) -> None:
        self.operator = operator
        super().__init__(
            f"{operator!r} has state and no distributor before it, so no key to move it by; key and distribute its"
            " records first (a source is split into a lister before the distributor and a reader behind it)"
        )


class NotKeyed(GraphError):
    def __init__(self, distributor: str) -> None:
        self.distributor = distributor
        super().__init__(
            f"{distributor!r} gets records without a key; put a keying operator before it, or make it one"
        )


class PayloadError(HandoverError):
    """The base of what is wrong with the state of a key, as it came."""


class BadPayload(PayloadError):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the state of a key does not read: {reason}; restart the job from its last snapshot"
        )


class StrangeState(PayloadError):
    """The giver's graph is another than the receiver's."""

    def __init__(self, key: object, operators: Iterable[str]) -> None:
        self.key = key
        self.operators = tuple(operators)
        super().__init__(
            f"the state of {key} has parts of {', '.join(map(repr, self.operators))}, which hold no state in this"
            " region; run one build of the job at all units, and restart it from its last snapshot"
        )
