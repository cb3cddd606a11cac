"""The pipes of a worker, moved away from where user code reads and prints."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING

from penstock.workflows.studio.protocol import decode, encode
from penstock.workflows.studio.worker.problems import where_is

if TYPE_CHECKING:
    from penstock.workflows.studio.protocol import Json


class Channel:
    """Requests in, events out. Lives as long as the worker.

    A thread reads the requests, so that it sees the end of the studio, and the question where the program is, while
    user code runs.
    """

    def __init__(self, requests: IO[bytes], events: IO[bytes]) -> None:
        self.requests: SimpleQueue[Json] = SimpleQueue()
        self._in = requests
        self._out = events
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._main = threading.get_ident()
        self._mark = b""  # what the studio waits for in the log
        threading.Thread(target=self._read, name="penstock studio requests", daemon=True).start()

    def event(self, name: str, data: object) -> None:
        """Send an event of the request at hand."""
        self._send({"event": name, "data": data})

    def done(self, data: object) -> None:
        """Send the result of the request at hand."""
        self._mark_log()
        self._send({"done": data})

    def failed(self, problem: Json) -> None:
        """Send why the request at hand failed."""
        self._mark_log()
        self._send({"failed": problem})

    def _mark_log(self) -> None:
        """Print the mark of the studio, behind all that user code has printed: the log comes through another pipe."""
        with contextlib.suppress(OSError, ValueError):  # user code may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(2, self._mark)

    def _send(self, message: Json) -> None:
        if os.getpid() != self._process:
            os._exit(0)  # user code has forked, and this is the copy: the studio waits for one answer, not for two
        line = encode(message)
        with self._lock:
            try:
                self._out.write(line)
                self._out.flush()
            except (OSError, ValueError):  # the studio has gone
                _end_group()

    def _read(self) -> None:
        try:
            for line in self._in:
                request = decode(line)
                if request.get("do") == "where":
                    self.event("where", where_is(self._main))
                else:
                    self._mark = str(request.get("mark", "")).encode()
                    self.requests.put(request)
        finally:
            _end_group()  # without the studio nobody waits for what the user's code still does


def _end_group() -> None:
    """End this process, and every process that it has started, as the studio does it."""
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def own_channel() -> Channel:
    """Return the channel of this process; from now on the output of user code goes to stderr, and stdin is empty."""
    requests = os.fdopen(os.dup(0), "rb")
    events = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    return Channel(requests, events)
