"""`stop_servers`: end the servers of the hooks that this user runs, also those of other versions of the library."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path

from penstock.workflows.hooks.client import runtime_folder


def stop_servers() -> int:
    """Ask each server that runs to end, and return how many there were.

    A server holds the lock on a file, in which its process id stands. A file that nobody has locked is left alone.

    Raises:
        ClientError: the folder of the sockets is not private.
    """
    found = 0
    for path in Path(runtime_folder()).glob("hook-*.lock"):
        lock = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            id = os.read(lock, 20)
            if id.isdigit():
                with suppress(ProcessLookupError):
                    os.kill(int(id), signal.SIGTERM)
                    found += 1
        finally:
            os.close(lock)
    return found
