"""Applying plans over HTTP."""

from http import HTTPStatus

from fastapi import APIRouter

from meta.api.control import Controlled
from meta.api.wire.rescales import RescaleIn, RescaleOut

router = APIRouter(prefix="/v1/rescales", tags=["rescales"])


@router.post("", status_code=HTTPStatus.ACCEPTED)
def apply(body: RescaleIn, control: Controlled) -> RescaleOut:
    """Applies a plan's token. It settles when every applier acknowledged: see the fragment's progress."""
    return RescaleOut.of(control.rescales.apply(body.token))
