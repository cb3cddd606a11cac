"""Measures how time grows with the size of what a client sends: four times the size may take 4.6 times as long.

Run ``python -m benchmarks.scaling``. Times are CPU time, the shortest of three.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.shared import logged_from
from penstock import (
    Chunk,
    InputContext,
    Message,
    PIIDetector,
    Processor,
    RegexFilterProcessor,
    TextPart,
    ToolPart,
    Workflow,
)

MOST = 4.6
"""How many times as long four times the size may take."""

SMALL = 500
_MAIL = "joe@example.com "
_PII = Workflow("w").then(PIIDetector())
_REGEX = RegexFilterProcessor(presets=["pii"], strategy="redact")


class _Notes(Processor):
    """Puts many notes on its record."""

    edits = "nothing"

    def __init__(self, size: int) -> None:
        self.size = size

    def process_input(self, ctx: InputContext) -> None:
        """Put them there."""
        for number in range(self.size):
            ctx.note(**{f"note{number}": number})


def _answer(parts: Sequence[Any]) -> None:
    _PII.check_sync([Message.assistant(parts)], stage="process_output_step")


def _result(value: Any) -> None:
    _PII.check_sync(value, stage="process_tool_result", tool_name="look")


def _stream(chunks: Sequence[Chunk]) -> None:
    with _PII.start_sync().process_output_stream(chunks) as left:
        for _ in left:
            pass


def _blocks(kind: str, size: int) -> list[Chunk]:
    starts = [Chunk(f"{kind}-start", id=str(number)) for number in range(size)]
    return starts + [Chunk(f"{kind}-delta", _MAIL, str(number)) for number in range(size)]


ROWS: Mapping[str, Callable[[int], object]] = {
    "text parts of a message": lambda size: _answer([TextPart(f"part {number} {_MAIL}") for number in range(size)]),
    "tool parts of a message": lambda size: _answer(
        [ToolPart(f"c{number}", "look", {"of": _MAIL}, state="result", result="") for number in range(size)]
    ),
    "messages": lambda size: _PII.check_sync([Message.user(f"{number} {_MAIL}") for number in range(size)]),
    "redacted keys": lambda size: _result({f"joe{number}@example.com": 1 for number in range(size)}),
    "rows of a result": lambda size: _result([{"mail": f"joe{number}@example.com"} for number in range(size)]),
    "findings in a text": lambda size: _PII.check_sync(_MAIL * size),
    "notes of a record": lambda size: Workflow("w").then(_Notes(size)).check_sync(""),
    "open text blocks": lambda size: _stream(_blocks("text", size)),
    "open reasoning blocks": lambda size: _stream(_blocks("reasoning", size)),
    "chunks of a text": lambda size: _stream([Chunk("text-delta", _MAIL, "1")] * size),
    "edits of parallel guards": lambda size: Workflow("w").parallel(PIIDetector(), _REGEX).check_sync(_MAIL * size),
}


def cost(row: Callable[[int], object], size: int) -> float:
    """Return the CPU time of a row, in seconds."""
    times: list[float] = []
    for _ in range(3):
        begun = time.process_time()
        row(size)
        times.append(time.process_time() - begun)
    return min(times)


def main() -> None:
    """Measure, and print the table; the exit code is 1 if something grows too fast."""
    with logged_from(logging.CRITICAL):
        table, worst = _measured()
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    sys.exit(worst > MOST)


def _measured() -> tuple[Table, float]:
    """Return the table, and how much more the worst row costs for four times as much."""
    table = Table("what", "s", "s for 4 times as much", "times")
    worst = 0.0
    for name, row in ROWS.items():
        row(10)
        small, large = cost(row, SMALL), cost(row, 4 * SMALL)
        worst = max(worst, large / small)
        table.add_row(name, f"{small:.3f}", f"{large:.3f}", f"{large / small:.1f}")
    return table, worst


if __name__ == "__main__":
    main()
