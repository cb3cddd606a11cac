"""Calls of tools, before and after they run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import ToolMessage
from pydantic_core import to_jsonable_python

from penstock.engine.formats.wire import is_array, is_object
from penstock.engine.values.frozen import freeze, thaw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command

    from penstock.engine.values.frozen import Value
    from penstock.workflows.hosting import HostRequest


class GuardedToolCall:
    """One call of a tool, before and after it runs."""

    def __init__(self, opened: HostRequest, request: ToolCallRequest) -> None:
        self.opened = opened
        self.request = request
        self._call = request.tool_call
        self._id = self._call["id"] or ""

    async def before(self) -> ToolMessage | None:
        """Check the call; return the answer of a processor in the tool's place.

        Raises:
            BlockedError: a guard stopped the run.
        """
        given = to_jsonable_python(self._call["args"], fallback=str)
        checked = await self.opened.tool_call(self._call["name"], given, self._id)
        if checked.answered:
            return self._message(checked.answer, is_error=checked.is_error)
        if checked.arguments != freeze(given):
            call = {**self._call, "args": thaw(checked.arguments)}
            self.request = self.request.override(tool_call=cast("Any", call))
        return None

    async def after(self, result: ToolMessage | Command[Any]) -> ToolMessage | Command[Any]:
        """Return the result as the guards left it.

        Raises:
            BlockedError: a guard stopped the run.
        """
        if isinstance(result, ToolMessage):
            return await self._checked(result)
        update: Any = result.update
        messages: Any = update.get("messages") if is_object(update) else None
        if not is_array(messages):
            return result
        given: Sequence[Any] = messages
        checked = [await self._checked(one) if isinstance(one, ToolMessage) else one for one in given]
        return replace(result, update={**cast("dict[str, Any]", update), "messages": checked})

    def stopped(self) -> ToolMessage:
        """Return the result of a call that a verdict has stopped."""
        return self._message("The request was stopped.", is_error=True)

    async def _checked(self, message: ToolMessage) -> ToolMessage:
        given = to_jsonable_python(message.content, fallback=str)
        left = await self.opened.tool_result(
            self._call["name"],
            given,
            message.tool_call_id,
            arguments=to_jsonable_python(self.request.tool_call["args"], fallback=str),
            is_error=message.status == "error",
        )
        if left == freeze(given):
            return message
        return message.model_copy(update={"content": _content(left), "artifact": None})

    def _message(self, answer: Value, *, is_error: bool) -> ToolMessage:
        status = "error" if is_error else "success"
        return ToolMessage(_content(answer), tool_call_id=self._id, name=self._call["name"], status=status)


def _content(value: Value) -> Any:
    """Return a value as the content of a message: blocks as they are, and other values as JSON."""
    said: Any = thaw(value)
    if isinstance(said, str):
        return said
    blocks: Sequence[Any] = said if is_array(said) else ()
    if blocks and all(isinstance(one, (str, dict)) for one in blocks):
        return blocks
    return json.dumps(said, ensure_ascii=False)
