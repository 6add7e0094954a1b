"""A real server in a thread, for tests that ask over HTTP and hold the application in their hands."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import uvicorn
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The URL under which it answers until the end of the block."""
    # The protocol is named for asyncio, which leaves Nagle's algorithm on without it.
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, server_header=False))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            # The socket listens already, so the first request waits until the server takes it.
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
