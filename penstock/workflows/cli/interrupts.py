"""Ctrl-C between two results of a run: one that is being written is written whole."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

T = TypeVar("T")


class Interrupts:
    """Holds Ctrl-C back while a result is taken, so that the counts are those of the rows that were written.

    A second Ctrl-C is not held back: the reader of the output may have stopped reading.
    """

    def __init__(self) -> None:
        self._busy = False
        self._pending = False

    def take(self, take: Callable[[T], None], value: T) -> None:
        """Call it with the value, whole.

        Raises:
            KeyboardInterrupt: Ctrl-C came meanwhile.
        """
        self._busy = True
        try:
            take(value)
        finally:
            self._busy = False
        if self._pending:
            raise KeyboardInterrupt

    @contextmanager
    def handled(self) -> Generator[None]:
        """Handle Ctrl-C meanwhile, unless a caller has a handler of its own or this is no main thread."""
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._came)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._pending or not self._busy:
            signal.default_int_handler(number, frame)
        self._pending = True
