"""What parts of messages are counted as, whoever counts: JSON as it goes over the wire, and media by their size."""

from __future__ import annotations

import json
from math import ceil
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

IMAGE = 765
"""Tokens of an image, whatever its size: what a picture of 1,024 by 1,024 costs in GPT-4o (85 + 4 · 170)."""

UNKNOWN_MEDIA = 258
"""Tokens of a file behind an URL: what a page or picture costs in Gemini."""

_BYTES = 4  # of a file, for one token


def compact(value: Value) -> str:
    """Return a value as JSON without blanks, letters as they are."""
    return json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"), default=str)


def media(media_type: str | None, data: str | None) -> int:
    """Return the tokens that a picture, sound or file is estimated at."""
    if (media_type or "").startswith("image/"):
        return IMAGE
    if data is None or "://" in data[:10]:
        return UNKNOWN_MEDIA
    body = data.partition(",")[2] if data.startswith("data:") else data
    return max(1, ceil(_size(body) / _BYTES))


def _size(base64: str) -> int:
    """Return how many bytes stand in base64."""
    return len(base64.rstrip("=")) * 3 // 4
