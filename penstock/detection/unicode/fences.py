"""Keep a text within its element: find what reads as a tag of the element, however it is disguised, and defuse it.

Text of others is shown to models within elements (``<skill_instructions>`` …). It must not close them, nor open them
again. A tag is recognised as a reader reads the text: in full-width and other compatibility forms, with
invisible characters and marks, in look-alike letters, and behind HTML entities, also nested ones.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.unicode.disguises import LOOKALIKES
from penstock.detection.unicode.invisibles import is_invisible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_OPENING = "<≮‹〈❮❰⟨⟪《˂ᐸ≺⧼«"
_MAY_BE_TAG = deferred("[<&%\\\\≮‹〈❮❰⟨⟪《˂ᐸ≺⧼«＜﹤＆﹠％﹪＼﹨\u2329]")
_LETTER = {ord(letter): ascii_ for row, latin in LOOKALIKES.values() for letter, ascii_ in zip(row, latin, strict=True)}
_ENTITY = deferred(
    r"&(?:amp;|#0*38;|#x0*26;)*(#\d{1,9};?|#x[\da-f]{1,8};?|[a-z][a-z\d]{1,31};?)|\\u([\da-f]{4})|\\x([\da-f]{2})|%([\da-f]{2})"
)
_MOST_NESTED = 6
"""How often entities are decoded that hold the digits of others."""


def defused(text: str, elements: Sequence[str], replacement: str | Callable[[str], str] = "[") -> str:
    """Return a text in which nothing reads as the beginning of a tag of those elements; all else is unchanged.

    Args:
        text: the text.
        elements: the names of the elements; letters, digits, ``_`` and ``-``.
        replacement: the text in place of the sign that opens such a tag; or a function of that sign. An
            entity is no replacement, since a reader decodes it.
    """
    if _MAY_BE_TAG.search(text) is None:
        return text
    view = _View.of(text)
    tags = [
        (view.starts[found.start()], view.ends[found.start()]) for found in _tags(tuple(elements)).finditer(view.text)
    ]
    pieces: list[str] = []
    done = 0
    for start, end in tags:
        pieces += (text[done:start], replacement if isinstance(replacement, str) else replacement(text[start:end]))
        done = end
    return "".join([*pieces, text[done:]])


@lru_cache(maxsize=64)
def _tags(elements: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a sign that opens a tag of those elements, or closes one."""
    names = "|".join(r"[\W_]*".join(map(re.escape, re.split(r"[_-]+", name.lower()))) for name in elements)
    return re.compile(rf"[{_OPENING}](?=[^a-z\d>[{_OPENING}]*(?:{names})(?![\w-]))")


class _View:
    """A text as it is read, and where each character of it comes from."""

    __slots__ = ("ends", "starts", "text")

    def __init__(self, text: str, starts: Sequence[int], ends: Sequence[int]) -> None:
        self.text = text
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, text: str) -> _View:
        """Return the view of a text."""
        if text.isascii() and "\x7f" not in text:
            view = cls(text.lower(), range(len(text)), range(1, len(text) + 1))
        else:
            view = _folded(text, range(len(text)), range(1, len(text) + 1))
        for _ in range(_MOST_NESTED):
            decoded = _decoded(view)
            if decoded is view:
                break
            view = decoded
        return view


def _folded(text: str, starts: Sequence[int], ends: Sequence[int]) -> _View:
    letters: list[str] = []
    firsts: list[int] = []
    lasts: list[int] = []
    for char, start, end in zip(text, starts, ends, strict=True):
        read = _read(char)
        letters.append(read)
        firsts += [start] * len(read)
        lasts += [end] * len(read)
    return _View("".join(letters), firsts, lasts)


@lru_cache(maxsize=4_096)
def _read(char: str) -> str:
    """Return the reading of one character: lower case, without marks; nothing for an invisible one."""
    found = [_LETTER.get(ord(one), one) for one in unicodedata.normalize("NFKD", char)]
    kept = [one for one in found if unicodedata.category(one) not in ("Mn", "Me", "Cf") and not is_invisible(one)]
    return "".join("".join(kept).casefold().translate(_LETTER))


def _decoded(view: _View) -> _View:
    """Return the view with its entities and escapes decoded; the same if there are none."""
    letters: list[str] = []
    firsts: list[int] = []
    lasts: list[int] = []
    done = 0
    for found in _ENTITY.finditer(view.text):
        read = _entity(found)
        if read is None:
            continue
        letters += (view.text[done : found.start()], read)
        firsts += [*view.starts[done : found.start()], *[view.starts[found.start()]] * len(read)]
        lasts += [*view.ends[done : found.start()], *[view.ends[found.end() - 1]] * len(read)]
        done = found.end()
    if not done:
        return view
    letters.append(view.text[done:])
    return _View("".join(letters), [*firsts, *view.starts[done:]], [*lasts, *view.ends[done:]])


def _entity(found: re.Match[str]) -> str | None:
    if found[1] is None:
        read = chr(int(found[2] or found[3] or found[4], 16))
    else:
        read = html.unescape("&" + found[1])
        if read == "&" + found[1]:
            return None
    return "".join(map(_read, read))
