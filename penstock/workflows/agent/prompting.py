"""What a request brings, made into what a run starts from and what a model is sent. It knows values, no loop."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from penstock.engine.run.conversation import parse_input
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import Message
from penstock.engine.values.model import ModelRequest
from penstock.engine.values.ports import Model
from penstock.models.naming import model as model_named
from penstock.tools.tool_sets import as_tools

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.values.frozen import Value, Values
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.options import RequestContext, RequestOptions

SYSTEM_TAG = "user-provided"
"""The owner of the system messages that a call brings (the reference's name for them)."""

_WORDS = ("auto", "none", "required")


async def conversation(options: RequestOptions, messages: object, context: RequestContext) -> MessageList:
    """Return what a run starts from: instructions, the call's own system messages, context, and the input."""
    made = MessageList(ids=options.ids, clock=options.clock)
    instructions: Value = options.instructions
    if callable(instructions):
        instructions = instructions(context)
        if inspect.isawaitable(instructions):
            instructions = await instructions
    if instructions:
        made = made.add(_system(instructions))
    if options.system:
        made = made.add(_system(options.system), tag=SYSTEM_TAG)
    if options.context:
        made = made.add(_owned(parse_input(options.context, "user"), context), source="context")
    if isinstance(messages, MessageList):
        raise OptionError("Agent", "messages", "a MessageList", "a str, messages, or chat dicts: list.all")
    return made.add(_owned(parse_input(messages, "user"), context), source="input")


def _system(given: Value) -> list[Message]:
    """Return instructions as system messages."""
    if isinstance(given, str):
        return [Message.system(given)]
    return [replace(message, role="system") for message in parse_input(given, "user")]


def _owned(messages: Sequence[Message], context: RequestContext) -> list[Message]:
    """Return messages as ones of the thread at hand."""
    owner = {name: context[name] for name in ("thread_id", "resource_id") if context.get(name) is not None}
    if not owner:
        return list(messages)
    return [
        replace(message, **{name: value for name, value in owner.items() if getattr(message, name) is None})
        for message in messages
    ]


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked in one step, but for the prompt.

    Attributes:
        model: whom.
        tools: all tools of the step, by name: those that calls are made to.
        request: what it is sent, without messages.
    """

    model: Model
    tools: Mapping[str, Tool]
    request: ModelRequest


def asking(prepared: Outcome, model: Model | None = None) -> Asking:
    """Return what the step asks, as the input's processors left it.

    Args:
        prepared: the outcome of `process_input_step`.
        model: what is known to be a model: to find that out takes longer than all the rest here.

    Raises:
        OptionError: what they left is no model, or names a tool that is not there.
    """
    left: Values = prepared.overrides
    tools: Mapping[str, Tool] = as_tools(left.get("tools"), "process_input_step")
    offered = _offered(tools, left.get("active_tools"))
    choice = _choice(left.get("tool_choice"), tools)
    if choice == "none":
        offered = EMPTY
    request = ModelRequest(
        (),
        tuple(tool.spec for tool in offered.values()),
        choice if offered else "auto",
        left.get("model_settings") or EMPTY,
        left.get("response_format"),
        left.get("provider_options") or EMPTY,
    )
    chosen = left.get("model")
    known = model is not None and chosen is model
    return Asking(cast("Model", chosen) if known else as_model(chosen), tools, request)


def as_model(given: object) -> Model:
    """Return a model, or the one of a name.

    Raises:
        OptionError: it is neither, or no model has that name.
    """
    if isinstance(given, str):
        return model_named(given)
    if isinstance(given, Model) and not isinstance(given, type):
        return given
    if type(given).__module__.partition(".")[0] == "pydantic_ai":
        from penstock.models.pydantic_ai.model import PydanticAIModel  # its library is an extra

        return PydanticAIModel(cast("Value", given))
    allowed = "a Model, a name such as 'openai/gpt-5', or a model of pydantic-ai's"
    raise OptionError("Agent", "model", type(given).__name__, allowed)


def _offered(tools: Mapping[str, Tool], active: Sequence[str] | None) -> Mapping[str, Tool]:
    if active is None:
        return tools
    unknown = sorted(set(active) - set(tools))
    if unknown:
        raise UsageError(f"active_tools names {', '.join(unknown)}; the tools are {', '.join(tools) or 'none'}")
    return {name: tool for name, tool in tools.items() if name in active}


def _choice(given: Value, tools: Mapping[str, Tool]) -> Value:
    if given is None:
        return "auto"
    if isinstance(given, str) and given in _WORDS:
        return given
    names = (given,) if isinstance(given, str) else tuple(given)
    unknown = sorted(set(names) - set(tools))
    if unknown:
        known = f"the tools are {', '.join(tools) or 'none'}"
        raise UsageError(
            f"tool_choice is auto, none, required, or names of tools; {', '.join(unknown)} is none: {known}"
        )
    return names
