"""`SemanticRecall`: adds earlier messages that are similar to the latest user message, and indexes new messages."""

from __future__ import annotations

import copy
import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeAlias, cast, get_args

from penstock.detection.deferred import deferred
from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import Value, is_items, is_mapping
from penstock.engine.values.message_list import TEXT_KINDS, Entry, MessageList
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.protocols import SYSTEM_CLOCK, Embedder, VectorStore
from penstock.engine.values.stored import MemoryScope
from penstock.models.conversations import call_key, list_with_entries, without_tool_calls
from penstock.models.embedders.cached import CachedEmbedder
from penstock.models.embedders.hashing import HashingEmbedder
from penstock.models.embedders.texts import index_name, memory_text
from penstock.processors.memory._options import (
    KeepInput,
    ReadOnly,
    checked_policy,
    checked_read_only,
    checked_storage,
    thread_id_of,
)
from penstock.processors.memory._quoting import message_time, quotation, quote
from penstock.processors.memory._storing import VAULT, message_redactor
from penstock.processors.memory.recall_index import RecallIndex, RecallRanking, RecallSearch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from penstock.engine.processor.context import (
        AnyContext,
        InputContext,
        InputStepContext,
        LLMRequestContext,
        LLMResponseContext,
        OutputResultContext,
    )
    from penstock.engine.processor.processor import EditsClaim, ErrorPolicy, ProcessorRole
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.messages import Message
    from penstock.engine.values.protocols import Clock, Storage
    from penstock.engine.values.tripwire import Tripwire
    from penstock.processors.memory.recall_index import RecallHit


# Options

_OWNER = "SemanticRecall"
_MOST_HITS = 100
_MOST_NEIGHBOURS = 50


class Neighbours(NamedTuple):
    """How many messages before and after each found message are recalled with it."""

    before: int
    after: int


MessageRange: TypeAlias = "int | tuple[int, int] | Mapping[str, int]"
"""How many neighbours: a number for both sides, ``(before, after)``, or ``{"before": 1, "after": 2}``."""


Threshold: TypeAlias = "float | Literal['auto'] | None"
"""The least similarity: a number, ``auto`` for the embedder's own, or None for any."""


def _checked_range(given: object) -> Neighbours:
    """Return the option ``message_range`` as two numbers.

    Raises:
        OptionError: it is of another form, or a number is out of range.
    """
    allowed = f"a number from 0 to {_MOST_NEIGHBOURS}, (before, after), or {{'before': 1, 'after': 1}}"
    found: tuple[Value, ...] = ()
    if is_mapping(given) and given and set(given) <= {"before", "after"}:
        found = (given.get("before", 0), given.get("after", 0))
    elif is_items(given):
        found = tuple(given)
    elif not is_mapping(given):
        found = (given, given)
    if len(found) != 2 or not all(type(number) is int and 0 <= number <= _MOST_NEIGHBOURS for number in found):  # noqa: PLR2004 - before and after
        raise OptionError(_OWNER, "message_range", given, allowed)
    return Neighbours(*found)


def _checked_share(option: str, given: object, allowed: str, most: float = sys.float_info.max) -> float | None:
    """Return an option that is a finite number, at most ``most``, or None.

    Raises:
        OptionError: it is not.
    """
    return None if given is None else float(check_number(_OWNER, option, given, allowed, -sys.float_info.max, most))


def _checked_threshold(given: object, embedder: Embedder) -> float | None:
    """Return the least similarity; None for any.

    Raises:
        OptionError: it is not a number, ``auto`` or None.
    """
    if given == "auto":
        return _checked_share("threshold", getattr(embedder, "threshold", None), "a number from the embedder")
    return _checked_share("threshold", given, "a finite number (cosines go from -1 to 1), 'auto', or None")


def _checked_ranking(given: object) -> RecallRanking | None:
    """Return the option ``ranking``.

    Raises:
        OptionError: it is neither a `RecallRanking` nor None.
    """
    if given is not None and not isinstance(given, RecallRanking):
        raise OptionError(_OWNER, "ranking", given, "a RecallRanking, or None")
    return given


def _checked_embedder(given: object) -> Embedder:
    """Return the embedder, with a cache unless it has one or hardly needs one.

    Raises:
        OptionError: it is not an `Embedder`.
    """
    if given is None:
        return HashingEmbedder()
    if isinstance(given, type) or not isinstance(given, Embedder):
        raise OptionError(_OWNER, "embedder", given, "an Embedder, or None for a HashingEmbedder")
    return given if isinstance(given, (CachedEmbedder, HashingEmbedder)) else CachedEmbedder(given)


def _checked_vectors(given: object, storage: object) -> VectorStore:
    """Return the store of the vectors: by default the store of the messages, if it stores vectors too.

    Raises:
        OptionError: it does not store vectors.
    """
    found = storage if given is None else given
    if isinstance(found, type) or not isinstance(found, VectorStore):
        allowed = "a VectorStore; it may be left out if the storage is one"
        raise OptionError(_OWNER, "vectors", type(found).__name__, allowed)
    return found


def _checked_index_name(given: object, embedder: Embedder) -> str:
    """Return the name of the index: by default one for the vectors of this embedder only.

    Raises:
        OptionError: it is blank, or not a str.
    """
    if given is None:
        return index_name(cast("str | None", getattr(embedder, "name", None)))
    if not isinstance(given, str) or not given.strip():
        raise OptionError(_OWNER, "index_name", given, "the name of an index, or None")
    return given


_NUMBER = deferred(r"_\d+\]$")
_LOG = logging.getLogger("penstock.memory")

Query = Literal["guarded", "raw"]
"""Which text is searched for: the input as its guards left it, or as it came in."""

Indexing = Literal["answer", "end"]
"""When messages are indexed: with the answer, before the request ends, or after the client has everything."""

_LOADING = {"guarded": ("process_input_step",), "raw": ("process_input",)}
_SAVING = ("process_llm_request", "process_llm_response", "process_output_result")


# The processor


@dataclass(slots=True)
class RecallState:
    """The state of one request.

    Attributes:
        is_searched: whether the index was searched.
        accepted: the stage in which the input had passed all checks; empty until then.
        is_indexed: whether input and answers were passed to the index.
        answers: the ids of these answers.
        redact: puts the tokens of the run's vault in place of their values.
        is_registered: whether the callback for the end of the run is registered.
    """

    is_searched: bool = False
    accepted: str = ""
    is_indexed: bool = False
    answers: Sequence[str] = ()
    redact: Callable[[Sequence[Message]], Sequence[Message]] = tuple
    is_registered: bool = False


class SemanticRecall(Processor[RecallState]):
    """Adds earlier messages that are similar to the latest user message, and indexes new messages.

    The processor has two halves: place `loader` before all other input processors, and `saver` after all other
    processors, input and output. `penstock.Memory` does so. In one piece, place it after all others.

    Messages of the current thread are added before the input as they were. Messages of other threads are quoted in one
    user message, escaped and marked as a record. Nothing is added to the system prompt.

    Messages are embedded as the guards left them, and so is the query: the search comes after the guards of the input.

    Args:
        storage: holds the messages.
        embedder: makes the vectors. None: a `HashingEmbedder`, which compares words, not meanings. Any other embedder
            gets a `CachedEmbedder` around it, unless it is one.
        vectors: holds the vectors. None: ``storage``, if it stores vectors.
        top_k: how many messages are searched for, 1 to 100. Default 4.
        message_range: how many neighbours of each found message are recalled with it, 0 to 50: a number, ``(before,
            after)``, or ``{"before": 1, "after": 2}``. Default 1.
        scope: ``resource``: all threads of the request's resource (the current thread, if the request has no resource);
            ``thread``: the current thread. Default ``resource``.
        threshold: the least cosine similarity, -1 to 1. None: any, so that ``top_k`` messages are found if there are so
            many. ``auto`` (default): the attribute ``threshold`` of the embedder, if it has one.
        index_name: the name of the index. None: a name made from that of the embedder.
        ranking: a `RecallRanking`, to rank by age and words too. None: by similarity alone.
        near_duplicates: the share of common words, up to 1, from which on a message is left out as a duplicate of a
            better one. None: duplicates stay. Default 0.9.
        max_characters: how many characters of a message of another thread are quoted, from the found piece on; 1 to
            1,000,000. Default 2,000.
        query: ``guarded`` (default), or ``raw``: search before the processors of ``process_input`` have run, and embed
            the query as it came in. For processors of that stage that need the recalled messages, and for hosts without
            steps.
        keep_input: ``accepted`` (default): the input is indexed even if there is no answer; ``answered``: only with an
            answer.
        indexing: ``answer`` (default): before the request ends; errors count then. ``end``: after the client has
            everything, for at most 5 seconds; errors are logged then, and `reindex` adds missing ones.
        read_only: whether nothing is indexed: a bool, or a function from the request context to a bool.
        clock: the time, for the ages of messages.
        on_error: what happens if the store or the embedder fails: ``allow`` (default; the request continues without
            recall), ``raise`` or ``block``.
        id: the name in graphs and records. Default ``semantic-recall``.

    Raises:
        OptionError: a value is of the wrong type or out of its range, or ``storage`` does not store vectors and
            ``vectors`` is missing.
    """

    id = "semantic-recall"
    role: ProcessorRole = "transform"
    edits: EditsClaim | None = "anything"
    on_error: ErrorPolicy = "allow"

    def __init__(
        self,
        storage: Storage,
        embedder: Embedder | None = None,
        vectors: VectorStore | None = None,
        *,
        top_k: int = 4,
        message_range: MessageRange = 1,
        scope: MemoryScope = "resource",
        threshold: Threshold = "auto",
        index_name: str | None = None,
        ranking: RecallRanking | None = None,
        near_duplicates: float | None = 0.9,
        max_characters: int = 2_000,
        query: Query = "guarded",
        keep_input: KeepInput = "accepted",
        indexing: Indexing = "answer",
        read_only: ReadOnly = False,
        clock: Clock = SYSTEM_CLOCK,
        on_error: ErrorPolicy = "allow",
        id: str | None = None,
    ) -> None:
        name = type(self).__name__
        self._named = id is not None
        if id is not None:
            self.id = id
        self.storage = checked_storage(name, storage)
        self.top_k = check_count(_OWNER, "top_k", top_k, f"a number from 1 to {_MOST_HITS:,}", 1, _MOST_HITS)
        self.message_range = _checked_range(message_range)
        self.scope: MemoryScope = cast("MemoryScope", one_of(name, "scope", scope, get_args(MemoryScope)))
        duplicates = _checked_share("near_duplicates", near_duplicates, "a share of words up to 1, or None", 1)
        self.ranking = _checked_ranking(ranking)
        self.max_characters = check_count(
            _OWNER, "max_characters", max_characters, "a number from 1 to 1,000,000", 1, 1_000_000
        )
        self.query: str = one_of(name, "query", query, get_args(Query))
        self.keep_input: str = one_of(name, "keep_input", keep_input, get_args(KeepInput))
        self.indexing: str = one_of(name, "indexing", indexing, get_args(Indexing))
        self.read_only = checked_read_only(name, read_only)
        self.on_error = checked_policy(name, on_error)
        made, where = _checked_embedder(embedder), _checked_vectors(vectors, storage)
        self.threshold = _checked_threshold(threshold, made)
        self.index_name = _checked_index_name(index_name, made)
        self._search = RecallSearch(self.top_k, self.threshold, duplicates, ranking)
        self._index = RecallIndex(self.storage, where, made, self.index_name, clock)
        self._hooks: tuple[str, ...] = (*_LOADING[self.query], *_SAVING)
        self.stages = self._hooks
        self.stores = read_only is not True

    @property
    def loader(self) -> Self:
        """The half that recalls."""
        half = self._half(_LOADING[self.query])
        half.stores = False
        return half

    @property
    def saver(self) -> Self:
        """The half that indexes."""
        half = self._half(_SAVING)
        half.id = f"{self.id}-saver"
        half.edits = "nothing"
        return half

    @property
    def loads(self) -> bool:
        """Whether this is the recalling half, or both."""
        return _LOADING[self.query][0] in self._hooks

    @property
    def saves(self) -> bool:
        """Whether this is the indexing half, or both."""
        return _SAVING[0] in self._hooks

    def _half(self, stages: tuple[str, ...]) -> Self:
        half = copy.copy(self)
        half.stages = half._hooks = stages
        return half

    def new_state(self) -> RecallState:
        """Return the state of a new request."""
        return RecallState()

    async def reindex(self, thread_id: str | None = None, *, resource_id: str | None = None) -> int:
        """Index all stored messages of a thread, a resource, or everybody again.

        Use it for threads that are older than the index, and for messages that an error has kept out of it. It may be
        repeated.

        Args:
            thread_id: the thread; None: all threads.
            resource_id: the owner of the threads; None: any.

        Returns:
            How many messages with text were indexed.

        Raises:
            ModelError: the embedder failed.
            StorageError: the store failed, there is no such thread, or it belongs to another resource.
        """
        return await self._index.rebuild(thread_id, resource_id)

    # Recalling

    async def process_input(self, ctx: InputContext[RecallState]) -> MessageList | None:
        """Recall messages for the input as it came in (``query="raw"``)."""
        return await self._recall(ctx)

    async def process_input_step(self, ctx: InputStepContext[RecallState]) -> MessageList | None:
        """Recall messages for the input as its guards left it, once, before the first model call."""
        return await self._recall(ctx)

    async def _recall(self, ctx: AnyContext) -> MessageList | None:
        listed, thread_id = ctx.message_list, thread_id_of(ctx)
        query = _question(listed)
        if ctx.state.is_searched or thread_id is None or not query:
            return None
        ctx.state.is_searched = True  # set before: a store that fails is not searched again in each step
        scope = await self._index.scope(self.scope, thread_id, ctx.resource_id)
        hits = await self._index.search(query, self._search, scope)
        rows = await self._index.with_neighbours(hits, *self.message_range, scope)
        fresh = [row for row in rows if row.message.id not in listed]
        ctx.note(hits=len(hits), recalled=len(fresh), likeness=max((round(hit.score, 3) for hit in hits), default=None))
        vault = ctx.get(VAULT)
        messages = _without_own_tokens([row.message for row in fresh], () if vault is None else vault.values)
        return self._with_recalled(listed, messages, hits, thread_id) if fresh else None

    def _with_recalled(
        self, listed: MessageList, messages: Sequence[Message], hits: Sequence[RecallHit], thread_id: str
    ) -> MessageList | None:
        """Return the conversation with recalled messages; None if none of them has text."""
        own = [message for message in messages if message.thread_id == thread_id]
        pieces = {hit.row.message.id: hit.piece for hit in hits}
        others = [message for message in messages if message.thread_id != thread_id]
        quoted = [quote(message, pieces.get(message.id, 0), self.max_characters) for message in others]
        shown = [each for each in quoted if each is not None]
        remembered = _complete_pairs(own, listed.remembered)
        if not (remembered or shown):
            return None
        return _insert(listed, remembered, quotation(shown) if shown else None)

    # Indexing

    def process_llm_request(self, ctx: LLMRequestContext[RecallState]) -> None:
        """Note that the input has passed its checks, unless some of them run beside the model."""
        if not ctx.unchecked:
            self._accept(ctx)

    def process_llm_response(self, ctx: LLMResponseContext[RecallState]) -> None:
        """Note that the input has passed its checks: by now all of them have finished."""
        self._accept(ctx)

    async def process_output_result(self, ctx: OutputResultContext[RecallState]) -> None:
        """Index answers and input, with one call of the embedder.

        Raises:
            ModelError: the embedder failed.
            StorageError: the store failed.
        """
        state, thread_id = ctx.state, self._thread_to_index(ctx)
        if thread_id is None:
            return
        self._register_end(ctx, thread_id)
        if self.indexing == "answer":
            state.is_indexed = True  # set before: if this fails, it is not tried again at the end
            state.answers = [message.id for message in ctx.messages]
            messages = state.redact([*ctx.messages, *ctx.message_list.input])
            ctx.note(indexed=await self._index.add(messages, thread_id, ctx.resource_id))

    def _accept(self, ctx: AnyContext) -> None:
        thread_id = self._thread_to_index(ctx)
        if thread_id is not None:
            ctx.state.accepted = ctx.stage
            self._register_end(ctx, thread_id)

    def _thread_to_index(self, ctx: AnyContext) -> str | None:
        """Return the id of the thread to index for; None if there is none, or nothing is to be indexed."""
        reads_only = self.read_only(ctx.request_context) if callable(self.read_only) else self.read_only
        return None if reads_only else thread_id_of(ctx)

    def _register_end(self, ctx: AnyContext, thread_id: str) -> None:
        """Register the callback for the end of the run, and take its vault as it is now."""
        state: RecallState = ctx.state
        state.redact = message_redactor(ctx)
        if not state.is_registered:
            state.is_registered = True
            resource_id = ctx.resource_id
            ctx.on_end(lambda ended: self._on_end(ended, state, thread_id, resource_id))

    def _on_end(
        self, ended: RunEnd, state: RecallState, thread_id: str, resource_id: str | None
    ) -> Awaitable[None] | None:
        """Return the remaining work at the end of a run: index messages, or remove rejected answers from the index."""
        stopped = ended.tripwire
        if state.is_indexed:
            kept = () if stopped is not None else [message.id for message in ended.message_list.response]
            gone = [id for id in state.answers if id not in kept]
            return self._index.remove(gone) if gone else None
        left: list[Message] = []
        if ended.completed and self.indexing == "end":
            left = [*ended.message_list.response, *ended.message_list.input]
        elif state.accepted and self.keep_input == "accepted" and not _rejects_input(stopped, state.accepted):
            left = list(ended.message_list.input)
        return self._index_at_end(state.redact(left), thread_id, resource_id) if left else None

    async def _index_at_end(self, messages: Sequence[Message], thread_id: str, resource_id: str | None) -> None:
        try:
            await self._index.add(messages, thread_id, resource_id)
        except Exception as error:  # noqa: BLE001 - the run has ended: nothing can handle it
            _LOG.warning(
                "%s: the messages of a request are not indexed (%s); call reindex() to add them",
                self.id,
                type(error).__name__,
            )


def _question(listed: MessageList) -> str:
    """Return the text of the latest user message of the input; empty if there is none."""
    return next((memory_text(message) for message in reversed(listed.input) if message.role == "user"), "")


def _rejects_input(tripwire: Tripwire | None, accepted: str) -> bool:
    """Return whether a tripwire rejects an input that counted as accepted: it was raised in the same stage."""
    return tripwire is not None and tripwire.stage == accepted == "process_llm_request"


# Recalled messages in the conversation


def _without_own_tokens(messages: Sequence[Message], taken: Collection[str]) -> Sequence[Message]:
    """Return messages in which ``[EMAIL_1]`` is ``[EMAIL]``, if the current run uses that token.

    It stood for another value when the message was stored. A `Restore` would put in the wrong one.
    """
    if not taken:
        return messages

    def changed(text: str) -> str:
        for token in taken:
            text = text.replace(token, _NUMBER.sub("]", token))
        return text

    listed = MessageList(messages, source="memory")
    return tuple(listed.map_text(changed, kinds=TEXT_KINDS))  # type: ignore[arg-type]  # all kinds of text


def _complete_pairs(messages: Sequence[Message], present: Iterable[Message]) -> list[Message]:
    """Return the messages without incomplete pairs of tool calls and results.

    A pair is complete if both are among the messages, or in the conversation already.
    """
    calls, results = set[str](), set[str]()
    for message in (*present, *messages):
        for part in message.parts:
            if not isinstance(part, ToolPart):
                continue
            if message.role == "tool":
                results.add(call_key(part))
            elif part.state == "call":
                calls.add(call_key(part))
    return without_tool_calls(messages, calls ^ results)


def _insert(listed: MessageList, remembered: Sequence[Message], quoted: Message | None) -> MessageList:
    """Return the list with recalled messages of its thread among the remembered ones, by time.

    The quotation stands before these, after the context that the caller gave.
    """
    entries: list[Entry] = []
    waiting = list(remembered)
    quoting = None if quoted is None else Entry(quoted, "context")
    for entry in listed.entries:
        if entry.source not in ("system", "context"):
            if quoting is not None:
                entries.append(quoting)
                quoting = None
            while waiting and (entry.source != "memory" or message_time(waiting[0]) <= message_time(entry.message)):
                entries.append(Entry(waiting.pop(0), "memory"))
        entries.append(entry)
    left = [] if quoting is None else [quoting]
    return list_with_entries(listed, [*entries, *left, *(Entry(message, "memory") for message in waiting)])
