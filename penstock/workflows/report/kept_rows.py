"""Which rows of a run a report keeps: their summaries in memory, their traces compressed in a temporary file.

Rows to which something happened and rows that passed have limits of their own, so neither takes the place of the other.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_ROWS = 64
"""How many traces are compressed as one: enough that they share their words, and little to unpack for one row."""

BLOCK_CHARS = 1_000_000
"""The length at which a block is closed earlier, in characters of JSON."""

LONGEST_TRACE = 4_000_000
"""The longest trace that is kept, in characters of JSON."""

_IN_MEMORY = 1_000_000
_SLOWEST = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a report keeps of the rows that passed, and again of all others.

    Attributes:
        rows: how many rows it lists.
        chars: how many characters of compressed traces it holds.
    """

    rows: int = 10_000
    chars: int = 24_000_000


class KeptRows:
    """The rows of one kind, in order. Close it: it has a temporary file."""

    def __init__(self, prefix: str, limits: Limits) -> None:
        self._prefix = prefix
        self._limits = limits
        self._block: list[str] = []
        self._block_chars = 0
        self._blocks: list[tuple[str, int]] = []
        self._spool = SpooledTemporaryFile(_IN_MEMORY, mode="w+", encoding="ascii", newline="")  # noqa: SIM115 - see `close`
        self._chars = 0
        self.summaries: list[dict[str, Any]] = []

    @property
    def has_room(self) -> bool:
        """Whether it keeps the trace of one more row."""
        return len(self.summaries) < self._limits.rows and self._chars < self._limits.chars

    def add(self, summary: dict[str, Any], trace: str | None) -> bool:
        """Keep a row if there is room for it; return whether it is listed.

        Args:
            summary: the summary for the list. The place of its trace is added: ``block`` and ``index``.
            trace: the trace as JSON, with its marks of the picture; None: it has none.
        """
        if len(self.summaries) >= self._limits.rows:
            return False
        has_room = self.has_room
        self.summaries.append(summary)
        if trace is not None and len(trace) <= LONGEST_TRACE and has_room:
            summary["block"] = f"{self._prefix}{len(self._blocks)}"
            summary["index"] = len(self._block)
            self._block.append(trace)
            self._block_chars += len(trace)
            if len(self._block) == BLOCK_ROWS or self._block_chars >= BLOCK_CHARS:
                self._close_block()
        return True

    def _close_block(self) -> None:
        packed = packed_json(f"[{','.join(self._block)}]")
        self._blocks.append((f"{self._prefix}{len(self._blocks)}", len(packed)))
        self._spool.write(packed)
        self._chars += len(packed)
        self._block, self._block_chars = [], 0

    def blocks(self) -> Iterator[tuple[str, str]]:
        """Yield each block of traces: its id, and its text."""
        if self._block:
            self._close_block()
        self._spool.seek(0)
        for name, length in self._blocks:
            yield name, self._spool.read(length)

    def close(self) -> None:
        """Remove the temporary file."""
        self._spool.close()


def packed_json(text: str) -> str:
    """Return JSON compressed, in characters that are safe in HTML; the page unpacks it when a row is opened."""
    return b64encode(gzip.compress(text.encode("utf-8", "surrogatepass"), compresslevel=6, mtime=0)).decode("ascii")


@dataclass(slots=True)
class SlowestRows:
    """The rows that took longest, with their traces; of two that took as long, the earlier one counts as slower."""

    _rows: list[tuple[tuple[float, int, str], dict[str, Any], str | None]] = field(default_factory=list[Any])

    def keeps(self, seconds: float, line: int) -> bool:
        """Return whether a row is one of the slowest so far."""
        return len(self._rows) < _SLOWEST or (seconds, -line) >= self._rows[-1][0][:2]

    def add(self, summary: dict[str, Any], trace: str | None) -> None:
        """Keep a row if it is one of the slowest so far."""
        if trace is not None and len(trace) > LONGEST_TRACE:
            trace = None
        self._rows.append(((summary["seconds"], -summary["line"], summary.get("file", "")), summary, trace))
        self._rows.sort(key=lambda row: row[0], reverse=True)
        del self._rows[_SLOWEST:]

    def rows(self) -> list[tuple[dict[str, Any], str | None]]:
        """Return their summaries and traces, the slowest first."""
        return [(summary, trace) for _, summary, trace in self._rows]
