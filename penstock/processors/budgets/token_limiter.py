"""`TokenLimiterProcessor`: keep the prompt, the answer or both within a number of tokens."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.facts import Key
from penstock.engine.values.messages import Message
from penstock.models.tokens.counters import counting as as_counting
from penstock.models.tokens.message_costs import Way, prices
from penstock.models.tokens.meter import CutAt, Meter
from penstock.processors.budgets.answer_budget import AnswerBudget, AnswerUsage
from penstock.processors.budgets.prompt_budget import MemoryBudget, PromptBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.processor.context import (
        Context,
        InputContext,
        InputStepContext,
        LLMRequestContext,
        OutputResultContext,
        OutputStreamContext,
    )
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.protocols import TokenCounter
    from penstock.models.tokens.message_costs import Prices
    from penstock.processors.budgets.prompt_budget import TrimmedPrompt


Strategy = Literal["truncate", "abort"]
CountMode = Literal["cumulative", "part"]
TrimMode = Literal["best-fit", "contiguous", "memory-only"]
Side = Literal["both", "prompt", "answer"]

_PROMPT = ("process_input", "process_input_step", "process_llm_request")
_ANSWER = ("process_output_stream", "process_output_result")
_MEMORY = ("process_input", "process_input_step")


class TokenLimiterProcessor(Processor[AnswerUsage]):
    """Keep the prompt, the answer or both within a number of tokens.

    It drops old messages from a prompt, but never system messages, pinned ones, the newest user message and the
    messages after it. If these do not fit, it aborts the run. It cuts an answer, or (``strategy="abort"``) aborts the
    run.

    A failure of its own blocks the run. With ``strategy="abort"`` it is a guard, otherwise a transform.

    Args:
        limit: tokens, 0 or more; the prompt and the answer each may have as many.
        strategy: what to do with an answer that is too long: ``truncate`` cuts it, ``abort`` aborts the run.
        count_mode: ``cumulative`` limits the whole answer, ``part`` each chunk of a stream (or text part) by itself.
        trim_mode: how to trim the prompt: ``best-fit`` skips messages that do not fit, ``contiguous`` drops all that
            are older than the first that does not fit, ``memory-only`` drops the oldest messages from memory and does
            not limit answers.
        side: ``both``, only the ``prompt``, or only the ``answer``.
        token_counter: an object with ``count(text)`` or ``count_message(message)``, a function from str to int, the
            name of an encoding, or ``"heuristic"``; None: ``encoding``.
        encoding: an encoding of tiktoken; ``o200k_base`` ships with penstock.
        counting: how a message is counted: ``chat`` as models receive it, or as Mastra does: ``reference`` (version
            1.71), ``reference-1.0``.
        pinned: a function from a message to bool: True for messages that must stay, in addition to those with
            ``metadata["pinned"]``.
        cut_at: where an answer may be cut: at a ``token``, at the end of a ``word`` or of a ``sentence``.
        ellipsis: the text at the end of an answer that was cut; its tokens count.
        end_stream: stop reading a streamed answer once it is cut, so that the model stops writing; tool calls that
            would follow are lost.
        at_max_remove_tokens: for ``memory-only``: if the limit is exceeded, trim to this number of tokens below it,
            from 0 to ``limit``; None: a quarter of the limit.
        on_memory_trim: for ``memory-only``: called with the messages and the request context before the messages are
            dropped. May be async.
        on_trim: the same for every mode. May be async.
        summarize: called like ``on_trim``, with the last summary as the first message. The str that it returns is put
            into the prompt as a system message, cut to a tenth of the limit; None for no summary. May be async.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed.

    Attributes:
        trimmed: the key of the fact that describes the last trimming of the prompt: ``{"dropped", "kept", "tokens",
            "stage"}``.
    """

    id = "token-limiter"
    on_error: ErrorPolicy = "block"

    def __init__(
        self,
        limit: int,
        *,
        strategy: Strategy = "truncate",
        count_mode: CountMode = "cumulative",
        trim_mode: TrimMode = "best-fit",
        side: Side = "both",
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
        encoding: str = "o200k_base",
        counting: Way = "chat",
        pinned: Callable[[Message], bool] | None = None,
        cut_at: CutAt = "token",
        ellipsis: str = "",
        end_stream: bool = False,
        at_max_remove_tokens: float | None = None,
        on_memory_trim: Callable[..., object] | None = None,
        on_trim: Callable[..., object] | None = None,
        summarize: Callable[..., Any] | None = None,
        id: str | None = None,
    ) -> None:
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.limit = _limit(name, limit)
        self.strategy: str = one_of(name, "strategy", strategy, get_args(Strategy))
        self.count_mode: str = one_of(name, "count_mode", count_mode, get_args(CountMode))
        self.trim_mode: str = one_of(name, "trim_mode", trim_mode, get_args(TrimMode))
        self.side: str = one_of(name, "side", side, get_args(Side))
        self.stages = self._stages_of(name)
        self.role: ProcessorRole = "guard" if strategy == "abort" else "transform"
        # Cutting an answer may remove whole parts and delay other chunks: more than edits of spans of text.
        self.edits = "spans" if summarize is None and not set(self.stages) & set(_ANSWER) else "anything"
        self._counting = as_counting(name, token_counter, encoding)
        one_of(name, "counting", counting, get_args(Way))
        one_of(name, "cut_at", cut_at, get_args(CutAt))
        self._on_trim = _callbacks(name, on_memory_trim=on_memory_trim, on_trim=on_trim)
        self._summarize = next(iter(_callbacks(name, summarize=summarize)), None)
        _callbacks(name, pinned=pinned)
        if on_memory_trim is not None and trim_mode != "memory-only":
            raise OptionError(
                name, "on_memory_trim", on_memory_trim, "None, unless trim_mode='memory-only'; see on_trim"
            )
        paid = prices(self._counting, counting, token_counter)
        remove = _remove(name, at_max_remove_tokens, self.limit)
        self._prompt = self._prompt_budget(paid, remove, pinned)
        tail, each = _text(name, "ellipsis", ellipsis), count_mode == "part"
        self.ends = flag(name, "end_stream", end_stream)
        self._answer = AnswerBudget(
            self.limit, self._counting, cut_at, tail, each=each, stop=strategy == "abort", ends=self.ends
        )
        self.trimmed: Key[Mapping[str, Value]] = Key(f"{self.id}.trimmed[{self.limit}]")
        self.provides = (self.trimmed,)
        self.offloadable = not callable(token_counter) and pinned is None and not self._on_trim and summarize is None
        self._wait_for_callbacks()
        self._counting.prepare()

    def new_state(self) -> AnswerUsage:
        """Return the usage of one request's answer."""
        return AnswerUsage()

    def process_input(self, ctx: InputContext[AnswerUsage]) -> MessageList | None:
        """Drop messages that do not fit from the conversation."""
        return self._fitted(ctx)

    def process_input_step(self, ctx: InputStepContext[AnswerUsage]) -> MessageList | None:
        """Drop messages that do not fit any more from the conversation."""
        return self._fitted(ctx)

    def process_llm_request(self, ctx: LLMRequestContext[AnswerUsage]) -> MessageList | None:
        """Drop messages that do not fit from the prompt, for this call only."""
        return self._fitted(ctx)

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | list[Chunk] | None:
        """Pass the answer's text until its tokens are used up."""
        return self._answer.chunk(chunk, ctx)

    def flush(self, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | None:
        """Return the held-back text of the block that ends, as far as it fits."""
        return self._answer.flush(ctx)

    def process_output_result(self, ctx: OutputResultContext[AnswerUsage]) -> MessageList | None:
        """Cut the answer's text."""
        return self._answer.result(ctx)

    def _prompt_budget(
        self, paid: Prices, remove: float, pinned: Callable[[Message], bool] | None
    ) -> PromptBudget | MemoryBudget:
        if self.trim_mode == "memory-only":
            return MemoryBudget(self.limit, paid, remove)
        spare = self.limit // 10 if self._summarize is not None else 0
        contiguous = self.trim_mode == "contiguous"
        return PromptBudget(self.limit, paid, contiguous=contiguous, spare=spare, pinned=pinned)

    def _stages_of(self, name: str) -> tuple[str, ...]:
        if self.trim_mode == "memory-only":
            if self.side == "answer":
                raise OptionError(name, "side", self.side, "'both' or 'prompt' with trim_mode='memory-only'")
            return _MEMORY
        return {"both": (*_PROMPT, *_ANSWER), "prompt": _PROMPT, "answer": _ANSWER}[self.side]

    # Prompts

    def _fitted(self, ctx: Context[AnswerUsage]) -> MessageList | None:
        trim = self._prompt.trim(ctx, prompt=ctx.stage == "process_llm_request")
        if trim is None:
            return None
        for callback in self._on_trim:
            callback(trim.dropped, ctx.request_context)
        summary = self._summarize and self._summarize(self._to_summarize(ctx, trim), ctx.request_context)
        return self._applied(ctx, trim, summary)

    def _wait_for_callbacks(self) -> None:
        """Make the hooks for prompts async if a callback is async."""
        if any(map(_awaits, [*self._on_trim, self._summarize])):
            for stage in set(self.stages or ()) & set(_PROMPT):
                setattr(self, stage, self._awaiting(stage))

    def _awaiting(self, stage: str) -> Callable[[Context[AnswerUsage]], Awaitable[MessageList | None]]:
        """Return the hook of a stage as an async function, for async callbacks."""

        async def hook(ctx: Context[AnswerUsage]) -> MessageList | None:
            await self._counting.ready()
            trim = self._prompt.trim(ctx, prompt=stage == "process_llm_request")
            if trim is None:
                return None
            for callback in self._on_trim:
                await _settled(callback(trim.dropped, ctx.request_context))
            made = self._summarize and self._summarize(self._to_summarize(ctx, trim), ctx.request_context)
            return self._applied(ctx, trim, await _settled(made))

        return hook

    def _to_summarize(self, ctx: Context[AnswerUsage], trim: TrimmedPrompt) -> tuple[Message, ...]:
        """Return the messages to summarize: the last summary, and those that are dropped now."""
        return (*ctx.message_list.tagged(self.id), *trim.dropped)

    def _applied(self, ctx: Context[AnswerUsage], trim: TrimmedPrompt, summary: object) -> MessageList:
        counts = {"dropped": len(trim.view.messages) - len(trim.kept), "kept": len(trim.kept), "tokens": trim.tokens}
        ctx.note(**counts, limit=self.limit, counter=self._counting.name)
        ctx.put(self.trimmed, {**counts, "stage": ctx.stage})
        kept = ctx.message_list.keep(trim.places)
        if summary is None:
            return kept
        if not isinstance(summary, str):
            raise UsageError(f"summarize must return a str or None, not {type(summary).__name__}")
        room = int(trim.room) - int(self._prompt.prices.costs.system(Message.system("")))
        text = Meter(self._counting, max(0, room), "word").feed(summary, final=True)
        return kept.replace_system(text, tag=self.id) if text.strip() else kept


def _limit(name: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise OptionError(name, "limit", given, "an int of 0 or more")
    return given


def _remove(name: str, given: object, limit: int) -> float:
    if given is None:
        return limit / 4
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not isfinite(given) or not 0 <= given <= limit:
        raise OptionError(name, "at_max_remove_tokens", given, f"a number from 0 to the limit, {limit}")
    return given


def _text(name: str, option: str, given: object) -> str:
    if not isinstance(given, str):
        raise OptionError(name, option, given, "a str")
    return given


def _callbacks(name: str, **given: object) -> list[Callable[..., Any]]:
    """Check callbacks, and return those that are not None."""
    for option, one in given.items():
        if one is not None and not callable(one):
            raise OptionError(name, option, one, "a function")
    return [cast("Callable[..., Any]", one) for one in given.values() if one is not None]


def _awaits(callback: object) -> bool:
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


async def _settled(made: object) -> object:
    return await cast("Awaitable[object]", made) if isinstance(made, Awaitable) else made
