"""One watch: a stream of changes from a given revision on, until it fails or is closed."""

import queue
import threading
from collections import deque
from contextlib import suppress
from itertools import groupby
from types import TracebackType
from typing import Any, Self

import grpc

from meta.etcd.connection import Connection
from meta.etcd.errors import Compacted, EtcdError, PermissionDenied, Unauthenticated, Unavailable
from meta.etcd.messages import EVENT_DELETE, WATCH, message
from meta.etcd.values import Change, Deleted, KeyValue


def text(key: bytes) -> str:
    """A key as we show it; every byte survives."""
    return key.decode("utf-8", "surrogateescape")


def key_value(kv: Any) -> KeyValue:
    """The value of a KeyValue message."""
    return KeyValue(text(kv.key), kv.value, kv.create_revision, kv.mod_revision)


class Watch:
    """A blocking iterator of `Change`, one a revision, in order and without a gap from `start_revision` on.

    Raises Compacted if that revision is gone, PermissionDenied, Unavailable when the server is lost (it does
    not resume by itself), Unauthenticated or Rejected. `close` may come from any thread and ends the iteration.
    A store that lost its data is silent until it reaches `start_revision` again: compare a read's revision.
    """

    def __init__(self, connection: Connection, key: bytes, range_end: bytes, start_revision: int) -> None:
        self._connection = connection
        self._request = message(
            "WatchRequest",
            create_request={"key": key, "range_end": range_end, "start_revision": start_revision},
        )
        self._action = f"the watch of {text(key)}"
        self._start_revision = start_revision
        self._changes: deque[Change] = deque()
        self._target = connection.target
        self._token: str | None = None
        self._renewed = False
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._responses: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call: Any = None
        self.confirmed = False
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        try:
            if self._call is None:
                self._open(self._connection.token())
            while not self._changes:
                self._take(self._receive())
        except Exception:
            self.close()
            raise
        return self._changes.popleft()

    def close(self) -> None:
        """End the watch here and at the server."""
        self.closed = True
        self._hang_up()

    def _open(self, token: str | None) -> None:
        self._target, self._token = self._connection.target, token
        # gRPC reads the requests in a thread of its own, which the final None ends.
        self._requests = queue.SimpleQueue()
        self._requests.put(self._request)
        requests = iter(self._requests.get, None)
        self._call = self._connection.stream(WATCH, requests, self._target, token)
        self._responses = _until_the_end(self._call)
        if self.closed:
            self._hang_up()

    def _hang_up(self) -> None:
        self._requests.put(None)
        if self._call is not None:
            self._call.cancel()

    def _receive(self) -> Any:
        response = self._responses.get()
        if response is not None:
            return response
        self._responses.put(None)  # whoever iterates again meets the end again
        if self.closed:
            raise StopIteration
        if self._call.code() is grpc.StatusCode.OK:
            raise Unavailable(self._target, "the watch was ended by the server")
        raise self._connection.failure(self._action, self._target, self._call)

    def _take(self, response: Any) -> None:
        # etcd answers a denied watch with `created` and `canceled` in one response: `canceled` decides.
        if response.canceled:
            self._refused(self._refusal(response))
        elif response.created:
            self.confirmed = True
        # A response without events (progress) may run ahead of the events (etcd#15220): it says nothing here.
        for revision, events in groupby(response.events, key=lambda event: int(event.kv.mod_revision)):
            self._changes.append(Change(revision, tuple(_event(event) for event in events)))

    def _refusal(self, response: Any) -> EtcdError:
        if response.compact_revision:
            return Compacted(self._start_revision, response.compact_revision)
        return self._connection.refusal(self._action, "CANCELED", response.cancel_reason)

    def _refused(self, refusal: EtcdError) -> None:
        # An expired token looks like a missing permission (etcd 3.5.1), so a new one decides.
        doubtful = isinstance(refusal, PermissionDenied | Unauthenticated)
        if self._token is None or self._renewed or not doubtful:
            raise refusal
        self._renewed = True
        self._hang_up()
        self._open(self._connection.token(instead_of=self._token))


def _until_the_end(call: Any) -> queue.SimpleQueue[Any]:
    """The responses of a call as they come, then None.

    Not by iterating in the caller's thread: a call whose connection fails while it is sent may have a status and
    yet never end its iteration, not even if it is cancelled (gRPC 1.85). Its callback comes in any case; it may
    overtake the last responses, which a watch from the revision after the last one seen brings again.
    """
    responses: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def take() -> None:
        with suppress(grpc.RpcError):
            for response in call:
                responses.put(response)

    threading.Thread(target=take, name="responses of a watch", daemon=True).start()
    if not call.add_callback(lambda: responses.put(None)):
        responses.put(None)
    return responses


def _event(event: Any) -> KeyValue | Deleted:
    if event.type == EVENT_DELETE:
        return Deleted(text(event.kv.key), event.kv.mod_revision)
    return key_value(event.kv)
