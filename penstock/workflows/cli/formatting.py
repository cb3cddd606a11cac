"""Text for a table: why a step ended as it did, in a few words that fit into one line."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.engine.tracing.display import visible
from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from typing import IO

    from rich.console import Console

    from penstock.engine.values.tripwire import Record

LONGEST_VALUE = 200
"""The length, in characters, at which a reason or a detail is cut."""


def console_for(stream: IO[str]) -> Console:
    """Return a console that writes to a stream, in colours if the terminal and NO_COLOR allow; texts are not markup."""
    from rich.console import Console  # takes long to import

    return Console(file=stream, markup=False, highlight=False, emoji=False)


def why(record: Record) -> str:
    """Return why a step ended as it did: the reason of the verdict, the edits, or the type of the error."""
    if record.tripwire is not None:
        reason = record.tripwire.reason
        return plain(f"{reason} ({record.error})" if record.error else reason)
    if record.status == "failed":
        return f"{record.error} was raised"
    done = _edits(record) if record.status == "edited" else _details(record)
    found = f"flagged: {', '.join(record.flagged)}" if record.flagged else ""
    return plain("; ".join(filter(None, (found, done))))


def _edits(record: Record) -> str:
    hidden = Counter(edit.text or "(removed)" for _, edit in record.edits if edit.kind == "redact")
    parts = [f"{text} ×{count}" if count > 1 else text for text, count in hidden.items()]
    others = Counter(edit.kind for _, edit in record.edits if edit.kind != "redact")
    parts += [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in others.items()]
    return ", ".join(parts) or _details(record) or "changed messages"


def _details(record: Record) -> str:
    return ", ".join(f"{name}: {_short(value)}" for name, value in record.details.items())


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    dumped = json.dumps(thaw(value), ensure_ascii=False, default=str)
    return dumped[1:-1] if dumped[0] in "{[" else dumped


def plain(text: str) -> str:
    """Return the text for one line of a terminal: cut, and with control characters made visible."""
    if len(text) > LONGEST_VALUE:
        text = f"{text[: LONGEST_VALUE - 1]}…"
    return visible(text)
