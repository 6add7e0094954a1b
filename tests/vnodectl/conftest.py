from collections.abc import Iterator
from functools import cache

import httpx
import pytest
import typer

from deploy.process import ServiceProcess
from tests.vnodectl.terminal import Operator


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Making them takes longer than most of them take, and typer's runner would do it for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command), raising=False)
        yield


@pytest.fixture
def operator(shared_service: ServiceProcess, name: str) -> Iterator[Operator]:
    with httpx.Client(base_url=shared_service.url) as http:
        # A new fragment begins on these (the smallest names), so nobody's own units are taken.
        for first in ("a1", "a2", "a3"):
            http.put(f"/v1/workers/{first}", json={"parallelism": 1})
        yield Operator(http, shared_service.url, name)
