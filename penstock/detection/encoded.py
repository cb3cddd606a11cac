"""Encoded text: base64, hexadecimal, escapes, and spaced-out letters (``h e l l o``), found and decoded.

A stretch is a part of a text that does not read as words. `stretches` finds them, `decoded` and `joined` return what
they may mean, `EncodedSpans` runs another detector over that, and `spoken` returns all of it for detectors of whole
texts. A long stretch is judged slice by slice, and no slice depends on later text, so streams give the same result.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

import regex

from penstock.detection.spans import Span
from penstock.detection.unicode import disguises
from penstock.detection.unicode.disguises import is_plain
from penstock.detection.words import PlainView, known_words

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
_SPACE = r"\s\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\U00020000-\U0003ffff"  # or no need of it
_JOINED = rf"(?:[ \t]*\r?\n[ \t]*[!-~]{{{BLOB},}}+)*+(?:[ \t]*\r?\n[A-Za-z0-9+/]*+={{1,2}}(?!\S))?+"
_BLOB = re.compile(rf"(?<![^{_SPACE}])[^{_SPACE}]{{{BLOB},}}+{_JOINED}")
_BLOB_ON = re.compile(rf"[^{_SPACE}]++{_JOINED}")
_MAY_JOIN = re.compile(rf"[ \t]*\r?(?:\n[ \t]*[!-~]{{0,{BLOB - 1}}}+)?")
_LAST_SPACE = regex.compile(rf"(?r)[{_SPACE}]")
_UNIT = re.compile(r"[^\W\d_]{1,2}|\d{1,3}|[01]{8}|0?x?[0-9a-f]{2}")
_LONGEST_UNIT = 8
_LENGTHS = re.compile(rb"[\x01-\x04\x08]{%d,}+" % UNITS)
_SEAM = re.compile(r"[^\W_]*\Z")
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


class StretchSeam(NamedTuple):
    """A place between two slices of a stretch.

    ``hit`` says whether the slices before it hid something, ``within`` whether the place lies in a word.
    """

    at: int
    hit: bool
    within: bool


class HiddenStretches(NamedTuple):
    """What is hidden in stretches.

    Attributes:
        hidden: the places of what is hidden, in order.
        seams: the places between the slices of long stretches.
        hold: where the first stretch or slice begins that is not judged yet; the end of the text if there is none.
        found: the stretches.
    """

    hidden: Sequence[tuple[int, int]]
    seams: Sequence[StretchSeam]
    hold: int
    found: Sequence[Stretch]


def have_run(words: Sequence[str]) -> bool:
    """Return whether enough words in a row are letters or codes, wherever they stand."""
    try:
        lengths = bytes(map(len, words))
    except ValueError:  # a word of more than 255 characters
        lengths = bytes(map(min, map(len, words), repeat(255)))
    return any(_all_units(words[found.start() : found.end()]) for found in _LENGTHS.finditer(lengths))


def _all_units(words: Sequence[str]) -> bool:
    """Return whether enough of some words, in a row, are letters or codes."""
    fits = bytes(_UNIT.fullmatch(word) is not None for word in words)
    return b"\x01" * UNITS in fits


def stretches(text: str, words: WordList, tail: int, *, inside: bool, final: bool) -> Stretches:
    """Return the stretches of a text that do not read as words.

    Args:
        text: the text, in plain letters.
        words: its words, except one that the end of the text may cut off.
        tail: where that word begins.
        inside: whether the text begins within a stretch; its rest is then a stretch, however short.
        final: whether the text ends here.
    """
    found = [*_blobs(text, inside=inside, final=final)]
    pending = len(text) if final else _last_chunk(text)
    for run in _runs(words, tail, final=final):
        if run.units >= UNITS or (inside and run.start <= _NEAR):
            found.append(Stretch(0 if inside and run.start <= _NEAR else run.start, run.end, run.open))
        elif run.open:
            pending = min(pending, run.start)
    merged = _merged(found)
    if merged and pending <= merged[-1].end < len(text):
        merged[-1] = merged[-1]._replace(open=True)
    return Stretches(merged, pending)


def hidden_stretches(
    text: str, found: Stretches, hides: Callable[[str], Iterable[tuple[int, int]]], *, before: bool
) -> HiddenStretches:
    """Return what is hidden in those slices of stretches that can be judged.

    Args:
        text: the text.
        found: its stretches.
        hides: returns where something is hidden in a slice.
        before: whether the text begins within a stretch that hid something.
    """
    hidden: list[tuple[int, int]] = []
    seams: list[StretchSeam] = []
    hold = found.pending
    for start, end, is_open in found.found:
        hit, at = before and start == 0, start
        while end - at > 2 * PIECE:
            hit = hit or any(True for _ in hides(text[at : at + 2 * PIECE]))
            seam = _seam(text, at + PIECE)
            hidden.extend([(at, seam)] if hit else [])
            seams.append(StretchSeam(seam, hit, text[seam - 1].isalnum() and text[seam].isalnum()))
            at = seam
        if is_open:
            hold = min(hold, at)
        elif hit:
            hidden.append((at, end))
        else:
            hidden.extend((at + low, at + high) for low, high in hides(text[at:end]))
    return HiddenStretches(hidden, seams, hold, found.found)


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
    if not inside and max(map(len, text.split()), default=0) < BLOB:
        return
    begun = _BLOB_ON.match(text) if inside else None
    at = begun.end() if begun else 0
    for found in [*([begun] if begun else []), *_BLOB.finditer(text, at)]:
        may_join = not final and _MAY_JOIN.fullmatch(text, found.end()) is not None
        yield Stretch(found.start(), found.end(), may_join)


def _last_chunk(text: str) -> int:
    """Return where the characters without a space begin that the text ends with; its end if they are a blob already."""
    found = _LAST_SPACE.search(text, max(len(text) - BLOB, 0))
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


_LEAST_DECODED = 12  # characters that a decoded stretch must have to be looked at
_TORN = 6  # bytes at a stretch's ends that belong to characters which are cut in two
_CHARACTERS = range(0x9, 0x250)  # from the tab to the last Latin letters
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}+={0,2}")
_BASE32 = re.compile(r"[A-Za-z2-7]{24,}+=*")
_NUMBER = re.compile(r"(?<![0-9A-Za-z])(?:0?x)?([0-9A-Fa-f]{1,8})(?![0-9A-Za-z])")
_HEX_RUN = re.compile(r"(?:(?:0x|\\x|\\u00|u\+00|%)?[0-9a-f]{2}[\s,:;_-]*){8,}+", re.IGNORECASE)
_HEX_MARK = re.compile(r"0x|\\x|\\u00|u\+00|[\s,:;%_-]", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u00([0-9a-fA-F]{2})|\\x([0-9a-fA-F]{2})|=([0-9A-F]{2})")


def decoded(text: str) -> Iterator[str]:
    """Yield what a stretch says in the codes that it can be written in; only what is text."""
    for decode in _CODES:
        yield from decode(text)


def _base64(text: str) -> Iterator[str]:
    """Yield what base64 says, in either alphabet, starting at each of its four positions."""
    joined = re.sub(r"\s+", "", text).replace("-", "+").replace("_", "/")
    for found in _BASE64.finditer(joined):
        letters = found.group().rstrip("=")
        for skip in range(4):
            usable = letters[skip : len(letters) - (len(letters) - skip) % 4]
            rest = letters[skip + len(usable) :]
            padded = usable + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else "")
            yield from _bytes(lambda padded=padded: base64.b64decode(padded))  # type: ignore[misc]


def _base32(text: str) -> Iterator[str]:
    for found in _BASE32.finditer(re.sub(r"\s+", "", text)):
        letters = found.group().rstrip("=").upper()
        padded = letters + "=" * (-len(letters) % 8)
        yield from _bytes(lambda padded=padded: base64.b32decode(padded))  # type: ignore[misc]


def _hex(text: str) -> Iterator[str]:
    for found in _HEX_RUN.finditer(text):
        digits = _HEX_MARK.sub("", found.group())
        for skip in (0, 1):
            even = digits[skip : len(digits) - (len(digits) - skip) % 2]
            yield from _bytes(lambda even=even: binascii.unhexlify(even))  # type: ignore[misc]


def _numbers(text: str) -> Iterator[str]:
    """Yield the text of character codes that stand one by one: decimal, octal or binary."""
    digits = _NUMBER.findall(text)
    for base in (10, 8, 2):
        fitting = [int(one, base) for one in digits if _fits(one, base)]
        if len(fitting) >= _LEAST_DECODED:
            yield "".join(map(chr, fitting))
    if re.fullmatch(r"[01\s]{96,}+", text):
        bits = re.sub(r"\s+", "", text)
        yield "".join(chr(int(bits[at : at + 8], 2)) for at in range(0, len(bits) - 7, 8))


def _fits(digits: str, base: int) -> bool:
    try:
        return int(digits, base) in _CHARACTERS
    except ValueError:
        return False


def _escapes(text: str) -> Iterator[str]:
    """Yield the text with percent codes, character references and backslash escapes resolved."""
    if "%" in text:
        yield unquote_plus(text, errors="replace")
    if "&" in text:
        yield html.unescape(text)
    if "\\" in text or "=" in text:
        yield _ESCAPED.sub(lambda found: chr(int(next(filter(None, found.groups())), 16)), text)


_CODES: tuple[Callable[[str], Iterator[str]], ...] = (_base64, _hex, _escapes, _numbers, _base32)


def _bytes(decode: Callable[[], bytes]) -> Iterator[str]:
    """Yield the text that bytes hold; nothing if they cannot be decoded or are not text."""
    try:
        raw = decode()
    except (ValueError, binascii.Error):
        return
    coding = _coding(raw)
    text = raw.decode(coding, errors="ignore")
    lost = len(raw) - len(text.encode(coding))
    clear = text if text.isascii() else disguises.read(text).text  # what cannot be seen does not make it illegible
    legible = sum(map(str.isprintable, clear)) * 10 >= len(clear) * 8
    if legible and len(clear) >= _LEAST_DECODED and lost * 10 <= len(raw) + _TORN * 10:
        yield text


def _coding(raw: bytes) -> str:
    """Return the encoding of bytes: in UTF-16 every other one is zero, as far as letters are Latin."""
    if raw.count(0) * 3 <= len(raw):
        return "utf-8"
    return "utf-16-le" if raw[1::2].count(0) > raw[::2].count(0) else "utf-16-be"


_UNIT_APART = r"(?:[^\W\d_]{1,2}|\d{1,3}|[01]{8}|0?[xX]?[0-9a-fA-F]{2})(?![^\W_])"
_APART = re.compile(rf"(?<![^\W_])(?:{_UNIT_APART}[\W_]{{1,8}}){{{UNITS // 2 - 1}}}{_UNIT_APART}")
_ANY_BLOB = re.compile(rf"\S{{{BLOB}}}")


def is_prose(text: str, start: int) -> bool:
    """Return whether a text is plain words from a place on, at a glance; False if a closer look is needed."""
    return is_plain(text, start) and not _ANY_BLOB.search(text, start) and not _APART.search(text, start)


LEAST_APART = 8
"""How many characters in a row must be written apart."""

_BY_SPACE = re.compile(rf"(?<!\S)\S(?:[ \t]{{1,4}}\S(?!\S)){{{LEAST_APART - 1},}}")
_END = r"(?=[ \t]*+(?:\r?\n|\Z))"
_BY_LINE = re.compile(rf"(?<![^\n])[ \t]*+\S{_END}(?:[ \t]*+\r?(?:\n[ \t]*+){{1,2}}\S{_END}){{{LEAST_APART - 1},}}+")
_BLANK = re.compile(r"\s+")
_SIGNS = r"[.\-_*|~+·•]"
_SIGNED = rf"[^\W_](?:{_SIGNS}{{1,2}}[^\W_](?![^\W_]))+"
_BY_SIGN = re.compile(rf"(?<![^\W_]){_SIGNED}(?:\s+{_SIGNED})*")
_SIGN = re.compile(_SIGNS)


_BLANKS = " \t"


class JoinedLetters(NamedTuple):
    """A text with letters that were written apart put together, and the place of each character in the given text."""

    text: str
    places: list[int]


def joined(text: str) -> JoinedLetters | None:
    """Return a text with letters that were written apart put together; None if there are none."""
    gone: set[int] = set()
    for found in _BY_SPACE.finditer(text):
        gone.update(_between(text, *found.span()))
    for found in _BY_LINE.finditer(text):
        gone.update(_ends_between(text, *found.span()))
    for found in _BY_SIGN.finditer(text):
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
_MARKUP = re.compile(r"(?<=[^\W_])(?:\*{1,3}|_{2,3}|`{1,3}|~~|</?[a-zA-Z]{1,10}>|<!--[^>]{0,40}-->)(?=[^\W_])")
_MARKED = 3  # words with markup in them, from which on they are no accident


def spoken(text: str) -> list[str]:
    """Return the hidden meanings of a text.

    These are the decoded codes in it, the text with spaced-out letters joined, and the text without markup within
    words. For plain prose, which is recognised quickly, the result is empty. All together is at most a few times as
    long as the text.
    """
    found = [*_decoded(text, _DEPTH)]
    unmarked, count = _MARKUP.subn("", text)
    return [*found, unmarked] if count >= _MARKED else found


def _decoded(text: str, depth: int) -> Iterator[str]:
    if is_prose(text, 0):
        return
    view = PlainView(text)
    words, tail = known_words(view.text, final=True)
    together = joined(view.plain)
    if together is not None:
        yield together.text
    for stretch in stretches(view.plain, words, tail, inside=False, final=True).found:
        for said in decoded(view.plain[stretch.start : stretch.end]):
            yield said
            if depth > 1:
                yield from _decoded(said, depth - 1)


_INSIDE = "inside"  # the note that says that a stretch was cut, and what was found in it


class EncodedSpans:
    """Finds encoded text in which another detector finds something: the whole code, or the letters written apart.

    Args:
        find: returns the spans in a plain text.
    """

    def __init__(self, find: Callable[[str], Sequence[Span]]) -> None:
        self._find = find

    def scan(self, text: str, start: int, notes: MutableMapping[str, Value], *, final: bool) -> tuple[list[Span], int]:
        """Return the spans that begin at ``start`` or later, and the place from which on more text could change them.

        The ``start`` of the next call is this place. ``notes`` is one mapping for each text, empty at its beginning.
        """
        inside, type = notes.pop(_INSIDE, (False, ""))
        if final and not inside and is_prose(text, start):
            return [], len(text)
        view = PlainView(text[start:] if start else text, final=final)
        words, tail = known_words(view.text, final=final)
        found = stretches(view.plain, words, tail, inside=inside, final=final)
        hidden = hidden_stretches(view.plain, found, self._hides, before=bool(type))
        hold = len(view.text) if final else _lowered(min(hidden.hold, tail), hidden)
        spans = [self._span(view, low, high, type) for low, high in hidden.hidden if high <= hold]
        self._note(notes, hidden, hold, (inside, type), spans)
        back = [span._replace(start=start + view.start(span.start), end=start + view.end(span.end)) for span in spans]
        return back, start + (view.source if hold >= len(view.text) else view.start(hold))

    def _note(
        self,
        notes: MutableMapping[str, Value],
        hidden: HiddenStretches,
        hold: int,
        begun: tuple[bool, str],
        spans: Sequence[Span],
    ) -> None:
        """Note whether the place lies within a stretch, and what was found in the part of it before the place."""
        if hold == 0:
            notes[_INSIDE] = begun
        seam = next((seam for seam in hidden.seams if seam.at == hold), None)
        if seam is not None:
            notes[_INSIDE] = (True, spans[-1].type if seam.hit and spans else "")

    def _span(self, view: PlainView, low: int, high: int, type: str) -> Span:
        found = self._first(view.plain[low:high])
        return Span(low, high, found.type if found else type)

    def _hides(self, piece: str) -> Iterator[tuple[int, int]]:
        if any(self._find(text) for text in decoded(piece)):
            yield 0, len(piece)
            return
        together = joined(piece)
        if together is not None:
            for span in self._find(together.text):
                yield together.places[span.start], together.places[span.end - 1] + 1

    def _first(self, piece: str) -> Span | None:
        together = joined(piece)
        texts = [*decoded(piece), *([] if together is None else [together.text])]
        return next((span for text in texts for span in self._find(text)), None)


def _lowered(hold: int, hidden: HiddenStretches) -> int:
    """Return the last place, up to the given one, that cuts no finding and no slice of a stretch."""
    seams = {seam.at for seam in hidden.seams}
    whole = [(one.start, one.end) for one in hidden.found]
    lower = -1
    while lower != hold:
        lower = hold
        hold = min((low for low, high in hidden.hidden if low < hold < high), default=hold)
        if hold not in seams:
            begun = next((low for low, high in whole if low < hold < high), hold)
            hold = max((at for at in seams if begun < at <= hold), default=begun)
    return hold
