"""Counts the lines of Penstock that run: work that no busy machine makes longer, as seconds are made longer."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lines:
    """Counts the lines of Penstock that run within `counted_lines`."""

    count = 0

    def __call__(self, frame: Any, event: str, _: object) -> Any:
        """Count a line; what `sys.settrace` calls."""
        if event == "call":
            return self if "penstock/" in frame.f_code.co_filename else None
        self.count += event == "line"
        return self


@contextmanager
def counted_lines() -> Iterator[Lines]:
    """Count the lines that this thread runs."""
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines)
    try:
        yield lines
    finally:
        sys.settrace(before)
