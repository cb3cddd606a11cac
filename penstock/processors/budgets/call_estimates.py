"""Estimate the tokens of the next model call: its prompt is counted, the length of its answer is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.engine.values.model import ToolSpec, Usage
from penstock.engine.values.protocols import Model
from penstock.models.tokens.message_costs import compact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import InputStepContext, LLMRequestContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.models.tokens.counters import Counting
    from penstock.models.tokens.message_costs import Prices


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TOOL = 4  # tokens around a tool; providers publish no number, so that of a message is assumed


class CallEstimate(NamedTuple):
    """The estimate for a model call.

    Attributes:
        model: the name of the model; None if it is not known.
        usage: the estimated tokens.
    """

    model: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class CallEstimator:
    """Estimates the tokens of model calls. Lives as long as its processor.

    Attributes:
        counting: counts the tokens of texts.
        prices: counts the tokens of messages.
        answer: the tokens assumed for an answer that no setting limits.
    """

    counting: Counting
    prices: Prices
    answer: int

    def of_step(self, ctx: InputStepContext[Value], model: Value) -> CallEstimate:
        """Return the estimate for the call of a step, from the settings known at its beginning."""
        tools: Values = ctx.tools or {}
        offered = tools if ctx.active_tools is None else {one: tools[one] for one in ctx.active_tools if one in tools}
        messages = (*ctx.message_list.system, *ctx.message_list.conversation)
        prompt = self._messages(messages) + self._tools(offered.values()) + self._format(ctx.response_format)
        return CallEstimate(model_name(model), Usage(prompt, self._longest(ctx.model_settings, ctx.provider_options)))

    def of_request(self, ctx: LLMRequestContext[Value]) -> CallEstimate:
        """Return the estimate for a call, just before it is made."""
        name, request = model_name(ctx.model), ctx.request
        prompt = self._messages(ctx.messages)
        if request is None:
            tools: Values = ctx.tools or {}
            return CallEstimate(
                name, Usage(prompt + self._tools(tools.values()), self._longest(ctx.model_settings, None))
            )
        prompt += self._tools(request.tools) + self._format(request.response_format)
        return CallEstimate(name, Usage(prompt, self._longest(request.settings, request.provider_options)))

    def of_prompt(self, messages: Iterable[Message], tools: Iterable[Value]) -> int:
        """Return the tokens of a prompt with its tools."""
        return self._messages(messages) + self._tools(tools)

    def _messages(self, messages: Iterable[Message]) -> int:
        costs = self.prices.costs
        return int(costs.conversation + sum(map(self.prices.sent, messages)))

    def _tools(self, tools: Iterable[Value]) -> int:
        return sum(_TOOL + self.counting.count(_tool_text(tool)) for tool in tools)

    def _format(self, response_format: Value) -> int:
        schema = getattr(response_format, "schema", response_format)
        return self.counting.count(compact(schema)) if isinstance(schema, Mapping) else 0

    def _longest(self, *settings: Values | None) -> int:
        """Return the most tokens that the answer may have; later settings take precedence."""
        for given in reversed(settings):
            for name in _LIMITS:
                limit = (given or {}).get(name)
                if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
                    return limit
        return self.answer


def model_name(model: object) -> str | None:
    """Return the name of a `Model`, or a str as it is; None for anything else."""
    if isinstance(model, str):
        return model
    return model.name if isinstance(model, Model) else None


def _tool_text(tool: Value) -> str:
    """Return about the text that a model gets of a tool: its name, description and schema."""
    spec = getattr(tool, "spec", tool)
    if isinstance(spec, ToolSpec):
        return f"{spec.name}\n{spec.description}\n{compact(spec.parameters)}"
    return compact(cast("Value", spec)) if isinstance(spec, (Mapping, list, tuple)) else str(getattr(tool, "name", ""))
