"""`document_text`: the text of a document, in the charset that it names, and of RTF as its readers show it."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from penstock.engine.text_guards.rtf import rtf_text

if TYPE_CHECKING:
    from collections.abc import Iterator


def document_text(raw: bytes, media_type: str) -> tuple[str | None, bool]:
    """Return the text of a document, and whether that is all that a reader could read in it.

    If a charset is named, by the media type or by the document itself, the text is read in it and, since readers may
    ignore the name, in UTF-8 too. A charset that is not known, or does not fit, leaves the document unread.

    Args:
        raw: the bytes.
        media_type: its media types with their parameters; may be empty.
    """
    text = _usual_text(raw)
    texts = [] if text is None or "\0" in text else [text]
    names = {*_charsets(unquote(media_type), raw)} - _WITHIN_UTF8
    is_read = bool(names) or bool(texts)
    for name in sorted(names):
        found = [_decoded_as(raw, charset) for charset in _ORDERS.get(name, (name,))]
        is_read = is_read and any(one is not None and "\0" not in one for one in found)
        texts += [one for one in found if one is not None and one not in texts]
    if not texts:
        return text, False
    whole = "\n".join(texts)
    if "rtf" not in media_type.lower() and not raw.lstrip().startswith(b"{\\rtf"):
        return whole, is_read
    sources = [_VERSION.sub("", one) for one in (raw.decode("latin-1"), *(() if raw.isascii() else texts), whole)]
    shown = [rtf_text(source) for source in sources[:-1]]
    every = "\n".join([*(one.text for one in shown), _BLOBS.sub(" ", _NUMBERS.sub(" ", sources[-1]))])
    return _whole_pairs(every), is_read and all(one.is_read for one in shown)


def _usual_text(raw: bytes) -> str | None:
    """Return the text in UTF-8, or in UTF-16 with its mark; None if it is neither."""
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None


# Charsets

_PARAMETER = re.compile(r"charset\*?\s*=\s*[\"']?([^\s;\"',]+)", re.IGNORECASE)
_DECLARED = re.compile(
    rb"(?:<\?xml[^>]{0,256}?\bencoding\s*=|<meta[^>]{0,256}?\bcharset\s*=|@charset|#[^\n]{0,128}?\bcoding[:=])"
    rb"\s*[\"']?\s*([a-z0-9_.:+-]+)",
    re.IGNORECASE,
)
_HEAD = 2048  # bytes: HTML readers look for the name of the charset in the first 1024 or 2048
_WITHIN_UTF8 = frozenset({"utf-8", "utf-8-sig", "ascii"})
_ORDERS = {"utf-16": ("utf-16-le", "utf-16-be"), "utf-32": ("utf-32-le", "utf-32-be")}
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs", "oem"})


def _charsets(media_type: str, raw: bytes) -> Iterator[str]:
    """Yield the charsets that are named, by Python's names."""
    named = [*_PARAMETER.findall(media_type), *(one.decode() for one in _DECLARED.findall(raw[:_HEAD]))]
    if raw.startswith(b"+/v"):  # the mark of UTF-7
        named.append("utf-7")
    for name in named:
        try:
            yield codecs.lookup(name).name
        except (LookupError, ValueError):
            yield name


def _decoded_as(raw: bytes, charset: str) -> str | None:
    if charset.replace("-", "_") in _NO_CHARSETS:
        return None
    try:
        return _whole_pairs(raw.decode(charset))
    except (UnicodeError, LookupError, ValueError):
        return None


def _whole_pairs(text: str) -> str:
    """Return a text with halves of surrogate pairs joined to characters, and replaced where they stand alone."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# RTF

_VERSION = re.compile(r"(?<=\{\\\*\\generator )[A-Za-z]{1,32}\d{0,2}[ /]\d{1,3}(?:\.\d{1,5}){1,3}(?=[;$ }])")
"""The version of the program that wrote the document, which looks like an address."""

_NUMBERS = re.compile(r"\\(?:[a-z]*rsid|listid|listtemplateid|bliptag|[a-z]*dttm[a-z]*)-?\d{1,10}(?!\d) ?")
"""Numbers of the document, of its lists and pictures, and times, which look like those of people in the source."""

_BLOBS = re.compile(r"[0-9a-f](?:[\r\n]*[0-9a-f]){31,}", re.IGNORECASE)
