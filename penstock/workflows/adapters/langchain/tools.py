"""Calls of tools, before and after they run."""

# pyright: reportPrivateUsage=false
# The functions of a tool that LangChain calls between its callbacks are those with an underscore only.

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import Command
from pydantic import BaseModel

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.tripwire import BlockedError
from penstock.formats.wire import has_text, is_array, is_object
from penstock.workflows.adapters.langchain.approvals import asked_call, digest_of, is_edit, refusal, with_notice
from penstock.workflows.adapters.langchain.messages import read
from penstock.workflows.adapters.langchain.reading import as_json
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting.asking import USED
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langgraph.prebuilt.tool_node import ToolCallRequest

    from penstock.engine.values.frozen import Value
    from penstock.formats.wire import Json
    from penstock.workflows.hosting import Host, HostRequest

STOPPED = "The request was stopped."
"""What stands in the place of a result that a verdict has stopped."""


class GuardedToolCall:
    """One call of a tool, before and after it runs.

    Its methods raise a `BlockedError` if a guard stopped the run.

    Attributes:
        opened: the request that it belongs to.
        request: the call as LangChain makes it. Its tool checks results itself, before callbacks and streams see them.

    Args:
        decision: the decision of a person about the call, or None.
        host: the processors.
    """

    def __init__(self, opened: HostRequest, request: ToolCallRequest, decision: Json | None, host: Host) -> None:
        self.opened = opened
        self._decision = decision
        self._host = host
        self._tool = request.tool
        self._state: Value = request.state
        self._call = request.tool_call
        self._id = self._call["id"] or ""
        self._checked: list[Value] = []  # the results that were checked while the tool ran
        tool = request.tool
        self.request = (
            request.override(tool=_checking(tool, self._result, self._error)) if isinstance(tool, BaseTool) else request
        )

    async def before(self) -> ToolMessage | None:
        """Check the call; return the answer of a processor in the tool's place."""
        if self._decision is not None:
            return await self._decided(self._decision)
        given = as_json(self._call["args"])
        asked = next((call for call in calls_of(self.opened.answer) if call.call_id == self._id), None)
        same = asked is None or asked.arguments == freeze(given)  # else other middleware has changed them
        checked = await self.opened.tool_call(self._call["name"], given, self._id if same else f"{self._id}-changed")
        if checked.answered:
            return self._message(checked.answer, is_error=checked.is_error)
        if checked.arguments != freeze(given):
            call = {**self._call, "args": thaw(checked.arguments)}
            self.request = self.request.override(tool_call=cast("Any", call))
        return None

    async def _decided(self, decision: Json) -> ToolMessage | None:
        """Check a call that a person has decided about; return what stands in the place of its result."""
        call, kind, asked = self._call, decision["type"], asked_call(self._tool, self._call)
        if digest_of(asked, self._host.policy) != decision["digest"]:
            return self._message(USED, is_error=True)
        if kind in ("reject", "respond"):
            said = refusal(call, decision["message"]) if kind == "reject" else decision["message"]
            left = await self._left(said, self._id, is_error=kind == "reject")
            return self._message(left, is_error=kind == "reject")
        arguments = as_json(decision.get("args", call["args"]))
        checked = await self.opened.approved_call(asked, arguments, conversation=read(self._state["messages"]))
        if checked.answered:
            return self._message(checked.answer, is_error=checked.asks)
        self.request = self.request.override(tool_call=cast("Any", {**call, "args": thaw(checked.arguments)}))
        return None

    async def give_back(self) -> None:
        """Let an approval count again, since the tool itself waits for a person, and LangGraph repeats it."""
        if self._decision is not None:
            await self.opened.give_back(asked_call(self._tool, self._call))

    async def after(self, result: Any) -> Any:
        """Return the result, or the list of them, as the guards left it; that of an edited call tells the model so."""
        left = await self._left_result(result)
        edited = is_edit(self._decision, self._call)
        return with_notice(left, self.request.tool_call["args"]) if edited else left

    async def _left_result(self, result: Value) -> Value:
        self.opened.check()
        if is_array(result):
            return [await self._left_result(one) for one in cast("Sequence[Any]", result)]
        if isinstance(result, ToolMessage):
            return await self._left_message(result)
        if isinstance(result, Command):
            return await self._left_command(cast("Any", result))
        return result

    def stopped(self) -> ToolMessage:
        """Return the result of a call that a verdict has stopped."""
        return self._message(STOPPED, is_error=True)

    # What the tool returns

    async def _result(self, said: Any, *, has_artifact: bool) -> Any:
        """Return the value that a tool has returned as the guards left it, before LangChain makes a message of it."""
        if _is_output(said):
            return await self._or_stopped(self._left_result(said), said, has_artifact=has_artifact)
        content, artifact = said, None
        if has_artifact:
            content, artifact = said
        message = ToolMessage(_as_said(content), artifact=artifact, tool_call_id=self._id, name=self._call["name"])
        left = await self._or_stopped(self._left_message(message), message, has_artifact=False)
        if left is message:
            return said
        if isinstance(left, str):
            return (left, None) if has_artifact else left
        return (left.content, left.artifact) if has_artifact else left.content

    async def _or_stopped(self, work: Awaitable[Any], said: Any, *, has_artifact: bool) -> Any:
        """Return the result of a check; after a verdict, a text in its place: `after` raises the verdict."""
        try:
            left = await work
        except BlockedError:
            if self.opened.tripwire is None:
                raise
            left = STOPPED
        return (left, None) if has_artifact and left is not said else left

    async def _error(self, error: ToolException) -> ToolException:
        """Return an error that LangChain makes a result of, as the guards left it."""
        text = str(error)
        try:
            left = await self._left(text, self._id, is_error=True)
        except BlockedError:
            left = STOPPED
        return error if left == text else ToolException(left if isinstance(left, str) else json.dumps(thaw(left)))

    # Messages and updates of the state

    async def _left_message(self, message: ToolMessage) -> ToolMessage:
        given = as_json(message.content)
        if freeze(given) in self._checked:
            return message
        left = await self._left(given, message.tool_call_id, is_error=message.status == "error")
        if left != freeze(given):
            return message.model_copy(update={"content": _content(left), "artifact": None})
        artifact = await self._left_value(message.artifact, "artifact")
        return message if artifact is message.artifact else message.model_copy(update={"artifact": artifact})

    async def _left_command(self, command: Command[Any]) -> Command[Any]:
        update: Any = command.update
        if is_object(update):
            return replace(command, update={name: await self._left_update(name, item) for name, item in update.items()})
        return replace(command, update=await self._left_value(update, "update"))

    async def _left_update(self, name: str, item: Any) -> Any:
        if name != "messages":
            return await self._left_value(item, name)
        items = list(item) if is_array(item) else [item]
        return [await self._left_added(one) for one in convert_to_messages(items)]

    async def _left_added(self, message: BaseMessage) -> BaseMessage:
        """Return a message that a tool adds to the state."""
        if isinstance(message, ToolMessage):
            return await self._left_message(message)
        if isinstance(message, RemoveMessage):
            return message
        content = await self._left_value(message.content, "message")
        return message if content is message.content else message.model_copy(update={"content": content})

    async def _left_value(self, value: Any, name: str) -> Any:
        """Return a value that a tool gives beside its result, as the guards left it.

        Raises:
            UsageError: it is an object that nobody can change.
        """
        given = as_json(value)
        if not has_text(given):
            return value
        left = await self._left(given, f"{self._id}-{name}")
        if left == freeze(given):
            return value
        if isinstance(value, BaseModel):
            return type(value).model_validate(thaw(left))
        if given == value:
            return thaw(left)
        if name == "artifact":
            return None
        raise UsageError(
            f"a processor changed {name!r} of a tool's Command, a {type(value).__name__}, which cannot be made of JSON "
            "again; let the tool return JSON values or Pydantic models"
        )

    async def _left(self, given: Any, call_id: str, *, is_error: bool = False) -> Value:
        arguments = as_json(self.request.tool_call["args"])
        left = await self.opened.tool_result(self._call["name"], given, call_id, arguments=arguments, is_error=is_error)
        self._checked.append(freeze(_content(left)))
        return left

    def _message(self, answer: Value, *, is_error: bool) -> ToolMessage:
        status = "error" if is_error else "success"
        return ToolMessage(_content(answer), tool_call_id=self._id, name=self._call["name"], status=status)


def _checking(
    tool: BaseTool, left: Callable[..., Awaitable[Any]], error: Callable[[ToolException], Awaitable[ToolException]]
) -> BaseTool:
    """Return a tool whose results are checked before LangChain's callbacks, and so streams and tracers, see them."""
    has_artifact = tool.response_format == "content_and_artifact"

    async def left_of(said: Any, failure: ToolException | None) -> Any:
        if failure is not None:
            raise await error(failure)
        return await left(said, has_artifact=has_artifact)

    @functools.wraps(tool._run)
    def run(*args: Any, **kwargs: Any) -> Any:
        said, failure = None, None
        try:
            said = tool._run(*args, **kwargs)
        except ToolException as raised:
            if not tool.handle_tool_error:
                raise
            failure = raised
        return wait_for(left_of(said, failure))

    @functools.wraps(tool._arun)
    async def arun(*args: Any, **kwargs: Any) -> Any:
        said, failure = None, None
        try:
            said = await tool._arun(*args, **kwargs)
        except ToolException as raised:
            if not tool.handle_tool_error:
                raise
            failure = raised
        return await left_of(said, failure)

    made = tool.model_copy()
    for name, function in (("_run", run), ("_arun", arun)):
        object.__setattr__(made, name, function)
    return made


def _is_output(said: Any) -> bool:
    """Return whether LangChain takes the value that a tool has returned as it is."""
    items: Sequence[Any] = cast("Sequence[Any]", said) if isinstance(said, list) else [said]
    return bool(items) and all(isinstance(one, (ToolMessage, Command)) for one in items)


def _as_said(content: Any) -> Any:
    """Return the value that a tool has returned as the content of its message."""
    if isinstance(content, str) or (is_array(content) and _are_blocks(content)):
        return content
    try:
        return json.dumps(content, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(content)


def _content(value: Value) -> Any:
    """Return a value as the content of a message: blocks as they are, and other values as JSON."""
    said: Any = thaw(value)
    if isinstance(said, str) or (is_array(said) and said and _are_blocks(said)):
        return said
    return json.dumps(said, ensure_ascii=False)


def _are_blocks(items: Sequence[Any]) -> bool:
    return all(isinstance(one, (str, dict)) for one in items)
