"""What the next call of a model is estimated to take: its prompt counted, its answer guessed. It knows no price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.engine.values.model import ToolSpec, Usage
from penstock.engine.values.ports import Model
from penstock.models.tokens.shapes import compact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import InputStepContext, LLMRequestContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.models.tokens.counters import Counting
    from penstock.models.tokens.prices import Prices

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TOOL = 4  # tokens of a tool's frame; not published, and taken to be a message's


class Forecast(NamedTuple):
    """What a call is estimated to take.

    Attributes:
        model: the model's name; None where nobody says.
        usage: the tokens.
    """

    model: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class Forecaster:
    """Estimates calls. Lives as long as the processor it was made for.

    Attributes:
        counting: counts texts.
        prices: counts messages, in tokens.
        answer: the tokens of an answer that no setting limits.
    """

    counting: Counting
    prices: Prices
    answer: int

    def of_step(self, ctx: InputStepContext[Value], model: Value) -> Forecast:
        """Return what the call of a step may take, as far as its settings are known by then."""
        tools: Values = ctx.tools or {}
        offered = tools if ctx.active_tools is None else {one: tools[one] for one in ctx.active_tools if one in tools}
        messages = (*ctx.message_list.system, *ctx.message_list.all)
        prompt = self._messages(messages) + self._tools(offered.values()) + self._form(ctx.response_format)
        return Forecast(name_of(model), Usage(prompt, self._longest(ctx.model_settings, ctx.provider_options)))

    def of_request(self, ctx: LLMRequestContext[Value]) -> Forecast:
        """Return what a call may take, just before it is made."""
        name, request = name_of(ctx.model), ctx.request
        prompt = self._messages(ctx.messages)
        if request is None:
            tools: Values = ctx.tools or {}
            return Forecast(name, Usage(prompt + self._tools(tools.values()), self._longest(ctx.model_settings, None)))
        prompt += self._tools(request.tools) + self._form(request.response_format)
        return Forecast(name, Usage(prompt, self._longest(request.settings, request.provider_options)))

    def _messages(self, messages: Iterable[Message]) -> int:
        costs = self.prices.costs
        return int(costs.conversation + sum(map(self.prices.sent, messages)))

    def _tools(self, tools: Iterable[Value]) -> int:
        return sum(_TOOL + self.counting.count(_written(tool)) for tool in tools)

    def _form(self, form: Value) -> int:
        schema = getattr(form, "schema", form)
        return self.counting.count(compact(schema)) if isinstance(schema, Mapping) else 0

    def _longest(self, *settings: Values | None) -> int:
        """Return how long the answer may be, the provider's own options before the settings."""
        for told in reversed(settings):
            for name in _LIMITS:
                limit = (told or {}).get(name)
                if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
                    return limit
        return self.answer


def name_of(model: object) -> str | None:
    """Return the name of a model, or the name that it is; None for neither."""
    if isinstance(model, str):
        return model
    return model.name if isinstance(model, Model) else None


def _written(tool: Value) -> str:
    """Return a tool as a model is told of it, near enough: its name, description and schema."""
    spec = getattr(tool, "spec", tool)
    if isinstance(spec, ToolSpec):
        return f"{spec.name}\n{spec.description}\n{compact(spec.parameters)}"
    return compact(cast("Value", spec)) if isinstance(spec, (Mapping, list, tuple)) else str(getattr(tool, "name", ""))
