"""Groups of vnodes on the wire."""

from typing import Annotated, Self

from pydantic import Field

from meta.api.wire.base import Response
from meta.mapping.groups import TaskGroup
from meta.mapping.publication import MappingVersion


class TaskGroupOut(Response):
    """`vnodes` are runs of `[first, last]`, both included. `unit` is null where there are several units, or none."""

    task: int
    unit: int | None
    units: list[int]
    vnodes: Annotated[list[tuple[int, int]], Field(examples=[[[0, 31], [64, 79]]])]
    count: int


class GroupsOut(Response):
    fragment: Annotated[str, Field(examples=["flights"])]
    version: int
    tasks: list[TaskGroupOut]

    @classmethod
    def of(cls, version: MappingVersion, found: tuple[TaskGroup, ...]) -> Self:
        return cls(
            fragment=version.fragment,
            version=version.version,
            tasks=[
                TaskGroupOut(
                    task=group.task,
                    unit=group.unit,
                    units=list(group.units),
                    vnodes=list(group.runs),
                    count=group.count,
                )
                for group in found
            ],
        )
