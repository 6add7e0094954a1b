"""What etcd may answer instead of a result. The names say what is the case."""


class EtcdError(Exception):
    """Base of every failure that this package reports."""


class Unavailable(EtcdError):
    """No answer: unreachable, stopped, without a leader, or too slow. A write may have been done or not."""

    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(
            f"etcd at {endpoint} does not answer ({reason}). Check that it runs and that the endpoint and "
            "its certificates are right. A write may have been done or not: read before repeating it."
        )
        self.endpoint = endpoint
        self.reason = reason


class Compacted(EtcdError):
    """The history from `start_revision` is gone; the oldest that etcd still has is `compact_revision`."""

    def __init__(self, start_revision: int, compact_revision: int) -> None:
        super().__init__(
            f"etcd has dropped its history before revision {compact_revision}, the watch asked for "
            f"{start_revision} on. Read a new snapshot and watch from the revision after it."
        )
        self.start_revision = start_revision
        self.compact_revision = compact_revision


class PermissionDenied(EtcdError):
    """The user is known and may not do this."""

    def __init__(self, action: str, user: str | None, reason: str) -> None:
        super().__init__(
            f"etcd refuses {action} to {user or 'an anonymous client'} ({reason}). Grant the user's role "
            "the permission on this key or prefix."
        )
        self.action = action
        self.user = user
        self.reason = reason


class Unauthenticated(EtcdError):
    """The server wants credentials, or others than these."""

    def __init__(self, user: str | None, reason: str) -> None:
        what = f"the password of user {user!r}" if user else "no credentials"
        super().__init__(f"etcd does not accept {what} ({reason}). Configure a user that it knows.")
        self.user = user
        self.reason = reason


class LeaseExpired(EtcdError):
    """The lease has run out or was revoked; its keys are gone."""

    def __init__(self, lease: int) -> None:
        super().__init__(f"etcd no longer has lease {lease:x}: what was held by it is lost. Grant a new one.")
        self.lease = lease


class Rejected(EtcdError):
    """etcd answered that it will not do this; the same request will fail again."""

    def __init__(self, action: str, code: str, reason: str) -> None:
        super().__init__(f"etcd rejects {action} ({code}, {reason}). Change the request or its limits.")
        self.action = action
        self.code = code
        self.reason = reason
