"""Run as a script: become the command, which then ends when the thread that started this script ends.

`child.py PARENT_PID COMMAND...`. A `preexec_fn` would do the same, but is not safe in a process with threads.
It imports nothing of ours, so that it starts quickly and from any folder.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent_pid: int, command: list[str]) -> None:
    """Never returns: the process becomes `command`, or ends if its parent is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The parent may have died before the line above, and then there is no signal to come.
    if os.getppid() != parent_pid:
        sys.exit("the process that started this one is gone")
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
