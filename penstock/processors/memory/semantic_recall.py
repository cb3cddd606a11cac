"""`SemanticRecall`: finds what was said before that bears on what is asked now, and indexes what is new.

It knows embedders and stores by their ports, and no model of a provider.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, cast, get_args

from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.ports import SYSTEM_CLOCK
from penstock.engine.values.stored import MemoryScope
from penstock.models.embedders.texts import memory_text
from penstock.processors.memory._indexing import Index
from penstock.processors.memory._loading import thread_of
from penstock.processors.memory._options import checked_policy, checked_storage
from penstock.processors.memory._recall_options import (
    KeepInput,
    checked_ranking,
    checked_read_only,
    count,
    embedder_of,
    index_of,
    neighbours,
    share,
    threshold_of,
    vectors_of,
)
from penstock.processors.memory._recalled import placed, quotable, quotation, whole_pairs, without_tokens
from penstock.processors.memory._searching import Search, Wanted
from penstock.processors.memory._tokens import VAULT, tokeniser

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Clock, Embedder, Storage, VectorStore
    from penstock.engine.values.tripwire import Tripwire
    from penstock.processors.memory._recall_options import MessageRange, ReadOnly, Threshold
    from penstock.processors.memory._searching import Hit
    from penstock.processors.memory.ranking import RecallRanking

_LOG = logging.getLogger("penstock.memory")

Query = Literal["guarded", "raw"]
"""With what is searched: with the input as its guards left it, or as it came."""

Indexing = Literal["answer", "end"]
"""When is indexed: with the answer, before the request ends; or at its end, when the client has everything."""

_LOADING = {"guarded": ("process_input_step",), "raw": ("process_input",)}
_SAVING = ("process_llm_request", "process_llm_response", "process_output_result")
_MOST_PIECES = 64


@dataclass(slots=True)
class Visit:
    """How far one request has come.

    Attributes:
        is_searched: whether memories were looked for.
        accepted: the stage in which the input was found to have passed all checks; empty until then.
        is_indexed: whether input and answers were given to the index.
        answers: the ids of the answers among them.
        tokenise: puts the tokens of the run's vault in place of their values.
        is_told: whether the end of the run is waited for.
    """

    is_searched: bool = False
    accepted: str = ""
    is_indexed: bool = False
    answers: Sequence[str] = ()
    tokenise: Callable[[Sequence[Message]], Sequence[Message]] = tuple
    is_told: bool = False


class SemanticRecall(Processor[Visit]):
    """Recalls messages that are like the user's last one, of this thread and others, and indexes new messages.

    It has two halves: `loader` belongs before all other processors of the input, `saver` behind all others, input and
    output. `penstock.Memory` places them so. In one piece it belongs behind all others.

    Messages of the thread at hand come back as they were, before the input. Those of other threads are quoted in one
    message on the user's side, escaped and marked as a record; nothing that comes back has the system's authority.

    What is embedded is what the guards left, of input and answers; also of the question, which is searched for once
    the input's guards have seen it.

    Args:
        storage: where messages are.
        embedder: who makes vectors; None: a `HashingEmbedder`, which finds words, not meanings. Any but that gets a
            `CachedEmbedder` of its own, unless it is one.
        vectors: where vectors are; None: the storage, if it keeps them.
        top_k: how many messages are searched for, 1 to 100.
        message_range: how many neighbours of each come with it, 0 to 50: a number, or (before, after).
        scope: ``resource``: all threads of the request's resource (without one, the thread); ``thread``: its own.
        threshold: the least likeness, a cosine; None: any, so that there are always ``top_k`` if there are so many.
            ``auto``: the embedder's own (its attribute ``threshold``), if it has one.
        index_name: the index; by default one that is named for the embedder.
        ranking: what beside likeness makes the order; None: nothing.
        near_duplicates: from which share of common words on a message is left out as the double of a better one, up
            to 1; None: doubles stay.
        max_characters: how much of a message of another thread is quoted: from the piece on that was found.
        query: ``guarded``, or ``raw``: search before any processor of `process_input` has run, for those that work on
            what is remembered there, or hosts without steps; then the question is embedded as it came.
        keep_input: ``accepted``: the input is indexed even if there is no answer; ``answered``: only with one.
        indexing: ``answer``, so that what has been awaited is indexed and failures count; or ``end``: after the
            client has everything, in 5 seconds at most; what fails then is logged, and `reindex` mends it.
        read_only: nothing is indexed; a bool, or a function of the request context.
        clock: what tells the age of messages.
        on_error: what it means that the store or the embedder fails: ``allow`` (the request goes on without), ``raise``
            or ``block``.
        id: its name in the graph.
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
        """Check the options.

        Raises:
            OptionError: an option that is not allowed.
        """
        name = type(self).__name__
        self._named = id is not None
        if id is not None:
            self.id = id
        self.storage = checked_storage(name, storage)
        self.top_k = count("top_k", top_k)
        self.message_range = neighbours(message_range)
        self.scope: MemoryScope = cast("MemoryScope", one_of(name, "scope", scope, get_args(MemoryScope)))
        doubles = share("near_duplicates", near_duplicates, "a share of words up to 1, or None", 1)
        self.ranking = checked_ranking(ranking)
        self.max_characters = count("max_characters", max_characters, 1_000_000)
        self.query: str = one_of(name, "query", query, get_args(Query))
        self.keep_input: str = one_of(name, "keep_input", keep_input, get_args(KeepInput))
        self.indexing: str = one_of(name, "indexing", indexing, get_args(Indexing))
        self.read_only = checked_read_only(read_only)
        self.on_error = checked_policy(name, on_error)
        asked, where = embedder_of(embedder), vectors_of(vectors, storage)
        self.threshold = threshold_of(threshold, asked)
        self.index_name = index_of(index_name, asked)
        self._wanted = Wanted(self.top_k, self.threshold, doubles, ranking)
        self._search = Search(self.storage, where, asked, self.index_name, clock)
        self._index = Index(self.storage, where, asked, self.index_name, _MOST_PIECES)
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
        """Whether it is the recalling half, or both."""
        return _LOADING[self.query][0] in self._hooks

    @property
    def saves(self) -> bool:
        """Whether it is the indexing half, or both."""
        return _SAVING[0] in self._hooks

    def _half(self, stages: tuple[str, ...]) -> Self:
        half = copy.copy(self)
        half.stages = half._hooks = stages
        return half

    def new_state(self) -> Visit:
        """Return that nothing was done yet."""
        return Visit()

    async def reindex(self, thread_id: str | None = None, *, resource_id: str | None = None) -> int:
        """Index anew what is stored, of a thread, a resource, or everybody; return how many messages are in the index.

        For threads that are older than their index, and for what a failure has kept out of it. May be repeated.

        Raises:
            ModelError: the embedder failed.
            StorageError: the store failed, or has no such thread, or the thread is another resource's.
        """
        return await self._index.remake(thread_id, resource_id)

    # Recalling

    async def process_input(self, ctx: InputContext[Visit]) -> MessageList | None:
        """Recall what is like the input as it came (``query="raw"``)."""
        return await self._recalled(ctx)

    async def process_input_step(self, ctx: InputStepContext[Visit]) -> MessageList | None:
        """Recall what is like the input as its guards left it, once, before the first model call."""
        return await self._recalled(ctx)

    async def _recalled(self, ctx: AnyContext) -> MessageList | None:
        listed, thread_id = ctx.message_list, thread_of(ctx)
        query = _question(listed)
        if ctx.state.is_searched or thread_id is None or not query:
            return None
        ctx.state.is_searched = True  # before it is: a store that fails is not asked again in each step
        where = await self._search.within(self.scope, thread_id, ctx.resource_id)
        hits = await self._search.found(query, self._wanted, where)
        rows = await self._search.around(hits, *self.message_range, where)
        fresh = [row for row in rows if row.message.id not in listed]
        ctx.note(hits=len(hits), recalled=len(fresh), likeness=max((round(hit.score, 3) for hit in hits), default=None))
        vault = ctx.get(VAULT)
        messages = without_tokens([row.message for row in fresh], () if vault is None else vault.values)
        return self._joined(listed, messages, hits, thread_id) if fresh else None

    def _joined(
        self, listed: MessageList, messages: Sequence[Message], hits: Sequence[Hit], thread_id: str
    ) -> MessageList | None:
        """Return the conversation with recalled messages; None if none of them says anything."""
        own = [message for message in messages if message.thread_id == thread_id]
        pieces = {hit.row.message.id: hit.piece for hit in hits}
        others = [message for message in messages if message.thread_id != thread_id]
        quoted = [quotable(message, pieces.get(message.id, 0), self.max_characters) for message in others]
        shown = [each for each in quoted if each is not None]
        remembered = whole_pairs(own, listed.remembered)
        if not (remembered or shown):
            return None
        return placed(listed, remembered, quotation(shown) if shown else None)

    # Indexing

    def process_llm_request(self, ctx: LLMRequestContext[Visit]) -> None:
        """Note that the input has passed its checks, unless some run beside the model."""
        if not ctx.unchecked:
            self._accept(ctx)

    def process_llm_response(self, ctx: LLMResponseContext[Visit]) -> None:
        """Note that the input has passed its checks: by now all have given their verdict."""
        self._accept(ctx)

    async def process_output_result(self, ctx: OutputResultContext[Visit]) -> None:
        """Index the answers and the input, together.

        Raises:
            ModelError: the embedder failed.
            StorageError: the store failed.
        """
        visit, thread_id = ctx.state, self._thread(ctx)
        if thread_id is None:
            return
        self._wait(ctx, thread_id)
        if self.indexing == "answer":
            visit.is_indexed = True  # before it is: what fails here is not tried again at the end
            visit.answers = [message.id for message in ctx.messages]
            messages = visit.tokenise([*ctx.messages, *ctx.message_list.input])
            ctx.note(indexed=await self._index.add(messages, thread_id, ctx.resource_id))

    def _accept(self, ctx: AnyContext) -> None:
        thread_id = self._thread(ctx)
        if thread_id is not None:
            ctx.state.accepted = ctx.stage
            self._wait(ctx, thread_id)

    def _thread(self, ctx: AnyContext) -> str | None:
        """Return the id of the thread to index for; None if there is none, or nothing is to be indexed."""
        reads_only = self.read_only(ctx.request_context) if callable(self.read_only) else self.read_only
        return None if reads_only else thread_of(ctx)

    def _wait(self, ctx: AnyContext, thread_id: str) -> None:
        """Wait for the end of the run, and take its vault as it is now."""
        visit: Visit = ctx.state
        visit.tokenise = tokeniser(ctx)
        if not visit.is_told:
            visit.is_told = True
            resource_id = ctx.resource_id
            ctx.on_end(lambda ended: self._settle(ended, visit, thread_id, resource_id))

    def _settle(self, ended: RunEnd, visit: Visit, thread_id: str, resource_id: str | None) -> Awaitable[None] | None:
        """Return what is left to do at the end of a run: index what is not yet, or take back what was rejected."""
        stopped = ended.tripwire
        if visit.is_indexed:
            return self._index.forget(list(visit.answers)) if stopped is not None and visit.answers else None
        left: list[Message] = []
        if ended.completed and self.indexing == "end":
            left = [*ended.message_list.response, *ended.message_list.input]
        elif visit.accepted and self.keep_input == "accepted" and not _takes_back(stopped, visit.accepted):
            left = list(ended.message_list.input)
        return self._late(visit.tokenise(left), thread_id, resource_id) if left else None

    async def _late(self, messages: Sequence[Message], thread_id: str, resource_id: str | None) -> None:
        try:
            await self._index.add(messages, thread_id, resource_id)
        except Exception as error:  # noqa: BLE001 - the run has ended: there is nobody to raise it to
            _LOG.warning(
                "%s: a request's messages are not indexed (%s); reindex() mends it", self.id, type(error).__name__
            )


def _question(listed: MessageList) -> str:
    """Return what the user asks: the text of the last message of the input that is theirs; empty if there is none."""
    return next((memory_text(message) for message in reversed(listed.input) if message.role == "user"), "")


def _takes_back(tripwire: Tripwire | None, accepted: str) -> bool:
    """Tell whether a verdict is about an input that was taken for accepted: it was given in the very same stage."""
    return tripwire is not None and tripwire.stage == accepted == "process_llm_request"
