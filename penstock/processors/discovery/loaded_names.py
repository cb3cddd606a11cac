"""The names that a conversation has loaded: stored by thread, or read from the results of its tool calls."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast, get_args

from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.processor.processor import one_of
from penstock.engine.values.expiry import ExpiryTimer
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.messages import ToolPart
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.engine.values.shared import NameStore
from penstock.processors.discovery.option_checks import checked_clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.values.expiry import Expiry
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.engine.values.protocols import Clock


S = TypeVar("S")

_LOG = logging.getLogger("penstock")

Storage = Literal["in-memory", "context"]
"""Where loaded names are stored: in this process, by thread; or only in the conversation."""

NameSet: TypeAlias = dict[str, None]
"""Names, in the order in which they were loaded."""

ThreadKey: TypeAlias = "tuple[str | None, str]"
"""The key of a thread: the resource id and the thread id, so that a guessed thread id finds nothing of others."""

LOADED = "loaded"
"""The key in a tool's result that lists the loaded names."""


class LoadedNames:
    """The names that each thread has loaded. Lives as long as its processor; all requests of a thread share them.

    A thread is forgotten when it was not used for ``ttl`` seconds, or when ``max_threads`` others were used since.
    Requests without a thread have names of their own.
    """

    def __init__(
        self,
        owner: str,
        *,
        storage: Storage | NameStore = "in-memory",
        ttl: float | None = 3600.0,
        max_threads: int = 10_000,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Check the options; errors name the class ``owner``.

        Raises:
            OptionError: an option has a value that is not allowed.
        """
        self.store = storage if isinstance(storage, NameStore) else None
        self.storage = storage if self.store is not None else checked_storage(owner, storage)
        allowed = "a number of seconds above 0, or None for no limit"
        self.ttl = None if ttl is None else check_number(owner, "ttl", ttl, allowed, above=True)
        self.max_threads = check_count(owner, "max_threads", max_threads, least=1)
        self._timer = ExpiryTimer(checked_clock(owner, clock).now)
        self._threads: OrderedDict[ThreadKey, tuple[Expiry | None, NameSet]] = (
            OrderedDict()
        )  # the least recently used first
        self._lock = threading.Lock()

    async def of(self, ctx: InputStepContext[S], own: NameSet, tools: Collection[str]) -> NameSet:
        """Return the names that the conversation has loaded; names added to it are stored as ``storage`` says.

        Args:
            ctx: the context of the current step.
            own: the names that the request itself has loaded; for requests without a thread.
            tools: the tools whose results list loaded names.
        """
        if self.storage == "context":
            return dict.fromkeys(loaded_in(ctx.messages, tools))
        if ctx.thread_id is None:
            return own
        if self.store is not None:
            return {**dict.fromkeys(await self.store.names(_owner(ctx), ttl=self.ttl)), **own}
        with self._lock:
            return self._of_thread((ctx.resource_id, ctx.thread_id))

    async def add(self, ctx: InputStepContext[S], own: NameSet, names: Sequence[str]) -> None:
        """Store names that the request has loaded, where that is not done by adding them to those of `of`.

        If the store fails, which is logged, they are loaded for this request.
        """
        if self.store is None or ctx.thread_id is None or not names:
            return
        own.update(dict.fromkeys(names))
        try:
            await self.store.add_names(_owner(ctx), names, ttl=self.ttl)
        except Exception as error:  # noqa: BLE001 - of a server, or of code of the application's
            _LOG.warning("loaded names could not be stored: %s", type(error).__name__)

    def _of_thread(self, thread: ThreadKey) -> NameSet:
        self._forget()
        _, names = self._threads.pop(thread, (None, NameSet()))
        self._threads[thread] = (None if self.ttl is None else self._timer.after(self.ttl), names)
        if len(self._threads) > self.max_threads:
            self._threads.popitem(last=False)
        return names

    def _forget(self) -> None:
        """Drop expired threads; they come first."""
        while self._threads:
            expiry = next(iter(self._threads.values()))[0]
            if expiry is None or not self._timer.is_over(expiry):
                return
            self._threads.popitem(last=False)

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the content, without the lock."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of threads."""
        return len(self._threads)

    def __repr__(self) -> str:
        """Show the options, but no thread."""
        return f"LoadedNames(storage={self.storage!r}, ttl={self.ttl!r}, max_threads={self.max_threads!r})"


def checked_storage(owner: str, given: object) -> Storage:
    """Check ``storage``, and return it.

    Raises:
        OptionError: it is neither a word nor a `NameStore`.
    """
    return cast("Storage", one_of(owner, "storage", given, get_args(Storage)))


def _owner(ctx: InputStepContext[S]) -> str:
    """Return the owner of a thread's names in a store: the resource, too, so that a guessed thread finds nothing."""
    return json.dumps([ctx.resource_id, ctx.thread_id])


def loaded_in(messages: Iterable[Message], tools: Collection[str]) -> Iterator[str]:
    """Yield the loaded names in the results of some tools."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolPart) and part.name in tools and part.state == "result":
                yield from _names(part.result)


def _names(result: Value) -> Iterator[str]:
    """Yield the names in a result, which some wire formats turn into JSON text."""
    if isinstance(result, str):
        try:
            result = json.loads(result)
        except (ValueError, RecursionError):
            return
    names = result.get(LOADED) if is_mapping(result) else None
    if is_items(names):
        yield from (name for name in names if isinstance(name, str))
