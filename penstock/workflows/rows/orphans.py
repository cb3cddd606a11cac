"""`OrphanWatcher`: ends worker processes when the process that has started them ended, however it ended."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from weakref import finalize

_PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    group = int(line)
    (groups.add if group > 0 else groups.discard)(abs(group))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class OrphanWatcher:
    """A small process beside the workers, which kills their process groups when this process has ended.

    It sees the end of a pipe, so it also works when this process is killed by SIGKILL. No thread of a worker could do
    that: a long call in C keeps the interpreter to itself. Nor could a signal of the kernel to the worker, as Linux has
    it: the worker would be dead before it could end what it has started.

    It is started for the first worker. Systems without process groups (Windows) have no watcher; there a worker ends at
    its next look at its connection.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, worker: int) -> None:
        """Watch a worker, by its id; it leads a process group of its own."""
        if sys.platform == "win32":
            return
        with suppress(OSError):  # no memory, no Python to start
            if self._process is None:
                self._process = subprocess.Popen(  # noqa: S603 - the program is our own
                    [sys.executable, "-I", "-S", "-c", _PROGRAM],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C, and what kills the group of this process, do not reach it
                )
                finalize(self, _end, self._process)
        self._say(worker)

    def forget(self, worker: int) -> None:
        """Watch a worker no more. Call it before its id can be given to another process."""
        self._say(-worker)

    def close(self) -> None:
        """Kill the workers that are still watched, and end the watcher."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def _say(self, number: int) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # somebody has killed it
                self._process.stdin.write(b"%d\n" % number)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait()
