"""What the routes are handed: the use cases, and where readers find etcd."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from meta.hearing import Hearing
from meta.registry import Registry
from meta.rescale import Rescales


@dataclass(frozen=True, slots=True)
class Control:
    registry: Registry
    rescales: Rescales
    etcd_endpoints: tuple[str, ...]
    etcd_root: str
    hearing: Hearing


def control(request: Request) -> Control:
    found = request.app.state.control
    assert isinstance(found, Control)
    return found


Controlled = Annotated[Control, Depends(control)]
