"""The streams of the command: outputs, stdout, lines for stderr without control characters, each log message once."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.exit_codes import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator

MOST_COUNTED = 1000
"""How many different log messages are counted; later ones are all written."""


def readable(text: str) -> str:
    """Return the text with its line breaks, and with a visible sign for all else that is not printable."""
    from penstock.engine.tracing.display import visible  # most commands write no such line

    return "\n".join(visible(line) for line in text.split("\n"))


def write_line(text: str) -> None:
    """Write a text and a line break to stderr, with control characters made visible."""
    sys.stderr.write(f"{readable(text)}\n")


@contextlib.contextmanager
def log_messages_once() -> Generator[None]:
    """While the command runs, write each log message once, and at the end how often it was repeated.

    It does so only as long as the user's code sets up no handlers for logs, so it takes the place of
    ``logging.lastResort``. What guards found and let pass is not logged: the results show it.
    """
    before = logging.lastResort
    findings = logging.getLogger("penstock.findings")
    level = findings.level
    logging.lastResort = handler = _Once(logging.WARNING)
    findings.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.lastResort = before
        findings.setLevel(level)
        handler.write_repetitions()


class _Once(logging.Handler):
    """Writes each message once to stderr, and counts how often it came."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message if it is new."""
        text = self.format(record)
        if text in self._counts or len(self._counts) < MOST_COUNTED:
            self._counts[text] += 1
        if self._counts[text] <= 1:
            write_line(text)

    def write_repetitions(self) -> None:
        """Write which messages came more than once."""
        for text, count in self._counts.items():
            if count > 1:
                more = "once more" if count == 2 else f"{count - 1:,} more times"  # noqa: PLR2004 - the second time
                write_line(f"penstock: logged {more}: {text.splitlines()[0]}")


# Outputs


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
    from penstock.workflows.rows.files import written  # most commands write no file

    with written(name, append=append) as stream:
        yield stream


def refuse_same(read: str, written: str | None, name: str = "the input") -> None:
    """Check that the output is not the input, or another file of this name that is read.

    Raises:
        CommandError: both are the same file.
    """
    if written is None or "-" in (read, written):
        return
    with contextlib.suppress(OSError):
        if os.path.samefile(read, written):  # noqa: PTH121 - neither needs to exist
            raise CommandError(f"{written} is {name}; write to another file")


def refuse_source(*written: str | None) -> None:
    """Check that no output is a file of code that was loaded, such as the workflow's own.

    Raises:
        CommandError: one is.
    """
    outputs = {key: name for name in written if name not in (None, "-") and (key := _file_key(name)) is not None}
    for module in [*sys.modules.values()] if outputs else ():
        file: object = getattr(module, "__file__", None)
        key = _file_key(file) if isinstance(file, str) else None
        if key in outputs:
            raise CommandError(f"{outputs[key]} is code that was loaded; write to another file")


def _file_key(name: str) -> tuple[int, int] | None:
    """Return the device and the number of a file; None if there is no such file."""
    try:
        found = os.stat(name)  # noqa: PTH116 - a name may be a URL
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


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
