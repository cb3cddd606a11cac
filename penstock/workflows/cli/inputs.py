"""Open outputs: files and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.exit_codes import CommandError
from penstock.workflows.rows.files import written

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def writing(name: str | None, stdout: IO[str], *, append: bool = False) -> Generator[IO[str]]:
    """Open a file for writing text, as `written` does. None and ``-`` are stdout, which stays open.

    Raises:
        RowsError: it cannot be written.
    """
    if name in (None, "-"):
        yield stdout
        stdout.flush()
        return
    with written(name, append=append) as stream:
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


def open_closed_streams() -> None:
    """Open stdin, stdout and stderr where they are closed, as a service or ``2>&-`` leaves them: they lead nowhere.

    Without that, the next file would take their place, such as the output that of stderr. Stdout cannot be written,
    so that no result is lost unseen.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            os.set_inheritable(nowhere, True)  # noqa: FBT003
            setattr(sys, name, open(nowhere, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def use_utf8(stdout: IO[str]) -> None:
    """Make stdout write UTF-8 with LF line ends, whatever the locale: JSONL is UTF-8, and no character fails."""
    reconfigure = getattr(stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def discard(stdout: IO[str]) -> None:
    """Redirect stdout to nowhere, since it cannot be written, and flushing it at exit would fail again."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout.fileno())
        os.close(nowhere)
