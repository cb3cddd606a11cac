"""Encoded text, and spaced-out letters (``h e l l o``): where they stand, and their hidden text.

A stretch is a part of a text that does not read as words. `stretches` finds them, `joined` puts letters together,
`EncodedSpans` runs another detector over that and over what `penstock.detection.codes` decodes, and `spoken` returns
all of it for detectors of whole texts. A long stretch is judged slice by slice, and no slice depends on later text, so
streams give the same result. A text is never cut within a character, however many plain ones it reads as.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import regex

from penstock.detection.codes import decoded
from penstock.detection.deferred import deferred
from penstock.detection.patterns.kinds import LETTER, OTHER, SIGN, runs
from penstock.detection.spans import Span
from penstock.detection.unicode.disguises import BETWEEN_WORDS, is_plain, read_by_letter
from penstock.detection.words import (
    BEYOND,
    HAN,
    HAN_LENGTH,
    MARK,
    OF_UNSPACED,
    UNSPACED,
    UNSPACED_LENGTH,
    PlainView,
    known_words,
)
from penstock.engine.text_guards.views import view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence

    from penstock.detection.words import WordList
    from penstock.engine.values.frozen import Value


BLOB = 24
"""How many characters without a space make a blob."""

UNITS = 16
"""How many letters or codes in a row make a stretch."""

PIECE = 1024
"""How many characters of a long stretch are decided at once, judged together with as many characters behind them."""

_NEAR = 16  # characters between one unit and the next
_JOINED = rf"(?:[ \t]*\r?\n[ \t]*[^{BETWEEN_WORDS}]{{{BLOB},}}+)*+(?:[ \t]*\r?\n[A-Za-z0-9+/]*+={{1,2}}(?!\S))?+"
_BLOB = deferred(rf"(?<![^{BETWEEN_WORDS}])[^{BETWEEN_WORDS}]{{{BLOB},}}+{_JOINED}")
_BLOB_ON = deferred(rf"[^{BETWEEN_WORDS}]++{_JOINED}")
_MAY_JOIN = deferred(rf"[ \t]*\r?(?:\n[ \t]*[^{BETWEEN_WORDS}]{{0,{BLOB - 1}}}+)?")
_LAST_SPACE = regex.compile(rf"(?r)[{BETWEEN_WORDS}]")
_CODE = r"\d{1,7}|[01]{7,21}"  # in decimal or binary
_UNIT = deferred(rf"[^\W\d_]{{1,2}}|{_CODE}|0?x?[0-9a-f]{{2}}")
_LONGEST_UNIT = 21
_LENGTHS = re.compile(rb"[\x01-\x04\x08]{%d,}+" % UNITS)
_NUMBERS = re.compile(rb"\x01{%d,}+" % UNITS)
_SEAM = deferred(r"[^\W_]*\Z")
_SEAM_NEAR = 16


class Stretch(NamedTuple):
    """A stretch of a text; ``open``: it could go on if there is more text."""

    start: int
    end: int
    open: bool = False


class Stretches(NamedTuple):
    """All stretches of a text, in order and disjoint.

    ``pending`` is where one may begin that is still too short; the end of the text if there is none.
    """

    found: Sequence[Stretch]
    pending: int


class Hidden(NamedTuple):
    """A part of a text that hides something, and what; places as in `Span`."""

    start: int
    end: int
    type: str


class StretchSeam(NamedTuple):
    """A place between two slices of a stretch.

    ``over`` holds the findings of the slices before it that lie behind it, counted from it; ``within`` tells whether it
    lies in a word.
    """

    at: int
    over: tuple[Hidden, ...]
    within: bool


class HiddenStretches(NamedTuple):
    """The findings in stretches.

    Attributes:
        hidden: the places of the findings.
        seams: the places between the slices of long stretches.
        hold: where the first stretch or slice begins that is not judged yet; the end of the text if there is none.
        found: the stretches.
    """

    hidden: Sequence[Hidden]
    seams: Sequence[StretchSeam]
    hold: int
    found: Sequence[Stretch]


def have_run(words: Sequence[str]) -> bool:
    """Return whether enough words in a row are letters or codes, wherever they stand."""
    try:
        lengths = bytes(map(len, words))
    except ValueError:  # a word of more than 255 characters
        lengths = bytes(map(min, map(len, words), repeat(255)))
    if any(_all_units(words[found.start() : found.end()]) for found in _LENGTHS.finditer(lengths)):
        return True
    numbers = bytes(map(str.isdigit, words))
    return any(_all_units(words[found.start() : found.end()]) for found in _NUMBERS.finditer(numbers))


def _all_units(words: Sequence[str]) -> bool:
    """Return whether enough of some words, in a row, are letters or codes."""
    fits = bytes(_UNIT.fullmatch(word) is not None for word in words)
    return b"\x01" * UNITS in fits


def stretches(view: PlainView, words: WordList, tail: int, *, inside: bool, final: bool) -> Stretches:
    """Return the stretches of a text that do not read as words. They begin and end between its characters.

    Args:
        view: the text in plain letters.
        words: its words, except one that the end of the text may cut off.
        tail: where that word begins.
        inside: whether the text begins within a stretch; its rest is then a stretch, however short.
        final: whether the text ends here.
    """
    text = view.plain
    found = [*_blobs(text, inside=inside, final=final)]
    pending = len(text) if final else _last_chunk(text)
    for run in _runs(words, tail, final=final):
        if run.units >= UNITS or (inside and run.start <= _NEAR):
            found.append(Stretch(0 if inside and run.start <= _NEAR else run.start, run.end, run.open))
        elif run.open:
            pending = min(pending, run.start)
    merged = _merged(Stretch(view.low(one.start), view.high(one.end), one.open) for one in found)
    if merged and pending <= merged[-1].end < len(text):
        merged[-1] = merged[-1]._replace(open=True)
    return Stretches(merged, view.low(pending))


def hidden_stretches(
    view: PlainView, found: Stretches, hides: Callable[[str], Iterable[Hidden]], before: Iterable[Hidden]
) -> HiddenStretches:
    """Return the findings in those slices of stretches that can be judged.

    Args:
        view: the text.
        found: its stretches.
        hides: returns the findings in a slice.
        before: the findings beyond the beginning of the text, if it begins within a stretch.
    """
    hidden: list[Hidden] = []
    seams: list[StretchSeam] = []
    hold = found.pending
    for start, end, is_open in found.found:
        at = start
        over = [*before] if start == 0 else []
        while end - at > 2 * PIECE:
            over += _within(view, at, at + 2 * PIECE, hides)
            seam = view.low(_seam(view.plain, at + PIECE))
            lowered = _uncut(over, seam)
            if lowered <= at:  # a finding as long as a slice: it is hidden in pieces, to the end if it is cut off there
                over = [part for one in over for part in _split(one, seam, at + 2 * PIECE - _SEAM_NEAR)]
            else:
                seam = lowered
            hidden += (one for one in over if one.start < seam)
            over = [one for one in over if one.start >= seam]
            seams.append(_seam_of(view.plain, seam, over))
            at = seam
        if is_open:
            hold = min(hold, at)
        else:
            over += _within(view, at, end, hides)
            hidden += (one._replace(end=min(one.end, end)) for one in over if one.start < end)
    return HiddenStretches(hidden, seams, hold, found.found)


def _within(view: PlainView, start: int, end: int, hides: Callable[[str], Iterable[Hidden]]) -> Iterator[Hidden]:
    """Yield the findings in a slice; it begins and ends between characters of the text."""
    for one in hides(view.plain[start:end]):
        yield Hidden(view.low(start + one.start), view.high(start + one.end), one.type)


def _uncut(found: Iterable[Hidden], at: int) -> int:
    """Return the last place up to the given one that lies within no finding."""
    for one in sorted(found, key=lambda one: one.end, reverse=True):
        if one.start < at < one.end:
            at = one.start
    return at


def _split(one: Hidden, at: int, cut_off: int) -> Iterator[Hidden]:
    """Yield the parts of a finding before a place and behind it.

    If it reaches the place from which on it counts as cut off, the part behind never ends.
    """
    if one.start < at < one.end:
        yield one._replace(end=at)
        yield one._replace(start=at, end=sys.maxsize if one.end >= cut_off else one.end)
    else:
        yield one


def _seam_of(text: str, at: int, over: Iterable[Hidden]) -> StretchSeam:
    moved = tuple(Hidden(one.start - at, one.end - at, one.type) for one in over)
    return StretchSeam(at, moved, text[at - 1].isalnum() and text[at].isalnum())


def _seam(text: str, at: int) -> int:
    """Return a place close before the given one, between two words if there is one."""
    found = _SEAM.search(text, at - _SEAM_NEAR, at)
    return at if found is None or found.start() == at - _SEAM_NEAR else found.start()


def _merged(found: Iterable[Stretch]) -> list[Stretch]:
    merged: list[Stretch] = []
    for one in sorted(found):
        last = merged[-1] if merged else None
        if last is not None and one.start < last.end:
            merged[-1] = Stretch(last.start, max(last.end, one.end), last.open or one.open)
        else:
            merged.append(one)
    return merged


def _blobs(text: str, *, inside: bool, final: bool) -> Iterator[Stretch]:
    begun = _BLOB_ON.match(text) if inside else None
    for found in chain([begun] if begun else (), _blobs_from(text, begun.end() if begun else 0)):
        may_join = not final and _MAY_JOIN.fullmatch(text, found.end()) is not None
        yield Stretch(found.start(), found.end(), may_join)


_UNSPACED = bytes(OTHER[0] if char.isspace() else LETTER[0] for char in map(chr, range(256)))


def _blobs_from(text: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the blobs from a place on. They are searched only where enough characters without a space stand."""
    for low, high in runs(text.encode("ascii", "replace").translate(_UNSPACED), LETTER, OTHER, BLOB):
        while start < high and (found := _BLOB.search(text, max(low, start))) is not None and found.start() < high:
            yield found
            start = found.end()


def _last_chunk(text: str) -> int:
    """Return where the characters without a space begin that the text ends with; its end if they are a blob already."""
    found = _LAST_SPACE.search(text, max(len(text) - BLOB, 0), concurrent=False)
    if found is None:
        return len(text) if len(text) >= BLOB else 0
    return found.end()


class _UnitRun(NamedTuple):
    start: int
    end: int
    open: bool
    units: int


def _runs(words: WordList, tail: int, *, final: bool) -> Iterator[_UnitRun]:
    """Yield the runs of letters or codes. A run has one word or more, so all but the last may be too short."""
    start = end = count = 0
    for word, low, high in zip(words.words, words.starts, words.ends, strict=True):
        fits = len(word) <= _LONGEST_UNIT and _UNIT.fullmatch(word) is not None
        if count and (not fits or low - end > _NEAR):
            yield _UnitRun(start, end, open=False, units=count)
            count = 0
        if fits:
            start = start if count else low
            end, count = high, count + 1
    if count:
        yield _UnitRun(start, end, open=not final and tail - end <= _NEAR, units=count)


def open_run(text: str, words: Sequence[str], end: int, starts: Iterator[int] | None = None) -> int:
    """Return where the run of letters or codes begins that may go on at a place of a text; the place if there is none.

    Args:
        text: the text, in small letters.
        words: its words before the place.
        end: the place.
        starts: where the words begin, from the last one back, if they overlap, as in scripts without spaces.
    """
    begin = end
    for word in reversed(words):
        known = len(word) >= _LONGEST_LETTERS and word.isalpha()  # most words need no closer look
        if known or len(word) > _LONGEST_UNIT or _UNIT.fullmatch(word) is None:
            break
        low = text.rfind(word, 0, begin) if starts is None else next(starts)
        if begin - low - len(word) > _NEAR:
            break
        begin = low
    return begin


_UNIT_APART = rf"(?>(?:[^\W\d_]{{1,2}}|{_CODE}|0?[xX]?[0-9a-fA-F]{{2}})(?![^\W_]))"
_APART = re.compile(rf"(?<![^\W_])(?:{_UNIT_APART}[\W_]{{1,{_NEAR}}}+){{{UNITS // 2 - 1}}}{_UNIT_APART}")
_LEAST_PIECES = 2 * (UNITS // 2) - 1  # characters that so many units have, with what is between them


def is_prose(text: str, start: int = 0) -> bool:
    """Return whether a text is plain words from a place on, at a glance; False if a closer look is needed."""
    return is_plain(text, start) and _has_no_stretch(text[start:] if start else text)


def _has_no_stretch(text: str) -> bool:
    """Return whether a text that is plain has no stretch, at a glance. Guards share it."""
    return view_of(text, _reads_as_words)


def _reads_as_words(text: str) -> bool:
    return len(text) < _LEAST_PIECES or (next(_blobs_from(text, 0), None) is None and not _is_apart(text))


def _ends_with_first(text: str) -> bool:
    """Return whether the only stretch of a plain text is a blob that may go on, too short to be judged in slices."""
    last = max(text.rfind(" "), text.rfind("\n")) + 1
    return text.isascii() and len(text) - last <= PIECE and not _is_apart(text) and _reads_as_words(text[:last])


_LONGEST_LETTERS = 4  # of a letter or a code that is no number


@cache
def _apart_beyond() -> regex.Pattern[str]:
    """Return the pattern of letters and codes in a row in scripts with marks of their own, or without spaces.

    Without spaces, the last two characters of each stretch are words of one and two characters, so half as many
    stretches are enough.
    """
    unspaced = rf"[{HAN}]{{1,2}}+(?![{HAN}])|[{UNSPACED}]{{1,2}}+(?![{UNSPACED}])"
    letters = rf"[[\p{{L}}\p{{N}}]--[{HAN}{UNSPACED}]]{{1,{_LONGEST_LETTERS}}}+|\p{{N}}{{1,{_LONGEST_UNIT}}}+"
    spaced = rf"(?:{letters})(?![[\p{{L}}\p{{N}}{MARK}]--[{HAN}{UNSPACED}]])"
    between = rf"[^\p{{L}}\p{{N}}]{{0,{_NEAR}}}+"
    return regex.compile(rf"(?:(?:{unspaced}|{spaced}){between}){{{UNITS // 2 - 1}}}", regex.V1)


_LETTERS = 3  # neither a letter nor a code has as many, nor what stands between two
_BUT_X = bytes(LETTER[0] if char.isalpha() and char not in "xX" else SIGN[0] for char in map(chr, range(256)))
_AS_SIGNS = bytes.maketrans(LETTER, SIGN)


def _between_letters(text: str) -> bytes:
    """Return a text in which three ASCII letters in a row are `OTHER`, and the characters between them `SIGN`."""
    read = text.encode("ascii", "replace").translate(_BUT_X)
    return read.replace(LETTER * _LETTERS, OTHER * _LETTERS).translate(_AS_SIGNS)


def _parts(read: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Yield where those parts between letters begin and end that are long enough, with the letters around them."""
    for low, high in runs(read, SIGN, OTHER, least):
        yield max(low - _LETTERS, 0), high + _LETTERS


def _is_apart(text: str) -> bool:
    """Return whether letters or codes in a row may stand in a plain text."""
    if not text.isascii() and BEYOND.search(text) is not None:
        return _apart_beyond().search(text) is not None
    return any(_APART.search(text, low, high) for low, high in _parts(_between_letters(text), _LEAST_PIECES))


_SPACES = frozenset(" \n")
# Up to the last word that is neither a letter nor a code, and what is behind it.
_UP_TO_WORD = re.compile(r"(?s:.*)[^\W\d_xX][^\W\d_]{2}[\W_]++")
# What no letter and no code has, however the word goes on.
_NO_UNIT = re.compile(rf"[^\W\d_xX][^\W\d_]{{2}}|[^\W_]{{{_LONGEST_UNIT + 1}}}")


@cache
def _unspaced_end() -> regex.Pattern[str]:
    """Return the pattern of an end without spaces; its group is the text behind the last word that is no unit.

    In Chinese and Japanese, the last two characters before a sign are units.
    """
    letter = rf"[[{UNSPACED}]&&\p{{L}}]{MARK}{{0,2}}"
    sign = rf"[^\p{{L}}\p{{N}}\p{{M}}]{{1,{_NEAR}}}"
    han = rf"[{HAN}](?P<end>[{HAN}]{{{HAN_LENGTH}}}|[{HAN}]{{{HAN_LENGTH - 1}}}{sign}[{HAN}]{{0,{HAN_LENGTH}}})"
    return regex.compile(rf"(?r)(?:{han}|{letter}(?P<end>(?:{letter}){{{UNSPACED_LENGTH}}}))\Z", regex.V1)


@cache
def _up_to_word_beyond() -> regex.Pattern[str]:
    """Return the same pattern for words with marks."""
    return regex.compile(
        rf"(?s:.*)[\p{{L}}--[xX]][\p{{L}}{MARK}]{{2}}(?![\p{{L}}\p{{N}}{MARK}])[^\p{{L}}\p{{N}}]*+", regex.V1
    )


LEAST_APART = 8
"""How many characters in a row must be written apart."""

_BY_SPACE = deferred(rf"(?<!\S)\S(?:[ \t]{{1,4}}\S(?!\S)){{{LEAST_APART - 1},}}")
_END = r"(?=[ \t]*+(?:\r?\n|\Z))"
_BY_LINE = deferred(rf"(?<![^\n])[ \t]*+\S{_END}(?:[ \t]*+\r?(?:\n[ \t]*+){{1,2}}\S{_END}){{{LEAST_APART - 1},}}+")
_BLANK = deferred(r"\s+")
_SIGNS = ".-_*|~+·•"
_ANY_SIGN = f"[{re.escape(_SIGNS)}]"
_SIGNED = rf"[^\W_](?:{_ANY_SIGN}{{1,2}}[^\W_](?![^\W_]))+"
_BY_SIGN = deferred(rf"(?<![^\W_]){_SIGNED}(?:\s+{_SIGNED})*")
_SIGN = deferred(_ANY_SIGN)


_BLANKS = " \t"


class JoinedLetters(NamedTuple):
    """A text with letters that were written apart put together, and the place of each character in the given text."""

    text: str
    places: list[int]


def joined(text: str) -> JoinedLetters | None:
    """Return a text with letters that were written apart put together; None if there are none."""
    gone: set[int] = set()
    single = [*map(len, text.split())].count(1) >= LEAST_APART  # or none stand between spaces or ends of lines
    for found in _BY_SPACE.finditer(text) if single else ():
        gone.update(_between(text, *found.span()))
    for found in _BY_LINE.finditer(text) if single else ():
        gone.update(_ends_between(text, *found.span()))
    signed = sum(map(text.count, _SIGNS)) >= LEAST_APART - 1
    for found in _BY_SIGN.finditer(text) if signed else ():
        signs = [found.start() + sign.start() for sign in _SIGN.finditer(found.group())]
        if len(signs) >= LEAST_APART - 1:
            gone.update(signs)
    if not gone:
        return None
    places = [at for at in range(len(text)) if at not in gone]
    return JoinedLetters("".join(text[at] for at in places), places)


def _between(text: str, start: int, end: int) -> list[int]:
    """Return the blanks to remove between letters: all, except the last of several, which separates words."""
    blanks = [at for at in range(start, end) if text[at] in _BLANKS]
    return [at for at in blanks if text[at - 1] not in _BLANKS or text[at + 1] in _BLANKS]


def _ends_between(text: str, start: int, end: int) -> list[int]:
    """Return the line ends to remove between letters, except the last of two; none in a column of numbers."""
    if 2 * sum(map(str.isalpha, text[start:end])) < sum(not char.isspace() for char in text[start:end]):
        return []
    gone: list[int] = []
    for blank in _BLANK.finditer(text, start, end):
        gone += range(blank.start(), blank.end() - (blank.group().count("\n") > 1))
    return gone


_DEPTH = 2  # codes within codes
# Markup within a word, which whoever shows the text takes for none: em**phasis**, ta<b>gs</b>, com<!-- -->ments.
# All begin with one set of characters, which `re` looks for much faster than for a letter before them.
_MARKUP = deferred(
    r"[*_`~<](?<=[^\W_].)(?:(?<=\*)\*{0,2}|(?<=_)_{1,2}|(?<=`)`{0,2}|(?<=~)~"
    r"|(?<=<)(?:/?[a-zA-Z]{1,10}>|!--[^>]{0,40}-->))(?=[^\W_])"
)
_MARKUP_SIGNS = "*_`~<"  # what each of these begins with
_MARKED = 3  # words with markup in them, from which on they are no accident


def spoken(text: str) -> Sequence[str]:
    """Return the hidden meanings of a text. Guards share them.

    These are the decoded codes in it, the text with spaced-out letters joined, and the text without markup within
    words. For plain prose, which is recognised quickly, the result is empty. All together is at most a few times as
    long as the text.
    """
    return view_of(text, _spoken)


def _spoken(text: str) -> Sequence[str]:
    found = [*_decoded(text, _DEPTH)]
    if sum(map(text.count, _MARKUP_SIGNS)) < _MARKED:
        return found
    unmarked, count = _MARKUP.subn("", text)
    return [*found, unmarked] if count >= _MARKED else found


def _decoded(text: str, depth: int, *, escapes: bool = True) -> Iterator[str]:
    if is_prose(text):
        return
    view = PlainView(text)
    together = joined(view.plain)
    if together is not None:
        yield together.text
    for stretch in _all_stretches(view):
        for said in decoded(view.plain[stretch.start : stretch.end], escapes=escapes):
            yield said.text
            if depth > 1:
                yield from _decoded(said.text, depth - 1, escapes=escapes and not said.resolved)


def _all_stretches(view: PlainView) -> Sequence[Stretch]:
    """Return the stretches of a whole text."""
    words, tail = _words_in_rows(view.text, inside=False, final=True)
    return stretches(view, words, tail, inside=False, final=True).found


def _words_in_rows(text: str, *, inside: bool, final: bool) -> tuple[WordList, int]:
    """Return the words that may make a stretch, and where the first word begins that more text can change.

    Args:
        text: the text, in small letters.
        inside: whether the text begins within a stretch; then all words are returned, since few may go on with it.
        final: whether the text ends here. If not, few are enough at its end.
    """
    if inside:
        return known_words(text, final=final)
    known = len(text) if final else max(text.rfind(" "), text.rfind("\n")) + 1
    read = _between_letters(text[:known])
    last = known if final else read.rfind(OTHER) + 1
    places = [*_parts(read[:last], UNITS)]
    if not final:
        places.append((max(last - _LETTERS, 0), len(text)))
    return known_words(text, final=final, places=places)


_INSIDE = "inside"  # the note that says that a stretch was cut, and what was found of it behind the cut


class EncodedSpans:
    """Finds what another detector finds in encoded text, and in letters that are written apart, where it stands.

    Args:
        find: returns the spans in a plain text.
    """

    def __init__(self, find: Callable[[str], Sequence[Span]]) -> None:
        self._find = find

    def quiet(self, text: str, start: int, most: int, *, final: bool) -> int | None:
        """Return where a stretch may begin if the text goes on, at most ``most``; None if one may hide something.

        If the text is ``final``, that is ``most``. It is None, too, where a long text must be read more closely.
        """
        rest = text[start:] if start else text
        plain = rest if rest.isascii() else read_by_letter(rest)
        if plain is not None and (
            _has_no_stretch(plain) if final else _reads_as_words(plain) or _ends_with_first(plain)
        ):
            return most if final else start + self.open_from(plain, most - start)
        if len(rest) > PIECE:
            return None
        notes: dict[str, Value] = {}
        found, hold = self.scan(text, start, notes, final=final)
        return None if found or notes or hold > most else hold  # what begins anew before it may begin in a stretch

    @staticmethod
    def open_from(text: str, most: int) -> int:
        """Return where a stretch may begin in a plain text that has none, if the text goes on.

        That is between two words, and at most the given place.
        """
        beyond = not text.isascii() and BEYOND.search(text) is not None
        if beyond and OF_UNSPACED.search(text) is not None:
            known = _unspaced_end().search(text, concurrent=False)
            if known is not None:
                begin = known.start("end")
            else:
                view = PlainView(text)
                words, tail = known_words(view.text, final=False)
                begin = min(stretches(view, words, tail, inside=False, final=False).pending, tail)
            return begin if begin <= most else 0
        last = most
        if text[most - 1 : most] not in _SPACES:
            last = max(text.rfind(" ", 0, most), text.rfind("\n", 0, most)) + 1
        found = (_up_to_word_beyond() if beyond else _UP_TO_WORD).match(text, 0, last)
        end = found.end() if found else 0
        return last if end < last and not beyond and _NO_UNIT.search(text, last) else end

    def scan(self, text: str, start: int, notes: MutableMapping[str, Value], *, final: bool) -> tuple[list[Span], int]:
        """Return the spans that begin at ``start`` or later, and the place from which on more text could change them.

        The ``start`` of the next call is this place. ``notes`` is one mapping for each text, empty at its beginning.
        """
        before: tuple[Hidden, ...] | None = notes.pop(_INSIDE, None)
        inside = before is not None
        rest = text[start:] if start else text
        if not inside and is_plain(rest, 0) and _has_no_stretch(rest):
            return [], len(text) if final else start + self.open_from(rest, len(rest))
        view = PlainView(rest, final=final)
        words, tail = _words_in_rows(view.text, inside=inside, final=final)
        found = stretches(view, words, tail, inside=inside, final=final)
        hidden = hidden_stretches(view, found, self._hides, before or ())
        hold = len(view.text) if final else _lowered(min(hidden.hold, tail), hidden, view)
        seam = next((seam for seam in hidden.seams if seam.at == hold), None)
        if hold == 0 and before is not None:
            notes[_INSIDE] = before
        elif seam is not None:
            notes[_INSIDE] = seam.over
        back = sorted({one for one in hidden.hidden if one.end <= hold})
        spans = [Span(start + view.start(one.start), start + view.end(one.end), one.type) for one in back]
        return spans, start + (view.source if hold >= len(view.text) else view.start(hold))

    def _hides(self, piece: str, depth: int = _DEPTH, *, escapes: bool = True) -> Iterator[Hidden]:
        """Yield the findings in a piece of a stretch, where they stand; ``escapes`` as for `decoded`."""
        for said in decoded(piece, escapes=escapes):
            for one in self._said(said.text, depth, escapes=escapes and not said.resolved):
                yield Hidden(*said.place(one.start, one.end), one.type)
        together = joined(piece)
        if together is not None:
            for one in self._said(together.text, depth, escapes=escapes):
                yield Hidden(together.places[one.start], together.places[one.end - 1] + 1, one.type)

    def _said(self, text: str, depth: int, *, escapes: bool) -> Iterator[Hidden]:
        """Yield the findings in a decoded text, also in a code within the code."""
        for span in self._find(text):
            yield Hidden(span.start, span.end, span.type)
        if depth > 1 and not is_prose(text):
            view = PlainView(text)
            for within in _all_stretches(view):
                for one in self._hides(view.plain[within.start : within.end], depth - 1, escapes=escapes):
                    low, high = view.start(within.start + one.start), view.end(within.start + one.end)
                    yield Hidden(low, high, one.type)


def _lowered(hold: int, hidden: HiddenStretches, view: PlainView) -> int:
    """Return the last place, up to the given one, that cuts no character, no finding and no slice of a stretch."""
    seams = {seam.at for seam in hidden.seams}
    whole = [(one.start, one.end) for one in hidden.found]
    lower = -1
    while lower != hold:
        lower = hold
        hold = view.low(hold)
        hold = min((one.start for one in hidden.hidden if one.start < hold < one.end), default=hold)
        if hold not in seams:
            begun = next((low for low, high in whole if low < hold < high), hold)
            hold = max((at for at in seams if begun < at <= hold), default=begun)
    return hold
