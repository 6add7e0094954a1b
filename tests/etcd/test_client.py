"""The port's contract for reads, writes, transactions and leases, over a real etcd."""

import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from meta.etcd.client import EtcdClient
from meta.etcd.connection import Tls
from meta.etcd.errors import LeaseExpired, Rejected, Unavailable
from meta.etcd.values import Delete, Deleted, ModRevisionIs, Put, TxnResult

if TYPE_CHECKING:
    from tests.etcd.conftest import Server

MIB = 1 << 20


def test_what_is_put_is_got_until_it_is_deleted(etcd: EtcdClient, root: str) -> None:
    assert etcd.get(root + "a") is None
    first = etcd.put(root + "a", b"1")
    second = etcd.put(root + "a", b"2")
    found = etcd.get(root + "a")
    assert second == first + 1
    assert (found.key, found.value) == (root + "a", b"2")
    assert (found.create_revision, found.mod_revision) == (first, second)
    assert etcd.delete(root + "a")
    assert not etcd.delete(root + "a")
    assert etcd.get(root + "a") is None


def test_one_key_is_meant_though_later_ones_exist(etcd: EtcdClient, root: str) -> None:
    start = etcd.put(root + "b", b"later")
    assert etcd.get(root + "a") is None
    assert not etcd.delete(root + "a")
    with etcd.watch(root + "a", start_revision=start) as watch:
        made = etcd.put(root + "a", b"1")
        assert next(watch).revision == made
    assert etcd.get(root + "b").value == b"later"


def test_keys_and_values_may_hold_any_bytes(etcd: EtcdClient, root: str) -> None:
    key, value = root + "zażółć \udcff", bytes(range(256))
    etcd.put(key, value)
    assert etcd.get(key).value == value
    assert [found.key for found in etcd.range(root).values] == [key]


def test_a_range_is_all_keys_with_the_prefix_in_order_at_one_revision(etcd: EtcdClient, root: str) -> None:
    for name in ("b", "a", "c", "a/x"):
        last = etcd.put(root + name, name.encode())
    etcd.put(root[:-1] + "0", b"the first key after the prefix")
    snapshot = etcd.range(root)
    assert [found.key for found in snapshot.values] == [root + name for name in ("a", "a/x", "b", "c")]
    assert snapshot.revision == last + 1
    assert snapshot.cluster_id == etcd.read(root + "a").cluster_id != 0
    assert set(snapshot.values) < set(etcd.range("").values)


def test_a_prefix_may_end_in_the_last_of_all_bytes(etcd: EtcdClient, root: str) -> None:
    etcd.put(root + "\udcff\udcff", b"in")
    etcd.put(root[:-1] + "0", b"out")
    assert [found.value for found in etcd.range(root + "\udcff").values] == [b"in"]


def test_a_transaction_does_all_or_nothing(etcd: EtcdClient, root: str) -> None:
    a, b = root + "a", root + "b"
    absent = [ModRevisionIs(a, 0), ModRevisionIs(b, 0)]
    made = etcd.txn(absent, [Put(a, b"1"), Put(b, b"1")])
    assert made == TxnResult(succeeded=True, revision=etcd.get(a).mod_revision)
    assert etcd.get(a).mod_revision == etcd.get(b).mod_revision

    refused = etcd.txn([ModRevisionIs(a, made.revision), ModRevisionIs(b, 0)], [Put(a, b"2"), Delete(b)])
    assert not refused.succeeded
    assert [found.value for found in etcd.range(root).values] == [b"1", b"1"]

    held = etcd.txn([ModRevisionIs(a, made.revision)], [Put(a, b"2"), Delete(b)])
    assert held.succeeded
    assert [(found.key, found.value) for found in etcd.range(root).values] == [(a, b"2")]


def publish(etcd: EtcdClient, root: str, version: int, body: bytes, seen: int) -> bool:
    """As meta publishes: the body is immutable, `current` is what it was when it was read at revision `seen`."""
    stored = etcd.get(f"{root}versions/{version}")
    if stored is not None and stored.value != body:
        return False
    return etcd.txn(
        [
            ModRevisionIs(f"{root}versions/{version}", stored.mod_revision if stored else 0),
            ModRevisionIs(f"{root}current", seen),
        ],
        [Put(f"{root}versions/{version}", body), Put(f"{root}current", str(version).encode())],
    ).succeeded


def test_a_guarded_publish_loses_against_whoever_wrote_current_meanwhile(etcd: EtcdClient, root: str) -> None:
    assert publish(etcd, root, 1, b"one", seen=0)
    seen = etcd.get(root + "current").mod_revision
    assert publish(etcd, root, 1, b"one", seen), "an equal body may be published again"
    assert not publish(etcd, root, 2, b"two", seen), "the republication moved `current` on"
    seen = etcd.get(root + "current").mod_revision
    assert not publish(etcd, root, 1, b"another one", seen), "a body is immutable"
    assert publish(etcd, root, 2, b"two", seen)
    assert not publish(etcd, root, 2, b"two", seen), "a replay that is late"
    assert etcd.get(root + "current").value == b"2"
    assert etcd.get(root + "versions/1").value == b"one"


def test_a_value_of_1_mib_and_a_snapshot_beyond_grpcs_own_limit(etcd: EtcdClient, root: str) -> None:
    for part in range(5):
        etcd.put(f"{root}{part}", bytes([part]) * MIB)
    assert [len(found.value) for found in etcd.range(root).values] == [MIB] * 5


@pytest.mark.parametrize("size", [MIB * 3 // 2, 2 * MIB])
def test_a_value_above_etcds_limit_is_rejected_not_retried(etcd: EtcdClient, root: str, size: int) -> None:
    with pytest.raises(Rejected, match="Change the request") as rejection:
        etcd.put(root + "big", bytes(size))
    assert rejection.value.code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")


def test_a_lease_ends_some_time_after_it_was_last_kept_alive(
    etcd: EtcdClient, root: str, soon: Callable[..., Any]
) -> None:
    lease = etcd.grant(ttl_s=3)
    start = etcd.put(root + "held", b"", lease=lease.id)
    asked = time.monotonic()
    assert etcd.keep_alive(lease.id) == lease.ttl_s
    with etcd.watch(root + "held", start_revision=start + 1) as watch:
        change = soon(lambda: next(watch))
    assert change.events == (Deleted(root + "held", start + 1),)
    assert time.monotonic() - asked >= lease.ttl_s
    with pytest.raises(LeaseExpired):
        etcd.keep_alive(lease.id)
    with pytest.raises(LeaseExpired):
        etcd.put(root + "held", b"", lease=lease.id)


def test_a_revoked_lease_takes_its_keys_along(etcd: EtcdClient, root: str) -> None:
    lease = etcd.grant(ttl_s=60)
    etcd.txn([], [Put(root + "held", b"", lease.id), Put(root + "free", b"")])
    etcd.revoke(lease.id)
    assert [found.key for found in etcd.range(root).values] == [root + "free"]
    with pytest.raises(LeaseExpired) as expiry:
        etcd.revoke(lease.id)
    assert expiry.value.lease == lease.id


def test_a_server_that_is_not_there_is_unavailable_at_once(
    make_server: "Callable[..., Server]", soon: Callable[..., Any]
) -> None:
    nobody = make_server().endpoint
    with EtcdClient([nobody], timeout_ms=120_000) as client:
        with pytest.raises(Unavailable, match="does not answer") as failure:
            soon(lambda: client.get("/a"))
        assert failure.value.endpoint == nobody.removeprefix("http://")


def test_a_read_goes_on_to_the_next_endpoint_and_a_write_after_one_failure(
    make_server: "Callable[..., Server]", shared_etcd: str, root: str
) -> None:
    nobody = make_server().endpoint
    with EtcdClient([nobody, shared_etcd]) as client:
        assert client.get(root) is None
        assert client.put(root, b"1"), "the client stays with the endpoint that answered"
    with EtcdClient([nobody, shared_etcd]) as client:
        with pytest.raises(Unavailable):
            client.put(root, b"2")
        assert client.put(root, b"3")
        assert client.get(root).value == b"3"


@pytest.mark.parametrize("blow", ["end", "pause"])
def test_a_cluster_of_three_loses_a_member(make_server: "Callable[..., Server]", blow: str) -> None:
    members = [make_server() for _ in range(3)]
    cluster = ",".join(f"{member.folder.name}={member.peer}" for member in members)
    for member in members:
        member.flags = ["--initial-cluster", cluster]
        member.launch()
    for member in members:
        member.await_ready()
    with EtcdClient([member.endpoint for member in members]) as client:
        client.put("/a", b"1")
        getattr(members[0], blow)()
        assert client.get("/a").value == b"1"
        assert client.put("/a", b"2")
        assert client.get("/a").value == b"2"


@pytest.mark.parametrize(
    ("endpoint", "tls"),
    [
        ("https://127.0.0.1:2379", None),
        ("http://127.0.0.1:2379", Tls()),
        ("127.0.0.1", None),
        ("http://127.0.0.1:2379/v3", None),
        ("", None),
    ],
)
def test_an_endpoint_that_says_something_else_than_tls_does_is_refused(
    endpoint: str, tls: Tls | None
) -> None:
    with pytest.raises(ValueError, match="is no endpoint"):
        EtcdClient([endpoint], tls=tls)


def test_a_client_needs_an_endpoint() -> None:
    with pytest.raises(ValueError, match="name at least one"):
        EtcdClient([])


def test_a_client_does_not_travel(etcd: EtcdClient) -> None:
    with pytest.raises(TypeError, match="make the client in the worker"):
        pickle.dumps(etcd)


def test_a_closed_client_says_so(shared_etcd: str) -> None:
    client = EtcdClient([shared_etcd])
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.get("/a")


FORKING = """
import os, sys
from meta.etcd.client import EtcdClient

client = EtcdClient([sys.argv[1]])
client.put("/fork/parent", b"1")
child = os.fork()
if child == 0:
    client.put("/fork/child", client.get("/fork/parent").value + b"2")
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0
assert client.get("/fork/child").value == b"12"
client.close()
"""

# The file and the symbols that every generated etcd client registers.
COEXISTING = """
from google.protobuf import descriptor_pb2, descriptor_pool
default = descriptor_pool.Default()

def register(file, package, message):
    proto = descriptor_pb2.FileDescriptorProto(name=file, package=package)
    proto.message_type.add(name=message)
    default.Add(proto)

register("kv.proto", "mvccpb", "KeyValue")
from meta.etcd.messages import message
register("rpc.proto", "etcdserverpb", "RangeRequest")
request = message("TxnRequest", compare=[message("Compare", key=b"k", mod_revision=0)])
assert request.SerializeToString() == bytes([10, 5, 26, 1, 107, 48, 0]), request.SerializeToString()
try:
    default.FindFileByName("vnodemap/etcd.proto")
except KeyError:
    pass
else:
    raise AssertionError("our messages are in the pool of everybody")
"""


@pytest.mark.parametrize("script", [FORKING, COEXISTING], ids=["channels after a fork", "protobuf's pool"])
def test_it_shares_a_process_with_others(script: str, shared_etcd: str) -> None:
    command = [sys.executable, "-W", "error", "-c", script, shared_etcd]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
