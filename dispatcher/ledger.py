"""The last version on disk, for a start while etcd and the service are both away."""

import json
import logging
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from dispatcher.errors import WrongBody
from dispatcher.view import Source, View, checked_body
from meta.mapping.publication import Current, check_fragment_name, decode_body, encode_body

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Coordination:
    """Where the mappings are published: etcd's endpoints and the root of our keys."""

    endpoints: tuple[str, ...]
    root: str


@dataclass(frozen=True, slots=True)
class Entry:
    view: View
    coordination: Coordination | None


class Ledger:
    """One file for each fragment in `folder`; None keeps nothing.

    The file's modification time is the instant when its version was last confirmed. A disk that fails is logged and
    otherwise ignored: the copy helps only a later start.
    """

    def __init__(self, folder: Path | None, fragment: str) -> None:
        check_fragment_name(fragment)
        self._fragment = fragment
        self._path = None if folder is None else folder / f"{fragment}.mapping.json"
        self._kept: object = None
        self._told_failure = False

    def keep(self, entry: Entry) -> None:
        """Replaces the file at once and for good (fsync), so that a crash leaves this entry or the one before.

        An entry that says the same as the last one only confirms it.
        """
        if self._path is None:
            return
        usable = entry.view.usable
        content = (entry.view.current, usable and usable.version, entry.coordination)
        try:
            if content == self._kept and self._path.exists():
                os.utime(self._path)
            else:
                _replace(self._path, _encode(entry))
                self._kept = content
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
            log.warning("fragment %s: %s is not a last version (%r)", self._fragment, self._path, error)
            return None


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: several subscriptions may share the folder.
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _encode(entry: Entry) -> bytes:
    view, coordination = entry.view, entry.coordination
    document = {
        "body": encode_body(view.newest).decode(),
        "coordination": coordination and {"endpoints": coordination.endpoints, "root": coordination.root},
        "current": view.current.encode().decode(),
        "usable_body": view.usable and encode_body(view.usable).decode(),
    }
    return json.dumps(document, sort_keys=True).encode()


def _decode(fragment: str, content: bytes, confirmed_ms: int) -> Entry:
    document = json.loads(content)
    current = Current.decode(document["current"].encode())
    newest = checked_body(fragment, current, document["body"].encode())
    usable = document["usable_body"] and decode_body(document["usable_body"].encode())
    coordination = document["coordination"] and Coordination(
        tuple(map(str, document["coordination"]["endpoints"])), str(document["coordination"]["root"])
    )
    return Entry(View(newest, current, usable, Source.DISK, confirmed_ms), coordination)
