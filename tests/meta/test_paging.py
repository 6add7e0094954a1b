"""Pages over any list: nothing twice, nothing left out, and no cursor that is not ours."""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from meta.api import problems
from meta.api.paging import Page, PageRequest, cursor_of, page_of
from meta.api.wire.base import PageOut
from meta.callers.request_errors import BadCursor

NAMES = [f"w{number:03d}" for number in range(250)]


def list_names(page: Page) -> PageOut[str]:
    after = page.after_name()
    rows = [name for name in NAMES if after is None or name > after][: page.rows_max]
    return page_of(rows, page, key=str, out=str.upper)


Get = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def get() -> Get:
    app = FastAPI()
    problems.install(app)
    app.add_api_route("/names", list_names)

    async def answer(params: dict[str, Any]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://list") as http:
            return await http.get("/names", params=params)

    return lambda **params: asyncio.run(answer(params))


def pages(get: Get, limit: int) -> list[list[str]]:
    found, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        answer = get(limit=limit, **more).raise_for_status().json()
        found.append(answer["items"])
        cursor = answer["next_cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize(("limit", "count"), [(100, 3), (125, 2), (249, 2), (250, 1), (1000, 1)])
def test_all_pages_together_are_the_list(get: Get, limit: int, count: int) -> None:
    found = pages(get, limit)
    assert [name for page in found for name in page] == [name.upper() for name in NAMES]
    assert len(found) == count


def test_a_page_has_a_hundred_items_unless_asked_otherwise(get: Get) -> None:
    assert len(get().json()["items"]) == 100


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "many"])
def test_a_limit_is_from_1_to_1000(get: Get, limit: str) -> None:
    answer = get(limit=limit)
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-request")


def foreign(document: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "?",
        "abcde",
        "w001",
        cursor_of(7),
        cursor_of((7, "a")),
        foreign(None),
        foreign("w001"),
        foreign([]),
        foreign(["a", "b"]),
        foreign(["\0"]),
        foreign(["\ud800"]),
        foreign([["w001"]]),
        cursor_of("w001") + "!",
    ],
)
def test_a_cursor_that_is_not_this_lists(get: Get, cursor: str) -> None:
    answer = get(cursor=cursor)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/bad-cursor"
    assert "next_cursor" in answer.json()["detail"]


@given(name=st.text(st.characters(min_codepoint=32, max_codepoint=126)), number=st.integers(0, 2**63 - 1))
def test_a_cursor_brings_its_key_back(name: str, number: int) -> None:
    assert PageRequest(cursor=cursor_of(name)).after_name() == name
    assert PageRequest(cursor=cursor_of(number)).after_number() == number
    assert PageRequest(cursor=cursor_of((number, name))).after_instant() == (number, name)


@given(st.text(max_size=60))
def test_no_text_is_worse_than_a_bad_cursor(cursor: str) -> None:
    page = PageRequest(cursor=cursor)
    for read in (page.after_name, page.after_number, page.after_instant):
        with suppress(BadCursor):
            assert read() is not None


@pytest.mark.parametrize("number", [-1, 2**63, True, 1.0, "1"])
def test_a_number_that_no_column_holds(number: object) -> None:
    with pytest.raises(BadCursor):
        PageRequest(cursor=foreign([number])).after_number()
