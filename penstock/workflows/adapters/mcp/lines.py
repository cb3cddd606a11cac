"""The lines of a client on stdin, read in a thread of its own, since nothing interrupts such a read."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from anyio.from_thread import BlockingPortal
    from anyio.streams.memory import MemoryObjectSendStream


def read_lines(source: BinaryIO, portal: BlockingPortal, send: MemoryObjectSendStream[str]) -> None:
    """Pass on the lines of a client, in a thread of its own."""
    with suppress(RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError, CancelledError):
        for line in _lines(source):
            portal.call(send.send, line)
        portal.call(send.aclose)


def _lines(source: BinaryIO) -> Iterator[str]:
    """Yield lines. The end of a line is a line feed, whatever else is in it."""
    pieces: list[bytes] = []
    while piece := source.read(65536):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join((*pieces, end)).decode("utf-8", "replace")
            pieces = []
        pieces.append(rest)
    if any(pieces):
        yield b"".join(pieces).decode("utf-8", "replace")
