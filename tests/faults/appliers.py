"""Run as a process: `python -m tests.faults.appliers URL FRAGMENT COUNT` is a job of so many appliers.

Prints a line for each version that one of them works by: the applier's number and the version. It ends with its input.
"""

import sys
import threading
from contextlib import ExitStack

from dispatcher.subscription import Subscription

PAUSE_S = 0.05


def main(url: str, fragment: str, count: int) -> None:
    with ExitStack() as subscribed:
        appliers = [
            subscribed.enter_context(Subscription(url, fragment, name=f"applier {number}", poll_ms=200))
            for number in range(count)
        ]
        ended = threading.Event()
        threading.Thread(target=_until_input_ends, args=[ended], daemon=True).start()
        told = [0] * count
        while not ended.wait(PAUSE_S):
            for number, applier in enumerate(appliers):
                with applier.pin() as mapping:
                    if mapping.version != told[number]:
                        told[number] = mapping.version
                        print(number, mapping.version, flush=True)


def _until_input_ends(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
