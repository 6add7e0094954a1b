"""A TCP line in the test's own hands: what goes over it can be held back at a certain word, delivered late, or lost."""

import socket
import socketserver
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

import httpx


class Lost(Exception):
    """What was held on the line is never delivered."""


class Line:
    """Listens at `endpoint` and passes everything on to `target`, another endpoint. Thread-safe."""

    def __init__(self, target: str) -> None:
        url = httpx.URL(target)
        self._target = (url.host, url.port)
        self._changed = threading.Condition()
        # Guarded by it:
        self._word: bytes | None = None
        self._holding = self._losing = False
        self._open: set[socket.socket] = set()
        line = self

        class Passing(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                line._pass(self.request)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Passing)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self.lose()
        with self._changed:
            for end in self._open:
                _shut(end)
        self._server.server_close()

    def hold_at(self, word: bytes) -> None:
        """The next bytes to the target with `word` in them wait, and so do all behind them."""
        with self._changed:
            self._word, self._losing = word, False

    def wait_held(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._holding, timeout_s)

    def release(self) -> None:
        """What was held is delivered."""
        with self._changed:
            self._word, self._holding = None, False
            self._changed.notify_all()

    def lose(self) -> None:
        """What was held is lost with its connection."""
        with self._changed:
            self._word, self._losing = None, self._holding
            self._holding = False
            self._changed.notify_all()

    def _pass(self, near: socket.socket) -> None:
        with suppress(OSError), socket.create_connection(self._target, 5) as far:
            far.settimeout(None)
            with self._changed:
                self._open |= {near, far}
            answers = threading.Thread(target=self._pump, args=(far, near))
            answers.start()
            self._pump(near, far, to_target=True)
            answers.join()
            with self._changed:
                self._open -= {near, far}

    def _pump(self, source: socket.socket, sink: socket.socket, *, to_target: bool = False) -> None:
        tail = b""
        with suppress(OSError, Lost):
            while chunk := source.recv(1 << 16):
                if to_target:
                    self._wait(tail + chunk)
                    tail = chunk[-200:]
                sink.sendall(chunk)
        _shut(source)
        _shut(sink)

    def _wait(self, passing: bytes) -> None:
        with self._changed:
            if self._word is None or self._word not in passing:
                return
            self._holding = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._holding)
            if self._losing:
                raise Lost


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
