"""`as_agent`: an agent of ``create_agent`` whose input is checked before LangGraph stores it."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import RemoveMessage, convert_to_messages
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import DataPart, Message
from penstock.formats.wire import has_text, is_array, is_object
from penstock.workflows.adapters.langchain.messages import as_left, read
from penstock.workflows.adapters.langchain.middleware import OpenRequest, with_requests
from penstock.workflows.adapters.langchain.reading import as_json
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot

    from penstock.workflows.adapters.langchain.middleware import GuardMiddleware
    from penstock.workflows.hosting import HostRequest

_LENT = "__pregel_checkpointer"
"""The key with which a graph lends its checkpointer, or that it has none, to a graph in one of its nodes."""


def as_agent(agent: CompiledStateGraph[Any, Any, Any, Any], *guards: GuardMiddleware) -> GuardedAgent:
    """Return a copy of an agent that checks input before LangGraph stores or traces it.

    Without it, the first checkpoint of a run, and tracers of the graph, hold the input as it was sent.

    Args:
        agent: the agent; it stays as it is.
        guards: the middleware of `as_middleware` that the agent was created with.

    Raises:
        UsageError: the agent was not created with one of them, or there is none.
    """
    missing = [guard.name for guard in guards if f"{guard.name}.before_agent" not in agent.nodes]
    if missing or not guards:
        raise UsageError(
            f"the agent was created without the middleware {', '.join(map(repr, missing)) or 'of as_agent'}; pass the "
            "same object to both: as_agent(create_agent(…, middleware=[guard]), guard)"
        )
    given = {name: item for name, item in vars(agent).items() if name != "__orig_class__"}
    return GuardedAgent(**{**given, "guards": guards})


class GuardedAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """An agent of LangChain that checks its input before LangGraph stores it. Made by `as_agent`.

    All ways to run a graph go through `stream` and `astream`.

    Attributes:
        guards: the middleware that it was created with.
    """

    def __init__(self, *, guards: Sequence[GuardMiddleware], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.guards = guards

    def stream(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Run the agent, and yield its stream.

        Raises:
            BlockedError: a guard stopped the run.
        """
        opened = [OpenRequest(guard.host) for guard in self.guards]
        try:
            thread = self._thread(config)
            earlier = None if thread is None else self.get_state(thread)
            checked = wait_for(_checked_by(opened, input, earlier))
            graph: Any = super()
            yield from graph.stream(checked, with_requests(config, opened), **kwargs)
        except BaseException as failure:
            wait_for(_close(opened, failure))
            raise
        wait_for(_close(opened))

    async def astream(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Run the agent, and yield its stream.

        Raises:
            BlockedError: a guard stopped the run.
        """
        opened = [OpenRequest(guard.host) for guard in self.guards]
        try:
            thread = self._thread(config)
            earlier = None if thread is None else await self.aget_state(thread)
            checked = await _checked_by(opened, input, earlier)
            graph: Any = super()
            made: Any = graph.astream(checked, with_requests(config, opened), **kwargs)
            async with aclosing(made) as streamed:
                async for one in streamed:
                    yield one
        except BaseException as failure:
            await _close(opened, failure)
            raise
        await _close(opened)

    def _thread(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the configuration with which the messages of a thread can be read; None if none are kept."""
        whole = merge_configs(self.config, ensure_config(config))
        places, own = whole.get("configurable", {}), getattr(self, "checkpointer", None)
        saver = None if own is False else places.get(_LENT, own)
        return whole if isinstance(saver, BaseCheckpointSaver) and "thread_id" in places else None


async def _checked_by(opened: Sequence[OpenRequest], given: Any, state: StateSnapshot | None) -> Any:
    values: Any = {} if state is None else state.values
    earlier = read(values.get("messages", ()) if is_object(values) else ())
    for one in opened:
        given = await _checked(one.request, given, earlier)
    return given


async def _close(opened: Sequence[OpenRequest], failure: BaseException | None = None) -> None:
    for one in opened:
        await one.request.close(failure)


async def _checked(request: HostRequest, given: Any, earlier: Sequence[Message]) -> Any:
    """Return the input of a graph as the guards left it.

    Raises:
        BlockedError: a guard stopped the run.
    """
    if isinstance(given, Command):
        command = cast("Any", given)
        resume = await _checked_value(request, command.resume, earlier)
        return replace(command, update=await _checked(request, command.update, earlier), resume=resume)
    if not is_object(given) or "messages" not in given:
        return given
    listed: Any = given["messages"]
    messages = convert_to_messages(listed if is_array(listed) else [listed])
    return {**given, "messages": await _checked_messages(request, messages, earlier)}


async def _checked_messages(
    request: HostRequest, messages: Sequence[BaseMessage], earlier: Sequence[Message]
) -> list[BaseMessage]:
    given = [message for message in messages if not isinstance(message, RemoveMessage)]
    said = read(given)
    if not await request.begin(said, whole=False, earlier=earlier):
        request.check()
    left = iter(as_left(given, said, request.current(said)))
    made = [message if isinstance(message, RemoveMessage) else next(left) for message in messages]
    return [message for message in made if message is not None]


async def _checked_value(request: HostRequest, value: Any, earlier: Sequence[Message]) -> Any:
    """Return the user's answer to an interrupt, as the guards left it."""
    given = as_json(value)
    if not has_text(given):
        return value
    said = Message("user", (DataPart("resume", freeze(given)),))
    if not await request.begin([said], whole=False, earlier=earlier):
        request.check()
    [left] = request.current([said])
    parts = () if left is None else left.parts
    data = next((part.data for part in parts if isinstance(part, DataPart)), None)
    return value if data == freeze(given) else thaw(data)
