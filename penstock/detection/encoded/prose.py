"""Tells at a glance that nothing in a text can be encoded. Pure."""

from __future__ import annotations

import re

from penstock.detection.encoded.stretches import BLOB, UNITS
from penstock.detection.unicode.disguises import is_plain

_UNIT = r"(?:[^\W\d_]{1,2}|\d{1,3}|[01]{8}|0?[xX]?[0-9a-fA-F]{2})(?![^\W_])"
_APART = re.compile(rf"(?<![^\W_])(?:{_UNIT}[\W_]{{1,8}}){{{UNITS // 2 - 1}}}{_UNIT}")
_BLOB = re.compile(rf"\S{{{BLOB}}}")


def is_prose(text: str, start: int) -> bool:
    """Tell whether a text is plain words from a place on; False if that takes a closer look."""
    return is_plain(text, start) and not _BLOB.search(text, start) and not _APART.search(text, start)
