"""Threads for people: a table of them, and one as it was said. It knows no store.

Whatever was said cannot steer the terminal: control characters are written out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.workflows.cli.table import console_for
from penstock.workflows.cli.words import plain, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from typing import IO

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.stored import MemoryRecord, Thread

_ROLES = {"user": "bold cyan", "assistant": "bold green", "tool": "magenta", "system": "dim"}
_LONGEST = 2_000
"""The characters of a tool's arguments or result beyond which they are cut: they may be whole files."""


def show_threads(out: IO[str], threads: Sequence[Thread], *, more: bool) -> None:
    """Print a table of threads; ``more``: there are others."""
    console = console_for(out)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in ("thread", "resource", "title", "changed", "begun"):
        table.add_column(name, overflow="fold", no_wrap=name in ("changed", "begun"))
    for thread in threads:
        cells = (thread.id, thread.resource_id, thread.title, _minute(thread.updated_at), _minute(thread.created_at))
        table.add_row(*(Text(plain(cell)) for cell in cells))
    if threads:
        console.print(table, "")
    console.print(f"{len(threads):,} thread{'' if len(threads) == 1 else 's'}{', and more' if more else ''}")


class ThreadShown:
    """Prints one thread. Lives as long as that takes."""

    def __init__(self, out: IO[str]) -> None:
        self._console = console_for(out)

    def head(self, thread: Thread) -> None:
        """Print whose it is, and since when."""
        told = [("thread", thread.id), ("resource", thread.resource_id), ("title", thread.title)]
        told += [("begun", _time(thread.created_at)), ("changed", _time(thread.updated_at))]
        told += [("metadata", _json(thread.metadata))] if thread.metadata else []
        for label, text in told:
            if text:
                self._console.print(Text.assemble((f"{label}: ", "dim"), plain(text)))

    def memory(self, whose: str, record: MemoryRecord) -> None:
        """Print what is known."""
        by = f", by {plain(record.author)}" if record.author else ""
        about = f"working memory of the {whose} (version {record.version}, {_time(record.updated_at)}{by})"
        self._console.print()
        self._console.print(Text(about, "bold yellow"))
        self._print_lines(record.text)

    def earlier(self) -> None:
        """Print that there are messages before those that follow."""
        self._console.print()
        self._console.print(Text("… (--all shows what was said before)", "dim"))

    def message(self, message: Message) -> None:
        """Print what was said."""
        head = Text.assemble((message.role, _ROLES.get(message.role, "")), (f"  {_time(message.created_at)}", "dim"))
        self._console.print()
        self._console.print(head)
        for text in _texts(message.parts):
            self._print_lines(text)

    def _print_lines(self, text: str) -> None:
        for line in text.split("\n"):
            self._console.print(Text(f"  {visible(line)}"), soft_wrap=True)


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    """Yield what parts say; of what is no text, what it is."""
    for part in parts:
        if isinstance(part, TextPart):
            yield part.text
        elif isinstance(part, ReasoningPart):
            yield f"(thought) {part.text}"
        elif isinstance(part, ToolPart):
            yield from _call(part)
        else:
            yield f"[{part.type}]"


def _call(part: ToolPart) -> Iterator[str]:
    if part.arguments is not None:
        yield f"→ {part.name} {_cut(_json(part.arguments))}"
    if part.state == "result":
        yield f"← {part.name} {_cut(_json(part.result))}"
    elif part.state == "error":
        yield f"✗ {part.name} {_cut(str(part.error))}"


def _json(value: Value) -> str:
    return json.dumps(thaw(value), ensure_ascii=False, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


def _minute(time: datetime | None) -> str:
    return "" if time is None else time.isoformat(" ", "minutes")


def _time(time: datetime | None) -> str:
    return "" if time is None else time.isoformat(" ", "seconds")
