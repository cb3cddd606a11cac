"""`TokenLimiterProcessor`: keep the prompt, the answer or both within a number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from penstock.engine.processor.option_checks import check_count, check_number, check_text
from penstock.engine.processor.processor import Processor, flag, is_async, one_of
from penstock.engine.tasks import resolved
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import Value
from penstock.engine.values.messages import Message
from penstock.models.tokens.counters import counting as as_counting
from penstock.models.tokens.message_costs import Way, prices
from penstock.models.tokens.meter import CutAt, Meter
from penstock.processors.budgets.answer_budget import AnswerBudget, AnswerUsage
from penstock.processors.budgets.prompt_budget import MemoryBudget, PromptBudget

if TYPE_CHECKING:
    from collections.abc import Callable

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
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.protocols import TokenCounter
    from penstock.models.tokens.message_costs import Prices
    from penstock.processors.budgets.prompt_budget import TrimmedPrompt


Strategy = Literal["truncate", "abort"]
CountMode = Literal["cumulative", "part"]
TrimMode = Literal["best-fit", "contiguous", "memory-only"]
Side = Literal["both", "prompt", "answer"]
PromptScope = Literal["prompt", "history"]
"""Whether the limiter trims the prompt of each model call, or the conversation."""

_PROMPT = {"prompt": ("process_llm_request",), "history": ("process_input", "process_input_step")}
_ANSWER = ("process_output_stream", "process_output_result")


class TokenLimiterProcessor(Processor[AnswerUsage]):
    """Keep the prompt, the answer or both within a number of tokens.

    It drops old messages from the prompt of each model call, and then the oldest tool exchanges of the current turn. It
    never drops system messages, pinned ones, the newest question and the tool results that the model has not seen. If
    these do not fit, it aborts the run. It cuts an answer, or (``strategy="abort"``) aborts the run.

    Calls and results, and old questions and their answers, stay or go together. Place it behind processors that change
    prompts, such as `ToolCallFilter`: it counts the messages that they leave.

    A failure of its own blocks the run. With ``strategy="abort"`` it is a guard, otherwise a transform.

    Args:
        limit: tokens, 0 or more; the prompt and the answer each may have as many.
        strategy: what to do with an answer that is too long: ``truncate`` cuts it, ``abort`` aborts the run.
        count_mode: ``cumulative`` limits the whole answer, ``part`` each chunk of a stream (or text part) by itself.
        trim_mode: how to trim the prompt: ``best-fit`` skips messages that do not fit, ``contiguous`` drops all that
            are older than the first that does not fit, ``memory-only`` drops the oldest messages from memory and does
            not limit answers.
        scope: ``prompt`` trims what each model call is sent, and leaves the conversation as it is; ``history`` trims
            the conversation when the request comes in and before each model call, for hosts that do not run
            ``process_llm_request``.
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
        scope: PromptScope = "prompt",
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
        self.limit = check_count(name, "limit", limit)
        self.strategy: str = one_of(name, "strategy", strategy, get_args(Strategy))
        self.count_mode: str = one_of(name, "count_mode", count_mode, get_args(CountMode))
        self.trim_mode: str = one_of(name, "trim_mode", trim_mode, get_args(TrimMode))
        self.scope: str = one_of(name, "scope", scope, get_args(PromptScope))
        self.side: str = one_of(name, "side", side, get_args(Side))
        self.stages = self._stages_of(name, on_memory_trim)
        self.role: ProcessorRole = "guard" if strategy == "abort" else "transform"
        # Cutting an answer may remove whole parts and delay other chunks: more than edits of spans of text.
        self.edits = "spans" if summarize is None and not set(self.stages) & set(_ANSWER) else "anything"
        self._counting = as_counting(name, token_counter, encoding)
        one_of(name, "counting", counting, get_args(Way))
        one_of(name, "cut_at", cut_at, get_args(CutAt))
        self._on_trim = _callbacks(name, on_memory_trim=on_memory_trim, on_trim=on_trim)
        self._summarize = next(iter(_callbacks(name, summarize=summarize)), None)
        _callbacks(name, pinned=pinned)
        remove = _remove(name, at_max_remove_tokens, self.limit)
        self._prompt = self._prompt_budget(prices(self._counting, counting, token_counter), remove, pinned)
        tail, each = check_text(name, "ellipsis", ellipsis), count_mode == "part"
        self.ends = self.end_stream = flag(name, "end_stream", end_stream)
        self._answer = AnswerBudget(
            self.limit, self._counting, cut_at, tail, each=each, stop=strategy == "abort", ends=end_stream
        )
        self.trimmed = Key[Mapping[str, Value]](f"{self.id}.trimmed[{self.limit}]")
        self.provides = (self.trimmed,)
        self.offloadable = not callable(token_counter) and pinned is None and not self._on_trim and summarize is None
        self._given: dict[str, object] = {
            "token_counter": token_counter,
            "pinned": pinned,
            "on_memory_trim": on_memory_trim,
            "on_trim": on_trim,
            "summarize": summarize,
        }
        self._wait_for_callbacks()
        self._counting.prepare()

    def option(self, name: str) -> object:
        """Return an option as it was given, callbacks too."""
        return self._given.get(name, super().option(name))

    def new_state(self) -> AnswerUsage:
        """Return the state of a request."""
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

    def _stages_of(self, name: str, on_memory_trim: object) -> tuple[str, ...]:
        if self.trim_mode == "memory-only":
            if self.side == "answer":
                raise OptionError(name, "side", self.side, "'both' or 'prompt' with trim_mode='memory-only'")
            return _PROMPT[self.scope]
        if on_memory_trim is not None:
            allowed = "None, unless trim_mode='memory-only'; see on_trim"
            raise OptionError(name, "on_memory_trim", on_memory_trim, allowed)
        return (*(_PROMPT[self.scope] if self.side != "answer" else ()), *(_ANSWER if self.side != "prompt" else ()))

    # Prompts

    def _fitted(self, ctx: Context[AnswerUsage]) -> MessageList | None:
        trim = self._trimmed(ctx)
        if trim is None:
            return None
        if fresh := self._fresh(ctx, trim):
            for callback in self._on_trim:
                callback(fresh, ctx.request_context)
            if self._summarize is not None:
                made = self._summarize(_to_summarize(ctx.state, fresh), ctx.request_context)
                ctx.state.summary = _summary(made) or ctx.state.summary
        return self._applied(ctx, trim)

    def _wait_for_callbacks(self) -> None:
        """Make the hooks for prompts async if a callback is async."""
        if any(map(is_async, [*self._on_trim, self._summarize])):
            for stage in set(self.stages or ()) & set(_PROMPT[self.scope]):
                setattr(self, stage, self._fitted_async)

    async def _fitted_async(self, ctx: Context[AnswerUsage]) -> MessageList | None:
        """Do the same as `_fitted`, for async callbacks."""
        await self._counting.ready()
        trim = self._trimmed(ctx)
        if trim is None:
            return None
        if fresh := self._fresh(ctx, trim):
            for callback in self._on_trim:
                await resolved(callback(fresh, ctx.request_context))
            if self._summarize is not None:
                made = self._summarize(_to_summarize(ctx.state, fresh), ctx.request_context)
                ctx.state.summary = _summary(await resolved(made)) or ctx.state.summary
        return self._applied(ctx, trim)

    def _trimmed(self, ctx: Context[AnswerUsage]) -> TrimmedPrompt | None:
        ctx.note(limit=self.limit, counter=self._counting.name)
        return self._prompt.trim(ctx, prompt=ctx.stage == "process_llm_request")

    def _fresh(self, ctx: Context[AnswerUsage], trim: TrimmedPrompt) -> tuple[Message, ...]:
        """Return the messages that callbacks are to get: those that are dropped for the first time in this request."""
        if not self._on_trim and self._summarize is None:
            return ()
        told = ctx.state.dropped
        fresh = tuple([message for message in trim.dropped if message.id not in told])
        told.update(message.id for message in fresh)
        return fresh

    def _applied(self, ctx: Context[AnswerUsage], trim: TrimmedPrompt) -> MessageList:
        counts = {"dropped": len(trim.view.messages) - len(trim.kept), "kept": len(trim.kept), "tokens": trim.tokens}
        ctx.note(**counts)
        ctx.put(self.trimmed, {**counts, "stage": ctx.stage})
        kept, summary = ctx.message_list.keep(trim.places), ctx.state.summary
        if summary is None:
            return kept
        room = int(trim.room) - int(self._prompt.prices.costs.system(Message.system("")))
        text = Meter(self._counting, max(0, room), "word").feed(summary, final=True)
        return kept.replace_system(text, tag=self.id) if text.strip() else kept


def _summary(given: object) -> str | None:
    """Check a summary, and return it; None if it is blank.

    Raises:
        UsageError: it is neither a str nor None.
    """
    if given is not None and not isinstance(given, str):
        raise UsageError(f"summarize must return a str or None, not {type(given).__name__}")
    return given if given and given.strip() else None


def _to_summarize(state: AnswerUsage, fresh: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages to summarize: the last summary, and those that are dropped now."""
    return fresh if state.summary is None else (Message.system(state.summary), *fresh)


def _remove(name: str, given: object, limit: int) -> float:
    if given is None:
        return limit / 4
    return check_number(name, "at_max_remove_tokens", given, f"a number from 0 to the limit, {limit}", most=limit)


def _callbacks(name: str, **given: object) -> list[Callable[..., Any]]:
    """Check callbacks, and return those that are not None."""
    for option, one in given.items():
        if one is not None and not callable(one):
            raise OptionError(name, option, one, "a function")
    return [cast("Callable[..., Any]", one) for one in given.values() if one is not None]
