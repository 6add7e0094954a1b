"""Fragments on the wire."""

from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag

from meta.api.wire.base import TEXT_PATTERN, UNITS_MAX, Milliseconds, Name, Parallelism, Request, Response
from meta.lifecycle import APPLIER_TIMEOUT_MS, AdaptivePolicy, Fragment, KeyField
from meta.mapping.publication import Phase
from meta.registry.fragments import FragmentState
from storage_keys.vnode import VNODE_COUNT_DEFAULT

COOL_DOWN_MS = 60_000
TABLE_IDS_MAX = 1_000

EXAMPLE_KEY = [{"name": "carrier", "type": "string"}, {"name": "tailnum", "type": "string"}]
EXAMPLE_DIGEST = "4f7c0b4a3d0f6f1b5d5d2c1f9e8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a"


class KeyFieldWire(Request):
    name: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=255, examples=["tailnum"])]
    type: Annotated[str, Field(min_length=1, max_length=255, examples=["string"])]


class PolicyWire(Request):
    """The fragment follows its workers' units by itself, between `min` and `max`, once in each cool-down at most."""

    min: Annotated[Parallelism, Field(examples=[2])] = 1
    max: Annotated[Parallelism, Field(examples=[8])]
    cool_down_ms: Annotated[Milliseconds, Field(examples=[COOL_DOWN_MS])] = COOL_DOWN_MS

    @property
    def policy(self) -> AdaptivePolicy:
        return AdaptivePolicy(self.min, self.max, self.cool_down_ms)


class Adaptive(Request):
    adaptive: PolicyWire


class Fixed(Response):
    """Operators rescale it; this is the number of units that it has now."""

    fixed: Annotated[int, Field(ge=1, le=UNITS_MAX, examples=[3])]


def _form(value: Any) -> str:
    return "<policy>" if isinstance(value, dict | Adaptive) else "<other>"


def _unique(table_ids: list[int]) -> list[int]:
    if len(set(table_ids)) < len(table_ids):
        raise ValueError("a table id comes twice; list each once")
    return table_ids


# Told apart by form, so that only what is wrong with the form that was meant is told.
_AdaptiveForm = Annotated[Adaptive, Tag("<policy>")]
ParallelismIn = Annotated[Annotated[Parallelism, Tag("<other>")] | _AdaptiveForm, Discriminator(_form)]
ParallelismChange = Annotated[
    Annotated[Literal["fixed"], Tag("<other>")] | _AdaptiveForm, Discriminator(_form)
]
TableId = Annotated[int, Field(ge=0, le=2**32 - 1, strict=True)]
TableIds = Annotated[
    list[TableId], Field(max_length=TABLE_IDS_MAX, examples=[[17, 18]]), AfterValidator(_unique)
]


class FragmentIn(Request):
    name: Name
    distribution_key: Annotated[
        list[KeyFieldWire], Field(min_length=1, max_length=32, examples=[EXAMPLE_KEY])
    ]
    parallelism: Annotated[ParallelismIn, Field(examples=[3, {"adaptive": {"min": 2, "max": 8}}])]
    vnode_count: Annotated[int, Field(strict=True, examples=[256])] = VNODE_COUNT_DEFAULT
    table_ids: TableIds = Field(default_factory=list)
    applier_timeout_ms: Annotated[Milliseconds, Field(examples=[APPLIER_TIMEOUT_MS])] = APPLIER_TIMEOUT_MS

    @property
    def key_fields(self) -> tuple[KeyField, ...]:
        return tuple(KeyField(field.name, field.type) for field in self.distribution_key)

    @property
    def units(self) -> int | AdaptivePolicy:
        return self.parallelism if isinstance(self.parallelism, int) else self.parallelism.adaptive.policy


class FragmentPatch(Request):
    """What is left out, or null, stays as it is."""

    parallelism: Annotated[
        ParallelismChange | None, Field(examples=["fixed", {"adaptive": {"min": 2, "max": 8}}])
    ] = None
    table_ids: TableIds | None = None
    applier_timeout_ms: Annotated[Milliseconds | None, Field(examples=[APPLIER_TIMEOUT_MS])] = None

    @property
    def policy(self) -> AdaptivePolicy | Literal["fixed"] | None:
        wanted = self.parallelism
        return wanted.adaptive.policy if isinstance(wanted, Adaptive) else wanted


class FragmentOut(Response):
    """`lost_units`: those of `units` that are not alive. `not_now`: why an adaptive fragment does not move yet."""

    name: Name
    vnode_count: Annotated[int, Field(examples=[256])]
    distribution_key: Annotated[list[KeyFieldWire], Field(examples=[EXAMPLE_KEY])]
    hash_id: Annotated[str, Field(examples=["xxh64-1:utf8,utf8"])]
    table_ids: Annotated[list[int], Field(examples=[[17, 18]])]
    parallelism: Annotated[Fixed | Adaptive, Field(examples=[{"fixed": 3}])]
    applier_timeout_ms: Annotated[int, Field(examples=[APPLIER_TIMEOUT_MS])]
    created_at_ms: Annotated[int, Field(examples=[1_795_282_000_000])]
    oldest_version: Annotated[int, Field(examples=[1])]
    version: Annotated[int, Field(examples=[2])]
    phase: Phase
    digest: Annotated[str, Field(examples=[EXAMPLE_DIGEST])]
    units: Annotated[list[int], Field(examples=[[1, 2, 3]])]
    lost_units: Annotated[list[int], Field(examples=[[]])]
    not_now: Annotated[str | None, Field(examples=["version 2 is young; it waits until 1795282060000"])]

    @classmethod
    def of(cls, state: FragmentState) -> Self:
        fragment = state.fragment
        return cls(
            name=fragment.name,
            vnode_count=fragment.vnode_count,
            distribution_key=[KeyFieldWire(**asdict(field)) for field in fragment.distribution_key],
            hash_id=fragment.hash_id,
            table_ids=list(fragment.table_ids),
            parallelism=_parallelism(fragment, len(state.units)),
            applier_timeout_ms=fragment.applier_timeout_ms,
            created_at_ms=fragment.created_at_ms,
            oldest_version=fragment.oldest_version,
            version=fragment.current.version,
            phase=fragment.current.phase,
            digest=fragment.current.digest,
            units=list(state.units),
            lost_units=list(state.lost_units),
            not_now=str(state.not_now) if state.not_now else None,
        )


def _parallelism(fragment: Fragment, units: int) -> Fixed | Adaptive:
    if fragment.adaptive is None:
        return Fixed(fixed=units)
    return Adaptive(adaptive=PolicyWire(**asdict(fragment.adaptive)))
