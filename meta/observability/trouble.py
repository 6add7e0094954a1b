"""What is looked at every second is told when it changes, not every second."""

import logging
import threading

log = logging.getLogger(__name__)


class Troubles:
    """The newest trouble of each subject. Thread-safe."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._told: dict[str, str] = {}

    def tell(self, subject: str, trouble: str, level: int = logging.ERROR) -> None:
        with self._changing:
            known = self._told.get(subject)
            self._told[subject] = trouble
        if known != trouble:
            log.log(level, "%s: %s", subject, trouble)

    def tell_once(self, subject: str, trouble: str, level: int = logging.ERROR) -> None:
        """Not again while it lasts, though it is put in other words: each endpoint has its own."""
        with self._changing:
            known = self._told.setdefault(subject, trouble)
        if known is trouble:
            log.log(level, "%s: %s", subject, trouble)

    def over(self, subject: str) -> None:
        with self._changing:
            known = self._told.pop(subject, None)
        if known is not None:
            log.info("%s: it is well again", subject)
