"""`guard`: an agent of the SDK whose model and tools pass the guards of the run that it is in.

The agent is changed in place, once: the SDK, its results and its hooks so know it as the agent that it is. Outside of a
guarded run it behaves as before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    Model,
    OutputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
)
from pydantic_core import to_jsonable_python

from penstock.engine.formats.parts import read_arguments
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.workflows.adapters.openai_agents.model import GuardedModel, GuardedProvider, guarded
from penstock.workflows.adapters.openai_agents.running import Guarding, guarding_now, running_now
from penstock.workflows.adapters.openai_agents.verdicts import raised_here

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agents import RunConfig, RunContextWrapper, Tool


def _guarded_class(kind: Any) -> Any:
    """Return the class of guarded agents of a kind. A class of one base can take the place of an agent's own."""

    class Guarded(kind):  # type: ignore[misc]
        @property
        def model(self) -> Any:
            """The agent's model, guarded; a name is looked up in the guarded provider of the run."""
            own = self.__dict__.get("model")
            return guarded(own) if isinstance(own, Model) else own

        @model.setter
        def model(self, value: Any) -> None:
            self.__dict__["model"] = value.inner if isinstance(value, GuardedModel) else value

        async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
            """Return the tools, guarded. The SDK asks for them at the beginning of each turn."""
            inner: Any = super()
            tools: list[Tool] = await inner.get_all_tools(run_context)
            running = running_now.get()
            if running is None:
                return tools
            config = getattr(run_context, "run_config", None)
            if config is not None:  # an agent that runs as a tool may have a configuration of its own
                guard_config(config)
            guard_parts(cast("Agent[Any]", self), tools)
            guarding_now.set(running.of(run_context))
            return tools

    Guarded.__name__, Guarded.__qualname__, Guarded.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Guarded


_classes: dict[type, Any] = {}
"""The classes of guarded agents, by those of the agents."""


def guard(agent: Agent[Any]) -> None:
    """Let an agent, and those that it may hand over to or run as tools, pass the guards of the run that they are in."""
    kind = type(agent)
    if kind in _classes.values():
        return
    made = _classes.get(kind)
    if made is None:
        made = _classes[kind] = _guarded_class(kind)
    agent.__class__ = made
    guard_parts(agent, agent.tools)


def guard_parts(agent: Agent[Any], tools: list[Tool]) -> None:
    """Guard the tools of an agent, and the agents that it may hand over to."""
    for tool in tools:
        if isinstance(tool, FunctionTool):
            _guard_tool(tool)
    for other in agent.handoffs:
        if isinstance(other, Agent):
            guard(other)
        else:
            _guard_handoff(other)


def guard_config(config: RunConfig) -> None:
    """Let a configuration give guarded models."""
    if isinstance(config.model, Model):
        config.model = guarded(config.model)
    if not isinstance(config.model_provider, GuardedProvider):
        config.model_provider = GuardedProvider(config.model_provider)


class _Handing:
    """What a handoff calls: the agent that it returns is guarded."""

    def __init__(self, inner: Callable[..., Awaitable[Any]]) -> None:
        self.inner = inner

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        agent = await self.inner(*args, **kwargs)
        if running_now.get() is not None:
            guard(agent)
        return agent


def _guard_handoff(handoff: Handoff[Any, Any]) -> None:
    if not isinstance(handoff.on_invoke_handoff, _Handing):
        handoff.on_invoke_handoff = _Handing(handoff.on_invoke_handoff)


def _guard_tool(tool: FunctionTool) -> None:
    given, after = tool.tool_input_guardrails or [], tool.tool_output_guardrails or []
    if _BEFORE not in given:
        tool.tool_input_guardrails = [*given, _BEFORE]
    if _AFTER not in after:
        tool.tool_output_guardrails = [*after, _AFTER]
    inner: Any = tool._agent_instance  # pyright: ignore[reportPrivateUsage]
    if inner is not None:  # the tool is an agent
        guard(inner)


async def _judge(context: RunContextWrapper[Any], _agent: Agent[Any], _output: Any) -> GuardrailFunctionOutput:
    """Judge a result that is no answer of the model, such as that of a tool which ends the run.

    The verdict is told by the SDK, which would replace an error of ours, and takes the result out of the session.
    """
    running = running_now.get()
    if running is None:
        return GuardrailFunctionOutput(None, tripwire_triggered=False)
    request = running.of(context).request
    await request.end()
    return GuardrailFunctionOutput(request.tripwire, tripwire_triggered=request.tripwire is not None)


RESULT = OutputGuardrail[Any](_judge, name="penstock")
"""Runs the last stage where it has not run with the answer."""


# Tools, by the SDK's own guardrails


def _guarding(data: ToolInputGuardrailData) -> Guarding | None:
    """Return the guarding of the run that calls a tool; that of a tool which is an agent is another one."""
    running = running_now.get()
    if running is None:
        return None
    known = running.tools.get(id(data.context))
    if known is None:
        known = running.tools[id(data.context)] = (data.context, guarding_now.get() or running.root)
    return known[1]


async def _before(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    guarding = _guarding(data)
    if guarding is None:
        return ToolGuardrailFunctionOutput.allow()
    context = data.context
    given, _ = read_arguments(context.tool_arguments)
    with raised_here():
        checked = await guarding.request.tool_call(context.tool_name, given, context.tool_call_id)
    if checked.answered:
        return ToolGuardrailFunctionOutput.reject_content(_text(thaw(checked.answer)))
    if checked.arguments != freeze(given):
        raise UsageError(
            f"a processor changed the arguments of {context.tool_name!r}, a call that no answer of this run has made; "
            "the OpenAI Agents SDK cannot take changed arguments here"
        )
    return ToolGuardrailFunctionOutput.allow()


async def _after(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    guarding = _guarding(data)
    if guarding is None:
        return ToolGuardrailFunctionOutput.allow()
    context = data.context
    given, _ = read_arguments(context.tool_arguments)
    said = to_jsonable_python(data.output, fallback=str)
    with raised_here():
        left = await guarding.request.tool_result(context.tool_name, said, context.tool_call_id, arguments=given)
    if left == freeze(said):
        return ToolGuardrailFunctionOutput.allow()
    return ToolGuardrailFunctionOutput.reject_content(_text(thaw(left)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_BEFORE = ToolInputGuardrail[Any](_before, name="penstock")
_AFTER = ToolOutputGuardrail[Any](_after, name="penstock")
