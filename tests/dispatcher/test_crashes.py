"""A job that is killed and started again from its checkpoint, while its fragment is rescaled."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deploy.demo.evidence import Owners, examine, read_rows
from deploy.process import ServiceProcess
from dispatcher.scan.reader import scan
from dispatcher.subscription import Subscription
from dispatcher.table.state_table import StateTable
from meta.coordination import child
from meta.mapping.mapping import VnodeMapping
from meta.vnodectl.client import Service
from meta.vnodectl.waiting import wait_until_settled
from tests.dispatcher.mortal_job import APP_ID, FLIGHTS, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 40
UNITS = 4
STARTED_S = 200
GONE_S = 30


class Life:
    """A process of the job."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                # Through `child`, it ends with this process, however that ends.
                [*(sys.executable, child.__file__, str(os.getpid())), sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._log = log
        self._family: list[psutil.Process] = []

    def wait_begun(self) -> None:
        """Until it works at a batch."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), self._log.read_text()[-3000:]
        # What it started is found here while it lives, and nowhere when it killed itself.
        with suppress(psutil.NoSuchProcess):
            self._family = psutil.Process(self._process.pid).children(recursive=True)

    def wait(self, timeout_s: float) -> None:
        """Until it died by itself, or for so long."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def end(self, *, alone: bool) -> None:
        """Killed, if it lives, with all its processes or so that they have to notice; then nothing is left."""
        family = {*self._family}
        with suppress(psutil.NoSuchProcess):
            family |= {*psutil.Process(self._process.pid).children(recursive=True)}
        self._process.kill()
        if not alone:
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        assert psutil.wait_procs(family, GONE_S)[1] == []
        assert self._process.wait(GONE_S) == -9, self._log.read_text()[-3000:]
        assert self._process.stdout is not None
        self._process.stdout.close()


class Job:
    """A fragment of the shared service, a folder of input, and what is asked of them."""

    def __init__(self, api: Service, url: str, fragment: str, folder: Path, batches: int, seed: int) -> None:
        self.dice = random.Random(seed)
        self.url = url
        self.fragment = fragment
        self.folder = folder
        self.api = api
        self.rows = batches * ROWS
        self.units: list[int] = api.put(f"/v1/workers/{fragment}", {"parallelism": UNITS})["units"]
        api.post(
            "/v1/fragments",
            {
                "name": fragment,
                "vnode_count": 64,
                "distribution_key": [{"name": "tailnum", "type": "string"}],
                "parallelism": 1,
                # So that a rescale does not wait long for the dead.
                "applier_timeout_ms": 3_000,
            },
        )
        self.version = self.rescale(self.units[:2])
        (folder / "input").mkdir()
        for batch in range(batches):
            ids = range(batch * ROWS, (batch + 1) * ROWS)
            tailnums = [None if number % 10 == 0 else f"N{number * 7919 % 61}" for number in ids]
            rows = pa.table([list(ids), tailnums, [1] * ROWS], schema=FLIGHTS)
            pq.write_table(rows, folder / "input" / f"{batch:04}.parquet")

    @contextmanager
    def life(self, *last: str, alone: bool = False) -> Iterator[Life]:
        command = ["-m", "tests.dispatcher.mortal_job", self.url, self.fragment, str(self.folder), *last]
        with ExitStack() as stack:
            life = Life(command, self.folder / "job.log")
            stack.callback(life.end, alone=alone)
            yield life

    def rescale(self, units: list[int] | None = None) -> int:
        """Begun; the version that it will be."""
        if units is None:
            others = [self.dice.sample(self.units, self.dice.randint(1, UNITS)) for _ in range(9)]
            now = self.api.get(f"/v1/fragments/{self.fragment}/mapping")
            units = next(found for found in others if set(found) != set(now["owners"]))
        token = self.api.post(f"/v1/fragments/{self.fragment}/plans", {"units": units})["token"]
        self.version = int(self.api.post("/v1/rescales", {"token": token})["version"])
        return self.version

    @property
    def next_batch(self) -> int:
        """That is not committed."""
        if not (self.folder / "table").exists():
            return 0
        last = DeltaTable(self.folder / "table").transaction_version(APP_ID)
        return 0 if last is None else last + 1

    def settle(self) -> None:
        wait_until_settled(self.api, self.fragment, self.version, timeout_s=60)

    def finish(self, spark: "SparkSession") -> None:
        """The last life, in this process."""
        reached: list[tuple[str, int]] = []
        with Subscription(
            self.url, self.fragment, name="the last", state_dir=self.folder / "state", poll_ms=200
        ) as subscription:
            query = stream(spark, subscription, self.folder, lambda *stage: reached.append(stage))
            query.processAllAvailable()
            query.stop()
        assert reached

    def check(self, spark: "SparkSession") -> None:
        listed = self.api.get(f"/v1/fragments/{self.fragment}/versions")["items"]
        versions = [
            self.api.get(f"/v1/fragments/{self.fragment}/versions/{one['version']}") for one in listed
        ]
        owners = {
            one["version"]: Owners(one["owners"], [unit["id"] for unit in one["units"]]) for one in versions
        }
        found = examine(read_rows(self.folder / "table"), owners)
        assert (found.rows, found.duplicates, found.misrouted) == (self.rows, 0, 0)
        assert sum(found.batches_by_version.values()) == self.rows // ROWS, (
            "no batch has rows of two versions"
        )
        assert max(found.batches_by_version) == self.version
        table = StateTable.open(self.folder / "table")
        rows = scan(spark, table, VnodeMapping(tuple(owners[self.version].owners)), columns=["flight_id"])
        assert sorted(row[0] for row in rows.collect()) == list(range(self.rows))


@pytest.fixture
def job(shared_service: ServiceProcess, name: str, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    with Service(shared_service.url) as api:

        def begin(**wanted: Any) -> Job:
            return Job(api, shared_service.url, name, tmp_path, **wanted)

        yield begin


def test_a_batch_whose_commit_the_checkpoint_did_not_hear_of_is_there_once(
    spark: "SparkSession", job: Callable[..., Job]
) -> None:
    """The job dies between the two, with a rescale under way, and the batch comes again under another mapping."""
    story = job(batches=4, seed=1)
    with story.life("committed", "1", alone=True) as life:
        life.wait_begun()
        story.settle()
        story.rescale()
        life.wait(STARTED_S)
    story.settle()
    story.rescale()
    story.settle()
    assert StateTable.open(story.folder / "table").snapshot().version == 2
    story.finish(spark)
    story.check(spark)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [10])
def test_a_job_that_is_killed_again_and_again_writes_each_row_once(
    spark: "SparkSession", job: Callable[..., Job], kills: int
) -> None:
    story = job(batches=40, seed=2)
    for number in range(kills):
        # At a stage of the next batch, else at any moment.
        last = (story.dice.choice(["begun", "written", "committed"]), str(story.next_batch))
        at_any_moment = number % 2 == 0
        with story.life(*(() if at_any_moment else last), alone=story.dice.random() < 0.5) as life:
            life.wait_begun()
            story.settle()
            story.rescale()
            life.wait(story.dice.uniform(0, 4) if at_any_moment else STARTED_S)
        if number % 3 == 0:
            story.settle()
            story.rescale()
            StateTable.open(story.folder / "table").compact(spark, groups=2)
    story.settle()
    story.finish(spark)
    story.check(spark)
