"""`as_agent`: Haystack's agent with a workflow at its stages."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from haystack import component
from haystack.components.agents import Agent, State
from haystack.dataclasses.streaming_chunk import StreamingCallbackT, select_streaming_callback

from penstock.engine.values.errors import UsageError
from penstock.engine.values.tripwire import BlockedError, Tripwire
from penstock.workflows.adapters.haystack.generator import GuardedChatGenerator, own_callback
from penstock.workflows.adapters.haystack.running import RELEASED, HaystackRun, running_now
from penstock.workflows.adapters.haystack.stored import Named, Stored
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from haystack.dataclasses import ChatMessage
    from haystack.hooks import Hook, HookPoint
    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions

F = TypeVar("F", bound="Callable[..., Any]")

# System messages are often rendered from templates with documents in them, so guards read them as they read input.
SUPPORT = HostSupport("haystack.as_agent", trusted_instructions=False)


def as_agent(agent: Agent, *processors: Item, **options: Unpack[HostOptions]) -> GuardedAgent:
    """Return a copy of an agent with processors at every stage.

    One serves any number of runs at once. A verdict is raised as a `BlockedError`.

    Args:
        agent: the agent; it stays as it is.
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist, or the agent is none of Haystack's own.
        WorkflowError: the processors cannot run together.
    """
    if type(agent) is not Agent:
        raise UsageError(
            f"as_agent(…) needs an Agent, not {type(agent).__name__}; for other components, guard the chat generator "
            "with as_chat_generator(…)"
        )
    return GuardedAgent(agent, Host(SUPPORT, processors, **options), Named(processors, options))


def tripwire_of(error: BaseException | None) -> Tripwire | None:
    """Return the verdict that an error carries, also within the errors that pipelines and tools make of it."""
    while error is not None:
        if isinstance(error, BlockedError):
            return error.tripwire
        error = error.__cause__ or error.__context__
    return None


class GuardHook:
    """A hook of a guarded agent. Made by `as_agent`.

    Args:
        step: runs the stages of the hook in a run.
    """

    def __init__(self, step: Callable[[HaystackRun, State], Awaitable[None]]) -> None:
        self._step = step

    def run(self, state: State) -> None:
        """Do the same as `run_async`, without ``await``."""
        wait_for(self.run_async(state))

    async def run_async(self, state: State) -> None:
        """Run the stages."""
        running = running_now.get()
        if running is not None:
            await self._step(running, state)


def _signed_as(method: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that gives a method the parameters of another, of which Haystack makes sockets."""
    return cast("Callable[[F], F]", wraps(method))


@component
class GuardedAgent(Stored, Agent):  # pyright: ignore[reportIncompatibleMethodOverride] - from_dict returns its class
    """Haystack's agent with processors at every stage. Made by `as_agent`.

    Attributes:
        agent: the agent that it was made of.
        host: the processors.
        trusted: the agent's own instructions, if they hold no variables.
        own_keys: the keys of the state that the agent's user has defined.
    """

    _part = "agent"
    _make = staticmethod(as_agent)

    def __init__(self, agent: Agent, host: Host, named: Named) -> None:
        given = _parameters(agent)
        hooks: Mapping[HookPoint, Sequence[Hook]] = given.get("hooks") or {}
        steps = (HaystackRun.read_input, HaystackRun.check_calls, HaystackRun.check_results, HaystackRun.end)
        read, calls, results, end = map(GuardHook, steps)
        given["hooks"] = {
            **hooks,
            "before_run": [read, *hooks.get("before_run", ())],
            "before_llm": [*hooks.get("before_llm", ()), read],
            "before_tool": [*hooks.get("before_tool", ()), calls],
            "after_tool": [results, *hooks.get("after_tool", ()), results],
            "after_run": [end, *hooks.get("after_run", ())],
        }
        given["chat_generator"] = GuardedChatGenerator(agent.chat_generator, host, named)
        Agent.__init__(self, **given)
        self.agent = agent
        self.host = host
        prompt = agent.system_prompt
        self.trusted = prompt if prompt is not None and "{{" not in prompt and "{%" not in prompt else None
        schema: Mapping[str, object] = given.get("state_schema") or {}
        self.own_keys = [key for key in schema if key != "messages"]
        self._named = named

    @_signed_as(Agent.run)
    def run(
        self, messages: list[ChatMessage], streaming_callback: StreamingCallbackT | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Run the agent.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=False)
        running = HaystackRun(self.host, self.trusted, self.own_keys)
        token = running_now.set(running)
        try:
            shown = callback and running.shown(getattr(callback, RELEASED, callback), awaits=False)
            result = Agent.run(self, messages, shown, **kwargs)
        except BaseException as failure:
            wait_for(running.request.close(failure))
            raise
        finally:
            running_now.reset(token)
        wait_for(running.request.close())
        return result

    @_signed_as(Agent.run_async)
    async def run_async(
        self, messages: list[ChatMessage], streaming_callback: StreamingCallbackT | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Run the agent in an event loop.

        Raises:
            BlockedError: a guard stopped the run.
        """
        callback = select_streaming_callback(self._callback, streaming_callback, requires_async=True)
        running = HaystackRun(self.host, self.trusted, self.own_keys)
        token = running_now.set(running)
        try:
            async with running.request:
                shown = callback and running.shown(getattr(callback, RELEASED, callback), awaits=True)
                return await Agent.run_async(self, messages, shown, **kwargs)
        finally:
            running_now.reset(token)

    @property
    def _callback(self) -> StreamingCallbackT | None:
        return self.agent.streaming_callback or own_callback(self.agent.chat_generator)

    def clone(self, **overrides: Any) -> GuardedAgent:
        """Return a guarded agent that is made of the same, but for some parameters of `Agent`."""
        return GuardedAgent(Agent(**{**_parameters(self.agent), **overrides}), self.host, self._named)


def _parameters(agent: Agent) -> dict[str, Any]:
    """Return the parameters of an agent."""
    given = {name: getattr(agent, name) for name in signature(Agent.__init__).parameters if name != "self"}
    given["state_schema"] = getattr(agent, "_state_schema", agent.state_schema)  # in 3.0, the other one has more keys
    return given
