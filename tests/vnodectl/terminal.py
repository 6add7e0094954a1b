"""An operator at a terminal: `vnodectl` in this process, which is quick, or as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from typer.testing import CliRunner, Result

from meta.vnodectl.client import ServiceError
from meta.vnodectl.main import app
from meta.vnodectl.strip import SYMBOLS

WIDTH = 110
PROCESS_TIMEOUT_S = 60


def invoke(*arguments: str, answers: str | None = None, **environment: str) -> Result:
    """In this process."""
    return CliRunner().invoke(app, arguments, input=answers, env=environment)


class Operator:
    """With a worker of four units and a fragment, both called `name`."""

    def __init__(self, http: httpx.Client, url: str, name: str) -> None:
        self.http = http
        self.name = name
        self.url = url
        self._environment = {"VNODEMAP_SERVER": url, "COLUMNS": str(WIDTH)}

    def types(self, *arguments: str, answers: str | None = None) -> Result:
        return invoke(*arguments, answers=answers, **self._environment)

    def sees(self, *arguments: str, answers: str | None = None) -> str:
        result = self.types(*arguments, answers=answers)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def reads(self, *arguments: str) -> Any:
        """The one document of `--json`, and nothing beside it."""
        shown = self.sees(*arguments, "--json")
        assert shown.count("\n") == 1, shown
        return json.loads(shown)

    def is_told(self, *arguments: str, answers: str | None = None) -> str:
        """What `main` would print as the error."""
        result = self.types(*arguments, answers=answers)
        assert isinstance(result.exception, ServiceError), result.output
        return str(result.exception)

    def runs(self, *arguments: str, answers: str = "") -> subprocess.CompletedProcess[str]:
        """A real process."""
        command = [sys.executable, "-m", "meta.vnodectl", *arguments]
        return subprocess.run(
            command,
            input=answers,
            capture_output=True,
            text=True,
            timeout=PROCESS_TIMEOUT_S,
            check=False,
            env={**os.environ, **self._environment},
        )

    @contextmanager
    def begins(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A real process that goes on until it is stopped."""
        with subprocess.Popen(
            [sys.executable, "-m", "meta.vnodectl", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self._environment},
        ) as running:
            try:
                yield running
            finally:
                running.kill()

    @staticmethod
    def interrupts(running: subprocess.Popen[str]) -> int:
        """Ctrl-C; returns the exit code."""
        running.send_signal(signal.SIGINT)
        # Reads on: who writes into a full pipe cannot end.
        running.communicate(timeout=PROCESS_TIMEOUT_S)
        return running.returncode

    def begin(self) -> list[int]:
        """To a mapping of 64 vnodes on the first three units of the worker's four."""
        self.sees("worker", "add", self.name, "--units", "4")
        self.creates("--parallelism", "2", "--vnodes", "64")
        units = self.get("workers", self.name)["units"]
        self.sees("rescale", self.name, "--units", ids(units[:3]), "--yes")
        return list(units)

    def creates(self, *options: str) -> None:
        """Its fragment, by a bigint; a machine that is busy for minutes does not lose its appliers."""
        self.sees(
            *("fragment", "create", self.name, "--key", "k:bigint", "--applier-timeout-ms", "3600000"),
            *options,
        )

    def hear(self, subscriber: str, version: int, role: str = "applier") -> None:
        body = {"name": subscriber, "role": role, "acknowledged_version": version}
        path = f"/v1/fragments/{self.name}/subscribers/s-{len(subscriber)}"
        self.http.put(path, json=body).raise_for_status()

    def get(self, *steps: str | int, **query: str) -> Any:
        """The API's own answer."""
        return self.http.get(f"/v1/{'/'.join(map(str, steps))}", params=query).raise_for_status().json()

    def owners(self, version: int) -> list[int]:
        return list(self.get("fragments", self.name, "versions", version)["owners"])

    @property
    def newest(self) -> Any:
        version = self.get("fragments", self.name)["version"]
        return self.get("fragments", self.name, "versions", version)


def letter(unit: int) -> str:
    return SYMBOLS[(unit - 1) % len(SYMBOLS)]


def ids(units: list[int]) -> str:
    return ",".join(map(str, units))


def row(table: str, *cells: str) -> list[str]:
    """The one row of a table that begins with these cells."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    (found,) = [row for row in rows if row[: len(cells)] == list(cells)]
    return found


def cells(shown: str) -> list[str]:
    """The strips' rows without their row numbers."""
    rows = [line.split() for line in shown.splitlines()]
    return [row[1] for row in rows if len(row) == 2 and row[0].isdigit()]
