"""The service as it grows: fragments with rescales each, and reading mappings over HTTP.

First fragments are created and rescaled: the service's memory and the latency of plan and apply at each tenth of the
way, the last beside the first. Where wrk is installed it reads: the answer 304, the whole mapping and, beside
them, /v1/health, which does nothing, with few and with all fragments; and heartbeats of 200 subscribers, which write.
The last line is one JSON document.

    python -m benchmarks.service --fragments 1000 --rescales 10
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import httpx
import psutil
from rich.console import Console
from rich.progress import track
from rich.table import Table
from stamina.instrumentation import set_on_retry_hooks

from deploy.process import ServiceProcess

FEW = 10
# Of the last tenth beside the first.
LATENCY_GROWTH_MAX = 1.5

_BEATS = """
local beat = 0
request = function()
  beat = beat + 1
  return wrk.format("PUT", "/v1/fragments/f1/subscribers/s" .. beat % 200, {["content-type"] = "application/json"},
    '{"name": "job", "role": "reader"}')
end
"""
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_FAILED = re.compile(r"Non-2xx or 3xx responses: (\d+)")

progress = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Tenth:
    """Milliseconds are medians; `rss_mb` is the service's resident memory at the end."""

    fragments: int
    plan_ms: float
    apply_ms: float
    rss_mb: float
    idle_cpu_percent: float


@dataclass(frozen=True, slots=True)
class Reads:
    """Requests a second, by wrk with 2 threads and 16 connections."""

    fragments: int
    health: float
    not_modified: float
    full: float
    beats: float


def main() -> None:
    asked = _arguments()
    set_on_retry_hooks([])
    reads: list[Reads] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ServiceProcess(Path(folder)) as service,
        httpx.Client(base_url=service.url, timeout=60) as http,
    ):
        http.put("/v1/workers/w", json={"parallelism": 5}).raise_for_status()

        def reading(fragments: int) -> None:
            if shutil.which("wrk") is None:
                progress.print(
                    "no reads are measured: wrk is not installed (`apt install wrk`)", style="yellow"
                )
                return
            reads.append(_reads(service.url, http, fragments, asked.seconds))

        tenths = _grown(http, psutil.Process(service.pid), asked.fragments, asked.rescales, reading)
    _report(asked, tenths, reads)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fragments", type=int, default=200, help="a multiple of 10")
    parser.add_argument("--rescales", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=5, help="of each run of wrk")
    asked = parser.parse_args()
    if asked.fragments < FEW or asked.fragments % FEW:
        parser.error(f"--fragments is a multiple of {FEW}")
    return asked


def _grown(
    http: httpx.Client,
    service: psutil.Process,
    fragments: int,
    rescales: int,
    reading: Callable[[int], None],
) -> list[Tenth]:
    tenths: list[Tenth] = []
    planned: list[float] = []
    applied: list[float] = []
    for number in track(range(1, fragments + 1), "fragments", console=progress):
        _create(http, f"f{number}")
        for rescale in range(rescales):
            plan_ms, apply_ms = _rescale(http, f"f{number}", 4 - rescale % 2)
            planned.append(plan_ms)
            applied.append(apply_ms)
        if number in (FEW, fragments):
            reading(number)
        if number % (fragments // 10) == 0:
            tenths.append(
                Tenth(
                    number,
                    median(planned),
                    median(applied),
                    service.memory_info().rss / 2**20,
                    _idle_cpu_percent(service),
                )
            )
            planned, applied = [], []
    return tenths


def _idle_cpu_percent(service: psutil.Process) -> float:
    """Of one core, while nobody asks for anything: what reconciliation costs."""
    return float(service.cpu_percent(interval=3))


def _create(http: httpx.Client, name: str) -> None:
    key = [{"name": "k", "type": "string"}]
    request = {"name": name, "distribution_key": key, "parallelism": 3}
    http.post("/v1/fragments", json=request).raise_for_status()


def _rescale(http: httpx.Client, name: str, parallelism: int) -> tuple[float, float]:
    started = time.perf_counter()
    planned = http.post(f"/v1/fragments/{name}/plans", json={"parallelism": parallelism}).raise_for_status()
    between = time.perf_counter()
    token = planned.json()["token"]
    http.post("/v1/rescales", json={"token": token}).raise_for_status()
    return (between - started) * 1000, (time.perf_counter() - between) * 1000


def _reads(url: str, http: httpx.Client, fragments: int, seconds: int) -> Reads:
    path = "/v1/fragments/f1/mapping"
    etag = http.get(path).raise_for_status().headers["etag"]
    assert http.get(path, headers={"If-None-Match": etag}).status_code == 304
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as beats:
        beats.write(_BEATS)
        beats.flush()
        return Reads(
            fragments,
            health=_wrk(f"{url}/v1/health", seconds),
            not_modified=_wrk(f"{url}{path}", seconds, "-H", f"If-None-Match: {etag}"),
            full=_wrk(f"{url}{path}", seconds),
            beats=_wrk(url, seconds, "-s", beats.name),
        )


def _wrk(url: str, seconds: int, *options: str) -> float:
    command = ["wrk", "-t2", "-c16", f"-d{seconds}s", *options, url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert _FAILED.search(said) is None, said
    found = _RATE.search(said)
    assert found is not None, said
    return float(found[1])


def _report(asked: argparse.Namespace, tenths: list[Tenth], reads: list[Reads]) -> None:
    console = Console(highlight=False)
    growth = Table("fragments", "plan ms", "apply ms", "memory MB", "idle CPU %")
    for tenth in tenths:
        growth.add_row(
            str(tenth.fragments),
            *(
                f"{value:.1f}"
                for value in (tenth.plan_ms, tenth.apply_ms, tenth.rss_mb, tenth.idle_cpu_percent)
            ),
        )
    console.print(growth)
    rates = Table("fragments", "health /s", "304 /s", "full /s", "heartbeats /s")
    for read in reads:
        found = (read.health, read.not_modified, read.full, read.beats)
        rates.add_row(str(read.fragments), *(f"{rate:.0f}" for rate in found))
    console.print(rates)
    ratio = tenths[-1].apply_ms / tenths[0].apply_ms
    print(f"apply in the last tenth beside the first: {ratio:.2f}, to be at most {LATENCY_GROWTH_MAX}")
    print(
        json.dumps(
            {
                "benchmark": "service",
                "fragments": asked.fragments,
                "rescales": asked.rescales,
                "growth": [asdict(tenth) for tenth in tenths],
                "apply_ratio": round(ratio, 3),
                "apply_ratio_max": LATENCY_GROWTH_MAX,
                "reads": [asdict(read) for read in reads],
            }
        )
    )


if __name__ == "__main__":
    main()
