"""`PromptIndex`: finds what a text shows of system prompts: word by word, letter by letter, encoded, turned round.

The prompts are given; nothing is guessed. Figures: `benchmarks/quality/leaks.py` measures them.
"""

from __future__ import annotations

import codecs
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.detection.encoded.codes import decoded
from penstock.detection.encoded.stretches import have_run, judged, stretches
from penstock.detection.leaks.canaries import LEAST, Canaries
from penstock.detection.leaks.chains import Chains
from penstock.detection.leaks.letters import Letters
from penstock.detection.leaks.overlaps import FRESH, Look, Place
from penstock.detection.leaks.passages import ANCHOR, Passages, masked, rows
from penstock.detection.spans import Span
from penstock.detection.views import View, small
from penstock.detection.words import NO_WORDS, known_words, spellings
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value

PROMPT = "system-prompt"
"""The type of a stretch that shows a prompt."""

CANARY = "canary"
"""The type of a canary."""

_ATBASH = str.maketrans("abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba")
_NOTE = "leaks"
_DEPTH = 2  # codes within codes


class PromptIndex:
    """System prompts, ready to be recognised in what a model says. Equal if made of the same.

    Attributes:
        prompts: the prompts.
        min_words: how many words an answer may share with a prompt, in its order, and one more is a leak.
        canaries: tokens that may not appear at all.
        lookback: how many characters before what is undecided `scan` wants to see: none.
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
            prompts: the prompts. One of fewer words than ``min_words`` is recognised as a whole, from four words on.
            min_words: how many words of a prompt a stretch must show, at least 4.
            allow: passages of the prompts that may be quoted.
            canaries: tokens of six letters and digits or more that may not appear.

        Raises:
            OptionError: a ``min_words`` below 4, or a canary that is too short to be told from other words.
        """
        _check_least(min_words)
        short = [index for index, token in enumerate(canaries) if _solid(token) < LEAST]
        if short:
            raise OptionError(
                "PromptIndex", f"canaries[{short[0]}]", "…", f"a token of {LEAST} letters and digits or more"
            )
        self.prompts, self.min_words = tuple(prompts), min_words
        self.allow, self.canaries = tuple(allow), tuple(canaries)
        self._texts = tuple(masked(View(prompt).text, map(_small, self.allow), ANCHOR) for prompt in self.prompts)
        self._canaries = Canaries(map(_small, self.canaries))
        self._index(self._texts)

    def __eq__(self, other: object) -> bool:
        """Tell whether both find the same."""
        return isinstance(other, PromptIndex) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash by what is found."""
        return hash(self._key())

    def __repr__(self) -> str:
        """Show how much is known, and nothing of it."""
        return f"PromptIndex({len(self.prompts)} prompts, {len(self.canaries)} canaries, min_words={self.min_words})"

    def __bool__(self) -> bool:
        """Tell whether there is anything to find."""
        return bool(self._passages) or bool(self.canaries)

    def without(self, known: Iterable[str]) -> PromptIndex:
        """Return the index without what the reader knows already: passages of ``min_words`` words or more in texts."""
        texts = [text for text in map(_small, known) if self._anchored(spellings(text))]
        left = tuple(masked(text, texts, self.min_words) for text in self._texts) if texts else self._texts
        if left == self._texts:
            return self
        less = copy(self)
        less._texts = left
        less._index(left)
        return less

    def find(self, text: str, key: str = "") -> list[Span]:
        """Return what a whole text shows of the prompts, in order; ``key`` has no say."""
        del key
        return self.scan(text, 0, {}, final=True)[0]

    def scan(self, text: str, start: int, notes: dict[str, Value], *, final: bool) -> tuple[list[Span], int]:
        """Return what a text shows from ``start`` on, and from which place on more text could change that.

        Args:
            text: the text, as far as it is known.
            start: where that begins which is not decided: the place that the last call returned.
            notes: one dict for each text, empty at its beginning.
            final: whether the text ends here.
        """
        begun: Place = notes.pop(_NOTE, FRESH)
        view = View(text[start:] if start else text, final=final)
        look = self._look(view, begun, final=final)
        shown = look.shown()
        hold, place = (len(view.text), FRESH) if final else look.settled(shown)
        if place != FRESH:
            notes[_NOTE] = place
        spans = [Span(one.start, one.end, PROMPT, one.score) for one in shown]
        spans += [Span(low, high, CANARY) for low, high in look.canaries]
        known = sorted(_back(span, view, start) for span in spans if span.end <= hold)
        return known, start + (view.source if hold >= len(view.text) else view.start(hold))

    def _index(self, texts: Sequence[str]) -> None:
        self._passages = Passages(_variants(texts), self.min_words)
        self._letters = Letters(_variants(texts), self.min_words)

    def _key(self) -> tuple[object, ...]:
        return self._texts, self.canaries, self.min_words

    def _look(self, view: View, begun: Place, *, final: bool) -> Look:
        before, seam = begun
        words, tail = NO_WORDS, len(view.text)
        if not final or begun != FRESH or self._words_matter(view.text):
            words, tail = known_words(view.text, final=final, cut_off=seam is not None and seam.within)
        lettered = words.lettered()
        read = lettered if before is None else before.resumed(lettered)
        chains = Chains(read, self._passages, before.live if before else ())
        found = stretches(view.plain, words, tail, inside=seam is not None, final=final)
        hidden = judged(view.plain, found, self._hides, seam is not None and seam.hit)
        hold = len(view.text)
        if not final:
            hold = min(chains.hold(tail), hidden.hold, self._canaries.hold(view.text))
        return Look(hold, chains, hidden, list(self._canaries.find(view.text)), words, begun)

    def _words_matter(self, text: str) -> bool:
        """Tell at a glance whether the words of a whole text must be looked at one by one."""
        words = spellings(text)
        return self._anchored(words) or have_run(words)

    def _anchored(self, words: Sequence[str]) -> bool:
        """Tell whether a passage's words may be found among some words."""
        return not self._passages.anchors.isdisjoint(rows([word for word in words if not word.isdigit()]))

    def _hides(self, piece: str, depth: int = _DEPTH) -> Iterator[tuple[int, int]]:
        """Yield where a piece of a stretch hides something: all of it if it is encoded."""
        if any(self._shows(text, depth) for text in decoded(piece)):
            yield 0, len(piece)
        else:
            yield from self._letters.find(small(piece))

    def _shows(self, text: str, depth: int) -> bool:
        """Tell whether what was decoded shows anything."""
        view = View(text)
        if next(self._canaries.find(view.text), None) is not None:
            return True
        words, tail = known_words(view.text, final=True)
        if self._anchored(words.words) and Chains(words.lettered(), self._passages).taken:
            return True
        within = stretches(view.plain, words, tail, inside=False, final=True).found
        return depth > 1 and any(
            True for one in within for _ in self._hides(view.plain[one.start : one.end], depth - 1)
        )


@lru_cache(maxsize=64)
def indexed(
    prompts: tuple[str, ...], min_words: int, allow: tuple[str, ...] = (), canaries: tuple[str, ...] = ()
) -> PromptIndex:
    """Return the index of some prompts; it is made once."""
    return PromptIndex(prompts, min_words=min_words, allow=allow, canaries=canaries)


def _check_least(words: object) -> None:
    if isinstance(words, bool) or not isinstance(words, int) or words < ANCHOR:
        raise OptionError("PromptIndex", "min_words", words, f"a number of words, at least {ANCHOR}")


def _small(text: str) -> str:
    return View(text).text


def _solid(token: str) -> int:
    return sum(map(str.isalnum, View(token).text))


def _variants(texts: Sequence[str]) -> list[str]:
    """Return texts with what they read like turned round, word by word or letter by letter, or with letters changed."""
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


def _back(span: Span, view: View, start: int) -> Span:
    """Return a span of a view as one of the text."""
    return span._replace(start=start + view.start(span.start), end=start + view.end(span.end))
