"""Encoded text, and letters that are written apart: what another detector finds in it, where it stands.

`EncodedSpans` runs the detector over what the stretches of a text say in a code (`penstock.detection.codes`) and over
letters put together, in whole texts and in streams; `spoken` returns all of that for detectors of whole texts.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.apart import joined
from penstock.detection.code_reading import Readers, may_have_code
from penstock.detection.codes import decoded
from penstock.detection.deferred import deferred
from penstock.detection.open_codes import OpenCodes
from penstock.detection.slices import AHEAD, PIECE, SEAM_NEAR, Hidden, HiddenStretches, hidden_stretches, seam_before
from penstock.detection.spans import Span
from penstock.detection.stretches import (
    all_stretches,
    continued,
    ends_with_first,
    has_no_stretch,
    is_prose,
    last_row,
    open_from,
    reads_as_words,
    stretches,
    words_in_rows,
)
from penstock.detection.unicode.disguises import is_plain, read_by_letter
from penstock.detection.words import PlainView, known_words
from penstock.engine.text_guards.views import view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence

    from penstock.detection.code_reading import ReadsOpen
    from penstock.engine.values.frozen import Value


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
    found = [*dict.fromkeys(_decoded(text, _DEPTH))]  # numbers say the same again and again
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
    for stretch in all_stretches(view):
        for said in decoded(view.plain[stretch.start : stretch.end], escapes=escapes):
            yield said.text
            if depth > 1:
                yield from _decoded(said.text, depth - 1, escapes=escapes and not said.resolved)


_INSIDE = "inside"  # the note that says that a stretch was cut, and what was found of it behind the cut
_OPENED = "opened"  # the note with the stretch that goes on
_LONG_BEGUN = 24  # characters of a stretch that is too short so far, from which on they are read
_LONGEST_KNOWN = 200  # characters of a reading that is worth remembering while a text is searched
_MOST_KNOWN = 1_000
_FEW = 8  # characters more, for which a stretch is not looked at again


class _Opened:
    """A stretch of plain letters that goes on, of which a part has left before it is judged.

    Attributes:
        kept: that part.
        end: where the stretch ends so far, counted from its beginning as all places are.
        mark: where the last word begins that surely lies in it.
        cut: whether that is within a word.
        limit: the place from which on something was found already.
        seen: how long the text was when it was looked at last.
        codes: the readings from the beginning on, and from the place at which its first slice will end.
    """

    __slots__ = ("codes", "cut", "end", "kept", "limit", "mark", "seen")

    def __init__(self, end: int, before: Iterable[Hidden], first: OpenCodes | None = None) -> None:
        self.kept = ""
        self.end = end
        self.seen = 0
        self.mark, self.cut = 0, True
        self.limit = min((one.start for one in before), default=sys.maxsize)
        self.codes = [(0, first or OpenCodes())]

    def at(self, place: int) -> OpenCodes | None:
        """Return the readings that begin at a place."""
        return next((codes for begin, codes in self.codes if begin == place), None)

    def read(self, text: str, readers: Readers) -> int:
        """Return up to where the stretch may leave."""
        self.seen = len(text)
        end = self.end
        if len(self.codes) == 1 and end > PIECE - SEAM_NEAR:
            if len(text) < PIECE:
                end = PIECE - SEAM_NEAR
            else:
                self.codes.append((seam_before(text, PIECE), OpenCodes()))
        held = [begin + codes.read(text[begin:], end - begin, readers) for begin, codes in self.codes]
        self.mark, self.cut = last_row(text, self.end)
        return max(min(*held, self.limit), len(self.kept))


def _may_hide(text: str) -> bool:
    """Return whether a decoded text may have codes within, or letters that stand apart."""
    if is_prose(text):
        return False
    plain = PlainView(text).plain
    return may_have_code(plain) or joined(plain) is not None


def _stands_apart(text: str) -> bool:
    return joined(text) is not None


class _Judged(NamedTuple):
    """The spans in a text, the place from which on more text could change them, and where a stretch ends that is open.

    The stretch goes on from that place; ``begun`` tells that it is too short so far.
    """

    spans: Sequence[Span]
    hold: int
    end: int | None = None
    begun: bool = False


class _HiddenFinder:
    """Finds what a text hides in codes. Short readings that come again, as those of numbers do, are searched once."""

    __slots__ = ("_find", "_known")

    def __init__(self, find: Callable[[str], Sequence[Span]]) -> None:
        self._find = find
        self._known: dict[tuple[str, int, bool], Sequence[Hidden]] = {}

    def hides(self, piece: str, depth: int = _DEPTH, *, escapes: bool = True) -> Iterator[Hidden]:
        """Yield the findings in a piece of a stretch, where they stand; ``escapes`` as for `decoded`."""
        for said in decoded(piece, escapes=escapes):
            for one in self.said(said.text, depth, escapes=escapes and not said.resolved):
                if not said.resolved or piece[: one.end] != said.text[: one.end]:  # or it stands there as it is written
                    yield Hidden(*said.place(one.start, one.end), one.type)
        together = joined(piece)
        if together is not None:
            for one in self.said(together.text, depth, escapes=escapes):
                yield Hidden(together.places[one.start], together.places[one.end - 1] + 1, one.type)

    def said(self, text: str, depth: int, *, escapes: bool) -> Sequence[Hidden]:
        """Return the findings in a decoded text, also in a code within the code."""
        if len(text) > _LONGEST_KNOWN:
            return [*self._said(text, depth, escapes=escapes)]
        key = (text, depth, escapes)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = [*self._said(text, depth, escapes=escapes)]
        return found

    def _said(self, text: str, depth: int, *, escapes: bool) -> Iterator[Hidden]:
        for span in self._find(text):
            yield Hidden(span.start, span.end, span.type)
        if depth > 1 and not is_prose(text):
            view = PlainView(text)
            for within in all_stretches(view):
                for one in self.hides(view.plain[within.start : within.end], depth - 1, escapes=escapes):
                    low, high = view.start(within.start + one.start), view.end(within.start + one.end)
                    yield Hidden(low, high, one.type)


class EncodedSpans:
    """Finds what another detector finds in encoded text, and in letters that are written apart, where it stands.

    Args:
        find: returns the spans in a plain text.
        reads: searches texts that go on for the same spans. With it, a code that goes on leaves up to where it may hide
            something; without, nothing of it leaves before it is judged.
    """

    def __init__(self, find: Callable[[str], Sequence[Span]], reads: ReadsOpen | None = None) -> None:
        self._find = find
        self._readers = None if reads is None else Readers(reads, self._finds_in, _may_hide, _stands_apart)

    def quiet(self, text: str, start: int, most: int, *, final: bool) -> int | None:
        """Return where a stretch may begin if the text goes on, at most ``most``; None if one may hide something.

        If the text is ``final``, that is ``most``. It is None, too, where a long text must be read more closely.
        """
        rest = text[start:] if start else text
        plain = rest if rest.isascii() else read_by_letter(rest)
        if plain is not None and (has_no_stretch(plain) if final else reads_as_words(plain) or ends_with_first(plain)):
            begin = most if final else start + open_from(plain, most - start)
            if most - begin < _LONG_BEGUN:
                return begin
        if len(rest) > AHEAD:
            return None
        notes: dict[str, Value] = {}
        found, hold = self.scan(text, start, notes, final=final)
        return None if found or notes or hold > most else hold  # what begins anew before it may begin in a stretch

    def scan(self, text: str, start: int, notes: MutableMapping[str, Value], *, final: bool) -> tuple[list[Span], int]:
        """Return the spans that are known now, and the place from which on more text could change them.

        Those may begin before ``start`` that an escape has changed: another search has read that text as it is written.
        The ``start`` of the next call is this place. ``notes`` is one mapping for each text, empty at its beginning.
        """
        opened: _Opened | None = notes.pop(_OPENED, None)
        kept = "" if opened is None else opened.kept
        rest = kept + text[start:]
        shift, left = start - len(kept), len(kept)
        if opened is not None and not final:
            held = self._go_on(opened, rest)
            if held is not None:
                opened.kept = rest[:held]
                notes[_OPENED] = opened
                return [], held + shift
        judged = self._judged(rest, notes, final=final)
        hold = judged.hold
        if self._readers is not None and judged.end is not None:
            codes = None if opened is None else opened.at(hold)
            follows = _Opened(judged.end - hold, notes.get(_INSIDE, ()), codes)
            follows.kept = rest[hold:left]
            follows.kept = rest[hold : hold + follows.read(rest[hold:], self._readers)]
            notes[_OPENED], left = follows, hold + len(follows.kept)
            if judged.begun:
                follows.end = 0
        elif hold < left:  # nothing more leaves before it is judged
            notes[_OPENED] = follows = _Opened(0, ())
            follows.kept = rest[hold:left]
        spans = [one._replace(start=one.start + shift, end=one.end + shift) for one in judged.spans]
        return spans, max(hold, left) + shift

    def _go_on(self, opened: _Opened, text: str) -> int | None:
        """Return up to where an open stretch may leave; None if it is to be judged, or looked at more closely."""
        if len(text) - opened.seen < _FEW:
            return len(opened.kept)
        rest = text[opened.mark :]
        if self._readers is None or not opened.end or not is_plain(rest, 0):
            return None
        view = PlainView(rest)
        one = continued(view.plain, *known_words(view.text, final=False), cut=opened.cut)
        if one is None or opened.mark + one.end > PIECE + AHEAD:
            return None
        opened.end = opened.mark + one.end
        return opened.read(text, self._readers)

    def _judged(self, text: str, notes: MutableMapping[str, Value], *, final: bool) -> _Judged:
        """Return the spans in a text, of which more is judged with more text."""
        before: tuple[Hidden, ...] | None = notes.pop(_INSIDE, None)
        inside = before is not None
        if not inside and is_plain(text, 0) and has_no_stretch(text):
            begin = len(text) if final else open_from(text, len(text))
            if len(text) - begin < _LONG_BEGUN:
                return _Judged([], begin)
        view = PlainView(text, final=final)
        words, tail = words_in_rows(view.text, inside=inside, final=final)
        found = stretches(view, words, tail, inside=inside, final=final)
        hidden = hidden_stretches(view, found, _HiddenFinder(self._find).hides, before or ())
        hold = len(view.text) if final else _lowered(min(hidden.hold, tail), hidden, view)
        seam = next((seam for seam in hidden.seams if seam.at == hold), None)
        if hold == 0 and before is not None:
            notes[_INSIDE] = before
        elif seam is not None:
            notes[_INSIDE] = seam.over
        back = sorted({one for one in hidden.hidden if one.end <= hold})
        spans = [Span(view.start(one.start), view.end(one.end), one.type) for one in back]
        opened = None
        if not final and is_plain(text, hold):
            opened = next((one.end for one in found.found if one.open and one.start <= hold < one.end), None)
        held = view.source if hold >= len(view.text) else view.start(hold)
        begun = opened is None and hold == found.pending < found.begun and is_plain(text, hold)
        opened = found.begun if begun else opened
        return _Judged(spans, held, None if opened is None else opened + held - hold, begun)

    def _finds_in(self, text: str) -> bool:
        return bool(_HiddenFinder(self._find).said(text, _DEPTH, escapes=True))


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
