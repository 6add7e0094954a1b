"""Subscribers over HTTP: one call registers, beats and acknowledges."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from meta.api.access import Reader
from meta.api.control import Controlled
from meta.api.fragments import FragmentName
from meta.api.paging import Page, page_of
from meta.api.wire.base import PageOut
from meta.api.wire.subscribers import HeardOut, SubscriberIn, SubscriberOut

router = APIRouter(prefix="/v1/fragments/{name}/subscribers", tags=["subscribers"])

SubscriberId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


@router.get("")
def list_subscribers(
    name: FragmentName, page: Page, control: Controlled, _by: Reader
) -> PageOut[SubscriberOut]:
    """By id, each beside the fragment's current version."""
    after = page.after_name() or ""
    followers = sorted(control.subscribing.progress(name).followers, key=lambda found: found.subscriber.id)
    rows = [follower for follower in followers if follower.subscriber.id > after]
    return page_of(rows, page, lambda found: found.subscriber.id, SubscriberOut.of)


@router.put("/{subscriber_id}")
def hear(
    name: FragmentName, subscriber_id: SubscriberId, body: SubscriberIn, control: Controlled, by: Reader
) -> HeardOut:
    """Registers, beats and acknowledges. An acknowledgement of a version that the database lacks is left out.

    An applier needs the role operator, since rescales wait for it.
    """
    return HeardOut.of(*control.subscribing.hear(name, body.beat(subscriber_id), by=by))


@router.delete("/{subscriber_id}", status_code=HTTPStatus.NO_CONTENT)
def deregister(name: FragmentName, subscriber_id: SubscriberId, control: Controlled, by: Reader) -> None:
    control.subscribing.deregister(name, subscriber_id, by=by)
