"""Readiness on the wire."""

from typing import Literal, Self

from meta.api.wire.base import Response
from meta.reconciliation.readiness import Standing


class ReadyOut(Response):
    """`conflicts` are fragments with why neither etcd nor the database may be brought up to the other."""

    status: Literal["ok", "degraded", "unavailable"]
    detail: str
    database: Literal["ok", "unavailable"]
    etcd: Literal["ok", "unavailable"]
    reconciled_ms_ago: int | None
    conflicts: dict[str, str]
    unknown_fragments: list[str]

    @classmethod
    def of(cls, standing: Standing) -> Self:
        trouble = standing.database_trouble
        return cls(
            status=standing.status.value,
            detail=standing.detail,
            database="unavailable" if trouble and not trouble.serves else "ok",
            etcd="unavailable" if standing.etcd_trouble else "ok",
            reconciled_ms_ago=standing.reconciled_ms_ago,
            conflicts=standing.conflicts,
            unknown_fragments=list(standing.unknown_fragments),
        )
