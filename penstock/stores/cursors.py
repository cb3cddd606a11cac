"""Places in a list to go on from, as opaque text: what a page's ``following`` is; it knows no list and no store."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import Value, is_items


def cursor(kind: str, *place: str | int) -> str:
    """Return the text for a place in a list of that kind."""
    written = json.dumps([kind, *place], separators=(",", ":"))
    return urlsafe_b64encode(written.encode()).decode().rstrip("=")


def place(kind: str, text: str, *types: type[str | int]) -> list[Value]:
    """Return the place that `cursor` was given for such a list; ``types``: what it consists of.

    Raises:
        UsageError: the text is no such place.
    """
    try:
        found: Value = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError):
        found = None
    if not is_items(found) or [type(item) for item in found] != [str, *types] or found[0] != kind:
        raise UsageError("that is no place to go on from here: give a page's `following`, and ask in the same order")
    return list(found[1:])
