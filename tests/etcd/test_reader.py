"""The reader of one key, through all that may happen to a store. Where it polls never, the watch woke it."""

import signal
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from meta.etcd.client import EtcdClient
from meta.etcd.errors import PermissionDenied, Unavailable
from meta.etcd.reader import KeyReader, Reading, Unreachable

if TYPE_CHECKING:
    from tests.etcd.conftest import Server

NEVER_MS = 600_000


def holds(value: bytes | None) -> Callable[[object], bool]:
    """Whether a fact is a reading of this value."""

    def condition(fact: object) -> bool:
        held = fact.value and fact.value.value if isinstance(fact, Reading) else fact
        return held == value

    return condition


def test_it_reads_at_once_and_whenever_the_key_changes(
    etcd: EtcdClient, root: str, until: Callable[..., Any], soon: Callable[..., Any]
) -> None:
    with KeyReader(etcd, root + "a", poll_ms=NEVER_MS) as reader:
        readings = iter(reader)
        nothing = soon(lambda: next(readings))
        assert nothing == Reading(None, etcd.read(root).revision, etcd.read(root).cluster_id)
        for value in (b"1", b"2"):
            revision = etcd.put(root + "a", value)
            reading = until(readings, holds(value))
            assert (reading.value, reading.revision) == (etcd.get(root + "a"), revision)
        etcd.delete(root + "a")
        assert until(readings, holds(None)).revision == revision + 1


def test_it_reads_again_and_again_though_nothing_changes(
    etcd: EtcdClient, root: str, soon: Callable[..., Any]
) -> None:
    etcd.put(root, b"1")
    with KeyReader(etcd, root, poll_ms=20) as reader:
        readings = iter(reader)
        assert len({soon(lambda: next(readings)) for _ in range(5)}) == 1


def test_it_ends_when_closed_from_another_thread_and_leaves_no_thread(
    etcd: EtcdClient, root: str, soon: Callable[..., Any]
) -> None:
    before = set(threading.enumerate())
    reader = KeyReader(etcd, root, poll_ms=NEVER_MS)
    readings = iter(reader)
    assert soon(lambda: isinstance(next(readings), Reading))
    ending = threading.Timer(0, reader.close)
    ending.start()
    assert soon(lambda: list(readings)) == []
    ending.join()
    assert not [thread for thread in set(threading.enumerate()) - before if "_wake_on" in thread.name]
    assert soon(lambda: list(iter(reader))) == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_it_says_that_the_server_is_away_and_reads_on_when_it_is_back(
    server: "Server", until: Callable[..., Any], soon: Callable[..., Any], sign: signal.Signals
) -> None:
    with (
        EtcdClient([server.endpoint]) as client,
        EtcdClient([server.endpoint]) as writer,
        KeyReader(client, "/a", poll_ms=NEVER_MS, away_ms=20) as reader,
    ):
        readings = iter(reader)
        writer.put("/a", b"1")
        until(readings, holds(b"1"))
        server.end(sign)
        away = until(readings, lambda fact: isinstance(fact, Unreachable))
        assert isinstance(away.reason, Unavailable)
        server.start()
        assert until(readings, holds(b"1"))
        writer.wait_ready(10_000)
        writer.put("/a", b"2")
        assert until(readings, holds(b"2"))


def test_a_compaction_is_nothing_to_it(server: "Server", until: Callable[..., Any]) -> None:
    with (
        EtcdClient([server.endpoint]) as client,
        KeyReader(client, "/a", poll_ms=NEVER_MS, away_ms=20) as reader,
    ):
        readings = iter(reader)
        client.put("/a", b"1")
        until(readings, holds(b"1"))
        server.end()
        until(readings, lambda fact: isinstance(fact, Unreachable))
        server.start()
        # All that the reader saw is compacted before it is back.
        server.ctl("put", "/a", "2")
        server.ctl("put", "/a", "3")
        server.ctl("compact", str(server_revision(server)))
        until(readings, holds(b"3"))
        server.ctl("put", "/a", "4")
        until(readings, holds(b"4"))


def server_revision(server: "Server") -> int:
    with EtcdClient([server.endpoint]) as client:
        return client.read("/a").revision


def test_after_a_loss_of_data_it_reads_and_watches_anew(server: "Server", until: Callable[..., Any]) -> None:
    with (
        EtcdClient([server.endpoint]) as client,
        KeyReader(client, "/a", poll_ms=NEVER_MS, away_ms=20) as reader,
    ):
        readings = iter(reader)
        for n in range(10):
            last = client.put("/a", b"%d" % n)
        until(readings, holds(b"9"))
        server.end(signal.SIGKILL)
        until(readings, lambda fact: isinstance(fact, Unreachable))
        server.wipe()
        server.start()
        empty = until(readings, holds(None))
        assert empty.revision < last
        for value in (b"new", b"newer"):
            server.ctl("put", "/a", value.decode())
            reading = until(readings, holds(value))
            assert reading.revision < last


def test_when_a_poll_sees_the_revision_go_back_it_watches_anew_though_no_connection_broke(
    make_server: "Callable[..., Server]", until: Callable[..., Any], soon: Callable[..., Any]
) -> None:
    # Two stores behind one client, as if the data were lost and the address kept. The watch stays with the old
    # one, which does not answer for a while; the read goes on to the new one.
    old, new = make_server(), make_server()
    old.start()
    new.start()
    with (
        EtcdClient([old.endpoint, new.endpoint], timeout_ms=500) as client,
        KeyReader(client, "/a", poll_ms=3_000, away_ms=20) as reader,
    ):
        readings = iter(reader)
        for _ in range(5):
            client.put("/a", b"old")
        before = until(readings, holds(b"old"))
        new.ctl("put", "/a", "new")
        old.pause()
        after = until(readings, holds(b"new"))
        old.resume()
        assert after.revision < before.revision
        assert after.cluster_id != before.cluster_id
        # Ten values, each read before the next is written: as many polls would take twice the deadline.
        with EtcdClient([new.endpoint]) as writer:
            soon(lambda: [follow(writer, readings, b"%d" % n) for n in range(10)])


def follow(
    writer: EtcdClient, readings: Iterator[Reading | Unreachable], value: bytes
) -> Reading | Unreachable:
    writer.put("/a", value)
    return next(fact for fact in readings if holds(value)(fact))


def test_it_reports_a_refusal_and_goes_on(server: "Server", until: Callable[..., Any]) -> None:
    server.ctl("put", "/a", "1")
    with EtcdClient([server.endpoint]) as client, KeyReader(client, "/a", poll_ms=20, away_ms=20) as reader:
        readings = iter(reader)
        until(readings, holds(b"1"))
        server.require_login()
        refused = until(readings, lambda fact: isinstance(fact, Unreachable))
        assert not isinstance(refused.reason, Unavailable | PermissionDenied)
        server.ctl("auth", "disable", password="rootpw")
        assert until(readings, holds(b"1"))
