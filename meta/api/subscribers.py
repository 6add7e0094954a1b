"""Subscribers over HTTP: one call registers, beats and acknowledges."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from meta.api.control import Controlled
from meta.api.fragments import FragmentName
from meta.api.wire import SubscriberIn, SubscriberOut
from meta.lifecycle import Subscriber

router = APIRouter(prefix="/v1/fragments/{name}/subscribers", tags=["subscribers"])

SubscriberId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


@router.get("")
def list_subscribers(name: FragmentName, control: Controlled) -> list[SubscriberOut]:
    timeout_ms = control.registry.fragment(name).applier_timeout_ms
    return [SubscriberOut.of(subscriber, timeout_ms) for subscriber in control.rescales.subscribers(name)]


@router.put("/{subscriber_id}")
def hear(
    name: FragmentName, subscriber_id: SubscriberId, body: SubscriberIn, control: Controlled
) -> SubscriberOut:
    heard = control.rescales.hear(
        Subscriber(
            id=subscriber_id,
            fragment=name,
            name=body.name,
            role=body.role,
            acknowledged_version=body.acknowledged_version,
            seen_at_ms=control.hearing.now().now_ms,
        )
    )
    return SubscriberOut.of(heard, control.registry.fragment(name).applier_timeout_ms)


@router.delete("/{subscriber_id}", status_code=HTTPStatus.NO_CONTENT)
def dismiss(name: FragmentName, subscriber_id: SubscriberId, control: Controlled) -> None:
    control.rescales.dismiss(name, subscriber_id)
