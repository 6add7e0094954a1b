"""The last version on disk, for a start while etcd and the service are both away."""

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from dispatcher.errors import WrongBody
from dispatcher.view import Source, View, checked_body
from meta.mapping.publication import Current, check_fragment_name, decode_body, digest, encode_body

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Coordination:
    """Where the mappings are published: etcd's endpoints, the root of our keys, and what etcd wants to be shown."""

    endpoints: tuple[str, ...]
    root: str
    tls: bool = False
    auth: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    view: View
    coordination: Coordination | None

    @property
    def rank(self) -> tuple[int, int, int]:
        """Grows with the view, and never goes back within one history."""
        current, usable = self.view.current, self.view.usable
        return current.version, current.phase.rank, usable.version if usable else 0


class Ledger:
    """One file for each fragment in `folder`, which subscriptions may share; None keeps nothing.

    The file's modification time is the instant when its version was last confirmed. A disk that fails is logged and
    otherwise ignored: the copy helps only a later start.
    """

    def __init__(self, folder: Path | None, fragment: str) -> None:
        check_fragment_name(fragment)
        self._fragment = fragment
        self._path = None if folder is None else folder / f"{fragment}.mapping"
        self._encoded: tuple[object, bytes] = (None, b"")
        self._told_failure = False

    def keep(self, entry: Entry) -> None:
        """Replaces the file at once and for good (fsync), so that a crash leaves this entry or the one before.

        An entry that says the same as the file only confirms it; one that is older changes nothing.
        """
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self._path.with_suffix(".lock")):
                self._keep_newer(self._path, entry)
            self._told_failure = False
        except OSError as error:
            if not self._told_failure:
                self._told_failure = True
                log.warning("fragment %s: the last version is not kept on disk (%s)", self._fragment, error)

    def load(self, now_ms: int) -> Entry | None:
        """The last entry; None without one, and (with a warning) where the file holds something else."""
        if self._path is None:
            return None
        try:
            content = self._path.read_bytes()
            age_ms = max(0, int((time.time() - self._path.stat().st_mtime) * 1000))
            return _decode(self._fragment, content, now_ms - age_ms)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, WrongBody) as error:
            log.warning(
                "fragment %s: %s is ignored, it holds no last version (%r)", self._fragment, self._path, error
            )
            return None

    def _keep_newer(self, path: Path, entry: Entry) -> None:
        content = self._encode(entry)
        if path.exists() and path.read_bytes() == content:
            os.utime(path)
            return
        kept = self.load(0)
        if kept is None or kept.rank <= entry.rank:
            _replace(path, content)

    def _encode(self, entry: Entry) -> bytes:
        # Kept, since most entries only confirm: encoding 65,536 vnodes takes longer than all the rest.
        usable = entry.view.usable
        said = (entry.view.current, usable and usable.version, entry.coordination)
        if said != self._encoded[0]:
            self._encoded = (said, _encode(entry))
        return self._encoded[1]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Against the other subscriptions, of this process and of others. The system unlocks for one that dies."""
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    # The new name lasts only once the folder is on disk too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _encode(entry: Entry) -> bytes:
    """A line with the digest of the rest, which is JSON."""
    view, coordination = entry.view, entry.coordination
    document = {
        "body": encode_body(view.newest).decode(),
        "coordination": coordination and asdict(coordination),
        "current": view.current.encode().decode(),
        "usable_body": view.usable and encode_body(view.usable).decode(),
    }
    content = json.dumps(document, sort_keys=True).encode()
    return digest(content).encode() + b"\n" + content


def _decode(fragment: str, file: bytes, confirmed_ms: int) -> Entry:
    told, _, content = file.partition(b"\n")
    if told != digest(content).encode():
        raise ValueError("it was changed, or is another program's")
    document = json.loads(content)
    current = Current.decode(document["current"].encode())
    newest = checked_body(fragment, current, document["body"].encode())
    usable = document["usable_body"] and decode_body(document["usable_body"].encode())
    if usable and (usable.fragment != fragment or usable.version > newest.version):
        raise ValueError(
            f"{usable.fragment}'s version {usable.version} cannot be used before {newest.version}"
        )
    coordination = document["coordination"] and Coordination(
        **{**document["coordination"], "endpoints": tuple(document["coordination"]["endpoints"])}
    )
    return Entry(View(newest, current, usable, Source.DISK, confirmed_ms), coordination)
