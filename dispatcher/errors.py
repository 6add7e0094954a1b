"""What the dispatcher's subscription raises."""

import pickle


class DispatcherError(Exception):
    """The base of the family."""


class DigestConflict(DispatcherError):
    """One version, two bodies: two mappings claim to be the same, so no vnode's owner is certain any more."""

    def __init__(self, fragment: str, version: int, *, held: str, offered: str, source: str) -> None:
        self.fragment = fragment
        self.version = version
        self.held = held
        self.offered = offered
        self.source = source
        super().__init__(
            f"fragment {fragment}: version {version} has digest {held} here and {offered} by {source};"
            " one of them is of another history (a restored or a new database?). Stop the fragment's jobs, find"
            f" out which is true (`vnodectl mapping history {fragment}`); if the jobs are wrong, empty their state_dir"
        )


class WrongBody(DispatcherError):
    """A body that is not the one that `current` announces. Its source is of no use until it is repaired."""

    def __init__(self, fragment: str, version: int, reason: str) -> None:
        self.fragment = fragment
        self.version = version
        self.reason = reason
        super().__init__(
            f"fragment {fragment}: the body under version {version} is not that version's: {reason}"
        )


class NoVersion(DispatcherError):
    """Nothing that a batch could use is known yet; `reason` is the last failure to read it."""

    def __init__(self, fragment: str, reason: str) -> None:
        self.fragment = fragment
        self.reason = reason
        super().__init__(
            f"fragment {fragment}: no usable mapping version is known ({reason}); start the service, or give a"
            " `state_dir` that holds the last version"
        )


class VersionNotSeen(DispatcherError, TimeoutError):
    """`newest` is the newest version seen in `waited_ms`, None if none was."""

    def __init__(self, fragment: str, version: int, *, newest: int | None, waited_ms: int) -> None:
        self.fragment = fragment
        self.version = version
        self.newest = newest
        self.waited_ms = waited_ms
        super().__init__(
            f"fragment {fragment}: version {version} was not seen in {waited_ms} ms, the newest is {newest};"
            f" see `vnodectl mapping history {fragment}` for what is published"
        )


class ServiceUnreachable(DispatcherError):
    """The service did not answer, or with something that is not its answer."""

    def __init__(self, service: str, reason: str) -> None:
        self.service = service
        self.reason = reason
        super().__init__(
            f"the service at {service} does not answer: {reason}; is `vnodectl serve` running there?"
        )


class ServiceRefused(DispatcherError):
    """The service answered with a problem (RFC 9457); `problem` is the last word of its type."""

    def __init__(self, service: str, status: int, problem: str, detail: str) -> None:
        self.service = service
        self.status = status
        self.problem = problem
        self.detail = detail
        super().__init__(f"the service at {service} refused ({status} {problem}): {detail}")


class SubscriptionClosed(DispatcherError):
    def __init__(self, fragment: str) -> None:
        self.fragment = fragment
        super().__init__(
            f"the subscription of fragment {fragment} is not open; use it inside `with Subscription(...)`"
        )


class SubscriptionForked(DispatcherError):
    """A fork copies the subscription without its threads: the copy would go stale without a word."""

    def __init__(self, fragment: str, opened_by: int) -> None:
        self.fragment = fragment
        self.opened_by = opened_by
        super().__init__(
            f"the subscription of fragment {fragment} belongs to process {opened_by};"
            " open one here, or pass the pinned MappingVersion, a plain value, to this process"
        )


class ConnectionNotPicklable(DispatcherError, pickle.PicklingError):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(f"the connection to {url} stays in its process; open one where it is used")


class ConnectionForked(DispatcherError):
    """A fork copies the connection without its threads: whoever followed through it would go stale without a word."""

    def __init__(self, url: str, opened_by: int) -> None:
        self.url = url
        self.opened_by = opened_by
        super().__init__(f"the connection to {url} belongs to process {opened_by}; open one here")


class SubscriptionNotPicklable(DispatcherError, pickle.PicklingError):
    def __init__(self, fragment: str) -> None:
        self.fragment = fragment
        super().__init__(
            f"the subscription of fragment {fragment} stays in its process (it has threads and connections);"
            " pin a version in the driver and use that MappingVersion, a plain value, in the tasks"
        )
