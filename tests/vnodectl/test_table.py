"""`vnodectl table`: state tables as an operator sees and keeps them."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dispatcher.table.state_table import StateTable
from meta.vnodectl.client import ServiceError
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT
from tests.vnodectl.terminal import invoke

KEY = KeySchema(3, (KeyColumn("k", BIGINT),), ("k",))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> StateTable:
    """Four appends of four rows."""
    rows = spark.range(4).withColumnRenamed("id", "k").coalesce(1)
    found = StateTable.create_or_open(tmp_path / "t", KEY, rows.schema)
    for _ in range(4):
        found.append(rows)
    return found


def test_a_table_is_shown_compacted_and_vacuumed(table: StateTable) -> None:
    shown = invoke("table", "show", table.uri, COLUMNS="110").stdout
    assert "by (k bigint), distributed by (k)" in shown
    assert "4 commits in 4 files" in shown
    found = json.loads(invoke("table", "show", table.uri, "--json").stdout)
    assert found["versions"] == {"first": 0, "last": 4, "count": 5}
    assert (found["kinds"]["rows"]["files"], found["kinds"]["rows"]["rows"]) == (4, 16)
    assert found["to_compact"]["files"] == 4

    merged = invoke("table", "compact", table.uri, "--mapping", "0*128 1*128", "--force")
    assert "version 5: 4 -> 2 files" in merged.stdout, merged.output
    again = json.loads(invoke("table", "compact", table.uri, "--json").stdout)
    assert (again["compacted"], again["before"]) == (False, again["after"])

    would = json.loads(
        invoke("table", "vacuum", table.uri, "--older-than", "0", "--dry-run", "--json").stdout
    )
    assert len(would["files"]) == 4
    assert invoke("table", "vacuum", table.uri, "--older-than", "0", answers="n\n").exit_code == 1
    assert len(list(Path(table.uri).glob("*.parquet"))) == 6
    done = invoke("table", "vacuum", table.uri, "--older-than", "0", "--yes")
    assert "4 files removed" in done.stdout
    assert len(list(Path(table.uri).glob("*.parquet"))) == 2


def test_what_is_no_table_is_refused_with_what_to_do(
    table: StateTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = invoke("table", "show", str(tmp_path / "none"))
    assert isinstance(refused.exception, ServiceError)
    assert "is this its path?" in str(refused.exception)
    as_json = invoke("table", "vacuum", str(tmp_path / "none"), "--json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stderr)["type"] == "/problems/refused-by-table"
    for wrong in (["--mapping", "0*x"], ["--mapping", "0*5000"], ["--option", "region"]):
        assert invoke("table", "compact", table.uri, *wrong).exit_code == 2
    monkeypatch.delattr("meta.vnodectl.table._spark")
    unowned = invoke("table", "compact", table.uri, "--mapping", "0 -", "--force", COLUMNS="110")
    assert "vnode 1 has no owner" in unowned.output
    assert unowned.exit_code == 2


@pytest.mark.slow
def test_a_compaction_of_its_own_spark_prints_its_answer_and_no_log(table: StateTable) -> None:
    command = [sys.executable, "-m", "meta.vnodectl", "table", "compact", table.uri, "--force"]
    done = subprocess.run([*command, "--master", "local[1]"], capture_output=True, text=True, check=True)
    assert "4 -> 1 files" in done.stdout
    # The JVM's own word.
    assert [line for line in done.stderr.splitlines() if "incubator" not in line] == []


@pytest.mark.slow
def test_a_compaction_is_stopped_by_one_line(table: StateTable, eventually: Callable[..., None]) -> None:
    def has_begun() -> None:
        assert list(Path(table.uri).glob("compacted-*"))

    command = [sys.executable, "-m", "meta.vnodectl", "table", "compact", table.uri, "--force"]
    with subprocess.Popen(
        [*command, "--master", "local[1]", "--groups", "256"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        eventually(has_begun, within_s=60)
        running.send_signal(signal.SIGINT)
        told, said = running.communicate(timeout=60)
    assert (running.returncode, told) == (130, "")
    (line,) = (line for line in said.splitlines() if "incubator" not in line)
    assert line.startswith("stopped; what readers see is unchanged")
    assert table.snapshot().version == 4


def test_other_commands_do_not_load_spark() -> None:
    program = (
        "import sys, meta.vnodectl.main; sys.exit('pyspark' in sys.modules or 'deltalake' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
