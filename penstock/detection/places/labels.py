"""`lead_of`: the words that name a value: its key, its label, the header of its column, or the words before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

from penstock.detection.deferred import deferred

REACH = 72
"""How many characters before a value are looked at for the words that name it."""

_WORDS_REACH = 48
_NEAR = 28  # characters: words without a separator must stand this close
_OPENING = " \t\"'`([{<\\"
_LIST = deferred(r"""\[[\d\s,.+"'-]*\Z""")  # the values of a list before this one
_SEPARATOR = deferred(r"""["'`\])>\\]{0,3}[ \t]{0,4}(?::=|=>|={1,3}|[:\uff1a])\Z""")
_LABEL = deferred(r"[\w .#/&-]{1,48}\Z")
_OUTER = deferred(r"""([\w .#/&-]{1,48})["'`]?\s{0,2}[:=]\s{0,4}\{\s{0,24}["'`]?\Z""")
_CELL = deferred(r"[;,|\t]\Z")  # behind it another value begins, which the words before do not name
_WORD = deferred(r"[A-Z]+(?![^\W\dA-Z_])|[A-Z]?[^\W\dA-Z_]+|\d+")


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text, which are parted by white space."""
    return frozenset(words.split())


NEUTRAL = word_set(
    """a an the of for is are was were be my your our his her their its this that and or with to as in on by no nr num
    number numbers nbr nummer numer numero número numéro numéros números value values val text str string raw field de
    del la le les el il di der die das den dem ein eine unser unsere ist war lautet est es son era del do da o os und
    et e y like x ou oder en och og eller lub i z ve veya и или та або dan atau và"""
)
"""Words that say nothing of what a value is; the word before them does."""

_NUMBER = ("nummern", "nummer", "number", "nr", "no", "num", "numero")  # the end of a compound: Bestellnummer, orderno


class Lead(NamedTuple):
    """The words that name a value.

    Attributes:
        words: the words, in small letters, in order; empty if nothing names it.
        labelled: whether a separator follows them, as behind a key or a label; if not, they just stand before it.
    """

    words: tuple[str, ...] = ()
    labelled: bool = False

    @property
    def head(self) -> str:
        """The word that says what the value is: the last one that is not neutral, without *number* at its end."""
        for word in reversed(self.words):
            if word not in NEUTRAL and not word.isdigit():
                return _without_number(word)
        return ""


class HeaderWords(NamedTuple):
    """How a rule knows headers of columns whose cells it may find something in.

    Attributes:
        knows: returns whether it knows a word of a header, in small letters.
        tells: decides about the whole of a header that has such a word; None if the word is enough.
        digits: whether its findings have digits.
    """

    knows: Callable[[str], bool]
    tells: Callable[[str], bool] | None = None
    digits: bool = True


def lead_of(text: str, at: int) -> Lead:
    """Return the words that name the value at a place of a text; they stand on the same line.

    A key that says nothing, such as *value*, takes the words of the key of its object.

    Args:
        text: the text.
        at: where the value begins.
    """
    seen = text[max(at - REACH, 0) : at]
    before = seen[seen.rfind("\n") + 1 :]
    bare = before.rstrip(_OPENING)
    in_list = _LIST.search(before)
    if in_list:
        bare = before[: in_list.start()].rstrip(_OPENING)
    separator = _SEPARATOR.search(bare)
    if separator:
        label = _LABEL.search(bare, 0, separator.start())
        words = words_of(label.group()) if label else ()
        if label and words and "{" in seen and NEUTRAL.issuperset(words):
            outer = _OUTER.search(seen, 0, len(seen) - len(before) + label.start())
            words = words_of(outer[1]) if outer else words
        return Lead(words, labelled=True)
    if in_list or _CELL.search(bare):
        return Lead()
    label = _LABEL.search(bare, max(len(bare) - _NEAR, 0))
    return Lead(words_of(label.group())[-3:] if label else ())


_BREAKS = deferred(r"[,;|\n()\[\]{}，、；。]")


def names_next(between: str) -> bool:
    """Return whether the text between two values names the second one: a word or a label stands right before it.

    What names the first one then says nothing of the second. Words such as *and* name nothing.
    """
    bare = _BREAKS.split(between)[-1].rstrip(f"{_OPENING}:=\uff1a")
    return bare[-1:].isalpha() and not NEUTRAL.issuperset(words_of(bare))


def words_near(text: str, at: int) -> tuple[str, ...]:
    """Return all words close before a place, in small letters."""
    return words_of(text[max(at - _WORDS_REACH, 0) : at])


def words_of(label: str) -> tuple[str, ...]:
    """Return the words of a label, in small letters: *next*, *page* and *token* of ``nextPageToken``."""
    return tuple(word.lower() for word in _WORD.findall(label))


def _without_number(word: str) -> str:
    for ending in _NUMBER:
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)].rstrip("s") if ending.startswith("numm") else word[: -len(ending)]
    return word
