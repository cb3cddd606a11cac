"""Processes at work on one state: forks of the test, each with an event loop of its own, and a pipe for its notes."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio


class Forked:
    """A process that does some work, and notes what it did.

    Args:
        work: what it does; it gets a function that writes a line at once, so that a kill loses none.
    """

    def __init__(self, work: Callable[[Callable[[str], None]], Awaitable[Any]]) -> None:
        reading, writing = os.pipe()
        self.process = os.fork()
        if not self.process:
            _run(work, reading, writing)
        os.close(writing)
        self._notes = os.fdopen(reading)

    def line(self) -> str:
        """Wait for a note."""
        return self._notes.readline().strip()

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.process, signal.SIGKILL)

    def end(self) -> list[str]:
        """Wait until it has ended; return its further notes."""
        with self._notes as notes:
            lines = notes.read().split()
        _, status = os.waitpid(self.process, 0)
        assert status in (0, signal.SIGKILL), f"a process ended with {status}: its stderr says why"
        return lines


def _run(work: Callable[[Callable[[str], None]], Awaitable[Any]], reading: int, writing: int) -> None:
    os.close(reading)
    code = 1
    try:
        anyio.run(work, lambda line: os.write(writing, f"{line}\n".encode()))
        code = 0
    except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)
