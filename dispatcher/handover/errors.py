"""What the handover's state machines raise. A unit that raised is broken: its job restarts from the last snapshot."""


class HandoverError(Exception):
    """The base of the family."""


class IllegalEvent(HandoverError):
    """The state has no rule for the event; `state` and `event` are as they were."""

    def __init__(self, state: object, event: object) -> None:
        self.state = state
        self.event = event
        super().__init__(
            f"{type(state).__name__} has no rule for {event}; restart the job from its last snapshot"
        )


class Gap(HandoverError):
    """A stream lost, doubled or reordered a frame."""

    def __init__(self, sender: int, *, expected: int, number: int) -> None:
        self.sender = sender
        self.expected = expected
        self.number = number
        super().__init__(
            f"the stream from unit {sender} goes on with frame {number}, not {expected}; its order is lost, so"
            " restart the job from its last snapshot"
        )


class WrongBase(HandoverError):
    """An INTENT starts from another mapping than the unit's own, or from the right number with another digest."""

    def __init__(self, unit: int, *, own: tuple[int, str], base: tuple[int, str]) -> None:
        self.unit = unit
        self.own = own
        self.base = base
        super().__init__(
            f"unit {unit} is at version {own[0]} ({own[1]}), and the INTENT starts from {base[0]} ({base[1]});"
            " renumber the units first"
        )


class DigestConflict(HandoverError):
    """Two mappings claim to be one version."""

    def __init__(self, version: int, *, known: str, offered: str) -> None:
        self.version = version
        self.known = known
        self.offered = offered
        super().__init__(
            f"version {version} has digest {known} here and {offered} there; one of them is of another history"
        )


class UnknownVersion(HandoverError):
    """A frame of a version that is not announced yet, or was never between these units."""

    def __init__(self, sender: int, *, own: int, version: int) -> None:
        self.sender = sender
        self.own = own
        self.version = version
        super().__init__(
            f"unit {sender} sends by version {version}, and only {own} and {own + 1} are known here"
        )


class NotFollowing(HandoverError):
    """A version that cannot be the next one after another."""

    def __init__(self, base: int, version: int, reason: str) -> None:
        self.base = base
        self.version = version
        self.reason = reason
        super().__init__(f"version {version} cannot follow version {base}: {reason}")


class UnknownKey(HandoverError):
    """Records of a key that the mapping does not have."""

    def __init__(self, sender: int, key: object, *, version: int) -> None:
        self.sender = sender
        self.key = key
        self.version = version
        super().__init__(
            f"unit {sender} sends records of {key}, which version {version} does not have; restart the job from its"
            " last snapshot"
        )


class CreditUnspent(HandoverError):
    """More credit comes back than was spent."""

    def __init__(self, account: object, *, spent: int, returned: int) -> None:
        self.account = account
        self.spent = spent
        self.returned = returned
        super().__init__(
            f"{returned} bytes of credit come back for {account}, and {spent} are spent; restart the job from its"
            " last snapshot"
        )


class ChunkMissing(HandoverError):
    """The state of a key does not come whole, and in order."""

    def __init__(self, key: object, *, expected: tuple[int, int], found: tuple[int, int]) -> None:
        """Each is the index of a chunk, and how many there are."""
        self.key = key
        self.expected = expected
        self.found = found
        super().__init__(
            f"the state of {key} goes on with chunk {found[0]} of {found[1]}, not {expected[0]} of {expected[1]};"
            " restart the job from its last snapshot"
        )


class BadPacing(HandoverError):
    """A rescale is to move fewer than one key at a time."""

    def __init__(self, parallel: int) -> None:
        self.parallel = parallel
        super().__init__(f"parallel is {parallel}; move at least 1 key at a time, or all")


class BadLoad(HandoverError):
    """The load of a key is no number."""

    def __init__(self, key: object) -> None:
        self.key = key
        super().__init__(f"the load of {key} is no number; leave it out, which is 0")


class WireError(HandoverError):
    """What a stream brought is no frame, or what it should take cannot be one."""


class UnknownFormat(WireError):
    """Bytes that begin as no frame known here does."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what}; let all units of the job run one version of vnodemap")


class Malformed(WireError):
    """A frame that is cut short, longer than it says, or damaged."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a frame {reason}; restart the job from its last snapshot")


class Unencodable(WireError):
    """A message with a value that has no form in a frame."""

    def __init__(self, message: object, reason: str) -> None:
        self.message = message
        self.reason = reason
        super().__init__(
            f"a {type(message).__name__} cannot be sent: {reason}; keys are integers of 64 bits or text, times are"
            " integers of 64 bits, and units, sizes and counts not negative"
        )


class ForeignVnodes(HandoverError):
    """Rows that were hashed for another number of vnodes than the mapping has."""

    def __init__(self, *, first: int, last: int, vnode_count: int) -> None:
        self.first = first
        self.last = last
        self.vnode_count = vnode_count
        super().__init__(
            f"rows have vnodes from {first} to {last}, and the mapping has {vnode_count}; hash them for its fragment"
        )
