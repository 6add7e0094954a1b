"""The port's contract for watches, over a real etcd that restarts, is killed, compacts and loses its data."""

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from meta.etcd.client import EtcdClient
from meta.etcd.errors import Compacted, Unavailable
from meta.etcd.reader import KeyReader, Unreachable
from meta.etcd.values import Delete, Deleted, KeyValue, ModRevisionIs, Put

if TYPE_CHECKING:
    from tests.etcd.conftest import Server


def test_a_watch_sees_what_was_and_what_comes_one_revision_at_a_time(
    etcd: EtcdClient, root: str, soon: Callable[..., Any]
) -> None:
    first = etcd.txn([], [Put(root + "a", b"1"), Put(root + "b", b"1")]).revision
    etcd.txn([ModRevisionIs(root + "a", first)], [Put(root + "a", b"2"), Delete(root + "b")])
    with etcd.watch(root, prefix=True, start_revision=first) as watch:
        past = [soon(lambda: next(watch)), soon(lambda: next(watch))]
        etcd.put(root + "c", b"3")
        etcd.put("/elsewhere", b"unseen")
        etcd.put(root + "c", b"4")
        present = [soon(lambda: next(watch)), soon(lambda: next(watch))]
    assert [change.revision for change in past] == [first, first + 1]
    assert [change.revision for change in present] == [first + 2, first + 4]
    assert past[0].events == (
        KeyValue(root + "a", b"1", first, first),
        KeyValue(root + "b", b"1", first, first),
    )
    assert past[1].events == (KeyValue(root + "a", b"2", first, first + 1), Deleted(root + "b", first + 1))


def test_a_watch_after_a_snapshot_misses_nothing_and_repeats_nothing(
    etcd: EtcdClient, root: str, soon: Callable[..., Any]
) -> None:
    writer = threading.Thread(target=lambda: [etcd.put(root + "n", b"%d" % n) for n in range(300)])
    writer.start()
    snapshot = etcd.read(root + "n")
    seen = [int(value.value) for value in snapshot.values]
    with etcd.watch(root + "n", start_revision=snapshot.revision + 1) as watch:
        while not seen or seen[-1] < 299:
            seen += [int(event.value) for event in soon(lambda: next(watch)).events]
    writer.join()
    assert seen == list(range(seen[0], 300))


def test_a_watch_starts_at_a_revision(etcd: EtcdClient) -> None:
    with pytest.raises(ValueError, match="the one after a snapshot"):
        etcd.watch("/a", start_revision=0)


def test_closing_from_another_thread_ends_the_iteration(
    etcd: EtcdClient, root: str, soon: Callable[..., Any]
) -> None:
    watch = etcd.watch(root, start_revision=etcd.put(root, b"1"))
    assert next(watch).events
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(list, watch)
        watch.close()
        assert rest.result(5) == []
    assert list(watch) == []


def test_a_closed_watch_leaves_no_thread_behind(etcd: EtcdClient, root: str) -> None:
    start = etcd.put(root, b"1")
    before = set(threading.enumerate())
    with etcd.watch(root, start_revision=start) as watch:
        next(watch)
        opened = set(threading.enumerate()) - before
        assert opened
    for thread in opened:
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_a_lost_server_ends_the_watch_and_a_new_one_misses_nothing(
    server: "Server", soon: Callable[..., Any], sign: signal.Signals
) -> None:
    with EtcdClient([server.endpoint]) as client:
        start = client.put("/a", b"1")
        watch = client.watch("/a", start_revision=start)
        assert soon(lambda: next(watch)).revision == start
        server.end(sign)
        with pytest.raises(Unavailable):
            soon(lambda: next(watch))
        assert watch.closed
        server.start()
        client.wait_ready(10_000)
        client.put("/a", b"2")
        with client.watch("/a", start_revision=start + 1) as resumed:
            assert soon(lambda: next(resumed)).events[0].value == b"2"


def test_a_watch_from_a_compacted_revision_says_from_where_there_is_history(
    server: "Server", soon: Callable[..., Any]
) -> None:
    with EtcdClient([server.endpoint]) as client:
        revisions = [client.put("/a", b"%d" % n) for n in range(3)]
        server.ctl("compact", str(revisions[-1]))
        with client.watch("/a", start_revision=revisions[0]) as watch, pytest.raises(Compacted) as compaction:
            soon(lambda: next(watch))
        assert compaction.value.start_revision == revisions[0]
        assert compaction.value.compact_revision == revisions[-1]
        with client.watch("/a", start_revision=client.read("/a").revision) as watch:
            assert soon(lambda: next(watch)).events[0].value == b"2"


def test_a_watch_from_before_a_loss_of_data_is_silent_which_only_a_read_can_tell(
    server: "Server", soon: Callable[..., Any]
) -> None:
    with EtcdClient([server.endpoint]) as client:
        for n in range(10):
            last = client.put("/a", b"%d" % n)
        server.end()
        server.wipe()
        server.start()
        client.wait_ready(10_000)
        with ThreadPoolExecutor(1) as pool, client.watch("/a", start_revision=last + 1) as stale:
            heard = pool.submit(list, stale)
            with client.watch("/a", start_revision=1) as fresh:
                written = client.put("/a", b"new")
                assert soon(lambda: next(fresh)).revision == written
            assert client.read("/a").revision < last
            stale.close()
            assert heard.result(5) == []


def test_a_stopped_server_is_noticed_within_15_seconds(server: "Server", soon: Callable[..., Any]) -> None:
    with (
        EtcdClient([server.endpoint]) as client,
        EtcdClient([server.endpoint]) as another,
        KeyReader(another, "/a", poll_ms=60_000) as reader,
        ThreadPoolExecutor(2) as pool,
    ):
        start = client.put("/a", b"1")
        watch = client.watch("/a", start_revision=start)
        readings = iter(reader)
        soon(lambda: (next(watch), next(readings)))
        server.pause()
        began = time.monotonic()
        lost = pool.submit(next, watch)
        unreachable = pool.submit(lambda: next(fact for fact in readings if isinstance(fact, Unreachable)))
        assert isinstance(lost.exception(15), Unavailable)
        assert isinstance(unreachable.result(15 - (time.monotonic() - began)), Unreachable)
