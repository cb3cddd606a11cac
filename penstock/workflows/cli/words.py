"""What a record says, in a few words for people; it knows no screen, and quotes no text that was hidden."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from penstock.engine.values.tripwire import Record

LONGEST = 200
"""The characters of a reason or a detail beyond which it is cut."""


def why(record: Record) -> str:
    """Return why a step ended as it did: the verdict's reason, what it put in place of what, or the kind of error."""
    if record.tripwire is not None:
        reason = record.tripwire.reason
        return plain(f"{reason} ({record.error})" if record.error else reason)
    if record.status == "failed":
        return f"{record.error} was raised"
    if record.status == "edited":
        return plain(_edits(record))
    return plain(_details(record))


def _edits(record: Record) -> str:
    hidden = Counter(edit.text or "(removed)" for _, edit in record.edits if edit.kind == "redact")
    said = [f"{text} ×{count}" if count > 1 else text for text, count in hidden.items()]
    others = Counter(edit.kind for _, edit in record.edits if edit.kind != "redact")
    said += [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in others.items()]
    return ", ".join(said) or _details(record) or "changed messages"


def _details(record: Record) -> str:
    return ", ".join(f"{name}: {_short(value)}" for name, value in record.details.items())


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value
    said = json.dumps(thaw(value), ensure_ascii=False, default=str)
    return said[1:-1] if said[0] in "{[" else said


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def plain(text: str) -> str:
    """Return the text fit for one line of a terminal: cut, and with what would steer the terminal written out."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    return visible(text)


def visible(text: str) -> str:
    """Return the text with control and direction characters written as escapes, so that none reaches a terminal."""
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
