"""What a conversation has loaded, by name: kept by thread, or read from the results of tools. It knows no tools."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.messages import ToolPart
from penstock.engine.values.ports import SYSTEM_CLOCK
from penstock.processors.discovery.options import clock_of, count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Clock

S = TypeVar("S")

Storage = Literal["in-memory", "context"]
"""Where it is kept what was loaded: in this process, by thread; or nowhere but in the conversation."""

Names: TypeAlias = dict[str, None]
"""Names in the order in which they were loaded."""

Thread: TypeAlias = "tuple[str | None, str]"
"""A thread's key: whose it is, and its id. Whoever guesses another's thread id does not find what that has loaded."""

LOADED = "loaded"
"""Under which key a tool's result names what it has loaded."""


class Loads:
    """What each thread has loaded. Lives as long as the processor; every request of a thread shares its thread's names.

    A thread is forgotten when nobody has asked for it for ``ttl`` seconds, or when ``max_threads`` others were since.
    Requests without a thread keep theirs to themselves.
    """

    def __init__(
        self,
        owner: str,
        *,
        storage: Storage = "in-memory",
        ttl: float | None = 3600.0,
        max_threads: int = 10_000,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Check the options; ``owner`` is the class that an error names.

        Raises:
            OptionError: an option that is not allowed.
        """
        self.storage = one_of(owner, "storage", storage, get_args(Storage))
        self.ttl = _seconds(owner, ttl)
        self.max_threads = count(owner, "max_threads", max_threads)
        self._clock = clock_of(owner, clock)
        self._threads: OrderedDict[Thread, tuple[datetime, Names]] = OrderedDict()  # the one not used for longest first
        self._lock = threading.Lock()

    def of(self, ctx: InputStepContext[S], own: Names, tools: Collection[str]) -> Names:
        """Return what the conversation of a request has loaded; names put there last as long as ``storage`` says.

        Args:
            ctx: the context of the step at hand.
            own: what the request alone has loaded; for requests without a thread.
            tools: the tools whose results tell what was loaded.
        """
        if self.storage == "context":
            return dict.fromkeys(told(ctx.messages, tools))
        if ctx.thread_id is None:
            return own
        with self._lock:
            return self._of_thread((ctx.resource_id, ctx.thread_id))

    def _of_thread(self, thread: Thread) -> Names:
        now = self._clock.now()
        self._forget(now)
        _, names = self._threads.pop(thread, (now, Names()))
        self._threads[thread] = (now, names)
        if len(self._threads) > self.max_threads:
            self._threads.popitem(last=False)
        return names

    def _forget(self, now: datetime) -> None:
        """Drop the threads whose time is over; they stand in front."""
        if self.ttl is None:
            return
        try:
            over = now - timedelta(seconds=self.ttl)
        except OverflowError:  # that is for ever, too
            return
        while self._threads and next(iter(self._threads.values()))[0] <= over:
            self._threads.popitem(last=False)

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle what it holds, without the lock."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many threads are remembered."""
        return len(self._threads)

    def __repr__(self) -> str:
        """Show the options, and no thread."""
        return f"Loads(storage={self.storage!r}, ttl={self.ttl!r}, max_threads={self.max_threads!r})"


def _seconds(owner: str, given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise OptionError(owner, "ttl", given, "seconds, more than 0, or None: for ever")
    return given


def told(messages: Iterable[Message], tools: Collection[str]) -> Iterator[str]:
    """Yield the names that the results of these tools say were loaded."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolPart) and part.name in tools and part.state == "result":
                yield from _names(part.result)


def _names(result: Value) -> Iterator[str]:
    """Yield the names in a result; where a wire format has made text of it, it is JSON."""
    if isinstance(result, str):
        try:
            result = json.loads(result)
        except (ValueError, RecursionError):
            return
    names = result.get(LOADED) if is_mapping(result) else None
    if is_items(names):
        yield from (name for name in names if isinstance(name, str))
