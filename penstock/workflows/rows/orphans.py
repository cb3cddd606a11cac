"""`OrphanWatcher`: ends worker processes when the process that has started them ended, however it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from weakref import finalize

# The watcher reads a number a line: the id of a worker to watch, the negative id of a worker to forget, and 0 to end.
# User code may have forked processes that hold the pipe, too. So the watcher also looks whether its parent still lives.
_PROGRAM = """
import os, select, signal, sys

LOOK = 1.0  # seconds between two looks at the parent

def began(process):
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[19]
    except OSError:
        return None

def watched(parent):
    workers, rest = {}, b""
    while True:
        gone = os.getppid() != parent
        if select.select([0], [], [], 0 if gone else LOOK)[0]:
            said = os.read(0, 65536)
            *lines, rest = (rest + said).split(b"\\n")
            for number in map(int, lines):
                if number > 0:
                    workers[number] = began(number)
                else:
                    workers.pop(-number, None)
            if not said or b"0" in lines:
                return workers
        elif gone:
            return workers

def kill(worker, then):
    now = began(worker)
    if now is not None and now != then:
        return  # the worker has ended, and its id is that of another process
    try:
        os.killpg(worker, signal.SIGKILL)
    except OSError:
        if now is not None:  # it does not lead its group yet
            os.kill(worker, signal.SIGKILL)

for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(each, signal.SIG_IGN)
for worker, then in watched(int(sys.argv[1])).items():
    try:
        kill(worker, then)
    except OSError:
        pass
"""


class OrphanWatcher:
    """A small process beside the workers, which kills their process groups when this process has ended.

    It sees the end of a pipe, so it also works when this process is killed by SIGKILL. No thread of a worker could do
    that: a long call in C keeps the interpreter to itself. Nor could a signal of the kernel to the worker, as Linux has
    it: the worker would be dead before it could end what it has started.

    It is started for the first worker; a process that is forked from this one starts its own. Systems without process
    groups (Windows) have no watcher; there a worker ends at its next look at its connection.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def watch(self, worker: int) -> None:
        """Watch a worker, by its id; it leads a process group of its own, or is about to."""
        if sys.platform == "win32":
            return
        if self._owner != os.getpid():  # the watcher of the process that this one was forked from
            self._process, self._owner = None, os.getpid()
        with suppress(OSError):  # no memory, no Python to start
            if self._process is None:
                self._process = subprocess.Popen(  # noqa: S603 - the program is our own
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, str(self._owner)],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C, and what kills the group of this process, do not reach it
                )
                finalize(self, _end, self._process)
        self._say(worker)

    def forget(self, worker: int) -> None:
        """Watch a worker no more. Call it as soon as the worker has ended: its id may be given to another process."""
        self._say(-worker)

    def close(self) -> None:
        """Kill the workers that are still watched, and end the watcher."""
        if self._process is not None and self._owner == os.getpid():
            _end(self._process)
            self._process = None

    def _say(self, number: int) -> None:
        if self._process is not None and self._owner == os.getpid():
            _write(self._process, number)


def _write(process: subprocess.Popen[bytes], number: int) -> None:
    if process.stdin is not None:
        with suppress(OSError, ValueError):  # somebody has killed it; it was closed
            process.stdin.write(b"%d\n" % number)


def _end(process: subprocess.Popen[bytes]) -> None:
    _write(process, 0)
    if process.stdin is not None:
        process.stdin.close()
    process.wait()
