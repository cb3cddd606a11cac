"""`Counting`: any way to count tokens behind one face, with what was counted remembered; it knows no message.

Counters come as an encoding's name, as ``"heuristic"``, as an object with ``count``, or as a plain function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.ports import TokenCounter
from penstock.models.tokens.bpe import BPECounter
from penstock.models.tokens.heuristic import HeuristicCounter
from penstock.models.tokens.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Callable

HEURISTIC = "heuristic"


class Counting:
    """A counter that remembers. Lives as long as the processor it was made for; may be used from several threads.

    Attributes:
        counter: what counts.
        name: how it is called in records.
        additive: whether counts add up where a word ends (see `TokenCounter`).
        monotone: whether a text never has fewer tokens than its beginning.
        densest: the most tokens that a character can have; None where nobody knows.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self.counter = counter
        self.name = str(getattr(counter, "name", type(counter).__name__))
        self.additive = bool(getattr(counter, "additive", False))
        self.monotone = bool(getattr(counter, "monotone", False))
        self.densest: int | None = getattr(counter, "densest", None)
        self._memo: Memo[str, int] = Memo(len)

    def count(self, text: str) -> int:
        """Return how many tokens the text has, remembered.

        Raises:
            UsageError: the counter gives something else than an int of 0 or more.
        """
        found = self._memo.get(text)
        if found is None:
            found = self.fresh(text)
            self._memo.put(text, found)
        return found

    def fresh(self, text: str) -> int:
        """Return how many tokens the text has, counted anew and not remembered: for texts that will not come back."""
        found = self.counter.count(text)
        if type(found) is not int or found < 0:
            raise UsageError(f"the token counter {self.name!r} must give an int of 0 or more")
        return found

    async def ready(self) -> None:
        """Have loaded what the counter counts with, beside the event loop: async hooks await it before they count.

        Raises:
            UsageError: it is not there, and cannot be fetched.
        """
        if isinstance(self.counter, BPECounter):
            await self.counter.ready()

    def prepare(self) -> None:
        """Let the counter begin with what it must load: for sync hooks, which cannot wait for it elsewhere."""
        if isinstance(self.counter, BPECounter):
            self.counter.prepare()

    def __eq__(self, other: object) -> bool:
        """Tell whether both use equal counters."""
        return isinstance(other, Counting) and self.counter == other.counter

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the counter."""
        return repr(self.counter)


class FunctionCounter:
    """A plain function from text to tokens as a counter; equal if the function is."""

    def __init__(self, function: Callable[[str], int]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def count(self, text: str) -> int:
        """Return what the function gives."""
        return self.function(text)

    def __eq__(self, other: object) -> bool:
        """Tell whether both call the same function."""
        return isinstance(other, FunctionCounter) and self.function == other.function

    def __hash__(self) -> int:
        """Hash by the function."""
        return hash(self.function)

    def __repr__(self) -> str:
        """Show the function's name."""
        return self.name


def counting(owner: str, given: object, encoding: str) -> Counting:
    """Return what counts, as the options of ``owner`` say: a counter, else an encoding.

    Raises:
        OptionError: it can neither count nor be called, or the encoding is unknown.
    """
    if given is None:
        return Counting(BPECounter(encoding, owner=owner))
    if given == HEURISTIC:
        return Counting(HeuristicCounter())
    if isinstance(given, str):  # before what has a method `count`, as every str has
        return Counting(BPECounter(given, owner=owner))
    if isinstance(given, TokenCounter):
        return Counting(given)
    if callable(given):
        return Counting(FunctionCounter(cast("Callable[[str], int]", given)))
    if callable(getattr(given, "count_message", None)):  # texts are counted by the encoding
        return Counting(BPECounter(encoding, owner=owner))
    allowed = "an object with count(text), a function from str to int, an encoding's name, or 'heuristic'"
    raise OptionError(owner, "token_counter", given, allowed)
