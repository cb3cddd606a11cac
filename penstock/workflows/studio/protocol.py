"""The protocol between the studio and its worker processes: one JSON object a line, over pipes of their own.

The studio sends requests, ``{"do": name, …}``. A worker answers each with any number of events, ``{"event": name,
"data": …}``, and one end: ``{"done": data}`` or ``{"failed": problem}``.
"""

from __future__ import annotations

import json
from typing import cast

from penstock.engine.values.plain import plain

MAX_LINE = 256 * 1024 * 1024
"""The length of the longest line, in bytes; a worker that sends a longer one is stopped."""

Json = dict[str, object]
"""A JSON object."""


def dumps(value: object) -> str:
    """Return a value as JSON in ASCII, on one line.

    What JSON cannot say is replaced, as `plain` does.
    Half a surrogate pair, which UTF-8 cannot encode, is escaped.
    """
    try:
        return _STRICT(value)
    except (ValueError, TypeError, RecursionError):
        return _STRICT(plain(value))


def _kind(value: object) -> str:
    return type(value).__name__


_STRICT = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_kind).encode


def encode(value: object) -> bytes:
    """Return a value as a line."""
    return dumps(value).encode() + b"\n"


def decode(line: bytes) -> Json:
    """Return the object of a line.

    Raises:
        ValueError: it is none.
    """
    made = json.loads(line)
    if not isinstance(made, dict):
        raise ValueError("a line is an object")  # noqa: TRY004 - one kind of error for all wrong lines
    return cast("Json", made)
