"""Tokens over HTTP."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response

from meta.api.access import Admin
from meta.api.control import Controlled
from meta.api.paging import Page, page_of
from meta.api.wire.base import PageOut
from meta.api.wire.tokens import NewTokenOut, TokenIn, TokenOut

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])

TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


@router.post("", status_code=HTTPStatus.CREATED)
def create_token(body: TokenIn, control: Controlled, caller: Admin, response: Response) -> NewTokenOut:
    """A new token; the answer is the one place that ever shows it. From the first on, every request needs one."""
    token, shown = control.tokens.create(body.name, body.role, expires_in_s=body.expires_in_s, by=caller)
    control.doorkeeper.tokens_changed()
    response.headers["cache-control"] = "no-store"
    return NewTokenOut.of(token, shown)


@router.get("")
def list_tokens(control: Controlled, _caller: Admin, page: Page) -> PageOut[TokenOut]:
    """The newest first, with those that are revoked or expired."""
    tokens = control.tokens.newest(page.rows_max, page.after_instant())
    return page_of(tokens, page, lambda token: (token.created_at_ms, token.id), TokenOut.of)


@router.delete("/{token_id}", status_code=HTTPStatus.NO_CONTENT)
def revoke_token(token_id: TokenId, control: Controlled, caller: Admin) -> None:
    """The token counts no more, everywhere within a second."""
    control.tokens.revoke(token_id, by=caller)
    control.doorkeeper.tokens_changed()
