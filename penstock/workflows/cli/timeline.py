"""Prints the timeline of a trace in the colours of the terminal. Signs and words say the same without colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from penstock.pictures.timeline import timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from penstock.engine.tracing.trace import Trace
    from penstock.pictures.timeline import Style

_STYLES: Mapping[Style, str] = {
    "": "",
    "dim": "dim",
    "bold": "bold",
    "passed": "green",
    "edited": "yellow",
    "tripped": "bold red",
    "failed": "magenta",
    "skipped": "dim",
}


def print_timeline(console: Console, trace: Trace) -> None:
    """Print the timeline of a trace; each line fits the width of the console."""
    for line in timeline(trace, console.width):
        text = Text.assemble(*((piece, _STYLES[style]) for piece, style in line))
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ignore", crop=False)
