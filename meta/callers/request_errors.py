"""Requests that are refused whatever they ask for: who sends them, how, or how many."""

from dataclasses import dataclass

from meta.errors import MetaError


@dataclass(eq=False)
class Unauthenticated(MetaError):
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"{self.reason}. Send `Authorization: Bearer TOKEN` (vnodectl and jobs: the environment variable "
            "VNODEMAP_TOKEN); whoever runs the service makes one with `vnodectl token create NAME --role ROLE`"
        )


@dataclass(eq=False)
class Forbidden(MetaError):
    """`role` is what the caller has, `needed` what this takes."""

    caller: str
    role: str
    needed: str

    @property
    def detail(self) -> str:
        return (
            f"this needs the role {self.needed}, and the token {self.caller} has the role {self.role}; "
            f"`vnodectl token create NAME --role {self.needed}` makes one that may"
        )


@dataclass(eq=False)
class BadCursor(MetaError):
    """Not a cursor that this list gave."""

    cursor: str | None

    @property
    def detail(self) -> str:
        return "the cursor is not one of this list's; give `next_cursor` of the page before, or none to begin anew"


@dataclass(eq=False)
class BadToken(MetaError):
    """`field` is the request's field that is wrong."""

    field: str
    reason: str

    @property
    def detail(self) -> str:
        return f"{self.field}: {self.reason}"


@dataclass(eq=False)
class TokenNotFound(MetaError):
    token_id: str

    @property
    def detail(self) -> str:
        return f"there is no token with the id {self.token_id}; `vnodectl token list` shows those there are"


@dataclass(eq=False)
class TooManyTokens(MetaError):
    tokens_max: int

    @property
    def detail(self) -> str:
        return f"there are {self.tokens_max} usable tokens, and no more can be; revoke some that nobody needs"


@dataclass(eq=False)
class BadIdempotencyKey(MetaError):
    @property
    def detail(self) -> str:
        return "an Idempotency-Key is 1 to 255 printable ASCII characters, such as a UUID; send another"


@dataclass(eq=False)
class IdempotencyKeyReused(MetaError):
    key: str

    @property
    def detail(self) -> str:
        return (
            f"the Idempotency-Key {self.key} was sent with another request (method, path or body) within the last "
            "24 hours; send each request under a key of its own"
        )


@dataclass(eq=False)
class IdempotencyKeyInUse(MetaError):
    key: str

    @property
    def detail(self) -> str:
        return (
            f"the request under the Idempotency-Key {self.key} is being carried out; ask again in a moment, or after "
            "a minute where the service that did so has died"
        )


@dataclass(eq=False)
class TooManyIdempotencyKeys(MetaError):
    keys_max: int

    @property
    def detail(self) -> str:
        return (
            f"this caller used {self.keys_max} Idempotency-Keys within 24 hours; send fewer, "
            "or requests without the header"
        )


@dataclass(eq=False)
class BodyTooLarge(MetaError):
    bytes_max: int

    @property
    def detail(self) -> str:
        return f"the request's body is larger than {self.bytes_max} bytes; send less at once"


@dataclass(eq=False)
class BodyTooSlow(MetaError):
    seconds_max: float

    @property
    def detail(self) -> str:
        return f"the request's body was not complete after {self.seconds_max:g} s; send it again, at once"


@dataclass(eq=False)
class TooManyStreams(MetaError):
    streams_max: int
    retry_after_s: int = 5

    @property
    def detail(self) -> str:
        return (
            f"{self.streams_max} event streams are open on this replica; close some, ask another replica, or read "
            "`current` now and then"
        )


@dataclass(eq=False)
class PageWithoutToken(MetaError):
    """`origin`: what the browser says where the page is from, or the name by which it found the service."""

    origin: str

    @property
    def detail(self) -> str:
        return (
            f"a page in a browser ({self.origin}) may not use a service that wants no token; "
            "make one with `vnodectl token create NAME --role ROLE` and send it"
        )
