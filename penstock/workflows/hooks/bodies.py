"""Pictures and PDFs in results. No guard reads them, so the owner of a hook says whether they pass."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Literal

from penstock.formats.wire import is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.formats.wire import Json, Value

Unread = Literal["pictures", "all", "none"]
"""Which bodies pass that no guard can read: pictures, pictures and PDFs, or none."""

_LEAST = 64
_DATA_URL = re.compile(r"data:[\w.+/-]{1,64};base64,")
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")
_MARK = "(a picture)"
_KEYS = frozenset({"base64", "data", "image_url", "url", "stdout", "blob"})


def _declared(value: Json) -> str:
    """Return the kind of body that an object says it has: ``image``, ``pdf``, or an empty text."""
    if value.get("isImage") is True:
        return "image"
    said = [value.get(key) for key in ("type", "media_type", "mimeType", "mime_type")]
    named = [one for one in said if isinstance(one, str)]
    if any(one in ("image", "input_image") or one.startswith("image/") for one in named):
        return "image"
    return "pdf" if any(one in ("pdf", "document", "application/pdf") for one in named) else ""


def kind_of(text: str) -> Literal["picture", "pdf", ""]:
    """Return whether a text is a picture or a PDF in base64, by its first bytes; empty for other texts."""
    found = _DATA_URL.match(text)
    body = text[found.end() :] if found else text
    if len(body) < _LEAST or not _BASE64.fullmatch(body):
        return ""
    try:
        begin = base64.b64decode(body[:_LEAST])
    except (ValueError, binascii.Error):
        return ""
    if begin.startswith(b"%PDF-"):
        return "pdf"
    is_webp = begin.startswith(b"RIFF") and begin[8:12] == b"WEBP"
    return "picture" if is_webp or begin.startswith(_PICTURES) else ""


class Bodies:
    """The bodies of one result that pass unread.

    Args:
        passing: which pass.

    Attributes:
        refused: the kinds of bodies in it that may not pass.
    """

    def __init__(self, passing: Unread) -> None:
        self.refused: set[str] = set()
        self._passing = passing
        self._kept: list[str] = []

    def without(self, value: Value, declared: str = "") -> Value:
        """Return a value with a mark in place of each body that passes.

        Args:
            value: the result, or a part of it.
            declared: the kind that the objects around it say: the product shows only such a text as a picture, and any
                other one to the model as it is.
        """
        if is_object(value):
            kind = _declared(value) or declared
            return {key: self._in_place(item, kind if key in _KEYS else "", kind) for key, item in value.items()}
        if is_array(value):
            return [self.without(item, declared) for item in value]
        return self._in_place(value, "", "") if isinstance(value, str) else value

    def _in_place(self, value: Value, kind: str, declared: str) -> Value:
        if not isinstance(value, str):
            return self.without(value, declared)
        found = kind_of(value) if kind else ""
        if found and (self._passing == "none" or (found == "pdf" and self._passing != "all")):
            self.refused.add(found)
        elif found or value == _MARK:  # a text that is equal to the mark keeps the order
            self._kept.append(value)
            return _MARK
        return value

    def joined(self, value: Value) -> Value:
        """Return a value with the bodies in place of their marks, in the same order."""
        kept = iter(self._kept)
        return self._joined(value, kept) if self._kept else value

    def _joined(self, value: Value, kept: Iterator[str]) -> Value:
        if isinstance(value, str):
            return next(kept, value) if value == _MARK else value
        if is_object(value):
            return {key: self._joined(item, kept) for key, item in value.items()}
        return [self._joined(item, kept) for item in value] if is_array(value) else value
