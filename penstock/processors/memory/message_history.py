"""`MessageHistory`: a thread's last messages before a request, and what was said in it, kept. It knows no store."""

from __future__ import annotations

import copy
import inspect
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import NotStoredError, OptionError, StorageConflictError, UsageError
from penstock.engine.values.messages import Message
from penstock.models.conversations.names import names_of
from penstock.processors.memory._filing import WORKING_MEMORY_TOOLS, filed
from penstock.processors.memory._loading import joined, own, thread_of
from penstock.processors.memory._options import checked_policy, checked_storage
from penstock.processors.memory._storable import storable
from penstock.processors.memory._tokens import tokeniser
from penstock.processors.memory._window import BEGINNING, LastMessages, Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

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
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import Entry, MessageList
    from penstock.engine.values.ports import Storage, TokenCounter
    from penstock.engine.values.stored import StoredMessage, Thread
    from penstock.models.tokens.prices import Way
    from penstock.processors.memory._window import Recent

_LOG = logging.getLogger("penstock.memory")

KeepInput = Literal["accepted", "answered"]
"""When the input is kept: once its own guards have let it pass, or only together with an accepted answer."""

ReadOnly: TypeAlias = "bool | Callable[[dict[str, Value]], bool]"
"""Whether nothing is kept; or a function of the request context that tells."""

Title: TypeAlias = "Callable[[Sequence[Message]], str | Awaitable[str]]"
"""Makes a title of the messages that were kept first."""

_LOADING = ("process_input",)
_SAVING = ("process_input_step", "process_llm_request", "process_llm_response", "process_output_result")


@dataclass(slots=True)
class Kept:
    """What of one request is in the store by now.

    Attributes:
        asked: the conversation before the model call at hand, as it stays: prompts are shaped for their call only.
        messages: what was kept or looked at, by id, as it was in the conversation.
        stored: the ids of those of it that are in the store.
        early: what was kept when the model was about to be asked, and nothing later has confirmed.
        answers: the ids of the model's answers among it.
        owner: whose the thread is, once that is known.
        tokenise: puts the tokens of the run's vault in place of their values.
        is_told: whether the end of the run is waited for.
    """

    asked: Sequence[Entry] | None = None
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    stored: set[str] = field(default_factory=set[str])
    early: set[str] = field(default_factory=set[str])
    answers: set[str] = field(default_factory=set[str])
    owner: str | None = None
    tokenise: Callable[[Sequence[Message]], Sequence[Message]] = tuple
    is_told: bool = False


class MessageHistory(Processor[Kept]):
    """Remembers the thread of a request: its last messages come before the input, and what is new is kept.

    It has two halves: `loader` belongs before all other processors of the input, `saver` behind all others, input and
    output. `penstock.Memory` places them so. In one piece it belongs behind all others.

    What is kept is what the guards left: the input as it stands when the model is about to be asked, or, while checks
    beside the model have given no verdict, when it has answered; answers when the whole has passed. Tokens of a
    `PIIDetector` stay tokens, even where a `Restore` has put values back for the client.

    Args:
        storage: where threads are kept.
        last_messages: how many messages are loaded, 0 or more; None: all. ``auto``: 10, or as many as fit into
            ``max_tokens``, if that is given.
        max_tokens: how many tokens the loaded messages may have together; None: any number.
        at_max_remove_tokens: how many more tokens are freed when there are too many, so that a prompt begins alike for
            a while; a quarter of ``max_tokens`` by default. Where the history begins is noted in the thread.
        token_counter: what counts: as in `TokenLimiterProcessor`; by default the encoding.
        encoding: an encoding of tiktoken's; ``o200k_base`` ships with penstock.
        counting: how a message is counted: ``chat``, or as the reference does: ``reference``, ``reference-1.0``.
        keep_input: ``accepted``: the input is kept before the model is asked, so that no crash loses it.
            ``answered``: only together with an accepted answer, so that a blocked request leaves nothing.
        read_only: nothing is kept; a bool, or a function of the request context.
        title: makes a title for a thread that has none, of the messages of its first request; may be async. What it
            raises is logged, and the thread stays without a title.
        skip_tools: the tools whose calls are not kept: by default the working memory's.
        on_error: what it means that the store fails: ``raise``, ``block``, or ``allow`` (the request goes on without).
        id: its name in the graph.
    """

    id = "message-history"
    role: ProcessorRole = "transform"
    edits = "anything"

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
        """Check the options.

        Raises:
            OptionError: an option that is not allowed.
        """
        name = type(self).__name__
        self._named = id is not None
        if id is not None:
            self.id = id
        self.storage = checked_storage(name, storage)
        self._window = Window(name, last_messages, max_tokens, at_max_remove_tokens, token_counter, encoding, counting)
        self.last_messages = last_messages
        self.max_tokens = max_tokens
        self.keep_input: str = one_of(name, "keep_input", keep_input, get_args(KeepInput))
        self.read_only = _read_only(name, read_only)
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
            self._half(self.id, _LOADING, stores=self.stores and self._window.moves),
            self._half(f"{self.id}-saver", _SAVING, stores=self.stores),
        )

    @property
    def loader(self) -> MessageHistory:
        """The half that loads."""
        return self._halves[0] if self._halves else self

    @property
    def saver(self) -> MessageHistory:
        """The half that keeps; the same object each time, so that it has one state in all places of a request."""
        return self._halves[1] if self._halves else self

    @property
    def loads(self) -> bool:
        """Whether it is the loading half, or both."""
        return _LOADING[0] in self._hooks

    @property
    def saves(self) -> bool:
        """Whether it is the keeping half, or both."""
        return _SAVING[0] in self._hooks

    def _half(self, id: str, stages: tuple[str, ...], *, stores: bool) -> MessageHistory:
        half = copy.copy(self)
        half.id = id
        half.stages = half._hooks = stages
        half.stores = stores
        return half

    def new_state(self) -> Kept:
        """Return that nothing is kept yet."""
        return Kept()

    # Loading

    async def process_input(self, ctx: InputContext[Kept]) -> MessageList | None:
        """Put the thread's last messages before the input.

        Raises:
            OwnershipError: the thread is another resource's.
            StorageError: the store failed.
        """
        thread_id = thread_of(ctx)
        if thread_id is None:
            return None
        storage, resource_id = self.storage, ctx.resource_id
        thread = own(storage, await storage.thread(thread_id), resource_id) if self._window.moves else None
        recent = await self._window.read(storage, thread_id, resource_id, thread)
        if thread is None and not recent.rows:  # it is new, or another's: what was found, was the resource's own
            thread = own(storage, await storage.thread(thread_id), resource_id)
            if thread is None:
                ctx.note(loaded=0)
                return None
        listed = ctx.message_list
        made = joined(listed, [*await self._sent_again(thread_id, recent, listed.input), *recent.rows])
        if thread is not None and recent.beginning is not None and not self._reads_only(ctx):
            await self._move(thread, recent.beginning)
        ctx.note(loaded=made.loaded)
        return made.messages

    async def _sent_again(self, thread_id: str, recent: Recent, sent: Sequence[Message]) -> Sequence[StoredMessage]:
        """Return what is stored of the messages that the caller sent, beyond what was loaded."""
        known = {row.message.id for row in recent.rows}
        unknown = [message.id for message in sent if message.id not in known]
        if recent.whole or not unknown:
            return ()
        found = await self.storage.messages_by_id(unknown)
        return [row for row in found if row.message.thread_id == thread_id]

    async def _move(self, thread: Thread, beginning: int) -> None:
        metadata = {**thread.metadata, BEGINNING: beginning}
        try:
            await self.storage.update_thread(thread.id, metadata=metadata, expected=thread.version)
        except (StorageConflictError, NotStoredError):
            return  # another request was faster, or it is gone: the next one that finds too much moves it

    # Keeping

    def process_input_step(self, ctx: InputStepContext[Kept]) -> None:
        """Look at the conversation as it stays; what shapes the prompt behind this holds for its call only."""
        ctx.state.asked = ctx.message_list.entries

    async def process_llm_request(self, ctx: LLMRequestContext[Kept]) -> None:
        """Keep the input: nothing that may block it runs after this, unless checks run beside the model.

        Raises:
            StorageError: the store failed.
        """
        asked = ctx.state.asked
        if self.keep_input == "accepted" and asked is not None and not ctx.unchecked:
            kept = await self._keep(ctx, [entry.message for entry in asked if entry.source == "input"])
            ctx.state.early |= kept

    async def process_llm_response(self, ctx: LLMResponseContext[Kept]) -> None:
        """Keep the input, if that was not done before: by now all checks of it have let it pass.

        Raises:
            StorageError: the store failed.
        """
        ctx.state.early.clear()
        if self.keep_input == "accepted":
            await self._keep(ctx, ctx.message_list.input)

    async def process_output_result(self, ctx: OutputResultContext[Kept]) -> None:
        """Keep the answers, and what of the input is not kept as it is now.

        Raises:
            StorageError: the store failed.
        """
        listed = ctx.message_list
        if ctx.finish_reason == "error" and not listed.response:
            return
        ctx.state.answers.update(message.id for message in listed.response)
        new = [entry.message for entry in listed.entries if entry.source in ("input", "response")]
        await self._keep(ctx, new)
        if self.title is not None and ctx.state.stored:
            await self._entitle(ctx, self.title, new)

    async def _keep(self, ctx: AnyContext, messages: Iterable[Message]) -> set[str]:
        """Store what is new or has changed; return the ids of what was stored."""
        thread_id = thread_of(ctx)
        kept: Kept = ctx.state
        fresh = [message for message in messages if kept.messages.get(message.id) != message]
        if thread_id is None or not fresh or self._reads_only(ctx):
            return set()
        if kept.owner is None:
            kept.owner = await self._owner(thread_id, ctx.resource_id)
        if not kept.is_told:
            kept.is_told = True
            ctx.on_end(lambda ended: self._settle(ended, kept, thread_id))
        kept.tokenise = tokeniser(ctx)
        rows = self._rows(fresh, kept, thread_id)
        if rows:
            await self.storage.save_messages(rows)
        emptied = kept.stored.intersection(message.id for message in fresh).difference(row.id for row in rows)
        if emptied:
            await self.storage.delete_messages(sorted(emptied))
        ids = {row.id for row in rows}
        kept.messages.update((message.id, message) for message in fresh)
        kept.stored = (kept.stored | ids) - emptied
        ctx.note(stored=len(rows))
        return ids

    def _rows(self, messages: Sequence[Message], kept: Kept, thread_id: str) -> list[Message]:
        """Return what is stored of messages, as ones of the thread at hand."""
        left = [filed(message, self.skip_tools) for message in kept.tokenise(messages)]
        return [
            replace(message, thread_id=thread_id, resource_id=kept.owner) for message in left if message is not None
        ]

    async def _owner(self, thread_id: str, resource_id: str | None) -> str:
        """Return whose the thread is to be: if nobody is named, whose it is, or its own. The store sees to the rest."""
        if resource_id is not None:
            return resource_id
        thread = await self.storage.thread(thread_id)
        return thread_id if thread is None else thread.resource_id

    async def _entitle(self, ctx: AnyContext, title: Title, messages: Sequence[Message]) -> None:
        """Give a thread that has no title one."""
        thread = await self.storage.thread(cast("str", thread_of(ctx)))
        if thread is None or thread.title:
            return
        try:
            text = await _entitled(title, tokeniser(ctx)(messages))
        except Exception as error:  # noqa: BLE001 - a title is not worth a request
            _LOG.warning("a thread stays without a title: %s", type(error).__name__)
            return
        try:
            await self.storage.update_thread(thread.id, title=text, expected=thread.version)
        except (StorageConflictError, NotStoredError):
            return  # another request has given it one, or it is gone

    def _settle(self, ended: RunEnd, kept: Kept, thread_id: str) -> Awaitable[None] | None:
        """Return what is left to do at the end: take back what a verdict behind this processor has rejected."""
        stored = kept.answers & kept.stored
        if ended.tripwire is not None:
            rejected = stored | (kept.early if ended.tripwire.stage == "process_llm_request" else set[str]())
            return self._take_back(sorted(rejected)) if rejected else None
        said = {message.id: message for message in ended.message_list.response}
        changed = [said[id] for id in stored if id in said and said[id] != kept.messages[id]]
        rows = self._rows(changed, kept, thread_id) if changed else []
        return self._mend(rows) if rows else None

    async def _take_back(self, ids: Sequence[str]) -> None:
        _LOG.warning("a processor behind the history has rejected what was kept; place the history behind all others")
        await self.storage.delete_messages(ids)

    async def _mend(self, rows: Sequence[Message]) -> None:
        await self.storage.save_messages(rows)

    def _reads_only(self, ctx: AnyContext) -> bool:
        return self.read_only(ctx.request_context) if callable(self.read_only) else self.read_only


async def _entitled(title: Title, messages: Sequence[Message]) -> str:
    """Return the title that a function makes.

    Raises:
        UsageError: it is no text.
    """
    said = title(messages)
    text = await said if inspect.isawaitable(said) else said
    if not isinstance(cast("object", text), str):
        raise UsageError("the function that makes titles must return a str")
    return storable(text)


def _read_only(owner: str, given: ReadOnly) -> ReadOnly:
    if not isinstance(given, bool) and not callable(cast("object", given)):
        raise OptionError(owner, "read_only", given, "True, False, or a function of the request context")
    return given
