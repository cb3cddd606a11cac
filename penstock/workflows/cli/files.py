"""Opening what the command reads and writes, so that what goes wrong is said in a sentence; it knows no command."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.exits import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def reading(name: str) -> Generator[IO[bytes]]:
    """Open a file to read bytes from; ``-`` is stdin, which stays open.

    Raises:
        CommandError: it cannot be read.
    """
    if name == "-":
        yield _stdin()
        return
    try:
        stream = Path(name).open("rb")  # noqa: SIM115 - closed below; only opening it is explained here
    except OSError as error:
        raise CommandError(f"cannot read {name}: {_reason(error)}") from error
    with stream:
        yield stream


def _stdin() -> IO[bytes]:
    """Return stdin's bytes through a reader of our own: at exit, Python wants the lock that reading sys.stdin holds."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # it is none of the system's
        return sys.stdin.buffer


@contextlib.contextmanager
def writing(name: str | None, stdout: IO[str]) -> Generator[IO[str]]:
    """Open a file to write text to, in UTF-8 with plain line ends; None and ``-`` are stdout, which stays open.

    Raises:
        CommandError: it cannot be written.
    """
    if name in (None, "-"):
        yield stdout
        stdout.flush()
        return
    try:
        # What UTF-8 has no place for (half a surrogate pair) is written as \udXXX, which JSON reads back as the same.
        stream = Path(name).open("w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"cannot write {name}: {_reason(error)}") from error
    with stream:
        yield stream


def refuse_same(read: str, written: str | None) -> None:
    """Refuse to write over what is being read.

    Raises:
        CommandError: both are one file.
    """
    if written is None or "-" in (read, written):
        return
    with contextlib.suppress(OSError):
        if os.path.samefile(read, written):  # noqa: PTH121 - neither needs to exist
            raise CommandError(f"{written} is the input; write to another file")


def size_of(stream: IO[bytes]) -> int | None:
    """Return a file's size in bytes; None if it has none, as a pipe."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size or None


def prepare(stdout: IO[str]) -> None:
    """Make stdout write UTF-8 with plain line ends, whatever the locale: JSONL is UTF-8, and nothing fails to print."""
    reconfigure = getattr(stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def forget(stdout: IO[str]) -> None:
    """Send what is still to be written nowhere: its reader went away, and flushing at exit would fail once more."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout.fileno())
        os.close(nowhere)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
