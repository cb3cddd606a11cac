"""Disguises and encodings of a text: forms in which people, models or programs still read it."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.testing.attack.rows import Row

_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def _zero_width(text: str) -> str:
    return "\u200b".join(text)


def _soft_hyphens(text: str) -> str:
    return re.sub(r"(\w)(?=\w)", "\\1\u00ad", text)


def _wide(text: str) -> str:
    return text.translate(_WIDE)


def _references(text: str) -> str:
    return "".join(f"&#{ord(letter)};" for letter in text)


def _percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _hex(text: str) -> str:
    return text.encode().hex()


def _escapes(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


DISGUISES: Mapping[str, Callable[[str], str]] = {
    "zero-width": _zero_width,
    "soft hyphens": _soft_hyphens,
    "full width": _wide,
}
"""By name, the function that disguises the letters of a text."""

ENCODINGS: Mapping[str, Callable[[str], str]] = {
    "character references": _references,
    "percent codes": _percent,
    "base64": _base64,
    "hexadecimal": _hex,
    "escapes": _escapes,
    "quoted": lambda text: quote(text, safe=""),
}
"""By name, the function that encodes a text."""


def disguised(row: Row, name: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the text of a row with its secret in a disguise, and the forms that nobody may read; None if it has none.

    Args:
        row: the row.
        name: a name of `DISGUISES` or `ENCODINGS`.
    """
    hidden = {**DISGUISES, **ENCODINGS}[name](row.hidden)
    if hidden == row.hidden:
        return None
    return row.text.replace(row.hidden, hidden), (hidden, row.hidden)
