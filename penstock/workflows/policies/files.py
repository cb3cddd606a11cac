"""The files of policies: which names are theirs, and their bytes, read with a bound and without waiting."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from typing import TypeAlias

SUFFIXES = (".yaml", ".yml", ".json")
"""How the name of a policy file ends."""

MOST_BYTES = 1_000_000
"""How long a policy file may be, in bytes."""

FileState: TypeAlias = tuple[int, int, int, int]
"""The state of a file, which tells whether it was changed or replaced: device, inode, size and time."""

FileReader: TypeAlias = Callable[[str], tuple[bytes, FileState]]
"""Returns the bytes of a file and its state, or raises an `OSError`."""


def is_policy_file(name: str) -> bool:
    """Return whether a name is that of a policy file, by its ending."""
    return name.endswith(SUFFIXES)


def read_file(name: str) -> tuple[bytes, FileState]:
    """Return the bytes of a file, and its state.

    Raises:
        OSError: it cannot be read: it is missing, a folder, a pipe or a device, or longer than a policy file may be.
    """
    with open(name, "rb", opener=_without_waiting) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no file, but a folder, a pipe or a device", name)
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it is longer than {MOST_BYTES:,} bytes; split it, and name the parts", name)
    return data, state_of(found)


def state_of(found: os.stat_result) -> FileState:
    """Return the state of a file, which tells whether it was changed or replaced."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _without_waiting(name: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is opened, too, and then refused."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


_reader: FileReader = read_file


def read_by(reader: FileReader) -> None:
    """Read policy files in this process by another function. The studio keeps a copy of each so."""
    global _reader  # noqa: PLW0603 - there is one for the process, as there is one file system
    _reader = reader


def file_bytes(name: str) -> tuple[bytes, FileState]:
    """Return the bytes of a file and its state, by the reader of this process.

    Raises:
        OSError: it cannot be read.
    """
    return _reader(name)
