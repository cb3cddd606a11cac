"""Open files, stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.exit_codes import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def reading(name: str) -> Generator[IO[bytes]]:
    """Open a file for reading bytes. ``-`` is stdin, which stays open.

    Raises:
        CommandError: it cannot be read.
    """
    if name == "-":
        yield _stdin()
        return
    try:
        stream = Path(name).open("rb")  # noqa: SIM115 - closed below; only errors of opening it are caught here
    except OSError as error:
        raise CommandError(f"cannot read {name}: {_reason(error)}") from error
    with stream:
        yield stream


def _stdin() -> IO[bytes]:
    """Return the bytes of stdin, with a reader of our own: a read of sys.stdin holds a lock that the exit needs."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # it is not a file of the system
        return sys.stdin.buffer


@contextlib.contextmanager
def writing(name: str | None, stdout: IO[str]) -> Generator[IO[str]]:
    """Open a file for writing text, in UTF-8 with LF line ends. None and ``-`` are stdout, which stays open.

    Raises:
        CommandError: it cannot be written.
    """
    if name in (None, "-"):
        yield stdout
        stdout.flush()
        return
    try:
        # Half a surrogate pair, which UTF-8 cannot encode, is written as \udXXX, which JSON reads back as the same.
        stream = Path(name).open("w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"cannot write {name}: {_reason(error)}") from error
    with stream:
        yield stream


def refuse_same(read: str, written: str | None) -> None:
    """Check that the output is not the input.

    Raises:
        CommandError: both are the same file.
    """
    if written is None or "-" in (read, written):
        return
    with contextlib.suppress(OSError):
        if os.path.samefile(read, written):  # noqa: PTH121 - neither needs to exist
            raise CommandError(f"{written} is the input; write to another file")


def size_of(stream: IO[bytes]) -> int | None:
    """Return the size of a file in bytes; None for a pipe."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size or None


def use_utf8(stdout: IO[str]) -> None:
    """Make stdout write UTF-8 with LF line ends, whatever the locale: JSONL is UTF-8, and no character fails."""
    reconfigure = getattr(stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def discard(stdout: IO[str]) -> None:
    """Redirect stdout to nowhere, since its reader has closed it, and flushing it at exit would fail again."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout.fileno())
        os.close(nowhere)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
