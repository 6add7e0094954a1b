"""The service's clock, which also knows since when heartbeats could be heard without a gap."""

import threading
from collections.abc import Callable

from meta.lifecycle import Moment

# The service reads the clock every second, and less often only where the process stood still.
GAP_MS = 5_000


class Hearing:
    """Thread-safe. `clock_ms` gives milliseconds since the epoch."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._changing = threading.Lock()
        self._last_ms = self._silence_from_ms = clock_ms()

    def now(self) -> Moment:
        """Now. After a gap (a stopped process, a clock that was set) silence counts anew."""
        with self._changing:
            now_ms = self._clock_ms()
            if abs(now_ms - self._last_ms) > GAP_MS:
                self._silence_from_ms = now_ms
            self._last_ms = now_ms
            return Moment(now_ms, self._silence_from_ms)

    def interrupted(self) -> None:
        """Heartbeats may have been lost until now, for example because the database was away."""
        with self._changing:
            self._last_ms = self._silence_from_ms = self._clock_ms()
