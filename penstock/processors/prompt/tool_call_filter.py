"""`ToolCallFilter`: keeps old tool traffic out of the model's sight. It knows no provider's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.processor.payload import Answer
from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.messages import ToolPart
from penstock.models.conversations.names import names_of
from penstock.models.conversations.relaying import relaid
from penstock.models.tokens.counters import counting
from penstock.processors.prompt._removal import replaced, without
from penstock.processors.prompt._results import is_marked, preserved, result_text, stub
from penstock.processors.prompt._traffic import Exchange, Traffic, traffic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.engine.processor.context import Context, InputContext, LLMRequestContext, ToolCallContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.ports import TokenCounter
    from penstock.models.tokens.counters import Counting

Scope = Literal["prompt", "history"]
"""Whether the filter works on each call's prompt, or once on the conversation."""

_HISTORY = "history"


class ToolCallFilter(Processor):
    """Takes old tool calls and results out of what the model is shown. Calls and results go together, by their ids.

    What the model is in the middle of is never taken: results that it has not seen yet, and (without
    ``filter_after_tool_steps``) the whole turn that they belong to. Messages of user and system are not touched.

    It protects nothing, so its failure lets the prompt pass as it is.
    """

    id = "tool-call-filter"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(
        self,
        *,
        exclude: Iterable[str] | None = None,
        filter_after_tool_steps: int | None = None,
        preserve_model_output: bool | Iterable[str] = False,
        keep_errors: bool = False,
        keep_last: int | Mapping[str, int] = 0,
        max_result_size: int | None = None,
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
        recall: str | None = None,
        scope: Scope = "prompt",
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            exclude: the tools whose traffic goes; None for all, none of them for nothing.
            filter_after_tool_steps: how many of the latest model steps with calls stay (calls side by side are one
                step); 0 leaves only what the model has not seen yet. None: what the conversation held before the
                request goes, and all that the request adds stays.
            preserve_model_output: leave a result's text where the call stood: of results that bear the reference's mark
                (``metadata["mastra"]["modelOutput"]``), or of the tools named. Media are named, not quoted.
            keep_errors: failed calls stay.
            keep_last: how many of the latest calls of each tool stay; one figure for all tools, or one for each named.
            max_result_size: take no call away; put a stub with the call's id in place of results larger than that.
            token_counter: what measures them: an object with ``count(text)``, a function from text to tokens, an
                encoding's name, or ``"heuristic"``. None measures in characters.
            recall: with ``max_result_size``, the name of a tool that this processor answers itself: called with
                ``{"id": …}`` it gives the result that the stub stands for. Offer the model a tool of that name.
            scope: ``prompt`` changes what each model call is shown, and leaves the conversation as it is; ``history``
                changes the conversation once, when the request comes in, memory included.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed, or that would do nothing.
        """
        if id is not None:
            self.id = id
        self.exclude = None if exclude is None else names_of(type(self).__name__, "exclude", exclude)
        self.filter_after_tool_steps = self._count("filter_after_tool_steps", filter_after_tool_steps)
        self.preserve_model_output = (
            preserve_model_output
            if isinstance(preserve_model_output, bool)
            else names_of(type(self).__name__, "preserve_model_output", preserve_model_output)
        )
        self.keep_errors = self._flag("keep_errors", keep_errors)
        self.keep_last = self._counts(keep_last)
        self.max_result_size = self._count("max_result_size", max_result_size)
        self.token_counter = self._counting(token_counter)
        self.scope = one_of(type(self).__name__, "scope", scope, get_args(Scope))
        self.recall = self._recall(recall)
        prompt = ("process_llm_request", "process_tool_call") if recall is not None else ("process_llm_request",)
        self.stages = prompt if self.scope == "prompt" else ("process_input",)
        if self.max_result_size is not None and self.preserve_model_output:
            allowed = "False beside max_result_size=, which takes no call away"
            raise OptionError(type(self).__name__, "preserve_model_output", preserve_model_output, allowed)

    # Options

    def _flag(self, option: str, given: object) -> bool:
        if not isinstance(given, bool):
            raise OptionError(type(self).__name__, option, given, "True or False")
        return given

    def _count(self, option: str, given: object) -> int | None:
        if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
            raise OptionError(type(self).__name__, option, given, "a whole number from 0 on")
        return given

    def _counting(self, given: TokenCounter | Callable[[str], int] | str | None) -> Counting | None:
        if given is None:
            return None
        made = counting(type(self).__name__, given, "o200k_base")
        made.prepare()
        return made

    def _counts(self, given: int | Mapping[str, int]) -> Mapping[str, int] | int:
        if not is_mapping(given):
            return self._count("keep_last", given) or 0
        return {name: self._count("keep_last", count) or 0 for name, count in given.items()}

    def _recall(self, given: object) -> str | None:
        if given is None:
            return None
        if not isinstance(given, str) or not given or self.max_result_size is None or self.scope != "prompt":
            allowed = 'a tool\'s name, beside max_result_size= and scope="prompt": else there is nothing to recall'
            raise OptionError(type(self).__name__, "recall", given, allowed)
        return given

    # Stages

    def process_llm_request(self, ctx: LLMRequestContext) -> MessageList | None:
        """Filter the prompt of one model call."""
        messages = ctx.message_list
        traffic = traffic_of(messages.all)
        known = ctx.state.setdefault(_HISTORY, _before(traffic))
        return self._filtered(ctx, messages, traffic, known)

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Filter the conversation as the request finds it."""
        messages = ctx.message_list
        traffic = traffic_of(messages.all)
        return self._filtered(ctx, messages, traffic, _before(traffic))

    def process_tool_call(self, ctx: ToolCallContext) -> Answer | None:
        """Answer a call to the tool that gives a left-out result back."""
        if ctx.tool_name != self.recall:
            return None
        wanted = ctx.arguments.get("id") if is_mapping(ctx.arguments) else None
        for message in reversed(ctx.message_list.all):
            for part in message.parts:
                if isinstance(part, ToolPart) and part.call_id == wanted and part.state in ("result", "error"):
                    return Answer(part.error if part.state == "error" else part.result)
        return Answer("There is no result of that id.")

    # The work

    def _filtered(
        self, ctx: Context, messages: MessageList, traffic: Traffic, known: frozenset[str]
    ) -> MessageList | None:
        kept = self._latest(traffic)
        old = [
            exchange
            for exchange in traffic.exchanges
            if exchange.key not in kept and self._is_meant(exchange) and self._is_old(exchange, traffic, known)
        ]
        if self.max_result_size is None:
            changes = without(messages.all, traffic, {exchange.key: self._text(exchange) for exchange in old})
            told = {"removed": len(old)}
        else:
            stubs = self._stubs(old, self.max_result_size)
            changes = replaced(messages.all, traffic, stubs)
            told = {"shortened": len(stubs)}
        if not changes:
            return None
        ctx.note(**told)
        return relaid(messages, changes)

    def _is_meant(self, exchange: Exchange) -> bool:
        if self.keep_errors and exchange.failed:
            return False
        return self.exclude is None or not self.exclude.isdisjoint(exchange.names)

    def _is_old(self, exchange: Exchange, traffic: Traffic, known: frozenset[str]) -> bool:
        if self.filter_after_tool_steps is None:
            return exchange.key in known
        late = exchange.step >= max(traffic.steps - self.filter_after_tool_steps, 0)
        return not late and not traffic.in_open_step(exchange)

    def _latest(self, traffic: Traffic) -> set[str]:
        """Return the keys of the latest exchanges of each tool, as many as ``keep_last`` says."""
        kept: set[str] = set()
        counts: dict[str, int] = {}
        for exchange in reversed(traffic.exchanges):
            for name in exchange.names:
                counts[name] = counts.get(name, 0) + 1
                allowed = self.keep_last if isinstance(self.keep_last, int) else self.keep_last.get(name, 0)
                if counts[name] <= allowed:
                    kept.add(exchange.key)
        return kept

    def _text(self, exchange: Exchange) -> str | None:
        """Return the text that stays of a removed exchange."""
        result, wanted = exchange.result, self.preserve_model_output
        if result is None or wanted is False:
            return None
        stays = is_marked(result) if wanted is True else not wanted.isdisjoint(exchange.names)
        return preserved(result, min(exchange.names, default="")) if stays else None

    def _stubs(self, old: list[Exchange], allowed: int) -> dict[str, ToolPart]:
        """Return the stubs for results that are too large, by their exchanges' keys."""
        stubs: dict[str, ToolPart] = {}
        unit, size_of = ("characters", len) if self.token_counter is None else ("tokens", self.token_counter.count)
        for exchange in old:
            if exchange.result is None:
                continue
            size = size_of(result_text(exchange.result))
            note = stub(exchange.result, size, unit, self.recall)
            if size > max(allowed, size_of(result_text(note))):
                stubs[exchange.key] = note
        return stubs


def _before(traffic: Traffic) -> frozenset[str]:
    """Return what was there before the turn that is still open."""
    return frozenset(exchange.key for exchange in traffic.exchanges if not traffic.in_open_turn(exchange))
