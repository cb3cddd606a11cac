"""One request to an agent: its task, its progress, its first messages, and each step's request to the model."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.engine.run.conversation import parse_input
from penstock.engine.values.errors import MessageError, OptionError, UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, json_value
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import Message, TextPart
from penstock.engine.values.model import ModelRequest
from penstock.models.named import as_model
from penstock.tools.tool import as_tools
from penstock.workflows.agent.approvals import ApprovalLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.run.held_answers import Release
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Model
    from penstock.models.open_calls import OpenCalls
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.options import Approve, RequestContext, RequestOptions, StopWhen
    from penstock.workflows.agent.suspended import Checkpoint


@dataclass(frozen=True, slots=True)
class RequestTask:
    """The task of a request.

    Attributes:
        start: the messages that it starts from.
        settings: the initial settings of each step: model, tools, tool_choice …, by the names of `process_input_step`.
        release: when chunks may leave.
        max_steps: how many accepted steps there may be, 1 or more.
        stop_when: functions that may end the request after a step whose tools have run.
        approve: decides on calls that need approval.
        allow_empty: whether the model may be called without any message except system messages.
        open_calls: what becomes of calls without a result in a prompt; None: they are sent as they are.
        results_are_messages: whether the result of a call stands in a message of its own; else in the call.
        approvals: which calls were asked about, and whose approvals were used.
        asked_only: whether approvals count only for calls that the agent, or the thread, knows to be asked about.
        checkpoint: the form in which the request is stored when it is suspended; None: it is not.
        judges_again: whether a request that was suspended is judged anew if the agent has changed since.
    """

    start: MessageList
    settings: Values
    release: Release = "auto"
    max_steps: int = 5
    stop_when: tuple[StopWhen, ...] = ()
    approve: Approve | None = None
    allow_empty: bool = False
    open_calls: OpenCalls | None = "close"
    results_are_messages: bool = False
    approvals: ApprovalLog = field(default_factory=ApprovalLog)
    asked_only: bool = False
    checkpoint: Checkpoint | None = None
    judges_again: bool = False


_CHOICES = ("auto", "none", "required")


async def starting_messages(options: RequestOptions, messages: object, context: RequestContext) -> MessageList:
    """Return the messages that a run starts from: instructions, the call's system messages, context, and input."""
    made = MessageList(ids=options.ids, clock=options.clock)
    instructions: Value = options.instructions
    if callable(instructions):
        instructions = instructions(context)
        if inspect.isawaitable(instructions):
            instructions = await instructions
    if instructions:
        made = made.add(system_messages(instructions))
    if options.system:
        made = made.add(system_messages(options.system))
    if options.context:
        made = made.add(_owned(parse_input(options.context, "user"), context), source="context")
    given = parse_input(messages, "user") if not isinstance(messages, MessageList) else ()
    if given and not options.allow_empty and all(map(is_blank, given)):
        raise UsageError(
            "the message to answer is empty: it has no text and nothing else; pass what the user wrote, or use "
            "allow_empty=True to call the model anyway"
        )
    if isinstance(messages, MessageList):
        raise OptionError("Agent", "messages", "a MessageList", "a str, messages, or chat dicts; pass message_list.all")
    return made.add(_owned(given, context), source="input")


def is_blank(message: Message) -> bool:
    """Return whether a message has neither text nor anything else."""
    return all(isinstance(part, TextPart) and not part.text.strip() for part in message.parts)


def system_messages(given: Value) -> list[Message]:
    """Return instructions as system messages."""
    if isinstance(given, str):
        return [Message.system(given)]
    return [replace(message, role="system") for message in parse_input(given, "user")]


def _owned(messages: Sequence[Message], context: RequestContext) -> list[Message]:
    """Return messages with the thread and the owner of the request, where they have none."""
    owner = {name: context[name] for name in ("thread_id", "resource_id") if context.get(name) is not None}
    if not owner:
        return list(messages)
    return [
        replace(message, **{name: value for name, value in owner.items() if getattr(message, name) is None})
        for message in messages
    ]


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The request of a step to the model.

    Attributes:
        model: the model of this step.
        tools: all tools of this step by name, including those that are not offered.
        request: the request, with the messages as the input processors left them.
    """

    model: Model
    tools: Mapping[str, Tool]
    request: ModelRequest

    @property
    def offered(self) -> frozenset[str]:
        """The names of the tools that the model is offered."""
        return frozenset(tool.name for tool in self.request.tools)


def step_request(settings: Values, messages: MessageList, known: Values) -> StepRequest:
    """Return the request of a step to the model, after the input processors.

    Args:
        settings: the settings as `process_input_step` left them.
        messages: the conversation as it left it.
        known: settings whose model and tools are known to be such: to check them costs more than everything else here.

    Raises:
        OptionError: the processors have chosen something that is not a model.
        UsageError: they name a tool that does not exist.
    """
    tools: Value = settings.get("tools")
    if tools is not known["tools"]:
        tools = as_tools(tools, "process_input_step")
    offered = offered_tools(tools, settings.get("active_tools"))
    choice = _choice(settings.get("tool_choice"), tools)
    if choice == "none":
        offered = EMPTY
    request = ModelRequest(
        (*messages.system, *messages.conversation),
        tuple(tool.spec for tool in offered.values()),
        choice if offered else "auto",
        settings.get("model_settings") or EMPTY,
        settings.get("response_format"),
        settings.get("provider_options") or EMPTY,
    )
    model: Value = settings.get("model")
    return StepRequest(model if model is known["model"] else as_model(model, "Agent"), tools, request)


def storable_settings(settings: Values, known: Values) -> Values | None:
    """Return the settings of a step that its processors have changed, as JSON values; None if one is none.

    Args:
        settings: the settings as the processors left them.
        known: the settings of the agent.
    """
    changed: dict[str, Value] = {}
    for name, value in settings.items():
        usual, kept = known.get(name), value
        if value is usual or (name != "model" and value == usual):
            continue
        if name == "tools":
            found = as_tools(value, "process_input_step")
            if any(known[name].get(one) is not tool for one, tool in found.items()):
                return None
            kept = tuple(found)
        try:
            changed[name] = json_value(kept, name)
        except MessageError:
            return None
    return FrozenDict(changed)


def stored_settings(changed: Values, known: Values) -> dict[str, Value]:
    """Return the settings of a step from what `storable_settings` gave.

    Raises:
        UsageError: a tool does not exist any more.
    """
    settings: dict[str, Value] = {**known, **changed}
    if "tools" in changed:
        gone = sorted(set(changed["tools"]) - set(known["tools"]))
        if gone:
            raise UsageError(f"the request was suspended with tools that are gone: {', '.join(gone)}")
        settings["tools"] = {name: known["tools"][name] for name in changed["tools"]}
    return settings


def offered_tools(tools: Mapping[str, Tool], active: Sequence[str] | None) -> Mapping[str, Tool]:
    """Return the tools that the model is offered; ``active``: their names, or None for all.

    Raises:
        UsageError: there is no such tool.
    """
    if active is None:
        return tools
    unknown = sorted(set(active) - set(tools))
    if unknown:
        raise UsageError(f"active_tools names {', '.join(unknown)}; the tools are {', '.join(tools) or 'none'}")
    return {name: tool for name, tool in tools.items() if name in active}


def _choice(given: Value, tools: Mapping[str, Tool]) -> Value:
    if given is None:
        return "auto"
    if isinstance(given, str) and given in _CHOICES:
        return given
    names = (given,) if isinstance(given, str) else tuple(given)
    unknown = sorted(set(names) - set(tools))
    if unknown:
        known = f"the tools are {', '.join(tools) or 'none'}"
        raise UsageError(
            f"tool_choice must be auto, none, required, or names of tools; {', '.join(unknown)} is not a tool; {known}"
        )
    return names
