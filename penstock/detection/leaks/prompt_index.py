"""`PromptIndex`: finds passages of system prompts in a text: by words, by letters, encoded or reversed.

It compares with given prompts. `Canaries` are tokens that are put into a prompt to recognise it, `PassageLetters`
compares letters and ignores everything between them. ``benchmarks/quality/leaks.py`` measures the figures.
"""

from __future__ import annotations

import codecs
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import regex

from penstock.detection.codes import decoded
from penstock.detection.deferred import deferred
from penstock.detection.leaks.ordered import ordered_lines
from penstock.detection.leaks.passages import (
    FAR,
    LEAST,
    LONE,
    LONG_HELD,
    TEXT_START,
    LeakScan,
    Passages,
    ScanPosition,
    WordChains,
    masked,
)
from penstock.detection.slices import Hidden, hidden_stretches
from penstock.detection.spans import Span
from penstock.detection.stretches import BLOB, UNITS, have_run, open_run, stretches
from penstock.detection.unicode.disguises import WITHOUT_SPACES
from penstock.detection.words import (
    NO_WORDS,
    OF_UNSPACED,
    PlainView,
    has_letters,
    known_words,
    placed,
    small,
    spellings,
)
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.detection.words import WordList
    from penstock.engine.values.frozen import Value


LEAST_CANARY = 6
"""How many letters and digits a canary must have."""

_BETWEEN = r"[\W_]{0,3}"


class Canaries:
    """Tokens that are found however their letters are spaced, reversed or rotated."""

    def __init__(self, tokens: Iterable[str]) -> None:
        """Prepare tokens, in small letters, of `LEAST_CANARY` letters and digits or more."""
        spelled = ["".join(filter(str.isalnum, token)) for token in tokens]
        variants = {way for one in spelled for way in (one, one[::-1], codecs.encode(one, "rot13"))}
        self._patterns = [regex.compile(_BETWEEN.join(map(regex.escape, way))) for way in sorted(variants)]

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the places of the tokens in a text in small letters."""
        for pattern in self._patterns:
            for found in pattern.finditer(text, concurrent=False):
                yield found.span()

    def hold(self, text: str) -> int:
        """Return where the first token may begin that is not complete yet; the end of the text if there is none."""
        return min((_begun(pattern, text) for pattern in self._patterns), default=len(text))


def _begun(pattern: regex.Pattern[str], text: str) -> int:
    at = 0
    while (found := pattern.search(text, at, partial=True, concurrent=False)) is not None:
        if found.partial:
            return found.start()
        at = max(found.end(), at + 1)
    return len(text)


_LETTERS_A_WORD = 3
_MOST = 8  # places in the passages that are compared; what is repeated more often tells little


class PassageLetters:
    """The letters of some passages, without anything between them."""

    def __init__(self, texts: Iterable[str], least: int) -> None:
        """Prepare passages in small letters; as many letters in a row must be found as ``least`` words have."""
        self.least = least * _LETTERS_A_WORD
        self._all = "\0".join("".join(filter(str.isalnum, text)) for text in texts)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the stretches of a text in small letters that stand in a passage, each as long as possible."""
        places = [at for at, char in enumerate(text) if char.isalnum()]
        letters = "".join(text[at] for at in places)
        step = max(self.least // 2, 1)  # whatever is twice as long holds one of these steps
        done = 0
        for at in range(0, len(letters) - step + 1, step):
            if at >= done:
                low, high = self._longest(letters, at, step)
                if high - low >= self.least:
                    yield places[max(low, done)], places[high - 1] + 1
                    done = high

    def _longest(self, letters: str, at: int, step: int) -> tuple[int, int]:
        """Return the longest stretch around a place that stands in a passage; one of no width if there is none."""
        best = (at, at)
        for place in self._places(letters[at : at + step]):
            low, high = at, at + step
            by = place - at
            while high < len(letters) and high + by < len(self._all) and letters[high] == self._all[high + by]:
                high += 1
            while low > 0 and low + by > 0 and letters[low - 1] == self._all[low - 1 + by]:
                low -= 1
            best = max(best, (low, high), key=_width)
        return best

    def _places(self, piece: str) -> Iterator[int]:
        at = -1
        for _ in range(_MOST):
            at = self._all.find(piece, at + 1)
            if at < 0:
                return
            yield at


def _width(stretch: tuple[int, int]) -> int:
    return stretch[1] - stretch[0]


PROMPT = "system-prompt"
"""The type of a stretch that shows a prompt."""

CANARY = "canary"
"""The type of a canary."""

_ATBASH = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
_NOTE = "leaks"
_DEPTH = 2  # codes within codes
_SIGN = (  # all that is seen and not `BETWEEN_WORDS`
    r"[!-~\u00a1-\u0e00\u0f00-\u0fff\u10a0-\u167f\u1681-\u177f\u1800-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e"
    r"\u2060-\u2e7f\ua4d0-\uf8ff\ufb00-\U0001ffff]"
)
# Before a space, or a letter of a script that has none, each chunk is too short for a code.
_CHUNKS = deferred(rf"((?:{_SIGN}{{0,{BLOB - 1}}}+[ \n{WITHOUT_SPACES}])*+){_SIGN}*+")
_MOST_GLANCED = 1000  # characters: a longer text is searched faster than it is looked at


class PromptIndex:
    """Finds passages of system prompts in a model's output. Indexes made from the same texts are equal.

    Attributes:
        prompts: the prompts.
        min_words: how many words of a prompt, in order, make a leak.
        canaries: tokens that must not appear at all.
        lookback: how many characters before the undecided text `scan` needs to see: none.
    """

    lookback = 0

    def __init__(
        self,
        prompts: Sequence[str] = (),
        *,
        min_words: int = 8,
        allow: Sequence[str] = (),
        canaries: Sequence[str] = (),
    ) -> None:
        """Index prompts.

        Args:
            prompts: the prompts; none by default. A prompt with fewer words than ``min_words`` is recognised as a
                whole, if it has four words or more.
            min_words: how many words of a prompt a stretch must show, 4 or more; 8 by default.
            allow: passages of the prompts that may be quoted, beside the quotations that a prompt orders to say; none
                by default.
            canaries: tokens of 6 letters and digits or more that must not appear; none by default.

        Raises:
            OptionError: ``min_words`` is below 4, or a canary is too short to be told from other words.
        """
        _check_least(min_words)
        short = [index for index, token in enumerate(canaries) if _solid(token) < LEAST_CANARY]
        if short:
            raise OptionError(
                "PromptIndex", f"canaries[{short[0]}]", "…", f"a token of {LEAST_CANARY} letters and digits or more"
            )
        self.prompts, self.min_words = tuple(prompts), min_words
        self.allow, self.canaries = tuple(allow), tuple(canaries)
        ordered = [line for prompt in self.prompts for line in ordered_lines(prompt)]
        allowed = [form for text in (*self.allow, *ordered) for form in _forms(text)]
        self._texts = tuple(masked(form, allowed, LEAST) for prompt in self.prompts for form in _forms(prompt))
        self._canaries = Canaries(map(_small, self.canaries))
        self._index(self._texts)

    def __eq__(self, other: object) -> bool:
        """Return whether both find the same."""
        return isinstance(other, PromptIndex) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash by the findings."""
        return hash(self._key())

    def __repr__(self) -> str:
        """Show how many prompts and canaries there are, and none of them."""
        return f"PromptIndex({len(self.prompts)} prompts, {len(self.canaries)} canaries, min_words={self.min_words})"

    def __bool__(self) -> bool:
        """Return whether there is anything to find."""
        return bool(self._passages) or bool(self.canaries)

    def without(self, known: Iterable[str]) -> PromptIndex:
        """Return the index without passages that the reader knows: of ``min_words`` words or more in some texts."""
        texts = [form for text in known for form in _forms(text) if self._passages.anchored(spellings(form))]
        left = tuple(masked(text, texts, self.min_words) for text in self._texts) if texts else self._texts
        if left == self._texts:
            return self
        less = copy(self)
        less._texts = left
        less._index(left)
        return less

    def find(self, text: str, key: str = "") -> list[Span]:
        """Return the passages of the prompts in a whole text, in order; ``key`` is ignored."""
        del key
        return self.scan(text, 0, {}, final=True)[0]

    def scan(self, text: str, start: int, notes: dict[str, Value], *, final: bool) -> tuple[list[Span], int]:
        """Return the passages from ``start`` on, and the position from which more text could change the result.

        Args:
            text: the text so far.
            start: where the undecided part begins: the position that the last call returned.
            notes: one dict for each text, empty at its beginning.
            final: whether the text ends here.
        """
        begun: ScanPosition = notes.pop(_NOTE, TEXT_START)
        view = PlainView(text[start:] if start else text, final=final)
        look = self._look(view, begun, final=final)
        shown = look.shown()
        hold, place = (len(view.text), TEXT_START) if final else look.decided(shown)
        if place != TEXT_START:
            notes[_NOTE] = place
        spans = [Span(one.start, one.end, PROMPT, one.score) for one in shown]
        spans += [Span(low, high, CANARY) for low, high in look.canaries]
        known = sorted(_back(span, view, start) for span in spans if span.end <= hold)
        return known, start + (view.source if hold >= len(view.text) else view.start(hold))

    def quiet(self, text: str, start: int, *, final: bool) -> int | None:
        """Return from where `scan` holds a text back, if a glance shows that it finds nothing from ``start`` on.

        None: the glance does not show that. Do not ask if `goes_on` with the notes of the text.
        """
        canaries = self.canaries
        if not (self._passages.pairs or canaries):
            return len(text)
        piece = text[start:] if start else text
        view = None if piece.isascii() else PlainView(piece, final=final)
        read = piece.lower() if view is None else view.text
        chunks = _CHUNKS.fullmatch(read)
        if chunks is None or len(read) > _MOST_GLANCED or (final and len(read) - chunks.end(1) >= BLOB):
            return None
        # What no space ends yet may become anything, also a code, so it is held back.
        whole = len(read) if final else chunks.end(1)
        places = None
        if view is not None and OF_UNSPACED.search(read) is not None:
            known, tail = known_words(read, final=final)
            whole = min(whole, tail)
            places = known.before(whole)
        words = spellings(read, whole) if places is None else places.words
        if (len(words) >= UNITS and have_run(words)) or (canaries and any(self._canaries.find(read))):
            return None
        held = whole if self._passages.firsts.isdisjoint(words) else self._open_passage(read, words, whole, places)
        if final or held is None:
            return None if held is None else len(text)
        if whole - held > LONG_HELD:  # `scan` does not read it again with each piece
            return None
        held = min(held, open_run(read, words, whole, None if places is None else reversed(places.starts)))
        held = min(held, self._canaries.hold(read)) if canaries else held
        if places is not None and view is not None:
            held = places.uncut(held, view)
        if view is not None:
            held = view.source if held == len(read) else view.start(held)
        return start + held

    def _open_passage(self, text: str, words: Sequence[str], end: int, places: WordList | None) -> int | None:
        """Return where the first passage begins that may go on at a place of a text; the place if there is none.

        None: the words before the place show a passage, or make up too long a chain. ``places`` are those of the words
        in a script without spaces.
        """
        passages = self._passages
        lettered = words if all(map(str.isalpha, words)) else [*filter(has_letters, words)]
        known = [at for at, pair in enumerate(pairwise(lettered)) if pair in passages.pairs]
        found = None if places is None else places.lettered()
        if len(known) > 1 or (known and found):
            chains = WordChains(passages)
            chains.follow(found or placed(text, lettered))
            return None if chains.taken or chains.cuts else chains.hold(end)
        if known and len(lettered) - known[0] - 3 <= LONE:  # most of prose that is held, so no chains are followed
            _, starts, ends, _ = placed(text, lettered[: known[0] + 2])
            if end - ends[-1] <= FAR and starts[-1] - ends[-2] <= FAR:
                return starts[-2]
        if lettered and lettered[-1] in passages.firsts:
            low = found.starts[-1] if found else text.rfind(lettered[-1], 0, end)
            return low if end - low - len(lettered[-1]) <= FAR else end
        return end

    @staticmethod
    def goes_on(notes: Mapping[str, Value]) -> bool:
        """Return whether a passage or a code goes on where a scan has left a text."""
        return _NOTE in notes

    def _index(self, texts: Sequence[str]) -> None:
        self._passages = Passages(_variants(texts), self.min_words)
        self._letters = PassageLetters(_variants(texts), self.min_words)

    def _key(self) -> tuple[object, ...]:
        return self._texts, self.canaries, self.min_words

    def _look(self, view: PlainView, begun: ScanPosition, *, final: bool) -> LeakScan:
        before, seam = begun
        words, tail = NO_WORDS, len(view.text)
        if not final or begun != TEXT_START or self._words_matter(view.text):
            words, tail = known_words(view.text, final=final, cut_off=seam is not None and seam.within)
        chains = WordChains(self._passages) if before is None else before
        chains.follow(words.lettered())
        found = stretches(view, words, tail, inside=seam is not None, final=final)
        hidden = hidden_stretches(view, found, self._hides, seam.over if seam else ())
        hold = len(view.text)
        if not final:
            hold = min(chains.hold(tail), hidden.hold, self._canaries.hold(view.text))
        canaries = [(view.low(start), view.high(end)) for start, end in self._canaries.find(view.text)]
        return LeakScan(hold, chains, hidden, canaries, words, begun, view)

    def _words_matter(self, text: str) -> bool:
        """Return, at a glance, whether the words of a whole text must be examined one by one."""
        words = spellings(text)
        return self._passages.anchored(words) or have_run(words)

    def _hides(self, piece: str, depth: int = _DEPTH) -> Iterator[Hidden]:
        """Yield the readings of a slice of a stretch, where they stand: its decoded text, or else its letters."""
        coded = [
            Hidden(*said.place(low, high), PROMPT)
            for said in decoded(piece)
            for low, high in self._shown(said.text, depth)
        ]
        yield from coded or (Hidden(low, high, PROMPT) for low, high in self._letters.find(small(piece)))

    def _shown(self, text: str, depth: int) -> Iterator[tuple[int, int]]:
        """Yield the places at which a decoded text shows anything."""
        view = PlainView(text)
        found = [*self._canaries.find(view.text)]
        words, tail = known_words(view.text, final=True)
        if self._passages.anchored(words.words):
            chains = WordChains(self._passages)
            chains.follow(words.lettered())
            found += ((taken.start, taken.end) for taken in chains.taken)
        if depth > 1:
            for within in stretches(view, words, tail, inside=False, final=True).found:
                hides = self._hides(view.plain[within.start : within.end], depth - 1)
                found += ((within.start + one.start, within.start + one.end) for one in hides)
        for low, high in found:
            yield view.start(low), view.end(high)


def indexed(
    prompts: tuple[str, ...], min_words: int, allow: tuple[str, ...] = (), canaries: tuple[str, ...] = ()
) -> PromptIndex:
    """Return the index of some prompts; equal arguments give the same index, while it is cached."""
    cached = _indexed if sum(map(len, prompts)) <= _LONG else _long_indexed
    return cached(prompts, min_words, allow, canaries)


_LONG = 20_000  # characters; of longer prompts, few indexes are cached, since each takes many times the text's memory


@lru_cache(maxsize=64)
def _indexed(
    prompts: tuple[str, ...], min_words: int, allow: tuple[str, ...], canaries: tuple[str, ...]
) -> PromptIndex:
    return PromptIndex(prompts, min_words=min_words, allow=allow, canaries=canaries)


@lru_cache(maxsize=4)
def _long_indexed(
    prompts: tuple[str, ...], min_words: int, allow: tuple[str, ...], canaries: tuple[str, ...]
) -> PromptIndex:
    return PromptIndex(prompts, min_words=min_words, allow=allow, canaries=canaries)


def _check_least(words: object) -> None:
    if isinstance(words, bool) or not isinstance(words, int) or words < LEAST:
        raise OptionError("PromptIndex", "min_words", words, f"a number of words, at least {LEAST}")


def _small(text: str) -> str:
    return PlainView(text).text


def _forms(text: str) -> list[str]:
    """Return how a text reads in plain small letters, as it is written, in capitals, and in small letters.

    They differ in other scripts: a Cyrillic capital may look like a Latin letter whose small form looks like another.
    """
    if text.isascii():
        return [_small(text)]
    return list(dict.fromkeys(map(_small, (text, text.upper(), text.lower()))))


def _solid(token: str) -> int:
    return sum(map(str.isalnum, PlainView(token).text))


def _variants(texts: Sequence[str]) -> list[str]:
    """Return texts with their variants: reversed by word or by letter, or with letters exchanged."""
    ways = (_rot13, _atbash, _turned, _words_turned)
    return [*texts, *(way(text) for way in ways for text in texts)]


def _rot13(text: str) -> str:
    return codecs.encode(text, "rot13")


def _atbash(text: str) -> str:
    return text.translate(_ATBASH)


def _turned(text: str) -> str:
    return text[::-1]


def _words_turned(text: str) -> str:
    return " ".join(reversed(text.split()))


def _back(span: Span, view: PlainView, start: int) -> Span:
    """Return a span of a view as one of the text."""
    return span._replace(start=start + view.start(span.start), end=start + view.end(span.end))
