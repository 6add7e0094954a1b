"""Prometheus's scrape."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from meta.api.access import Reader
from meta.api.control import Controlled

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE_LATEST: {}}}})
async def metrics(_caller: Reader, control: Controlled) -> Response:
    """In Prometheus's text format. Answers within some 2 s also where the database does not."""
    return Response(await control.overview.exposition(), media_type=CONTENT_TYPE_LATEST)
