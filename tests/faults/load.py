"""A client that plans, applies and acknowledges all the time, and remembers every 2xx."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, cycle
from time import monotonic
from typing import Any

import httpx
import stamina

TIMEOUT_S = 60


class Unanswered(Exception):
    """Whether it was done is to be asked again."""


insistently = stamina.retry(on=Unanswered, attempts=None, timeout=120, wait_initial=0.02, wait_max=0.2)


@dataclass
class Operator:
    """One who never gives up: what had no answer is asked again, of the next replica."""

    urls: list[str]
    fragment: str
    units: list[int]
    promised: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    problems: dict[int, dict[str, Any]] = field(default_factory=dict)
    slowest_s: float = 0.0
    _current: int = 1

    def __post_init__(self) -> None:
        clients = [httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) for url in self.urls]
        self._clients = clients
        self._next: Iterator[httpx.Client] = cycle(clients)
        self._counts = cycle((2, 3))

    def ask_next(self, replica: int) -> None:
        """The next request goes to this one."""
        self._next = chain([self._clients[replica]], cycle(self._clients))

    def close(self) -> None:
        for client in self._clients:
            client.close()

    @property
    def newest(self) -> int:
        """The newest version that was promised."""
        return max(self.promised.values(), default=1)

    def step(self) -> None:
        """One rescale, if it can be: planned, applied until there is an answer, acknowledged."""
        self.beat()
        token = self.plan(next(self._counts))
        if token is not None:
            self.apply(token)
            self.beat()

    def plan_change(self, count: int) -> str:
        """The token of a plan that moves something, which it must."""
        token = self.plan(count)
        assert token is not None
        return token

    def plan(self, count: int) -> str | None:
        """The token of a plan that moves something; None where it has no answer, or nothing would move."""
        answer = self.ask("POST", f"/v1/fragments/{self.fragment}/plans", {"units": self.units[:count]})
        if answer is None or answer.status_code != httpx.codes.CREATED:
            return None
        found = answer.json()
        self._current = max(self._current, found["base_version"])
        return str(found["token"]) if found["moves"] else None

    @insistently
    def apply(self, token: str) -> httpx.Response:
        """The first answer that says what became of it: where there is none, nobody knows."""
        answer = self.ask("POST", "/v1/rescales", {"token": token})
        if answer is None or answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise Unanswered
        found = answer.json()
        if answer.status_code == httpx.codes.ACCEPTED:
            version = found["version"]
            assert self.promised.setdefault(token, version) == version, "the same token, the same answer"
        self._current = max(self._current, found.get("version", 0))
        return answer

    def beat(self) -> None:
        """It lives, and follows the newest version at once."""
        self.hear(self._current)

    def hear(self, version: int) -> None:
        beat = {"name": "operator", "role": "applier", "acknowledged_version": version}
        answer = self.ask("PUT", f"/v1/fragments/{self.fragment}/subscribers/operator", beat)
        if answer is not None and answer.is_success:
            heard = answer.json()
            self.acknowledged = max(self.acknowledged, heard["acknowledged_version"] or 0)
            self._current = max(self._current, heard["current_version"])

    def ask(self, method: str, path: str, body: dict[str, Any]) -> httpx.Response | None:
        """None where the connection broke."""
        began = monotonic()
        try:
            answer = next(self._next).request(method, path, json=body)
        except httpx.TransportError:
            self.unanswered += 1
            return None
        finally:
            self.slowest_s = max(self.slowest_s, monotonic() - began)
        self.answers[answer.status_code] += 1
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            assert answer.headers["content-type"] == "application/problem+json", answer.text
            self.problems[answer.status_code] = answer.json()
        return answer
