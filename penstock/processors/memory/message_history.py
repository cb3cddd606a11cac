"""`MessageHistory`: loads the last messages of a thread before a request, and stores the new ones after it."""

from __future__ import annotations

import copy
import inspect
import logging
import operator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast, get_args

from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import NotStoredError, OptionError, StorageConflictError, UsageError
from penstock.engine.values.message_list import Entry
from penstock.engine.values.messages import Message, ToolPart
from penstock.models.conversations import (
    WAITING_CALLS,
    brings_answer,
    call_key,
    has_content,
    has_result,
    is_decided,
    list_with_entries,
    names_of,
    unanswered_calls,
)
from penstock.models.tokens.counters import counting as as_counting
from penstock.models.tokens.message_costs import Way, prices
from penstock.processors.memory._options import (
    KeepInput,
    ReadOnly,
    check_owner,
    checked_policy,
    checked_read_only,
    checked_storage,
    thread_id_of,
)
from penstock.processors.memory._storing import (
    VAULT,
    WORKING_MEMORY_TOOLS,
    message_redactor,
    storable_message,
    storable_text,
    vaults_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence

    from penstock.engine.processor.context import (
        AnyContext,
        InputContext,
        InputStepContext,
        LLMRequestContext,
        LLMResponseContext,
        OutputResultContext,
    )
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Part
    from penstock.engine.values.protocols import Storage, TokenCounter
    from penstock.engine.values.stored import StoredMessage, Thread


_LOG = logging.getLogger("penstock.memory")


# How much is loaded

LAST_MESSAGES = 10
"""How many messages are loaded by default, as in the reference system (builtins.md §9)."""

START_KEY = "penstock.history_from"
"""The key in the metadata of a thread for the order of the first message that is loaded."""

_PAGE = 200
_FREED_SHARE = 0.25  # of a budget that is freed at once by default, as in the reference system

LastMessages = Literal["auto"] | int | None


class RecentMessages(NamedTuple):
    """The loaded part of a thread.

    Attributes:
        rows: the messages, oldest first.
        whole: whether these are all messages of the thread.
        start: the order of the first message to load from now on, if it has changed.
    """

    rows: Sequence[StoredMessage] = ()
    whole: bool = False
    start: int | None = None


class HistoryWindow:
    """How many messages of a thread are loaded. Lives as long as its processor.

    Raises:
        OptionError: a value is not allowed.
    """

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
        if last_messages is not None and last_messages != "auto":
            allowed = "a number of messages, None for all, or 'auto'; 0 or more"
            check_count(owner, "last_messages", last_messages, allowed)
        if max_tokens is not None:
            check_count(owner, "max_tokens", max_tokens, "a number of tokens, or None; 0 or more")
        if last_messages == "auto":
            self.last: int | None = LAST_MESSAGES if max_tokens is None else None
        else:
            self.last = last_messages
        self.budget = max_tokens
        self.freed = _tokens_to_free(owner, max_tokens, at_max_remove_tokens)
        one_of(owner, "counting", counting, get_args(Way))
        self._counter = self._prices = None
        if max_tokens is not None:
            self._counter = as_counting(owner, token_counter, encoding)
            self._prices = prices(self._counter, counting, token_counter)
            self._counter.prepare()

    def __eq__(self, other: object) -> bool:
        """Return whether both load the same messages."""
        return isinstance(other, HistoryWindow) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def moves_start(self) -> bool:
        """Whether the start of the history is stored in the thread."""
        return self.budget is not None and self.freed > 0

    async def read(
        self, storage: Storage, thread_id: str, resource_id: str | None, thread: Thread | None
    ) -> RecentMessages:
        """Return the newest messages of a thread.

        ``thread``: the thread itself, if `moves_start` and it exists.
        """
        if self.last == 0:
            return RecentMessages()
        start = 0 if thread is None else _stored_start(thread)
        rows: list[StoredMessage] = []
        before: str | None = None
        while True:
            page = await storage.messages(thread_id, resource_id=resource_id, limit=self._more(rows), before=before)
            if self._counter is not None and page.items:
                await self._counter.ready()
            found = [row for row in page.items if row.order >= start]
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

    def _cut(self, rows: list[StoredMessage], *, whole: bool) -> RecentMessages:
        """Return the newest rows that fit, oldest first."""
        newest = rows if self.budget is None or self._cost(rows) <= self.budget else self._fitting(rows, self.budget)
        cut = len(newest) < len(rows)
        start = (newest[-1].order if newest else rows[0].order + 1) if cut and self.moves_start else None
        return RecentMessages(newest[::-1], whole and not cut, start)

    def _fitting(self, rows: Sequence[StoredMessage], budget: int) -> list[StoredMessage]:
        """Return the newest of too many rows: as many as leave the tokens free that are to be freed."""
        room = budget - self.freed
        newest: list[StoredMessage] = []
        for row in rows:
            room -= self._price(row)
            if room < 0:
                break
            newest.append(row)
        return newest


def _stored_start(thread: Thread) -> int:
    """Return where the history starts. Metadata may hold anything, so only an int counts."""
    found: object = thread.metadata.get(START_KEY)
    return found if isinstance(found, int) else 0


def _tokens_to_free(owner: str, budget: int | None, given: float | None) -> float:
    """Return how many tokens are freed beyond the need."""
    if given is None:
        return 0 if budget is None else budget * _FREED_SHARE
    allowed = "a number of tokens from 0 to max_tokens, which must be given too"
    return check_number(owner, "at_max_remove_tokens", given, allowed, most=-1 if budget is None else budget)


# How the history enters the conversation


def with_answers(message: Message, answers: Mapping[str, ToolPart]) -> Message:
    """Return a message with results for its calls. Names and arguments stay as they were."""
    parts = [_with_answer(part, answers) for part in message.parts]
    return message if all(map(operator.is_, parts, message.parts)) else message.with_parts(parts)


def _with_answer(part: Part, answers: Mapping[str, ToolPart]) -> Part:
    if not isinstance(part, ToolPart) or has_result(part):
        return part
    answer = answers.get(call_key(part))
    if answer is None:
        return part
    return replace(part, state=answer.state, result=answer.result, error=answer.error, approval=answer.approval)


class JoinedHistory(NamedTuple):
    """A conversation with its history.

    Attributes:
        messages: the conversation; None if nothing has changed.
        loaded: how many messages were loaded.
        waiting: the keys of the stored calls that a person was asked about, and has not answered.
    """

    messages: MessageList | None
    loaded: int
    waiting: frozenset[str]


def join_history(listed: MessageList, rows: Iterable[StoredMessage], *, remembers: bool = True) -> JoinedHistory:
    """Return a conversation with stored messages before its input.

    System messages are left out, and so are results without their calls. For a message that is stored, the stored
    version counts, not the caller's message of the same id. Only results of tools that ran at the caller, and decisions
    about calls that a person was asked about, are taken from the input; other decisions are removed. A stored message
    that gets one has the source ``input``, so guards check it again.

    Args:
        listed: the conversation.
        rows: the stored messages.
        remembers: whether the thread is loaded at all; if not, the caller's decisions stay.
    """
    taken = {entry.message.id for entry in listed.entries if entry.source != "input"}
    ordered = [row.message for row in sorted(rows, key=lambda row: row.order)]
    stored = [_undecided(message) for message in _complete_messages(ordered) if message.id not in taken]
    unanswered = unanswered_calls(stored)
    waiting = unanswered.intersection(
        call_key(part)
        for message in stored
        for part in message.parts
        if isinstance(part, ToolPart) and part.approval == "requested"
    )
    answers = _answers(listed.input, unanswered, waiting)
    remembered: list[Entry] = []
    for message in stored:
        filled = with_answers(message, answers)
        remembered.append(Entry(filled, "memory" if filled is message else "input"))
    known = {message.id for message in ordered}
    entries: list[Entry] = []
    for entry in listed.entries:
        if entry.source == "input":
            entries += remembered
            remembered = []
            fresh = entry._replace(message=_undecided(entry.message, answers)) if remembers else entry
            entries += _new_entries(fresh, known, answers)
        else:
            entries.append(entry)
    entries += remembered
    changed = bool(stored) or entries != list(listed.entries)
    made = list_with_entries(listed, entries) if changed else None
    return JoinedHistory(made, len(stored), frozenset(waiting))


def _complete_messages(messages: Sequence[Message]) -> list[Message]:
    """Return messages without system messages, and without results whose calls are not before them."""
    complete: list[Message] = []
    called = set[str]()
    for message in messages:
        keys = {call_key(part) for part in message.parts if isinstance(part, ToolPart)}
        if message.role != "tool":
            called |= keys
        elif not keys <= called:
            parts = [part for part in message.parts if not isinstance(part, ToolPart) or call_key(part) in called]
            if has_content(parts):
                complete.append(message.with_parts(parts))
            continue
        if message.role != "system":
            complete.append(message)
    return complete


def _undecided(message: Message, answers: Container[str] = ()) -> Message:
    """Return a message without decisions about calls, except for calls with these keys.

    A decision in the store was used when it was sent; one of the caller is about a call that nobody was asked about.
    """
    if not any(map(is_decided, message.parts)):
        return message
    return message.with_parts(
        [
            replace(part, approval=None) if is_decided(part) and call_key(part) not in answers else part
            for part in message.parts
        ]
    )


def _answers(sent: Sequence[Message], calls: set[str], waiting: set[str]) -> dict[str, ToolPart]:
    """Return the results and decisions that the caller's assistant messages hold, by call key.

    Args:
        sent: the messages.
        calls: the keys of the unanswered calls.
        waiting: those of them that a person was asked about.
    """
    parts = [part for message in sent if message.role == "assistant" for part in message.parts]
    found = [part for part in parts if brings_answer(part)]
    return {call_key(part): part for part in found if call_key(part) in (waiting if is_decided(part) else calls)}


def _new_entries(entry: Entry, known: set[str], answers: Mapping[str, ToolPart]) -> list[Entry]:
    """Return the new part of a message that the caller sent."""
    message = entry.message
    if message.id in known:
        return []
    if message.role != "assistant" or not answers:
        return [entry]
    parts = [part for part in message.parts if not (brings_answer(part) and call_key(part) in answers)]
    if len(parts) == len(message.parts):
        return [entry]
    return [entry._replace(message=message.with_parts(parts))] if has_content(parts) else []


# The processor

Title: TypeAlias = "Callable[[Sequence[Message]], str | Awaitable[str]]"
"""Returns a title for the messages of a thread's first request; may be async."""

_LOADING = ("process_input",)
_SAVING = ("process_input_step", "process_llm_request", "process_llm_response", "process_output_result")


@dataclass(slots=True)
class HistoryState:
    """The state of one request.

    Attributes:
        asked: the conversation before the current model call, without changes that are made to the prompt only.
        messages: the messages that were stored or skipped, by id, as they were in the conversation.
        stored: the ids of those that are in the store.
        early: the ids of messages that were stored before the model was asked, and not confirmed since.
        answers: the ids of the model's answers.
        owner: the resource of the thread, once known.
        redact: puts the tokens of the run's vault in place of their values.
        is_registered: whether the callback for the end of the run is registered.
    """

    asked: Sequence[Entry] | None = None
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    stored: set[str] = field(default_factory=set[str])
    early: set[str] = field(default_factory=set[str])
    answers: set[str] = field(default_factory=set[str])
    owner: str | None = None
    redact: Callable[[Sequence[Message]], Sequence[Message]] = tuple
    is_registered: bool = False


class MessageHistory(Processor[HistoryState]):
    """Loads the last messages of a thread before the input, and stores new messages.

    The processor has two halves: place `loader` before all other input processors, and `saver` after all other
    processors, input and output. `penstock.Memory` does so. In one piece, place it after all others.

    Messages are stored as the guards left them. The input is stored before the model is asked; while checks still run
    beside the model, it is stored when the model has answered. Answers are stored when all of them have passed. Tokens
    of a `PIIDetector` stay tokens in the store, even if a `Restore` has put the values back for the client. The vault
    with their values lives as long as the thread, in this process: later requests know the tokens of earlier ones.

    Args:
        storage: holds the threads.
        last_messages: how many messages are loaded, 0 or more; None: all. ``auto`` (default): 10; with ``max_tokens``,
            as many as fit.
        max_tokens: how many tokens the loaded messages may have together, 0 or more. None: any number.
        at_max_remove_tokens: how many more tokens are freed when there are too many, 0 to ``max_tokens``, so that
            prompts begin the same for a while. None: a quarter of ``max_tokens``. The start of the history is stored in
            the thread.
        token_counter: counts tokens, as in `TokenLimiterProcessor`. None: ``encoding``.
        encoding: the name of an encoding of tiktoken. Default ``o200k_base``, which comes with penstock.
        counting: how a message is counted: ``chat`` (default), or as in the reference system: ``reference``,
            ``reference-1.0``.
        keep_input: ``accepted`` (default): the input is stored before the model is asked, so that no crash loses it.
            ``answered``: only together with an accepted answer, so that a blocked request stores nothing.
        read_only: whether nothing is stored: a bool, or a function from the request context to a bool.
        title: makes a title for a thread without one, from the messages of its first request; may be async. If it
            raises, the error is logged, and the thread has no title.
        skip_tools: the names of tools whose calls are not stored. Default: those of the working memory.
        on_error: what happens if the store fails: ``raise`` (default), ``block``, or ``allow`` (the request continues).
        id: the name in graphs and records. Default ``message-history``.

    Raises:
        OptionError: a value is of the wrong type, or out of its range.
    """

    id = "message-history"
    role: ProcessorRole = "transform"
    edits = "anything"
    provides = (VAULT, WAITING_CALLS)

    def __init__(
        self,
        storage: Storage,
        *,
        last_messages: LastMessages = "auto",
        max_tokens: int | None = None,
        at_max_remove_tokens: float | None = None,
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
        encoding: str = "o200k_base",
        counting: Way = "chat",
        keep_input: KeepInput = "accepted",
        read_only: ReadOnly = False,
        title: Title | None = None,
        skip_tools: Iterable[str] = WORKING_MEMORY_TOOLS,
        on_error: ErrorPolicy = "raise",
        id: str | None = None,
    ) -> None:
        name = type(self).__name__
        self._named = id is not None
        if id is not None:
            self.id = id
        self.storage = checked_storage(name, storage)
        self._vaults = vaults_of(storage)
        self._window = HistoryWindow(
            name, last_messages, max_tokens, at_max_remove_tokens, token_counter, encoding, counting
        )
        self.last_messages = last_messages
        self.max_tokens = max_tokens
        self.keep_input: str = one_of(name, "keep_input", keep_input, get_args(KeepInput))
        self.read_only = checked_read_only(name, read_only)
        if title is not None and not callable(cast("object", title)):
            raise OptionError(name, "title", title, "a function of the messages, or None")
        self.title = title
        self.skip_tools = names_of(name, "skip_tools", skip_tools)
        self.on_error = checked_policy(name, on_error)
        self._hooks: tuple[str, ...] = (*_LOADING, *_SAVING)
        self.stages = self._hooks
        self.stores = read_only is not True
        self._halves: tuple[MessageHistory, ...] = ()
        self._halves = (
            self._half(self.id, _LOADING, stores=self.stores and self._window.moves_start),
            self._half(f"{self.id}-saver", _SAVING, stores=self.stores),
        )

    @property
    def loader(self) -> MessageHistory:
        """The half that loads."""
        return self._halves[0] if self._halves else self

    @property
    def saver(self) -> MessageHistory:
        """The half that stores. It is the same object each time, so all its places share one state in a request."""
        return self._halves[1] if self._halves else self

    @property
    def loads(self) -> bool:
        """Whether this is the loading half, or both."""
        return _LOADING[0] in self._hooks

    @property
    def saves(self) -> bool:
        """Whether this is the storing half, or both."""
        return _SAVING[0] in self._hooks

    def _half(self, id: str, stages: tuple[str, ...], *, stores: bool) -> MessageHistory:
        half = copy.copy(self)
        half.id = id
        half.stages = half._hooks = stages
        half.stores = stores
        return half

    def new_state(self) -> HistoryState:
        """Return the state of a new request."""
        return HistoryState()

    # Loading

    async def process_input(self, ctx: InputContext[HistoryState]) -> MessageList | None:
        """Put the last messages of the thread before the input.

        Raises:
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        thread_id = thread_id_of(ctx)
        if thread_id is None:
            return None
        storage, resource_id = self.storage, ctx.resource_id
        thread = None
        if self._window.moves_start:
            thread = check_owner(storage, await storage.thread(thread_id), resource_id)
        recent = await self._window.read(storage, thread_id, resource_id, thread)
        if thread is None and not recent.rows:  # the thread is new, or belongs to another resource
            thread = check_owner(storage, await storage.thread(thread_id), resource_id)
            if thread is None:
                self._vaults.forget(thread_id)
                ctx.note(loaded=0)
                return None
        self._vaults.load(ctx, thread_id)
        listed = ctx.message_list
        rows = [*await self._stored_input(thread_id, recent, listed.input), *recent.rows]
        made = join_history(listed, rows, remembers=self._window.last != 0)
        if thread is not None and recent.start is not None and not self._reads_only(ctx):
            await self._move_start(thread, recent.start)
        if made.waiting:
            ctx.put(WAITING_CALLS, made.waiting)
        ctx.note(loaded=made.loaded)
        return made.messages

    async def _stored_input(
        self, thread_id: str, recent: RecentMessages, sent: Sequence[Message]
    ) -> Sequence[StoredMessage]:
        """Return the stored versions of the caller's messages, beyond those loaded."""
        known = {row.message.id for row in recent.rows}
        unknown = [message.id for message in sent if message.id not in known]
        if recent.whole or not unknown:
            return ()
        found = await self.storage.messages_by_id(unknown)
        return [row for row in found if row.message.thread_id == thread_id]

    async def _move_start(self, thread: Thread, start: int) -> None:
        metadata = {**thread.metadata, START_KEY: start}
        try:
            await self.storage.update_thread(thread.id, metadata=metadata, expected=thread.version)
        except (StorageConflictError, NotStoredError):
            return  # another request was faster, or the thread is deleted; a later request will try again

    # Storing

    def process_input_step(self, ctx: InputStepContext[HistoryState]) -> None:
        """Note the conversation. Later processors may change it for the prompt of one call only."""
        ctx.state.asked = ctx.message_list.entries

    async def process_llm_request(self, ctx: LLMRequestContext[HistoryState]) -> None:
        """Store the input: nothing that may block it runs after this, unless checks run beside the model.

        Input that they let pass is stored with the answer, or when the run ends without one, as if the client leaves.

        Raises:
            StorageError: the store failed.
        """
        if self.keep_input != "accepted" or ctx.state.asked is None:
            return
        sent = [entry.message for entry in ctx.state.asked if entry.source == "input"]
        if ctx.unchecked:
            self._store_at_end(ctx, sent)
        else:
            ctx.state.early |= await self._store(ctx, sent)

    async def process_llm_response(self, ctx: LLMResponseContext[HistoryState]) -> None:
        """Store the input, if that was not done before: by now it has passed all checks.

        Raises:
            StorageError: the store failed.
        """
        ctx.state.early.clear()
        if self.keep_input == "accepted":
            await self._store(ctx, ctx.message_list.input)

    async def process_output_result(self, ctx: OutputResultContext[HistoryState]) -> None:
        """Store the answers, and input that was not stored as it is now.

        Raises:
            StorageError: the store failed.
        """
        listed = ctx.message_list
        if ctx.finish_reason == "error" and not listed.response:
            return
        ctx.state.answers.update(message.id for message in listed.response)
        new = [entry.message for entry in listed.entries if entry.source in ("input", "response")]
        await self._store(ctx, new)
        if self.title is not None and ctx.state.stored:
            await self._set_title(ctx, self.title, new)

    async def _store(self, ctx: AnyContext, messages: Iterable[Message]) -> set[str]:
        """Store messages that are new or have changed. Return their ids."""
        thread_id = thread_id_of(ctx)
        state: HistoryState = ctx.state
        fresh = [message for message in messages if state.messages.get(message.id) != message]
        if thread_id is None or not fresh or self._reads_only(ctx):
            return set()
        if state.owner is None:
            state.owner = await self._owner(thread_id, ctx.resource_id)
        if not state.is_registered:
            state.is_registered = True
            ctx.on_end(lambda ended: self._on_end(ended, state, thread_id))
        state.redact = message_redactor(ctx)
        rows = self._rows(fresh, state, thread_id)
        if rows:
            await self.storage.save_messages(rows)
        emptied = state.stored.intersection(message.id for message in fresh).difference(row.id for row in rows)
        if emptied:
            await self.storage.delete_messages(sorted(emptied))
        self._vaults.save(ctx, thread_id)
        ids = {row.id for row in rows}
        state.messages.update((message.id, message) for message in fresh)
        state.stored = (state.stored | ids) - emptied
        ctx.note(stored=len(rows))
        return ids

    def _store_at_end(self, ctx: AnyContext, messages: Sequence[Message]) -> None:
        """Store messages when the run ends, if no verdict stops it, every check has passed, and they are not yet."""
        thread_id, resource_id = thread_id_of(ctx), ctx.resource_id
        if thread_id is None or self._reads_only(ctx):
            return
        state: HistoryState = ctx.state
        redact = message_redactor(ctx)

        async def store() -> None:
            if state.owner is None:
                state.owner = await self._owner(thread_id, resource_id)
            state.redact = redact
            await self.storage.save_messages(self._rows(messages, state, thread_id))

        def on_end(ended: RunEnd) -> Awaitable[None] | None:
            stored = all(message.id in state.messages for message in messages)
            return None if stored or ended.unchecked or ended.tripwire is not None else store()

        ctx.on_end(on_end)

    def _rows(self, messages: Sequence[Message], state: HistoryState, thread_id: str) -> list[Message]:
        """Return messages as they are stored in the current thread."""
        stored = [storable_message(message, self.skip_tools) for message in state.redact(messages)]
        return [
            replace(message, thread_id=thread_id, resource_id=state.owner) for message in stored if message is not None
        ]

    async def _owner(self, thread_id: str, resource_id: str | None) -> str:
        """Return the owner for new messages: the named resource, else that of the thread, else the id of the thread."""
        if resource_id is not None:
            return resource_id
        thread = await self.storage.thread(thread_id)
        return thread_id if thread is None else thread.resource_id

    async def _set_title(self, ctx: AnyContext, title: Title, messages: Sequence[Message]) -> None:
        """Set a title, if the thread has none."""
        thread = await self.storage.thread(cast("str", thread_id_of(ctx)))
        if thread is None or thread.title:
            return
        try:
            text = await _title_text(title, message_redactor(ctx)(messages))
        except Exception as error:  # noqa: BLE001 - a missing title must not fail the request
            _LOG.warning("a thread has no title, because the function failed: %s", type(error).__name__)
            return
        try:
            await self.storage.update_thread(thread.id, title=text, expected=thread.version)
        except (StorageConflictError, NotStoredError):
            return  # another request has set one, or the thread is deleted

    def _on_end(self, ended: RunEnd, state: HistoryState, thread_id: str) -> Awaitable[None] | None:
        """Return the remaining work at the end: delete answers that are gone, and store changed ones again.

        An answer is gone if a verdict rejected it, a later processor removed or did not judge it, or nobody got it.
        """
        stored = state.answers & state.stored
        returned = {message.id: message for message in ended.message_list.response}
        gone = stored - returned.keys()
        if ended.tripwire is not None:
            gone = stored | (state.early if ended.tripwire.stage == "process_llm_request" else set[str]())
        changed = [returned[id] for id in stored - gone if returned[id] != state.messages[id]]
        rows = self._rows(changed, state, thread_id) if changed else []
        if gone and (ended.completed or ended.tripwire is not None):
            _LOG.warning("a processor after the history removed stored messages; place the history after all others")
        return self._update_store(rows, sorted(gone)) if rows or gone else None

    async def _update_store(self, changed: Sequence[Message], gone: Sequence[str]) -> None:
        if gone:
            await self.storage.delete_messages(gone)
        if changed:
            await self.storage.save_messages(changed)

    def _reads_only(self, ctx: AnyContext) -> bool:
        return self.read_only(ctx.request_context) if callable(self.read_only) else self.read_only


async def _title_text(title: Title, messages: Sequence[Message]) -> str:
    """Return the title that the function makes.

    Raises:
        UsageError: it is not a str.
    """
    returned = title(messages)
    text = await returned if inspect.isawaitable(returned) else returned
    if not isinstance(cast("object", text), str):
        raise UsageError("the function of title= must return a str")
    return storable_text(text)
