"""The JSON of mappings, made once: a mapping of 65,536 vnodes takes 10 ms to write and is asked for all the time."""

import threading
from collections import OrderedDict
from collections.abc import Callable

# Some 300 KB each, at most.
ENTRIES_MAX = 64


class MappingDocuments:
    """The JSON that never changes, by a version's digest and the form; the least recently used goes. Thread-safe."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._changing = threading.Lock()
        self._tails: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def tail(self, digest: str, form: str, make: Callable[[], bytes]) -> bytes:
        """`make` is called where nobody asked before, from several threads at once perhaps."""
        key = digest, form
        with self._changing:
            known = self._tails.get(key)
            if known is not None:
                self._tails.move_to_end(key)
                return known
        made = make()
        with self._changing:
            self._tails[key] = made
            if len(self._tails) > self._entries_max:
                self._tails.popitem(last=False)
        return made
