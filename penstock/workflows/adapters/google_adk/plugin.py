"""`as_plugin`: a workflow as a plugin of a runner."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from google.adk.agents.llm_agent import LlmAgent
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, is_mapping, thaw
from penstock.engine.values.tripwire import BlockedError
from penstock.workflows.adapters.google_adk.answers import read_contents, told, write_contents
from penstock.workflows.adapters.google_adk.events import SeenParts, UnreadEvent, replaced, text_of
from penstock.workflows.adapters.google_adk.model import Waiting, waiting, wrap
from penstock.workflows.hosting import Host, HostSupport

if TYPE_CHECKING:
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.events.event import Event
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from typing_extensions import Unpack

    from penstock.engine.values.tripwire import Tripwire
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostOptions, HostRequest

SUPPORT = HostSupport("google_adk.as_plugin")


def as_plugin(*processors: Item, **options: Unpack[HostOptions]) -> GuardPlugin:
    """Return processors as a plugin: ``Runner(…, plugins=[as_plugin(guard)])``.

    Put it last in the list, next to the model. One serves any number of runners and invocations. A verdict is an event
    with the error code `ERROR_CODE`; `tripwire_of` reads it.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardPlugin(Host(SUPPORT, processors, **options))


@dataclass(slots=True)
class _InvocationState:
    """The state of an invocation: the texts that the guards released, and the branches in which each agent ran."""

    seen: SeenParts = field(default_factory=SeenParts)
    branches: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])


class GuardPlugin(BasePlugin):
    """A workflow in the agents of a runner. Made by `as_plugin`.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(name=f"penstock_{host.name}")
        self.host = host
        self._requests: dict[tuple[str, str], HostRequest] = {}
        self._invocations: dict[str, _InvocationState] = {}

    def request(self, context: InvocationContext) -> HostRequest:
        """Return the request of an invocation; agents that run side by side have one each."""
        key = (context.invocation_id, context.branch or "")
        made = self._requests.get(key)
        if made is None or made.closed:
            made = self._requests[key] = self.host.open()
            weakref.finalize(context, self._requests.pop, key, None)  # a cancelled run calls no hook
        return made

    def _state_of(self, context: InvocationContext) -> _InvocationState:
        made = self._invocations.get(context.invocation_id)
        if made is None:
            made = self._invocations[context.invocation_id] = _InvocationState()
            weakref.finalize(context, self._invocations.pop, context.invocation_id, None)
        return made

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Check the user's message before the session stores it; the session gets the guarded version."""
        _refuse_live(invocation_context)
        request, said = self.request(invocation_context), read_contents([user_message])
        stored = [event.content for event in invocation_context.session.events if event.content]
        if not await request.begin(said, earlier=read_contents(stored)):  # the first model call tells the verdict
            return types.Content(role="user", parts=[types.Part(text="")])
        left = [message for message in request.current(said) if message is not None]
        if [one.parts for one in left] == [one.parts for one in said]:
            return None
        made = write_contents(left)
        return made[0] if made else types.Content(role="user", parts=[types.Part(text="")])

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        """Refuse runs that cannot be guarded.

        Raises:
            UsageError: the run is a live one.
        """
        _refuse_live(invocation_context)
        self._state_of(invocation_context)  # contexts of single agents may end before their events are read
        return None

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Refuse runs that cannot be guarded, and note where the agent runs: not all agents say so in their events.

        Raises:
            UsageError: the run is a live one.
        """
        context = _invocation(callback_context)
        _refuse_live(context)
        self._state_of(context).branches.setdefault(agent.name, set()).add(context.branch or "")
        return None

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Wrap the agent's model, which ADK asks for right after this.

        Raises:
            UsageError: the agent is of a kind whose model cannot be wrapped.
        """
        context = _invocation(callback_context)
        _refuse_live(context)
        if getattr(context.run_config, "support_cfc", False):
            raise UsageError("google_adk.as_plugin cannot guard runs with support_cfc: they use the live connection")
        agent = context.agent
        if not isinstance(agent, LlmAgent):
            raise UsageError(f"google_adk.as_plugin cannot wrap the model of a {type(agent).__name__}")
        wrap(agent)
        if id(llm_request) not in waiting:
            weakref.finalize(llm_request, waiting.pop, id(llm_request), None)  # another plugin may answer instead
        waiting.setdefault(id(llm_request), []).append(Waiting(self.request(context), self._state_of(context).seen))
        return None

    async def before_tool_callback(self, *, tool: BaseTool, tool_args: Json, tool_context: ToolContext) -> Json | None:
        """Check a call; a processor may answer in the tool's place. After a verdict no tool runs."""
        given = to_jsonable_python(tool_args, fallback=str)
        try:
            checked = await self.request(_invocation(tool_context)).tool_call(
                tool.name, given, tool_context.function_call_id or ""
            )
        except BlockedError:
            _go_on(tool_context)
            return STOPPED
        if checked.answered:
            return _result_dict(thaw(checked.answer))
        if checked.arguments != freeze(given) and is_mapping(checked.arguments):
            tool_args.clear()
            tool_args.update(cast("Json", thaw(checked.arguments)))
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: Json, tool_context: ToolContext, result: Json
    ) -> Json | None:
        """Check the result of a tool; the session and the model get the guarded version."""
        await self._check_confirmation(tool, tool_context)
        if cast("object", result) is None:  # a long-running tool has no result yet
            return None
        seen = self._state_of(_invocation(tool_context)).seen
        if result is STOPPED:
            seen.add_result(tool.name, STOPPED)
            return None
        said = to_jsonable_python(result, fallback=str, bytes_mode="base64")
        left = await self._checked(tool, tool_args, tool_context, said, is_error=False)
        seen.add_result(tool.name, _result_dict(thaw(left)))
        return None if left == freeze(said) else _result_dict(thaw(left))

    async def _check_confirmation(self, tool: BaseTool, tool_context: ToolContext) -> None:
        """Check the text that a tool shows the user when it asks for a confirmation."""
        call_id = tool_context.function_call_id or ""
        asked = tool_context.actions.requested_tool_confirmations.get(call_id)
        if asked is None:
            return
        said = {"hint": asked.hint, "payload": to_jsonable_python(asked.payload, fallback=str, bytes_mode="base64")}
        try:
            left: Value = await self.request(_invocation(tool_context)).tool_result(
                tool.name, said, f"{call_id}-confirmation"
            )
        except BlockedError:
            del tool_context.actions.requested_tool_confirmations[call_id]
            _go_on(tool_context)
            return
        if left != freeze(said):
            asked.hint, asked.payload = str(left["hint"]), thaw(left["payload"])

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: Json, tool_context: ToolContext, error: Exception
    ) -> Json | None:
        """Check the text of a tool's error; the run fails with it, unless another plugin answers for the tool."""
        await self._checked(tool, tool_args, tool_context, str(error), is_error=True)
        return None

    async def _checked(
        self, tool: BaseTool, tool_args: Json, tool_context: ToolContext, said: Value, *, is_error: bool
    ) -> Value:
        arguments = to_jsonable_python(tool_args, fallback=str)
        call_id = tool_context.function_call_id or ""
        try:
            return await self.request(_invocation(tool_context)).tool_result(
                tool.name, said, call_id, arguments=arguments, is_error=is_error
            )
        except BlockedError:
            _go_on(tool_context)
            return freeze(STOPPED)

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Check an event that no stage has read, before the session stores it and the user gets it.

        Such events come from callbacks, code executors, remote agents, and agents of your own.
        """
        unread = None if event.author == "user" else UnreadEvent.of(event, self._state_of(invocation_context).seen)
        if unread is None:
            return None
        if event.partial:
            return unread.without_unread()
        request = self.host.open()
        try:
            return await unread.read(request)
        except BlockedError as blocked:
            verdict = blocked.tripwire
        finally:
            await request.close()
        self._stop(invocation_context.invocation_id, self._branch_of(event, invocation_context), verdict)
        return replaced(event, text_of(event), None, {"content": None, **told(verdict)})

    def _branch_of(self, event: Event, context: InvocationContext) -> str:
        """Return the branch of an event, or that of its author; the root, where neither tells one branch."""
        ran_in = self._state_of(context).branches.get(event.author, set())
        return event.branch or (next(iter(ran_in)) if len(ran_in) == 1 else "")

    def _stop(self, invocation_id: str, branch: str, verdict: Tripwire) -> None:
        """Let no agent go on after a verdict, but those that run beside the branch that it is about."""
        for (id, other), request in self._requests.items():
            beside = not branch.startswith(other) and not other.startswith(branch)
            if id == invocation_id and not beside and request.tripwire is None:
                request.run.stop(verdict)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Close the requests of the invocation."""
        await self._close(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Close the requests of an invocation that failed."""
        await self._close(invocation_context.invocation_id, error)

    async def close(self) -> None:
        """Close the requests of invocations that nobody read to their end."""
        for id in {key[0] for key in self._requests}:
            await self._close(id, UsageError("the runner was closed"))

    async def _close(self, invocation_id: str, error: BaseException | None = None) -> None:
        self._invocations.pop(invocation_id, None)
        for key in [key for key in self._requests if key[0] == invocation_id]:
            await self._requests.pop(key).close(error)


STOPPED = {"error": "The request was stopped."}
"""What stands in the session for a tool that a verdict stopped; the verdict itself is told by the next event."""


def _invocation(context: Any) -> InvocationContext:
    return cast("InvocationContext", context._invocation_context)


def _refuse_live(context: InvocationContext) -> None:
    if context.live_request_queue is not None:
        raise UsageError("google_adk.as_plugin cannot guard run_live: ADK calls no hooks there; use run_async")


def _go_on(tool_context: ToolContext) -> None:
    """Let the agent call its model after a verdict on a tool, also where the tool would end its turn: it tells it."""
    tool_context.actions.skip_summarization = None


def _result_dict(said: Value) -> Json:
    return cast("Json", said) if isinstance(said, dict) else {"result": said}
