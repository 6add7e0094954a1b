"""The job of docs/job.md, run as it stands there."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from deploy.process import ServiceProcess

PAGE = Path(__file__).parents[2] / "docs" / "job.md"


def job(url: str, folder: Path) -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1].replace("http://127.0.0.1:7070", url).replace("/tmp/orders", str(folder))


@contextmanager
def killed_on_failure(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.kill()
        raise


def test_the_documented_job_runs_is_rescaled_and_reads_back_what_it_wrote(
    service: ServiceProcess, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    with httpx.Client(base_url=service.url) as http:
        for worker in ("east", "west"):
            http.put(f"/v1/workers/{worker}", json={"parallelism": 2}).raise_for_status()
        key = [{"name": "customer", "type": "bigint"}]
        fragment = {"name": "orders", "distribution_key": key, "parallelism": 2}
        http.post("/v1/fragments", json=fragment).raise_for_status()
        script = tmp_path / "job.py"
        script.write_text(job(service.url, tmp_path / "orders"))
        with (
            subprocess.Popen([sys.executable, "-u", script], stdout=subprocess.PIPE, text=True) as running,
            killed_on_failure(running),
        ):
            assert running.stdout is not None
            assert "the query runs" in running.stdout.readline()
            orders = range(1000)
            rows = {"customer": [n % 100 for n in orders], "order": list(orders), "item": ["tea"] * 1000}
            staged = tmp_path / "orders" / "one.parquet"
            pq.write_table(pa.table(rows), staged)
            staged.rename(tmp_path / "orders" / "input" / staged.name)

            def check_committed() -> None:
                assert DeltaTable(str(tmp_path / "orders" / "table")).version() == 1

            # The first batch of a session warms Spark up.
            eventually(check_committed, within_s=90)
            plan = http.post("/v1/fragments/orders/plans", json={"parallelism": 4}).raise_for_status().json()
            http.post("/v1/rescales", json={"token": plan["token"]}).raise_for_status()

            def check_settled() -> None:
                assert http.get("/v1/fragments/orders/progress").json()["phase"] == "settled"

            eventually(check_settled)
            running.send_signal(signal.SIGINT)
            counted, found = running.stdout.read().splitlines()
    assert counted == "1000 rows in 4 partitions"
    assert found.count("customer=42") == 10
    assert running.returncode == 0
