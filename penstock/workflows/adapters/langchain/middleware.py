"""`as_middleware`: a workflow in the agents of ``create_agent``, and where its hooks find the request of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Self, TypedDict

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, hook_config
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage
from langchain_core.runnables import ensure_config
from langgraph.channels import UntrackedValue  # pyright: ignore[reportMissingTypeStubs]
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from penstock.engine.values.errors import UsageError
from penstock.engine.values.tripwire import BlockedError
from penstock.workflows.adapters.langchain.approvals import (
    asked_calls,
    decisions_about,
    digest_of,
    stored_decisions,
    thread_id,
    waiting_calls,
)
from penstock.workflows.adapters.langchain.messages import changes, last_turn, read, removed
from penstock.workflows.adapters.langchain.model import GuardedChatModel, guarded
from penstock.workflows.adapters.langchain.reading import in_order
from penstock.workflows.adapters.langchain.tools import GuardedToolCall
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain.agents.middleware.types import ModelCallResult
    from langchain_core.messages import BaseMessage, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Interrupt
    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostOptions, HostRequest


class OpenRequest(str):
    """The request of a run, in the state of the graph, where it lives as long as the run does.

    It is a str, its id, to whoever streams or stores the state.
    """

    __slots__ = ("host", "request")

    def __new__(cls, host: Host) -> Self:
        """Open a request."""
        request = host.open()
        made = super().__new__(cls, request.run.run_id)
        made.host, made.request = host, request
        return made

    host: Host
    request: HostRequest

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: there is one, whoever copies the state."""
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return what makes its id: a request is not stored."""
        return str, (str(self),)

    @property
    def current(self) -> HostRequest:
        """The request; another one if it was closed, because the framework repeats a failed step."""
        if self.request.closed:
            self.request = self.host.open()
        return self.request


def request_of(host: Host, held: Any = None) -> OpenRequest:
    """Return the request of a run: the one that its state holds, or its configuration, or else another one."""
    if isinstance(held, OpenRequest):
        return held
    config = ensure_config()
    given: Sequence[OpenRequest] = (config.get("configurable") or {}).get(_key(_depth(config) - 1)) or ()
    return next((one for one in given if one.host is host), None) or OpenRequest(host)


def with_requests(config: RunnableConfig | None, opened: Sequence[OpenRequest]) -> RunnableConfig:
    """Return a configuration of a graph that holds requests for the hooks of this graph, not of those within it."""
    whole = ensure_config(config)
    return {**whole, "configurable": {**(whole.get("configurable") or {}), _key(_depth(whole)): opened}}


def _key(depth: int) -> str:
    return f"__penstock_request_{depth}"  # LangGraph stores no value with two underscores before its name


def _depth(config: RunnableConfig) -> int:
    """Return in how many nodes something runs that has this configuration."""
    path: str = (config.get("configurable") or {}).get("checkpoint_ns") or ""
    return len(path.split("|")) if path else 0


SUPPORT = HostSupport("langchain.as_middleware", waits=True)


def as_middleware(*processors: Item, **options: Unpack[HostOptions]) -> GuardMiddleware:
    """Return processors as middleware: ``create_agent(model, tools, middleware=[as_middleware(guard)])``.

    Put it last in the list, next to the model. One serves any number of agents and runs. A verdict is raised as a
    `BlockedError`.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    host = Host(SUPPORT, processors, **options)
    return AskingMiddleware(host) if host.asks else GuardMiddleware(host)


class GuardMiddleware(AgentMiddleware[Any, Any, Any]):
    """A workflow in LangChain's agents. Made by `as_middleware`.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host
        self._key = f"penstock_request_{self.name}"
        # A request is not stored in checkpoints: a run that is resumed opens another one.
        self._asked_key = f"penstock_asked_{self.name}"
        self._decided_key = f"penstock_decided_{self.name}"
        made: Any = TypedDict
        self.state_schema = made("GuardState", self._state_fields())

    def _state_fields(self) -> Json:
        return {self._key: NotRequired[Annotated[str, UntrackedValue, PrivateStateAttr]]}

    @property
    def name(self) -> str:
        """The name of its nodes in the graph."""
        return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in self.host.name)

    async def stored_decisions(self, interrupts: Sequence[Interrupt]) -> Command[Any] | None:
        """Return the command that resumes a graph with the decisions that are stored in ``reviews``.

        None if decisions are missing. A call that nobody decided about in time is answered so.

        Args:
            interrupts: of the graph: ``result["__interrupt__"]``, or ``agent.get_state(config).interrupts``.

        Raises:
            UsageError: the middleware has no ``reviews``.
            ReviewError: a call is not in the store.
            StorageError: the store failed.
        """
        return await stored_decisions(self.host.stored_reviews, interrupts)

    # Before the first call

    @hook_config(can_jump_to=["end"])
    async def abefore_agent(self, state: Mapping[str, Value], runtime: Runtime[Value]) -> Json | None:
        """Check the input, and replace it in the state by the guarded version."""
        opened = request_of(self.host)
        with_request: Json = {self._key: opened}
        given: Sequence[BaseMessage] = state["messages"]
        said = read(given)
        try:
            goes_on = await opened.current.begin(said)
        except BaseException as failure:
            await opened.request.close(failure)
            raise
        if not goes_on:  # what came in last leaves the state; behind it, after_agent raises the verdict
            return {**with_request, "messages": removed(last_turn(given)), "jump_to": "end"}
        return {**with_request, "messages": changes(given, said, opened.request.current(said))}

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Mapping[str, Value], runtime: Runtime[Value]) -> Json | None:
        """Do the same without ``await``."""
        return wait_for(self.abefore_agent(state, runtime))

    # Model calls

    async def awrap_model_call(
        self, request: ModelRequest[Value], handler: Callable[[ModelRequest[Value]], Awaitable[ModelResponse[Value]]]
    ) -> ModelCallResult[Value]:
        """Put the stages around the model, and replace changed messages in the state."""
        opened = request_of(self.host, request.state.get(self._key))
        model = guarded(request.model, self.host, opened.current)
        opened.request.thread = thread_id()
        try:
            response = await handler(request.override(model=model))
            for call in asked_calls(opened.request, response.result, request.tools):
                await opened.request.ask(call)
            return self._completed(request, response, model, opened)
        except BaseException as failure:
            await opened.request.close(failure)
            raise

    def wrap_model_call(
        self, request: ModelRequest[Value], handler: Callable[[ModelRequest[Value]], ModelResponse[Value]]
    ) -> ModelCallResult[Value]:
        """Do the same without ``await``."""
        opened = request_of(self.host, request.state.get(self._key))
        model = guarded(request.model, self.host, opened.current)
        opened.request.thread = thread_id()
        try:
            response = handler(request.override(model=model))
            for call in asked_calls(opened.request, response.result, request.tools):
                wait_for(opened.request.ask(call))
            return self._completed(request, response, model, opened)
        except BaseException as failure:
            wait_for(opened.request.close(failure))
            raise

    # Tools

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Check the call and its result; a processor may answer in the tool's place.

        After a verdict the call has a result that says so, since providers refuse a conversation with a call that has
        none. The next model call, or the end of the run, raises the verdict.
        """
        guarded = self._guarded(request)
        try:
            answered = await guarded.before()
            return answered or await guarded.after(await handler(guarded.request))
        except GraphBubbleUp:
            await guarded.give_back()
            raise
        except BlockedError:
            if guarded.opened.tripwire is None:  # of another run, which the tool has started
                raise
            return guarded.stopped()
        except Exception:  # the request goes on: other middleware may repeat the tool
            raise
        except BaseException as failure:  # cancelled
            await guarded.opened.close(failure)
            raise

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Do the same without ``await``."""
        guarded = self._guarded(request)
        try:
            answered = wait_for(guarded.before())
            return answered or wait_for(guarded.after(handler(guarded.request)))
        except GraphBubbleUp:
            wait_for(guarded.give_back())
            raise
        except BlockedError:
            if guarded.opened.tripwire is None:  # of another run, which the tool has started
                raise
            return guarded.stopped()
        except Exception:  # the request goes on: other middleware may repeat the tool
            raise
        except BaseException as failure:  # interrupted
            wait_for(guarded.opened.close(failure))
            raise

    def _guarded(self, request: ToolCallRequest) -> GuardedToolCall:
        opened = request_of(self.host, request.state.get(self._key)).current
        decisions: Mapping[str, Json] = request.state.get(self._decided_key) or {}
        return GuardedToolCall(opened, request, decisions.get(request.tool_call["id"] or ""), self.host)

    # Behind the last call

    async def aafter_agent(self, state: Mapping[str, Value], runtime: Runtime[Value]) -> Json | None:
        """Judge an answer that is no text, such as an object, and end the request.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: a processor changed the answer, of which the object was made already.
        """
        opened = state.get(self._key)
        if not isinstance(opened, OpenRequest):
            return None
        async with opened.request as request:
            if not request.closed:
                await request.end_made("LangChain")
            request.check()
        return None

    def after_agent(self, state: Mapping[str, Value], runtime: Runtime[Value]) -> Json | None:
        """Do the same without ``await``."""
        return wait_for(self.aafter_agent(state, runtime))

    def _completed(
        self, request: ModelRequest[Value], response: ModelResponse[Value], model: GuardedChatModel, opened: OpenRequest
    ) -> ModelCallResult[Value]:
        """Return the response of a model call with the messages that the guards have changed.

        Raises:
            UsageError: another model answered.
        """
        if not model.called:
            raise UsageError(
                "another middleware has replaced the model, so its answer was not checked; put as_middleware(…) last "
                "in middleware=[…]"
            )
        update = self._noted(request, response, opened)
        given: Sequence[BaseMessage] = request.state["messages"]
        said = read(given)
        changed = changes(given, said, opened.request.current(said))
        if changed:
            update["messages"] = changed
        if request.state.get(self._key) is not opened:
            update[self._key] = opened
        answers = [
            one.model_copy(update={"content": in_order(one.content)}) if isinstance(one, AIMessage) else one
            for one in response.result
        ]
        response = replace(response, result=answers)
        return ExtendedModelResponse(response, Command(update=update)) if update else response

    def _noted(self, request: ModelRequest[Value], response: ModelResponse[Value], opened: OpenRequest) -> Json:
        """Return what the state keeps of an answer beside its messages."""
        return {}


class AskingMiddleware(GuardMiddleware):
    """A workflow in LangChain's agents whose guards ask a person about calls of tools. Made by `as_middleware`."""

    def _state_fields(self) -> Json:
        stored = NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
        return {**super()._state_fields(), self._asked_key: stored, self._decided_key: stored}

    def _noted(self, request: ModelRequest[Value], response: ModelResponse[Value], opened: OpenRequest) -> Json:
        """Return the calls that a person is asked about; those of earlier answers are forgotten."""
        calls = asked_calls(opened.request, response.result, request.tools)
        asked = {call.call_id: digest_of(call, self.host.policy) for call in calls}
        known = {name: request.state.get(name) for name in (self._asked_key, self._decided_key)}
        return {self._asked_key: asked, self._decided_key: {}} if asked or any(known.values()) else {}

    async def aafter_model(self, state: Mapping[str, Value], runtime: Runtime[Value]) -> Json | None:
        """Ask a person about the calls that a guard asks about, and keep the decisions in the state.

        Raises:
            GraphInterrupt: nobody has decided yet.
            ValidationError: the decisions do not fit the calls.
        """
        asked: Mapping[str, str] = state.get(self._asked_key) or {}
        calls = waiting_calls(state["messages"], asked)
        if not calls:
            return None
        opened = state.get(self._key)
        if isinstance(opened, OpenRequest):  # whoever goes on opens another one
            await opened.request.close()
        return {
            self._decided_key: decisions_about(calls, asked, self.host.reviews),
            self._key: request_of(self.host, opened),
        }

    def after_model(self, state: Mapping[str, Value], runtime: Runtime[Value]) -> Json | None:
        """Do the same without ``await``."""
        asked: Mapping[str, str] = state.get(self._asked_key) or {}
        calls = waiting_calls(state["messages"], asked)
        if not calls:
            return None
        opened = state.get(self._key)
        if isinstance(opened, OpenRequest):
            wait_for(opened.request.close())
        return {
            self._decided_key: decisions_about(calls, asked, self.host.reviews),
            self._key: request_of(self.host, opened),
        }
