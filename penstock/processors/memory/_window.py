"""Which of a thread's messages are loaded: the last so many, or what a budget of tokens holds. It knows no stage."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError
from penstock.models.tokens.counters import counting as as_counting
from penstock.models.tokens.prices import Way, prices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.values.ports import Storage, TokenCounter
    from penstock.engine.values.stored import StoredMessage, Thread

LAST_MESSAGES = 10
"""How many messages are loaded by default (the reference's figure for its memory, builtins.md §9)."""

BEGINNING = "penstock.history_from"
"""The key of a thread's metadata under which the place is kept where its history begins for the model."""

_PAGE = 200
_SHARE = 0.25  # of a budget that is freed at once, by default (the reference's figure)

LastMessages = Literal["auto"] | int | None


class Recent(NamedTuple):
    """What was loaded of a thread.

    Attributes:
        rows: the messages, oldest first.
        whole: whether that is all that there is.
        beginning: where the history is to begin from now on, if that has changed.
    """

    rows: Sequence[StoredMessage] = ()
    whole: bool = False
    beginning: int | None = None


class Window:
    """The options that say how much is loaded, and how it is. Lives as long as its processor."""

    def __init__(
        self,
        owner: str,
        last_messages: LastMessages,
        max_tokens: int | None,
        at_max_remove_tokens: float | None,
        token_counter: TokenCounter | Callable[[str], int] | str | None,
        encoding: str,
        counting: Way,
    ) -> None:
        """Check the options.

        Raises:
            OptionError: an option that is not allowed.
        """
        _check_count(owner, "last_messages", last_messages, "a number of messages, None for all, or 'auto'")
        _check_count(owner, "max_tokens", max_tokens, "a number of tokens, or None")
        if last_messages == "auto":
            self.last: int | None = LAST_MESSAGES if max_tokens is None else None
        else:
            self.last = last_messages
        self.budget = max_tokens
        self.freed = _freed(owner, max_tokens, at_max_remove_tokens)
        one_of(owner, "counting", counting, get_args(Way))
        self._counter = self._prices = None
        if max_tokens is not None:
            self._counter = as_counting(owner, token_counter, encoding)
            self._prices = prices(self._counter, counting, token_counter)
            self._counter.prepare()

    def __eq__(self, other: object) -> bool:
        """Tell whether both load alike."""
        return isinstance(other, Window) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def moves(self) -> bool:
        """Whether it notes in the thread where the history begins."""
        return self.budget is not None and self.freed > 0

    async def read(self, storage: Storage, thread_id: str, resource_id: str | None, thread: Thread | None) -> Recent:
        """Return the newest messages of a thread.

        ``thread``: the thread itself, if this `moves` and it is there.
        """
        if self.last == 0:
            return Recent()
        beginning = 0 if thread is None else _beginning(thread)
        rows: list[StoredMessage] = []
        before: str | None = None
        while True:
            page = await storage.messages(thread_id, resource_id=resource_id, limit=self._more(rows), before=before)
            if self._counter is not None and page.items:
                await self._counter.ready()
            found = [row for row in page.items if row.order >= beginning]
            rows += found
            before = page.following
            is_begun = len(found) < len(page.items)
            if before is None or is_begun or self._is_enough(rows):
                return self._cut(rows, whole=before is None and not is_begun)

    def _more(self, rows: Sequence[StoredMessage]) -> int:
        return _PAGE if self.last is None else min(self.last - len(rows), 10 * _PAGE)

    def _is_enough(self, rows: Sequence[StoredMessage]) -> bool:
        if self.last is not None and len(rows) >= self.last:
            return True
        return self.budget is not None and self._cost(rows) > self.budget

    def _cost(self, rows: Sequence[StoredMessage]) -> float:
        return sum(map(self._price, rows))

    def _price(self, row: StoredMessage) -> float:
        return 0 if self._prices is None or row.message.role == "system" else self._prices.kept(row.message)

    def _cut(self, rows: list[StoredMessage], *, whole: bool) -> Recent:
        """Return what fits of the newest rows, oldest first."""
        kept = rows if self.budget is None or self._cost(rows) <= self.budget else self._fitting(rows, self.budget)
        cut = len(kept) < len(rows)
        beginning = (kept[-1].order if kept else rows[0].order + 1) if cut and self.moves else None
        return Recent(kept[::-1], whole and not cut, beginning)

    def _fitting(self, rows: Sequence[StoredMessage], budget: int) -> list[StoredMessage]:
        """Return the newest of rows that are too many, as many as leave what is to be freed."""
        room = budget - self.freed
        kept: list[StoredMessage] = []
        for row in rows:
            room -= self._price(row)
            if room < 0:
                break
            kept.append(row)
        return kept


def _beginning(thread: Thread) -> int:
    """Return where the history begins; what stands in the metadata may be anybody's."""
    found: object = thread.metadata.get(BEGINNING)
    return found if isinstance(found, int) else 0


def _check_count(owner: str, option: str, given: object, allowed: str) -> None:
    fine = given is None or (option == "last_messages" and given == "auto")
    if not fine and (isinstance(given, bool) or not isinstance(given, int) or given < 0):
        raise OptionError(owner, option, given, f"{allowed}; from 0 on")


def _freed(owner: str, budget: int | None, given: float | None) -> float:
    """Return how many tokens are freed beyond what is needed."""
    if given is None:
        return 0 if budget is None else budget * _SHARE
    allowed = "a number of tokens from 0 to max_tokens, which must be given too"
    if not is_number(given) or budget is None or not 0 <= given <= budget:
        raise OptionError(owner, "at_max_remove_tokens", given, allowed)
    return given


def is_number(given: object) -> bool:
    """Tell whether an option is a finite number."""
    return isinstance(given, (int, float)) and not isinstance(given, bool) and isfinite(given)
