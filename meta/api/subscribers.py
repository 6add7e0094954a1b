"""Subscribers over HTTP: one call registers, beats and acknowledges."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from meta.api.control import Controlled
from meta.api.fragments import FragmentName
from meta.api.wire.subscribers import HeardOut, SubscriberIn, SubscriberOut

router = APIRouter(prefix="/v1/fragments/{name}/subscribers", tags=["subscribers"])

SubscriberId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


@router.get("")
def list_subscribers(name: FragmentName, control: Controlled) -> list[SubscriberOut]:
    return [SubscriberOut.of(subscriber) for subscriber in control.rescales.subscribers(name)]


@router.put("/{subscriber_id}")
def hear(
    name: FragmentName, subscriber_id: SubscriberId, body: SubscriberIn, control: Controlled
) -> HeardOut:
    """Registers, beats and acknowledges. An acknowledgement of a version that the database lacks is left out."""
    return HeardOut.of(
        *control.rescales.hear(
            name, subscriber_id, name=body.name, role=body.role, acknowledged=body.acknowledged_version
        )
    )


@router.delete("/{subscriber_id}", status_code=HTTPStatus.NO_CONTENT)
def deregister(name: FragmentName, subscriber_id: SubscriberId, control: Controlled) -> None:
    control.rescales.deregister(name, subscriber_id)
