"""What the service says of itself, and its problems."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from meta.api.wire.base import Response


class EtcdOut(Response):
    """`tls` and `auth`: what a reader needs besides, which the service does not give away."""

    endpoints: list[str]
    root: str
    tls: bool
    auth: bool


class CoordinationOut(Response):
    etcd: EtcdOut


class ProblemOut(Response):
    """RFC 9457. `type` is for programs, `detail` for people: it says what to do. The facts are further members."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Annotated[str, Field(examples=["/problems/stale-base"])]
    title: str
    status: int
    detail: str


class HealthOut(Response):
    status: Literal["ok"] = "ok"
