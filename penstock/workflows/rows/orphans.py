"""`end_with_parent`: let the system end a process when its parent is gone, however it ended."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def end_with_parent() -> None:
    """Ask the system to kill this process when the thread that has started it ends, also within a long call in C.

    No thread of this process could do that: such a call keeps the interpreter to itself. Only Linux has it; elsewhere
    the process ends at its next look at the connection.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    with suppress(ImportError, OSError, AttributeError):  # a Python without ctypes, a C library without prctl
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended in between
        os._exit(1)
