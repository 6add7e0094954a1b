"""A table that a query writes, others read, compact and vacuum, and whose fragment is rescaled, all at once."""

import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatcher.scan.filters import conditions
from dispatcher.scan.reader import planned, scan
from dispatcher.streaming import Batch, each_batch
from dispatcher.subscription import Subscription
from dispatcher.table.errors import ConcurrentCommit, VersionGone
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from meta.vnodectl.client import Service
from meta.vnodectl.waiting import wait_until_settled
from storage_keys.vnode import vnode_of
from tests.dispatcher.scan.questions import FILTERS, passes, prefix
from tests.dispatcher.table.story import COLUMNS, KEY, done, drawn
from tests.dispatcher.table.visible import Row, visible

# What a batch does, one after the other; each with an app id of its own.
BATCHES = [("append",), ("upsert",), ("append", "delete"), ("append",), ("delete", "upsert"), ("overwrite",)]
WEIGHTS = [6, 5, 4, 3, 3, 1]
ROWS = 12
UNITS = 6
VNODES = 12


@dataclass(slots=True)
class Seconds:
    """What took how long."""

    batches: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    rescales: list[float] = field(default_factory=list)
    compactions: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        said = []
        for name in self.__slots__:
            found = sorted(getattr(self, name)) or [0.0]
            said.append(f"{len(found)} {name}: median {found[len(found) // 2]:.2f} s, most {found[-1]:.2f} s")
        return "; ".join(said)


class LivingTable:
    """`rows[n]` are those after n of `writes`, which are known before they are written."""

    def __init__(self, spark: SparkSession, url: str, fragment: str, folder: Path, seed: int) -> None:
        self.spark = spark
        self.fragment = fragment
        self.dice = random.Random(seed)
        self.table = StateTable.create_or_open(folder / "table", KEY, COLUMNS, target_bytes=2000)
        self.writes: list[tuple[int, str]] = []
        self.rows: list[list[Row]] = [[]]
        self.versions_used: list[int] = []
        self.seconds = Seconds()
        self._url = url
        self._folder = folder
        (folder / "input").mkdir()
        # Who does not hold his is not at work. With all of them one is alone, and the gate keeps others from going on.
        self._at_work = [threading.Lock() for _ in range(3)]
        self._gate = threading.Lock()
        self._went_on = threading.Condition()
        self._batches_done = 0
        self._over = False

    def live(self, batches: int, rescales: int, keepings: int) -> None:
        """So many of each, beside two readers, who read until the end."""
        with ExitStack() as stack:
            api = stack.enter_context(Service(self._url))
            units = self._create(api)
            applier = stack.enter_context(Subscription(self._url, self.fragment, name="query", poll_ms=200))
            reader = stack.enter_context(
                Subscription(self._url, self.fragment, name="reader", role="reader", poll_ms=200)
            )
            query = self._query(applier)
            stack.callback(query.stop)
            pool = stack.enter_context(ThreadPoolExecutor(4))
            at_work: list[Future[None]] = []
            with self._ending():
                at_work += [
                    pool.submit(self._read_on, reader, at, random.Random(self.dice.random())) for at in (0, 1)
                ]
                others = random.Random(self.dice.random())
                at_work.append(pool.submit(self._rescale_on, api, units, spread(batches, rescales), others))
                at_work.append(pool.submit(self._keep_on, spread(batches, keepings)))
                for _ in range(batches):
                    self._feed()
                    query.processAllAvailable()
                    for future in at_work:
                        if future.done():
                            future.result()
                for future in at_work[2:]:
                    future.result()
            for future in at_work:
                future.result()
            wait_until_settled(api, self.fragment, 2 + rescales, timeout_s=60)
            assert reader.wait_for(2 + rescales, 10_000).mapping.version == 2 + rescales
            assert self.versions_used == sorted(self.versions_used)
            assert len(set(self.versions_used)) > rescales // 2
            self._read(reader, {"version": None, "tasks": None, "filters": []})

    def check(self) -> None:
        """Some versions of all that are kept, each file read by the rule."""
        kept = self.table.versions()
        for version in {kept[0], kept[-1], *self.dice.sample(kept, min(len(kept), 8))}:
            assert Counter(visible(self.table, version)) == Counter(self.rows_of(version))
        assert self.rows_of(kept[-1]) == self.rows[-1]

    def rows_of(self, version: int) -> list[Row]:
        """By the batches that the version has according to its log."""
        log, writes = DeltaTable(self.table.uri, version), self.writes[:]
        committed = {what: log.transaction_version(self._app_id(what)) for _, what in writes}
        return self.rows[sum(number <= _or_before(committed[what]) for number, what in writes)]

    def _create(self, api: Service) -> list[int]:
        units: list[int] = api.put(f"/v1/workers/{self.fragment}", {"parallelism": UNITS})["units"]
        document = {
            "name": self.fragment,
            "vnode_count": VNODES,
            "distribution_key": [{"name": "k", "type": "bigint"}],
            "parallelism": 1,
        }
        api.post("/v1/fragments", document)
        # The shared service has others' workers, too; from version 2 on it runs on ours.
        self._rescale(api, {"units": units[:4]})
        return units

    def _query(self, applier: Subscription) -> Any:
        rows = self.spark.readStream.schema("v string, k long, s string, what string").json(
            str(self._folder / "input")
        )
        return (
            rows.writeStream.foreachBatch(each_batch(applier, ["k"], self._write))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .start()
        )

    def _feed(self) -> None:
        """A batch, whose rows are known to all before it is there."""
        number, lines = self._batches_done, []
        for what in self.dice.choices(BATCHES, WEIGHTS)[0]:
            found, wanted = done(self.rows[-1], what, drawn(self.dice, self.dice.randint(1, ROWS)))
            self.rows.append(wanted)
            self.writes.append((number, what))
            lines += [json.dumps({"v": v, "k": k, "s": s, "what": what}) for v, k, s in found]
        draft = self._folder / "draft"
        draft.write_text("\n".join(lines))
        draft.rename(self._folder / "input" / f"{uuid.uuid4()}.json")

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        started = time.monotonic()
        with self._working(2):
            for number, what in self.writes[:]:
                if number == batch.id:
                    of_what = rows.where(sf.col("what") == what).drop("what")
                    getattr(self.table, what)(of_what, app_id=self._app_id(what), batch_id=batch.id)
        self.seconds.batches.append(time.monotonic() - started)
        self.versions_used.append(batch.version)
        with self._went_on:
            self._batches_done += 1
            self._went_on.notify_all()

    def _app_id(self, what: str) -> str:
        return f"{self.fragment} {what}"

    def _rescale_on(self, api: Service, units: list[int], moments: list[int], dice: random.Random) -> None:
        now, vnodes = units[:4], VNODES
        for at, moment in enumerate(moments):
            if not self._wait_for(moment):
                return
            if at % 4 == 1:
                vnodes *= dice.choice([2, 3])
                goal: dict[str, object] = {"vnode_count": vnodes}
            else:
                others = [dice.sample(units, dice.randint(1, UNITS)) for _ in range(9)]
                now = next(found for found in others if set(found) != set(now))
                goal = {"units": now}
            started = time.monotonic()
            self._rescale(api, goal)
            self.seconds.rescales.append(time.monotonic() - started)

    def _rescale(self, api: Service, goal: dict[str, object]) -> None:
        token = api.post(f"/v1/fragments/{self.fragment}/plans", goal)["token"]
        version = api.post("/v1/rescales", {"token": token})["version"]
        wait_until_settled(api, self.fragment, version, timeout_s=60)

    def _keep_on(self, moments: list[int]) -> None:
        """Compactions, and a vacuum after each second of them."""
        for at, moment in enumerate(moments):
            if not self._wait_for(moment):
                return
            started = time.monotonic()
            with suppress(ConcurrentCommit):
                # An overwrite came between.
                self.table.compact(self.spark, groups=2, force=at % 2 == 1)
            self.seconds.compactions.append(time.monotonic() - started)
            if at % 2:
                # Removes nothing of this hour, and so may go beside all others.
                self.table.vacuum(older_than_hours=1)
            if at % 4 == 1:
                self._vacuum_alone()

    def _vacuum_alone(self) -> None:
        with ExitStack() as alone:
            for lock in (self._gate, *self._at_work):
                alone.enter_context(lock)
            self.table.vacuum(older_than_hours=0)
            first = self.table.versions()[0]
            assert first > 0
            with pytest.raises(VersionGone):
                self.table.snapshot(first - 1)

    def _read_on(self, reader: Subscription, at: int, dice: random.Random) -> None:
        while not self._over:
            with self._working(at):
                asked = {
                    "version": dice.choice([None, dice.choice(self.table.versions())]),
                    "tasks": dice.choice([None, None, None, 1, 3, 16]),
                    "filters": dice.sample(FILTERS, dice.choice([0, 1, 1, 2])),
                }
                self._read(reader, asked)

    def _read(self, reader: Subscription, asked: dict[str, Any]) -> None:
        mapping = reader.latest.mapping.mapping
        version, tasks, filters = asked["version"], asked["tasks"], [one for one, _ in asked["filters"]]
        before = self.table.versions()[-1]
        started = time.monotonic()
        found = scan(self.spark, self.table, mapping, tasks=tasks, filters=filters, version=version)
        after = self.table.versions()[-1]
        rows = found.withColumn("partition", sf.spark_partition_id()).collect()
        self.seconds.reads.append(time.monotonic() - started)
        shown = Counter(tuple(row[:-1]) for row in rows)
        possible = range(before, after + 1) if version is None else [version]
        wanted = [
            Counter(row for row in self.rows_of(one) if all(passes(row, each) for each in asked["filters"]))
            for one in possible
        ]
        assert shown in wanted, (asked, mapping, possible)
        assert found.rdd.getNumPartitions() == (tasks or len(mapping.units))
        if tasks is None:
            for row in rows:
                vnode = vnode_of(prefix(row["k"]), mapping.vnode_count)
                assert mapping.units[row["partition"]] == mapping.owners[vnode]
        elif version is not None:
            self._check_groups(rows, mapping, filters, tasks, version)

    def _check_groups(
        self, rows: list[Any], mapping: VnodeMapping, filters: list[Any], tasks: int, version: int
    ) -> None:
        asked = conditions(self.table.columns, filters)
        plan = planned(self.table, mapping, asked, tasks=tasks, version=version)
        lookups = [group.lookup for group in plan.groups]
        assert all(lookups[row["partition"]][prefix(row["k"])] for row in rows)

    @contextmanager
    def _working(self, at: int) -> Iterator[None]:
        with self._gate:
            pass
        with self._at_work[at]:
            yield

    def _wait_for(self, batches: int) -> bool:
        """Until so many are done; whether that is so, and not merely all over."""
        with self._went_on:
            self._went_on.wait_for(lambda: self._over or self._batches_done >= batches)
        return self._batches_done >= batches

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._went_on:
                self._over = True
                self._went_on.notify_all()


def spread(batches: int, events: int) -> list[int]:
    """After which batches they come: evenly, the last before the end."""
    return [batches * (at + 1) // (events + 1) for at in range(events)]


def _or_before(batch: int | None) -> int:
    return -1 if batch is None else batch
