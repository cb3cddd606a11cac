"""Text that cannot control the terminal, and the command's output to stderr: lines, and log messages once each."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import visible

if TYPE_CHECKING:
    from collections.abc import Generator

MOST_COUNTED = 1000
"""How many different log messages are counted; later ones are all written."""


def readable(text: str) -> str:
    """Return the text with its line breaks, and with a visible sign for all else that is not printable."""
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
