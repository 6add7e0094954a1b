"""The calls of etcd v3 that this project needs: read, write, transaction, lease, watch."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from meta.etcd.connection import Connection, Credentials, Tls
from meta.etcd.errors import LeaseExpired, Rejected
from meta.etcd.messages import (
    COMPARE_EQUAL,
    COMPARE_MOD,
    DELETE_RANGE,
    LEASE_GRANT,
    LEASE_KEEP_ALIVE,
    LEASE_REVOKE,
    PUT,
    RANGE,
    TXN,
    message,
)
from meta.etcd.values import Delete, KeyValue, Lease, ModRevisionIs, Put, Snapshot, TxnResult
from meta.etcd.watch import Watch, key_value


class EtcdClient:
    """A client of one etcd cluster.

    Thread-safe; usable after a fork, where it connects anew; not to be pickled. A call takes at most
    `timeout_ms` at an endpoint. A read asks each endpoint once. A write asks one, since after Unavailable
    nobody knows whether it was done; the next call then goes to the next endpoint. Every call may raise an
    EtcdError.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: Tls | None = None,
        credentials: Credentials | None = None,
        timeout_ms: int = 2_000,
    ) -> None:
        self._connection = Connection(endpoints, tls=tls, credentials=credentials, timeout_ms=timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an EtcdClient holds connections: send its endpoints and make the client in the worker"
        )

    def close(self) -> None:
        """Close the connections; watches end as Unavailable, so close them first."""
        self._connection.close()

    def wait_ready(self, timeout_ms: int) -> bool:
        """Whether the server began to answer within this time."""
        return self._connection.wait_ready(timeout_ms)

    def get(self, key: str) -> KeyValue | None:
        """The key's value now, or None if there is no such key."""
        values = self.read(key).values
        return values[0] if values else None

    def read(self, key: str) -> Snapshot:
        """Like `get`, with the store's revision: watch from the one after it to miss nothing."""
        return self._range(_bytes(key), b"", key)

    def range(
        self, prefix: str, *, after: str | None = None, limit: int = 0, keys_only: bool = False
    ) -> Snapshot:
        """The keys that start with `prefix`: those after the key `after`, the first `limit` of them, if these are
        given; with `keys_only` all values are empty."""
        start = _bytes(prefix) or b"\0" if after is None else _bytes(after) + b"\0"
        return self._range(start, _prefix_end(_bytes(prefix)), prefix, limit=limit, keys_only=keys_only)

    def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """Write the key whatever it holds; returns the revision. Raises LeaseExpired."""
        answer = self._leased(lease, PUT, _put(Put(key, value, lease)), f"the put of {key}")
        return int(answer.header.revision)

    def delete(self, key: str) -> bool:
        """Remove the key; whether it was there."""
        answer = self._connection.write(DELETE_RANGE, _delete(Delete(key)), f"the delete of {key}")
        return bool(answer.deleted)

    def txn(self, compares: Sequence[ModRevisionIs], writes: Sequence[Put | Delete]) -> TxnResult:
        """Do all writes, as one revision, if all comparisons hold; else none."""
        request = message(
            "TxnRequest",
            compare=[_compare(each) for each in compares],
            success=[_operation(each) for each in writes],
        )
        answer = self._connection.write(
            TXN, request, f"the write of {', '.join(each.key for each in writes)}"
        )
        return TxnResult(answer.succeeded, answer.header.revision)

    def grant(self, ttl_s: int) -> Lease:
        """A lease that ends `ttl_s` seconds after its last `keep_alive` (a server adds up to a second)."""
        answer = self._connection.write(LEASE_GRANT, message("LeaseGrantRequest", TTL=ttl_s), "a lease")
        return Lease(answer.ID, answer.TTL)

    def keep_alive(self, lease: int) -> int:
        """Let the lease begin again; returns its seconds. Raises LeaseExpired."""
        request = message("LeaseKeepAliveRequest", ID=lease)
        ttl_s = int(self._connection.exchange(LEASE_KEEP_ALIVE, request, f"lease {lease:x}").TTL)
        # etcd reports a lease that is gone as one with no time left, not as an error.
        if ttl_s <= 0:
            raise LeaseExpired(lease)
        return ttl_s

    def revoke(self, lease: int) -> None:
        """End the lease and remove its keys. Raises LeaseExpired."""
        self._leased(lease, LEASE_REVOKE, message("LeaseRevokeRequest", ID=lease), f"lease {lease:x}")

    def watch(self, key: str, *, start_revision: int, prefix: bool = False) -> Watch:
        """The changes of one key, or of all keys with this prefix, from `start_revision` (1 or more) on."""
        if start_revision < 1:
            raise ValueError("a watch starts at a revision of 1 or more; take the one after a snapshot's")
        end = _prefix_end(_bytes(key)) if prefix else b""
        return Watch(self._connection, _bytes(key) or b"\0", end, start_revision)

    def _range(self, key: bytes, range_end: bytes, shown: str, **options: Any) -> Snapshot:
        request = message("RangeRequest", key=key, range_end=range_end, **options)
        answer = self._connection.read(RANGE, request, f"the read of {shown}")
        values = tuple(key_value(kv) for kv in answer.kvs)
        return Snapshot(answer.header.revision, answer.header.cluster_id, values, answer.more)

    def _leased(self, lease: int, rpc: Any, request: Any, action: str) -> Any:
        try:
            return self._connection.write(rpc, request, action)
        except Rejected as rejection:
            if rejection.code == "NOT_FOUND":
                raise LeaseExpired(lease) from rejection
            raise


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _prefix_end(prefix: bytes) -> bytes:
    """The first key after all with this prefix; etcd reads a zero byte as "no end"."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b"\0"


def _compare(compare: ModRevisionIs) -> Any:
    return message(
        "Compare",
        result=COMPARE_EQUAL,
        target=COMPARE_MOD,
        key=_bytes(compare.key),
        mod_revision=compare.revision,
    )


def _put(put: Put) -> Any:
    return message("PutRequest", key=_bytes(put.key), value=put.value, lease=put.lease)


def _delete(delete: Delete) -> Any:
    return message("DeleteRangeRequest", key=_bytes(delete.key), range_end=_bytes(delete.until))


def _operation(write: Put | Delete) -> Any:
    if isinstance(write, Put):
        return message("RequestOp", request_put=_put(write))
    return message("RequestOp", request_delete_range=_delete(write))
