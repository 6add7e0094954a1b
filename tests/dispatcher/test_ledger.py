"""The last version on disk, which any hand may have touched."""

import json
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.ledger import Coordination, Entry, Ledger
from dispatcher.view import Source, View
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Current, MappingVersion, Phase, digest, encode_body
from meta.mapping.unit import Unit

RESCALING, ACCEPTED, SETTLED = Phase
ETCD = Coordination(("127.0.0.1:1", "127.0.0.1:2"), "/vnodemap/v1")


def version(number: int, fragment: str = "flights") -> MappingVersion:
    return MappingVersion(fragment, number, "xxh64-1:utf8", (Unit(0, "w"),), VnodeMapping((0,) * number))


def entry(number: int, phase: Phase = SETTLED, *, usable: MappingVersion | None = None) -> Entry:
    newest = version(number)
    current = Current(number, phase, digest(encode_body(newest)))
    return Entry(View(newest, current, usable or newest, Source.DISK, 0), ETCD)


def test_what_was_kept_is_loaded_as_old_as_it_is(tmp_path: Path) -> None:
    kept = entry(3, RESCALING, usable=version(2))
    Ledger(tmp_path / "new", "flights").keep(kept)
    hour_ago_s = time.time() - 3600
    os.utime(tmp_path / "new" / "flights.mapping", (hour_ago_s, hour_ago_s))
    loaded = Ledger(tmp_path / "new", "flights").load(0)
    assert loaded is not None
    assert (loaded.view.newest, loaded.view.usable) == (version(3), version(2))
    assert (loaded.view.current, loaded.coordination) == (kept.view.current, ETCD)
    assert 3_600_000 <= loaded.view.age_ms(0) < 3_660_000


def test_of_two_subscriptions_in_one_folder_the_older_takes_nothing_back(tmp_path: Path) -> None:
    behind, ahead = Ledger(tmp_path, "flights"), Ledger(tmp_path, "flights")
    behind.keep(entry(1))
    ahead.keep(entry(2, RESCALING, usable=version(1)))
    os.utime(tmp_path / "flights.mapping", (7, 7))
    for older in (entry(1), entry(1, RESCALING)):
        behind.keep(older)
    assert (tmp_path / "flights.mapping").stat().st_mtime == 7, "nor does it confirm what it does not know"
    behind.keep(entry(2, ACCEPTED))
    ahead.keep(entry(2, RESCALING, usable=version(1)))
    loaded = behind.load(0)
    assert loaded is not None
    assert loaded.view.current.phase is ACCEPTED


def test_many_that_keep_at_once_leave_the_newest(tmp_path: Path) -> None:
    def keep_up_to(number: int) -> None:
        ledger = Ledger(tmp_path, "flights")
        for step in range(1, number + 1):
            ledger.keep(entry(step))

    threads = [threading.Thread(target=keep_up_to, args=(number,)) for number in (9, 20, 11, 15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = Ledger(tmp_path, "flights").load(0)
    assert loaded is not None
    assert loaded.view.newest == version(20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_a_file_that_differs_in_a_byte_is_ignored(tmp_path: Path, data: st.DataObject) -> None:
    Ledger(tmp_path, "flights").keep(entry(3, RESCALING, usable=version(2)))
    file = tmp_path / "flights.mapping"
    content = file.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    changed = data.draw(
        st.sampled_from([b"", b" ", b"0", b"\xff"]).filter(lambda byte: byte != content[at : at + 1])
    )
    file.write_bytes(content[:at] + changed + content[at + 1 :])
    assert Ledger(tmp_path, "flights").load(0) is None
    file.write_bytes(content[:at])
    assert Ledger(tmp_path, "flights").load(0) is None


def told_right(document: object) -> bytes:
    content = json.dumps(document).encode()
    return digest(content).encode() + b"\n" + content


@pytest.mark.parametrize("document", [7, [], {}, {"current": 7}, {"current": "{}", "body": "{}"}])
def test_a_file_of_another_program_is_ignored_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, document: object
) -> None:
    file = tmp_path / "flights.mapping"
    file.write_bytes(told_right(document))
    ledger = Ledger(tmp_path, "flights")
    assert ledger.load(0) is None
    assert f"{file} is ignored" in caplog.text
    ledger.keep(entry(1))
    assert ledger.load(0) is not None


def test_a_file_of_another_fragment_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Ledger(tmp_path, "flights").keep(entry(1))
    shutil.copy(tmp_path / "flights.mapping", tmp_path / "trains.mapping")
    assert Ledger(tmp_path, "trains").load(0) is None
    assert "trains.mapping is ignored" in caplog.text


@pytest.mark.parametrize("usable", [version(4), version(2, "trains")])
def test_what_cannot_be_used_before_the_newest_is_not_loaded(tmp_path: Path, usable: MappingVersion) -> None:
    Ledger(tmp_path, "flights").keep(entry(3, RESCALING, usable=usable))
    assert Ledger(tmp_path, "flights").load(0) is None


def test_a_disk_that_fails_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "no folder").write_text("")
    ledger = Ledger(tmp_path / "no folder", "flights")
    for _ in range(2):
        ledger.keep(entry(1))
    assert caplog.text.count("is not kept on disk") == 1
