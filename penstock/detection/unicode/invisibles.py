"""Invisible characters: their places and kinds, without those that a script or an emoji needs.

The kinds are ``zero-width``, ``bidi``, ``tag``, ``variation-selector``, ``filler``, ``format``, ``control``,
``ansi`` and ``surrogate``. Whether a character is needed depends on its direct neighbours only, so removing the others
changes no result: a second run finds nothing.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Unicode 16: general category Cf without the visible signs of Arabic, Syriac and Kaithi and the controls that lay out
# hieroglyphs; Default_Ignorable_Code_Point; category Cc without white space; lone surrogates.
_KINDS = {
    "zero-width": "\u180e\u200b-\u200d\u2060\ufeff",
    "bidi": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "tag": "\U000e0000-\U000e007f",
    "variation-selector": "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",
    "filler": "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0",
    "format": "\u00ad\u2061-\u2065\u206a-\u206f\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0080-\U000e00ff\U000e01f0-\U000e0fff",
    "control": "\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f",
    "surrogate": "\ud800-\udfff",
}
_ANSI = r"\x1b\[[0-?]*+[ -/]*+[@-~]|\x1b\][^\x07\x1b\n]*+(?:\x07|\x1b\\)"
_CONTEXTUAL = {  # where the neighbours have a say, one character at a time
    "zero-width": "\u200c\u200d",
    "variation-selector": _KINDS["variation-selector"],
    "filler": "\u115f\u1160",
}
_PIECES: tuple[tuple[str, str, bool], ...] = (  # kind, pattern, contextual; the first that fits counts
    ("ansi", _ANSI, False),
    ("control", "\x1b", False),
    *((kind, f"[{chars}]", True) for kind, chars in _CONTEXTUAL.items()),
    *(
        (kind, f"(?:(?![{_CONTEXTUAL[kind]}])[{chars}])+" if kind in _CONTEXTUAL else f"[{chars}]+", False)
        for kind, chars in _KINDS.items()
    ),
)
_PIECE = deferred("|".join(f"({pattern})" for _, pattern, _ in _PIECES))
_CANDIDATE = deferred(f"[\x1b{''.join(_KINDS.values())}]")
_CANDIDATE_IN_ASCII = deferred(r"[\x00-\x08\x0e-\x1f\x7f]")

# Superset by blocks of the emoji that take a variation selector or a joiner (emoji-data.txt 16.0).
_EMOJI = deferred(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030"
    "\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_KEYCAP_BASE = "0123456789#*"
_KEYCAP = "\u20e3"
# Scripts whose spelling uses the joiners U+200C and U+200D: Arabic to Mandaic, Brahmic ones, Mongolian, Adlam.
_JOINING = deferred(
    "[\u0620-\u07ff\u0840-\u08ff\u0900-\u109f\u1700-\u17b3\u17b6-\u180a\u1810-\u18af\u1900-\u1cff\ua800-\ua8ff\ua930-\ua9df\uaa00-\uaaff"
    "\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
_VIRAMA = 9
_MONGOLIAN = deferred("[\u1800-\u180a\u1820-\u18af]")
_IDEOGRAPH = deferred("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# Bases of standardised variants (StandardizedVariants.txt): mathematics, CJK punctuation, Myanmar, Phags-pa …
_VARIANT_BASE = deferred(
    "[\u1000-\u109f\u2200-\u22ff\u2a00-\u2aff\u3001\u3002\ua840-\ua877\uff01\uff0c\uff0e\uff1a\uff1b\uff1f]"
)
_FLAG = "\U0001f3f4"
_SUBDIVISION_TAGS = tuple(
    "".join(chr(0xE0000 + ord(char)) for char in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)
_LEADING_JAMO = deferred("[\u1100-\u115e\ua960-\ua97c]")
_VOWEL_JAMO = deferred("[\u1161-\u11a7\ud7b0-\ud7c6]")


class Invisible(NamedTuple):
    """A stretch of invisible characters."""

    start: int
    end: int
    kind: str


def invisibles(text: str, *, preserve_emojis: bool = True) -> Iterator[Invisible]:
    """Yield the invisible characters that are not needed, in order; ``preserve_emojis`` keeps those of emoji."""
    candidate = _CANDIDATE_IN_ASCII if text.isascii() else _CANDIDATE
    at = 0
    while (hit := candidate.search(text, at)) is not None:
        start = hit.start()
        found = _PIECE.match(text, start)
        if found is None or found.lastindex is None:  # the two patterns are of one table
            raise AssertionError
        at = found.end()
        kind, _, contextual = _PIECES[found.lastindex - 1]
        if kind == "tag" and preserve_emojis and text[start - 1 : start] == _FLAG:
            start += next((len(tags) for tags in _SUBDIVISION_TAGS if text.startswith(tags, start)), 0)
        needed = contextual and _needed(text, start, preserve_emojis=preserve_emojis)
        if start < at and not needed:
            yield Invisible(start, at, kind)


class VisibleText(NamedTuple):
    """A text without the invisible characters that are not needed.

    Attributes:
        text: the visible text.
        cuts: where something is left out, in characters of ``text``, in order.
        shifts: how many characters have been left out up to each cut, behind a 0 for none.
    """

    text: str
    cuts: Sequence[int]
    shifts: Sequence[int]


def visible_text(text: str) -> VisibleText | None:
    """Return a text without the invisible characters that are not needed; None if it has none."""
    pieces: list[str] = []
    cuts: list[int] = []
    shifts = [0]
    at = 0
    for gone in invisibles(text):
        pieces.append(text[at : gone.start])
        cuts.append(gone.start - shifts[-1])
        shifts.append(shifts[-1] + gone.end - gone.start)
        at = gone.end
    return VisibleText("".join([*pieces, text[at:]]), cuts, shifts) if cuts else None


def is_invisible(char: str) -> bool:
    """Return whether a character is invisible, unless a script or an emoji needs it where it stands."""
    return _CANDIDATE.match(char) is not None


def _needed(text: str, at: int, *, preserve_emojis: bool) -> bool:
    """Return whether a joiner, selector or filler does something visible where it stands."""
    char, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if not before:
        return char == "\u115f" and bool(_VOWEL_JAMO.match(after))
    if char in "\u115f\u1160":
        return bool(_LEADING_JAMO.match(before) if char == "\u1160" else _VOWEL_JAMO.match(after))
    if char in "\u200c\u200d":
        if preserve_emojis and char == "\u200d" and _joins_emoji(text, at):
            return True
        return _settled(text, at - 1) and (bool(_JOINING.match(after)) or unicodedata.combining(before) == _VIRAMA)
    if char in "\ufe0e\ufe0f":
        if before in _KEYCAP_BASE:
            return preserve_emojis and after == _KEYCAP
        return preserve_emojis and bool(_EMOJI.match(before))
    return _selects_variant(char, before)


def _settled(text: str, at: int) -> bool:
    """Return whether a letter or sign of a joining script stands there, also after its marks are reordered."""
    rank = unicodedata.combining(text[at])
    before = text[at - 1 : at]
    in_order = not rank or not before or (unicodedata.combining(before) <= rank and not _CANDIDATE.match(before))
    return in_order and bool(_JOINING.match(text[at]))


def _joins_emoji(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at + 1 : at + 2]
    if before == "\ufe0f":
        before = text[at - 2 : at - 1]
    return bool(_EMOJI.match(before)) and bool(_EMOJI.match(after))


def _selects_variant(char: str, before: str) -> bool:
    if "\u180b" <= char <= "\u180f":
        return bool(_MONGOLIAN.match(before))
    if _IDEOGRAPH.match(before):
        return char <= "\ufe02" or char >= "\U000e0100"
    return char <= "\ufe01" and bool(_VARIANT_BASE.match(before))
