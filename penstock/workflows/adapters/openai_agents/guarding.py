"""`guard`: an agent of the SDK whose model and tools pass the guards of the run that it is in.

The agent is changed in place, once: the SDK, its results and its hooks so know it as the agent that it is. Outside of a
guarded run it behaves as before.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from agents import Agent, GuardrailFunctionOutput, Model, OutputGuardrail
from agents.run_config import ModelInputData

from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.openai_agents.model import GuardedAgentsModel, GuardedProvider, guarded
from penstock.workflows.adapters.openai_agents.running import guarding_now, running_now
from penstock.workflows.adapters.openai_agents.tools import guard_computer, guard_tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agents import RunConfig, RunContextWrapper, Tool
    from agents.run_config import CallModelData


def _guarded_class(kind: Any) -> type[Agent]:
    """Return the class of guarded agents of a kind. A class of one base can take the place of an agent's own."""

    class Guarded(kind):  # type: ignore[misc]
        @property
        def model(self) -> Any:
            """The agent's model, guarded in a guarded run; a name is looked up in the provider of the run."""
            own = self.__dict__.get("model")
            return guarded(own) if isinstance(own, Model) and running_now.get() is not None else own

        @model.setter
        def model(self, value: Any) -> None:
            self.__dict__["model"] = value.inner if isinstance(value, GuardedAgentsModel) else value

        async def get_all_tools(self, run_context: RunContextWrapper) -> list[Tool]:
            """Return the tools, guarded. The SDK asks for them at the beginning of each turn."""
            inner: Any = super()
            tools: list[Tool] = await inner.get_all_tools(run_context)
            running = running_now.get()
            if running is None:
                return tools
            config = getattr(run_context, "run_config", None)
            if config is not None:  # an agent that runs as a tool may have a configuration of its own
                guard_config(config)
            guard_parts(cast("Agent", self), tools)
            for tool in tools:
                await guard_computer(tool, run_context)
            guarding_now.set(running.of(run_context))
            return tools

    Guarded.__name__, Guarded.__qualname__, Guarded.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Guarded


_classes: dict[type, type[Agent]] = {}
"""The classes of guarded agents, by those of the agents."""


def guard(agent: Agent) -> None:
    """Let an agent, and those that it may hand over to or run as tools, pass the guards of the run that they are in.

    Raises:
        UsageError: it is no `agents.Agent`, such as an agent for realtime sessions.
    """
    if not isinstance(cast("object", agent), Agent):
        raise UsageError(
            f"openai_agents.as_runner cannot guard {type(agent).__name__}, only Agent; in place of a realtime agent, "
            "use an Agent in a voice workflow of your own that calls run_streamed of the runner"
        )
    kind = type(agent)
    if kind in _classes.values():
        return
    made = _classes.get(kind)
    if made is None:
        made = _classes[kind] = _guarded_class(kind)
    agent.__class__ = made
    guard_parts(agent, agent.tools)


def guard_parts(agent: Agent, tools: list[Tool]) -> None:
    """Guard the tools of an agent, and the agents that it may hand over to."""
    for tool in tools:
        guard_tool(tool)
        inner: Any = getattr(tool, "_agent_instance", None)
        if inner is not None:  # the tool is an agent
            guard(inner)
    for other in agent.handoffs:
        if isinstance(other, Agent):
            guard(other)
        elif not isinstance(other.on_invoke_handoff, _Handing):
            other.on_invoke_handoff = _Handing(other.on_invoke_handoff)


def guard_config(config: RunConfig) -> None:
    """Let a configuration give guarded models, and keep text that guards have not read out of the SDK's traces."""
    config.trace_include_sensitive_data = False
    if not isinstance(config.call_model_input_filter, _InputLeft):
        config.call_model_input_filter = _InputLeft(config.call_model_input_filter)
    if isinstance(config.model, Model):
        config.model = guarded(config.model)
    if not isinstance(config.model_provider, GuardedProvider):
        config.model_provider = GuardedProvider(config.model_provider)


class _InputLeft:
    """The input filter of the SDK: hooks get the input of a model call as the guards left it."""

    def __init__(self, inner: Callable[[CallModelData], object] | None) -> None:
        self.inner = inner

    async def __call__(self, data: CallModelData) -> Any:
        told: Any = data.model_data
        if self.inner is not None:
            told = self.inner(data)
            told = await told if inspect.isawaitable(told) else told
        running, guarding = running_now.get(), guarding_now.get()
        if running is None or guarding is None or not isinstance(told, ModelInputData):
            return told
        if running.hears or guarding is not running.root or data.agent.hooks is not None:
            told.input = await guarding.asked(told.instructions, told.input)
            running.clean()  # the context of hooks holds the input of the turn
        return told


class _Handing:
    """The function that a handoff calls: the agent that it returns is guarded."""

    def __init__(self, inner: Callable[..., Awaitable[Agent]]) -> None:
        self.inner = inner

    async def __call__(self, *args: object, **kwargs: object) -> Agent:
        agent = await self.inner(*args, **kwargs)
        if running_now.get() is not None:
            guard(agent)
        return agent


async def _judge(context: RunContextWrapper, _agent: Agent, _output: object) -> GuardrailFunctionOutput:
    """Judge a result that is no answer of the model, such as that of a tool which ends the run.

    The verdict is told by the SDK, which would replace an error of ours, and takes the result out of the session.
    """
    running = running_now.get()
    if running is None:
        return GuardrailFunctionOutput(None, tripwire_triggered=False)
    request = running.of(context).request
    await request.end()
    return GuardrailFunctionOutput(request.tripwire, tripwire_triggered=request.tripwire is not None)


RESULT = OutputGuardrail(_judge, name="penstock")
"""Runs the last stage where it has not run with the answer."""
