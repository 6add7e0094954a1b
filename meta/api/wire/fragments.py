"""Fragments on the wire."""

from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field

from meta.api.wire.base import TEXT_PATTERN, Milliseconds, Name, Parallelism, Request, Response
from meta.lifecycle import APPLIER_TIMEOUT_MS, Fragment, KeyField
from meta.mapping.publication import Phase
from storage_keys.vnode import VNODE_COUNT_DEFAULT


class KeyFieldWire(Request):
    name: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=255, examples=["tailnum"])]
    type: Annotated[str, Field(min_length=1, max_length=255, examples=["string"])]


class FragmentIn(Request):
    name: Name
    distribution_key: Annotated[list[KeyFieldWire], Field(min_length=1, max_length=32)]
    parallelism: Parallelism
    vnode_count: Annotated[int, Field(strict=True)] = VNODE_COUNT_DEFAULT
    applier_timeout_ms: Milliseconds = APPLIER_TIMEOUT_MS

    @property
    def key_fields(self) -> tuple[KeyField, ...]:
        return tuple(KeyField(field.name, field.type) for field in self.distribution_key)


class FragmentOut(Response):
    name: str
    vnode_count: int
    distribution_key: list[KeyFieldWire]
    hash_id: str
    applier_timeout_ms: int
    created_at_ms: int
    version: int
    phase: Phase
    digest: str

    @classmethod
    def of(cls, fragment: Fragment) -> Self:
        return cls(
            name=fragment.name,
            vnode_count=fragment.vnode_count,
            distribution_key=[KeyFieldWire(**asdict(field)) for field in fragment.distribution_key],
            hash_id=fragment.hash_id,
            applier_timeout_ms=fragment.applier_timeout_ms,
            created_at_ms=fragment.created_at_ms,
            version=fragment.current.version,
            phase=fragment.current.phase,
            digest=fragment.current.digest,
        )
