"""Unicode normalization of one text: normal form, invisible characters, look-alike letters and white space, as edits.

Honest text in another script keeps its letters. A letter counts as a disguise if its word also holds ASCII letters, or
if its whole word could be Latin while nothing in the text proves that its script is really used.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.unicode.disguises import LOOKALIKES, SCRIPT_RANGES
from penstock.detection.unicode.invisibles import invisibles
from penstock.engine.values.edits import Edit, apply, compose
from penstock.engine.workers import PIECE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.values.edits import Edits


_FOLD = {ord(letter): ascii_ for row, latin in LOOKALIKES.values() for letter, ascii_ in zip(row, latin, strict=True)}
_SCRIPT_OF = {letter: script for script, (row, _) in LOOKALIKES.items() for letter in row}
_LOOKALIKE = deferred(f"[{''.join(_SCRIPT_OF)}]")
_TELLING = {  # letters that only their own script has
    script: deferred(f"(?![{LOOKALIKES[script][0]}])[{''.join(f'{chr(low)}-{chr(high)}' for low, high in ranges)}]")
    for script, ranges in SCRIPT_RANGES.items()
}
# Letterlike, circled, squared, full-width and mathematical letters and digits.
_STYLED = deferred(
    "[\u2100-\u214f\u24b6-\u24e9\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff\U0001f130-\U0001f149]+"
)
_WORD = deferred("(?:[^\\W_]|[\u0300-\u036f])+")
_LATIN = deferred("[A-Za-z]")
_SHORTEST_WORD = 2  # a single α in English is mathematics


class Disguise(NamedTuple):
    """A stretch that looks like ASCII letters, and those letters."""

    start: int
    end: int
    looks_like: str


def confusables(text: str) -> Iterator[Disguise]:
    """Yield the disguised stretches of a text, in order and disjoint."""
    if text.isascii():
        return
    styled = list(_styled(text))
    plain = list(text)  # a styled letter makes its word a Latin one
    for at, _, letter in styled:
        plain[at] = letter
    yield from sorted([*styled, *_foreign("".join(plain) if styled else text)])


def _styled(text: str) -> Iterator[Disguise]:
    for run in _STYLED.finditer(text):
        for at, char in enumerate(run.group(), run.start()):
            plain = unicodedata.normalize("NFKC", char)
            if len(plain) == 1 and plain.isascii():
                yield Disguise(at, at + 1, plain)


def _foreign(text: str) -> Iterator[Disguise]:
    if not _LOOKALIKE.search(text):
        return
    latin = bool(_LATIN.search(text))
    at_home = {script for script, telling in _TELLING.items() if telling.search(text)}
    for word in _WORD.finditer(text):
        letters = word.group()
        if not letters.isascii() and _LOOKALIKE.search(letters) and latin and _is_disguise(letters, at_home):
            for found in _LOOKALIKE.finditer(text, word.start(), word.end()):
                yield Disguise(found.start(), found.end(), _FOLD[ord(found.group())])


def _is_disguise(word: str, at_home: set[str]) -> bool:
    if _LATIN.search(word):
        return True
    scripts = {_SCRIPT_OF.get(char) for char in word if char.isalpha()}
    return len(word) >= _SHORTEST_WORD and None not in scripts and not scripts & at_home


NormalForm = Literal["NFC", "NFKC"]

# Where characters with a decomposition or a combining class stand. Left out, since none of theirs has any: ideographs,
# Hangul syllables (they decompose, but begin with a leading consonant, which is a safe cut) and private use.
_RANGES = ((0x80, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20))
_HANGUL_TAILS = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
_PAIR = 2
_LONG = 64  # marks on one letter; Unicode's own bound for honest text is 30 (UAX #15, 13)
_BEYOND_ASCII = deferred(r"[^\x00-\x7f]+")


def form_edits(text: str, form: NormalForm) -> Edits:
    """Return the edits that bring a text into its normal form: together exactly what ``unicodedata`` returns."""
    if text.isascii() or unicodedata.is_normalized(form, text):
        return ()
    return tuple(_joined(text, _changes(text, form)))


def _changes(text: str, form: NormalForm) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of each segment that changes."""
    segment = _segments(form)
    for run in _BEYOND_ASCII.finditer(text):
        start = max(run.start() - 1, 0)  # the letter before may take the first mark; it is ASCII, so a safe cut
        if unicodedata.is_normalized(form, text[start : run.end()]):
            continue
        for found in segment.finditer(text, start, run.end()):
            before = found.group()
            long = len(found.group(1) or "") > _LONG
            after = unicodedata.normalize(form, _in_order(before, form) if long else before)
            if after != before:
                yield found.start(), found.end(), after


def _in_order(segment: str, form: NormalForm) -> str:
    """Return a segment decomposed, with its marks in canonical order; it has the same normal form.

    ``unicodedata.normalize`` sorts marks by insertion, which takes time by the square of their number: half a minute
    for a letter with 200,000 marks out of order. On sorted marks it is linear.
    """
    apart = "".join(unicodedata.normalize("NFD" if form == "NFC" else "NFKD", char) for char in segment)
    runs: list[list[str]] = [[]]
    for char in apart:
        if not unicodedata.combining(char):
            runs.append([])
        runs[-1].append(char)
    return "".join("".join(sorted(run, key=unicodedata.combining)) for run in runs)


def _joined(text: str, changes: Iterable[tuple[int, int, str]]) -> Iterator[Edit]:
    """Return changes that touch as one edit, without what stays the same at its ends."""
    begin, stop, pieces = -1, -1, list[str]()
    for start, end, after in changes:
        if start != stop and pieces:
            yield _trimmed(text, begin, stop, "".join(pieces))
            pieces = []
        begin = begin if pieces else start
        pieces.append(after)
        stop = end
    if pieces:
        yield _trimmed(text, begin, stop, "".join(pieces))


def _trimmed(text: str, start: int, end: int, after: str) -> Edit:
    head = 0
    while head < min(end - start, len(after)) and text[start + head] == after[head]:
        head += 1
    tail = 0
    while tail < min(end - start, len(after)) - head and text[end - 1 - tail] == after[-1 - tail]:
        tail += 1
    return Edit(start + head, end - tail, after[head : len(after) - tail])


@lru_cache(maxsize=2)
def _segments(form: NormalForm) -> re.Pattern[str]:
    """Return the pattern of changeable text: a character with its combining marks, or one that changes alone."""
    decomposed: Literal["NFD", "NFKD"] = "NFD" if form == "NFC" else "NFKD"
    every = _not_inert()
    seconds = {*map(chr, _HANGUL_TAILS), *map(_second, every)} - {""}
    firsts = {char: unicodedata.normalize(decomposed, char)[0] for char in every} | {char: char for char in seconds}
    clings = {char for char, first in firsts.items() if unicodedata.combining(first) or first in seconds}
    alone = {char for char in every if char not in clings and not unicodedata.is_normalized(form, char)}
    cling, change = _as_class(clings), _as_class(alone)
    return re.compile(f"([^{cling}]?[{cling}]+)|[{change}]+(?![{cling}])")


def _not_inert() -> list[str]:
    """Return every character that has a decomposition or a combining class of its own."""
    codes = (code for low, high in _RANGES for code in range(low, high))
    return [char for char in map(chr, codes) if unicodedata.decomposition(char) or unicodedata.combining(char)]


def _second(char: str) -> str:
    """Return the character that combines with another one into this one, or an empty text."""
    parts = unicodedata.decomposition(char).split()
    if len(parts) != _PAIR or parts[0].startswith("<"):
        return ""
    pair = [chr(int(part, 16)) for part in parts]
    return pair[1] if unicodedata.normalize("NFC", "".join(pair)) == char else ""


def _as_class(chars: Iterable[str]) -> str:
    """Return the inside of a character class with those characters."""
    codes = sorted(map(ord, chars))
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


Whitespace = Literal["keep", "trim-lines", "collapse-inline", "collapse-all"]

# What JavaScript's trim() removes (ECMA-262, WhiteSpace and LineTerminator), which is not what str.strip() does.
TRIMMED = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_BLANK = r" \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_NEWLINE = r"(?:\r\n?|\n)"
_LINE_END = rf"(?P<none>(?<![{_BLANK}])[{_BLANK}]+(?=[\r\n]|\Z))"
_INSIDE = rf"(?P<space>(?<=[^{_BLANK}\r\n])[{_BLANK}]{{2,}}(?=[^{_BLANK}\r\n]))"
_ANYWHERE = rf"(?P<space>(?<![{_BLANK}])[{_BLANK}]{{2,}}(?=[^{_BLANK}\r\n]))"
_LINES = rf"(?P<paragraph>(?<![\r\n]){_NEWLINE}(?:[{_BLANK}]*+{_NEWLINE}){{2,}})|(?P<newline>\r\n?)"
_AFTER = {"none": "", "space": " ", "paragraph": "\n\n", "newline": "\n"}
_TIDY = {
    ("trim-lines", True): deferred(_LINE_END),
    ("trim-lines", False): deferred(_LINE_END),
    ("collapse-inline", True): deferred(f"{_LINE_END}|{_INSIDE}"),
    ("collapse-inline", False): deferred(f"{_LINE_END}|{_ANYWHERE}"),
    ("collapse-all", True): deferred(f"{_LINES}|{_LINE_END}|{_INSIDE}"),
}
_RUN = deferred(r"[\r\n]+|[ \t]+")
_FENCE = deferred(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)


def whitespace_edits(text: str, how: Whitespace, *, keep_layout: bool = True) -> Edits:
    """Return the edits that tidy white space.

    ``trim-lines`` removes blanks at the ends of lines, ``collapse-inline`` also makes each run of blanks within a line
    one space, ``collapse-all`` also makes line ends LF and several blank lines one. With ``keep_layout``, fenced code
    and indentation stay as they are; without it, ``collapse-all`` makes every run of blanks one space and every run of
    line ends one, as the reference does.
    """
    if how == "keep":
        return ()
    if how == "collapse-all" and not keep_layout:
        spans = ((m.start(), m.end(), "\n" if text[m.start()] in "\r\n" else " ") for m in _RUN.finditer(text))
        return tuple(_edits(text, spans))
    fenced = _fences(text) if keep_layout else []
    return tuple(_edits(text, _tidied(text, _TIDY[how, keep_layout], fenced)))


def _tidied(text: str, pattern: re.Pattern[str], fenced: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yield the matches of a pattern outside fenced code: start, end, new text."""
    fences = iter([*fenced, (len(text) + 1, len(text) + 1)])
    fence = next(fences)
    for found in pattern.finditer(text):
        while found.start() >= fence[1]:
            fence = next(fences)
        if found.start() < fence[0]:
            yield found.start(), found.end(), _AFTER[found.lastgroup or "none"]


def _edits(text: str, spans: Iterable[tuple[int, int, str]]) -> Iterator[Edit]:
    """Yield edits for real changes, as short as possible."""
    for start, end, after in spans:
        if after and text.startswith(after, start):
            start, after = start + len(after), ""  # noqa: PLW2901 - the first of a run stays
        if start < end:
            yield Edit(start, end, after)


def _fences(text: str) -> list[tuple[int, int]]:
    """Return the spans of fenced code, fences included; one that is never closed goes to the end (CommonMark 4.5)."""
    spans: list[tuple[int, int]] = []
    begin, mark = -1, ""
    for line in _FENCE.finditer(text):
        fence, rest = line.group(1), line.group(2)
        if begin < 0:
            if fence[0] == "~" or "`" not in rest:
                begin, mark = line.start(), fence
        elif fence.startswith(mark) and not rest.strip():
            spans.append((begin, line.end()))
            begin = -1
    if begin >= 0:
        spans.append((begin, len(text)))
    return spans


def trim_edits(text: str) -> Edits:
    """Return the edits that remove white space from both ends."""
    if not text or (text[0] not in TRIMMED and text[-1] not in TRIMMED):
        return ()
    kept = text.lstrip(TRIMMED)
    start = len(text) - len(kept)
    end = start + len(kept.rstrip(TRIMMED))
    spans = [(0, start), (end, len(text))] if end > start else [(0, len(text))]
    return tuple(Edit(low, high) for low, high in spans if low < high)


Form = Literal["NFC", "NFKC", "keep"]
Invisible = Literal["strip", "mark", "keep"]
Confusables = Literal["off", "detect", "fold"]

# What the reference's strip_control_chars deletes: C0 without TAB, LF, CR; DEL; C1.
_CONTROLS = deferred(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Profile:
    """The changes to a text; see `UnicodeNormalizer` for the meaning of each field."""

    form: Form = "NFC"
    invisible: Invisible = "strip"
    confusables: Confusables = "off"
    whitespace: Whitespace = "keep"
    keep_layout: bool = True
    trim: bool = False
    strip_control_chars: bool = False
    preserve_emojis: bool = True

    @property
    def edits(self) -> bool:
        """Whether it can change a text at all."""
        passive = (self.form, self.invisible, self.whitespace) == ("keep", "keep", "keep")
        return not passive or self.confusables == "fold" or self.trim or self.strip_control_chars


@dataclass(slots=True)
class NormalizedText:
    """The normalized text, the edits in places of the text before, and how much of each kind was found."""

    text: str
    edits: Edits = ()
    counts: Counter[str] = field(default_factory=Counter[str])

    def change(self, edits: Edits, kind: str = "") -> None:
        """Make edits, in places of the current text, and count them under ``kind`` if it is given."""
        if edits:
            self.text = apply(self.text, edits)
            self.edits = compose(self.edits, edits) if self.edits else edits
            if kind:
                self.counts[kind] += len(edits)


_UNSEEN_IN_ASCII = deferred(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def is_normal(text: str, profile: Profile) -> bool:
    """Return whether one look shows that a profile leaves a text as it is: it is plain ASCII."""
    return (
        text.isascii()
        and profile.whitespace == "keep"
        and not profile.trim
        and len(text) <= PIECE
        and _UNSEEN_IN_ASCII.search(text) is None
    )


def normalize(text: str, profile: Profile, *, prose: bool = True) -> NormalizedText:
    """Return a text as a profile normalizes it; white space is changed only in ``prose``.

    Invisible characters go first, since they may stand between a letter and its accent. Only where they are kept,
    control characters are stripped after the normal form, as the reference does.
    """
    found = NormalizedText(text)
    if profile.invisible != "keep":
        _hide(found, profile)
    if profile.strip_control_chars and profile.invisible != "keep":
        _strip_controls(found)
    if profile.form != "keep":
        _to_form(found, profile.form)
    if profile.confusables != "off" and _unmask(found, fold=profile.confusables == "fold") and profile.form != "keep":
        _to_form(found, profile.form)  # a letter that was folded may melt with its accent now
    if profile.strip_control_chars and profile.invisible == "keep":
        _strip_controls(found)
    if prose:
        found.change(whitespace_edits(found.text, profile.whitespace, keep_layout=profile.keep_layout), "white space")
        if profile.trim:
            found.change(trim_edits(found.text), "white space")
    return found


# Between two letters nothing goes on, but for Korean syllables in parts, half-width Japanese signs, and what an escape
# begins. A zero-width space belongs to what stands before it.
_NOT_ALONE = r"\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff\uff65-\uffdc"
_LETTER = rf"[^\W_{_NOT_ALONE}]"
_CUT = deferred(rf"(?:(?<={_LETTER})|(?<=[ ,.\n])|(?<={_LETTER}\u200b))(?=[ ]|{_LETTER})")
_ESC = "\x1b"
_COMMAND = deferred(r"\x1b\[[0-?]{0,32}+[ -/]{0,4}+[@-~]")
_LONGEST_ESCAPE = 600


def pieces(text: str, profile: Profile) -> Iterator[tuple[int, str]]:
    """Yield the pieces of a text that can be normalized one by one, each with its place; a short text is one piece.

    A run of more than two pieces without a place to cut it, as of thousands of accents on one letter, is cut anywhere.
    The result is then in its normal form piece by piece.
    """
    start = 0
    whole = profile.confusables != "off" or profile.whitespace != "keep" or profile.trim
    while not whole and len(text) - start > 2 * PIECE:
        end = _cut_of(text, start + PIECE, start + 2 * PIECE)
        yield start, text[start:end]
        start = end
    yield start, text[start:] if start else text


def _cut_of(text: str, low: int, high: int) -> int:
    """Return where a text can be cut between two places; the second of them if it cannot."""
    for found in _CUT.finditer(text, low, high):
        at = found.start()
        escape = text.rfind(_ESC, max(at - _LONGEST_ESCAPE, 0), at)
        command = None if escape < 0 else _COMMAND.match(text, escape)
        if escape < 0 or (command is not None and command.end() <= at):
            return at
    return high


def _to_form(found: NormalizedText, form: NormalForm) -> None:
    found.change(form_edits(found.text, form), form)


def _hide(found: NormalizedText, profile: Profile) -> None:
    found.change(tuple(_united(_hiding(found, profile))))


def _hiding(found: NormalizedText, profile: Profile) -> Iterator[Edit]:
    """Yield the edits one by one: a list of them would be freed at once, and no other thread would run meanwhile."""
    for start, end, kind in invisibles(found.text, preserve_emojis=profile.preserve_emojis):
        found.counts[kind] += end - start
        gone = profile.invisible == "strip" or (profile.strip_control_chars and kind in ("control", "ansi"))
        yield Edit(start, end, "" if gone else _mark(kind, end - start))


def _mark(kind: str, length: int) -> str:
    return f"[{kind}]" if length == 1 or kind == "ansi" else f"[{kind} x{length}]"


def _strip_controls(found: NormalizedText) -> None:
    edits = tuple(Edit(run.start(), run.end()) for run in _CONTROLS.finditer(found.text))
    if edits:
        found.counts["control"] += sum(edit.end - edit.start for edit in edits)
    found.change(edits)


def _unmask(found: NormalizedText, *, fold: bool) -> bool:
    """Count disguised letters, and fold them if the profile says so; return whether the text changed."""
    edits = tuple(Edit(*disguise) for disguise in confusables(found.text))
    if edits:
        found.counts["confusable"] += len(edits)
    found.change(tuple(_united(edits)) if fold else ())
    return fold and bool(edits)


def _united(edits: Iterable[Edit]) -> Iterator[Edit]:
    """Yield the edits, with those that touch united."""
    begin, stop, pieces = -1, -1, list[str]()
    for edit in edits:
        if edit.start != stop and begin >= 0:
            yield Edit(begin, stop, "".join(pieces))
            begin, pieces = -1, []
        begin = edit.start if begin < 0 else begin
        pieces.append(edit.text)
        stop = edit.end
    if begin >= 0:
        yield Edit(begin, stop, "".join(pieces))
