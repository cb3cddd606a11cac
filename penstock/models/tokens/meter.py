"""`Meter`: pass a text on, piece by piece, until its token budget is used up; and where to cut a text for a budget.

The output, put together, is the same for every way to cut the text into pieces, and the same as for the whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Literal

from penstock.models.tokens.bpe import boundaries, last_boundary

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.models.tokens.counters import Counting


_BLOCK = 1_000  # characters that are counted at a time on the way to the cut
_WORD = 512  # in a longer word the cut is found by bisection, which assumes that counts never shrink

_WORD_ENDS = re.compile(r"(?<=\S)(?=\s)")
_SENTENCE_ENDS = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+[」』”’）]*)")


def longest(counter: Counting, text: str, budget: int) -> int:
    """Return the length of the longest beginning of the text that has at most ``budget`` tokens.

    If it ends inside a word of more than 512 characters, it is the longest only if counts never shrink as a text grows.
    """
    if counter.fresh(text) <= budget:
        return len(text)
    if not counter.additive:
        return _halved(lambda size: counter.fresh(text[:size]), len(text), budget)
    start, spent = _blocks(counter, text, budget)
    for stop in [*boundaries(text, start), len(text)]:
        tokens = counter.fresh(text[start:stop])
        if spent + tokens > budget:
            return start + _in_word(counter, text[start:stop], budget - spent)
        start, spent = stop, spent + tokens
    return start


def _blocks(counter: Counting, text: str, budget: int) -> tuple[int, int]:
    """Return where the block begins that exceeds the budget, and the tokens before it."""
    start = spent = 0
    while len(text) - start > _BLOCK:
        stop = last_boundary(text[: start + _BLOCK], start)
        if stop == start:
            break
        tokens = counter.fresh(text[start:stop])
        if spent + tokens > budget:
            break
        start, spent = stop, spent + tokens
    return start, spent


def _in_word(counter: Counting, word: str, budget: int) -> int:
    if len(word) > _WORD:
        return _halved(lambda size: counter.fresh(word[:size]), len(word), budget)
    return next((size for size in range(len(word) - 1, 0, -1) if counter.fresh(word[:size]) <= budget), 0)


def _halved(tokens: Callable[[int], int], size: int, budget: int) -> int:
    return max(0, bisect_right(range(size + 1), budget, key=tokens) - 1)


def word_end(text: str, start: int, stop: int) -> int:
    """Return the last end of a word after ``start`` and up to ``stop``; ``start`` if there is none."""
    return _last(_WORD_ENDS, text, start, stop)


def sentence_end(text: str, start: int, stop: int) -> int:
    """Return the last end of a sentence after ``start`` and up to ``stop``; ``start`` if there is none."""
    return _last(_SENTENCE_ENDS, text, start, stop)


def _last(ends: re.Pattern[str], text: str, start: int, stop: int) -> int:
    found = start
    for match in ends.finditer(text, start):
        if match.end() > stop:
            break
        found = match.end()
    return found


CutAt = Literal["token", "word", "sentence"]
CutPlace = Literal["token", "word", "sentence", "nowhere"]

_LONG = 512  # characters that are not counted for good yet; beyond this, they are counted only as they grow


class Meter:
    """One text on its way out. It lives as long as the text.

    Token counts do not add up over pieces, so the text so far is counted: once up to the last place where counts do add
    up, and repeatedly after it. A piece is held back while its tokens may still become fewer (half a word), while room
    is reserved for the ellipsis, and, if asked for, until its word or sentence has ended. White space is held back
    until more text follows.

    Attributes:
        over: whether the text was cut; no further text comes out.
    """

    __slots__ = (
        "_at",
        "_before",
        "_budget",
        "_counter",
        "_ellipsis",
        "_ended",
        "_next",
        "_out",
        "_reserve",
        "_text",
        "over",
    )

    def __init__(self, counter: Counting, budget: int, at: CutPlace = "token", ellipsis: str = "") -> None:
        """Begin a text.

        Args:
            counter: counts the tokens.
            budget: the largest number of tokens, including the ellipsis of a cut.
            at: where a cut may fall; ``nowhere`` if the rest behind the cut is not used.
            ellipsis: the text that replaces the cut part.
        """
        self.over = False
        self._counter = counter
        self._budget = budget
        self._at: CutPlace = at
        self._ellipsis = ellipsis
        self._reserve = counter.count(ellipsis) if ellipsis else 0
        self._before = 0  # tokens before `_text`
        self._text = ""  # from the last place where tokens add up, among the text that is out
        self._out = 0  # how much of `_text` is out
        self._ended = False  # whether a whole word or sentence is out, so that the cut need not fall inside one
        self._next = 0  # the length of `_text` at which it is counted again

    @property
    def tokens(self) -> int:
        """The tokens of all text that came in until the cut."""
        return self._before + self._counter.fresh(self._text)

    @property
    def holds(self) -> bool:
        """Whether some text is neither out nor dropped."""
        return not self.over and self._out < len(self._text)

    def feed(self, piece: str, *, final: bool = False) -> str:
        """Return the text that may go out now; ``final`` ends the text."""
        if self.over:
            return ""
        self._text += piece
        if self._cheap():
            return self._release(self._free(final=final))
        if not final and len(self._text) < self._next:
            return ""
        return self._weigh(final=final)

    def _cheap(self) -> bool:
        """Whether the text cannot exceed the budget, whatever its tokens are."""
        densest = self._counter.densest
        room = self._budget - self._reserve - self._before
        return densest is not None and densest * len(self._text) <= room

    def _weigh(self, *, final: bool) -> str:
        tokens = self._before + self._counter.fresh(self._text)
        if tokens <= self._budget - (0 if final else self._reserve):
            out = self._release(self._free(final=final))
            self._settle()
            return out
        if final or self._settled(tokens):
            return self._cut()
        self._look_later()
        return ""

    def _free(self, *, final: bool) -> int:
        """Return up to which index the text may go out, if all of it fits."""
        if final or self._at == "nowhere":
            return len(self._text)
        if self._at == "token":  # white space goes out with the text after it, so that a cut need not end in it
            return max(self._out, len(self._text.rstrip()))
        ends = word_end if self._at == "word" else sentence_end
        free = ends(self._text, self._out, len(self._text) if self._at == "word" else len(self._text) - 1)
        self._ended = self._ended or free > self._out
        return free

    def _settled(self, tokens: int) -> bool:
        """Whether no further text can bring the tokens down to the budget again."""
        if tokens <= self._budget:
            return False
        if self._counter.monotone or not self._counter.additive:
            return True
        sure = last_boundary(self._text)
        least = 1 if self._text[sure:].strip() else 0
        return self._before + self._counter.fresh(self._text[:sure]) + least > self._budget

    def _cut(self) -> str:
        self.over = True
        most = longest(self._counter, self._text, max(0, self._budget - self._reserve - self._before))
        return self._release(max(self._out, self._nice(most))) + self._ellipsis

    def _nice(self, most: int) -> int:
        """Return the last end of a sentence or word up to ``most``; ``most`` itself if nothing would be left."""
        if self._at in ("token", "nowhere"):
            return len(self._text[:most].rstrip())
        if self._at == "sentence":
            end = sentence_end(self._text, self._out, most)
            if end > self._out or self._ended:
                return end
        end = word_end(self._text, self._out, most)
        return end if end > self._out or self._ended else len(self._text[:most].rstrip())

    def _release(self, stop: int) -> str:
        out = self._text[self._out : stop]
        self._out = max(self._out, stop)
        return out

    def _settle(self) -> None:
        """Count for good what lies before the last place, in the text that is out, where token counts add up."""
        sure = last_boundary(self._text[: self._out + 1]) if self._counter.additive else 0
        if sure:
            self._before += self._counter.fresh(self._text[:sure])
            self._text = self._text[sure:]
            self._out -= sure
        self._look_later()

    def _look_later(self) -> None:
        size = len(self._text)
        self._next = size + size // 32 if size > _LONG else 0
