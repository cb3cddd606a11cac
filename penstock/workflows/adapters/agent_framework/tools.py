"""The stages around each call of a tool: the middleware of functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import agent_framework as theirs
from agent_framework import FunctionMiddleware, MiddlewareFailure
from pydantic import BaseModel

from penstock.engine.values.frozen import freeze, thaw
from penstock.workflows.adapters.agent_framework.running import Bound, GuardBlockedError
from penstock.workflows.adapters.agent_framework.values import (
    are_texts,
    as_beside,
    as_result,
    beside_content,
    contents_in,
    jsonable,
    plain_content,
    put_beside,
    result_value,
    without_raw,
)
from penstock.workflows.hosting import HostRequest, raised_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.workflows.adapters.agent_framework.running import CallNext
    from penstock.workflows.adapters.agent_framework.values import Beside


class GuardFunctionMiddleware(Bound, FunctionMiddleware):
    """The stages around each call of a tool.

    Attributes:
        host: the processors.
        request: the request of the agent's run; None if a chat client is used alone.
    """

    async def process(self, context: theirs.FunctionInvocationContext, call_next: CallNext) -> None:
        """Check the call and its result; a processor may answer in the tool's place.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        request = self.request or self.host.open()
        try:
            with raised_as(GuardBlockedError):
                await self._process(request, context, call_next)
        except Exception as failure:
            if self.request is None:
                await request.close(failure)
            raise
        except BaseException as failure:  # cancelled
            await request.close(failure)
            raise
        if self.request is None:
            await request.close()

    @staticmethod
    async def _process(request: HostRequest, context: theirs.FunctionInvocationContext, call_next: CallNext) -> None:
        name, call_id = context.function.name, str(context.metadata.get("call_id") or context.function.name)
        arguments = context.arguments
        given = jsonable(arguments.model_dump() if isinstance(arguments, BaseModel) else dict(arguments))
        checked = await request.tool_call(name, given, call_id)
        if checked.answered:
            context.result = as_result(checked.answer)
            return
        if checked.arguments != freeze(given):
            context.arguments = thaw(checked.arguments)
        await _GuardedCall(request, context, name, call_id, checked.arguments).run(call_next)


@dataclass(frozen=True)
class _GuardedCall:
    """One call of a tool, of which the arguments were checked."""

    request: HostRequest
    context: theirs.FunctionInvocationContext
    name: str
    call_id: str
    arguments: Value

    async def run(self, call_next: CallNext) -> None:
        """Call the tool, and check its result or error."""
        context = self.context
        try:
            await call_next()
        except theirs.MiddlewareTermination as ended:  # the loop ends with what the middleware behind us has set
            if context.result is None:
                said = ended.result
                packed = isinstance(said, theirs.Content) and said.type == "function_result"
                context.result = (said.items or said.result) if packed else said
            if context.result is not None:
                await self._check_result()
            raise
        except MiddlewareFailure:
            raise
        except theirs.UserInputRequiredException as asks:  # an agent that runs as a tool asks the user
            asks.contents = await self._request_left(asks.contents)
            raise
        except Exception as failure:
            said = str(failure)
            left = await self._left(said, is_error=True)
            await self._check_copies(same=left == said)
            if left != said:
                raise theirs.exceptions.ToolExecutionException(str(left)) from None
            raise
        await self._check_result()

    async def _check_result(self) -> None:
        context, result = self.context, self.context.result
        if isinstance(result, theirs.Content) and result.type == "function_approval_request":
            context.result = (await self._request_left([result]))[0]
            return
        said = result_value(result)
        left = await self._left(said)
        same, contents = left == freeze(said), contents_in(result)
        if not same:
            context.result = as_result(left)
        elif contents:
            context.result = contents = [without_raw(content) for content in contents]
        await self._check_copies(contents if same and are_texts(contents) else (), same=same)

    async def _check_copies(self, texts: Sequence[theirs.Content] = (), *, same: bool) -> None:
        """Check the data beside a result, and the copy of the whole answer that the framework's MCP tools add later.

        Args:
            texts: the texts of the result.
            same: whether guards left the result as it was. If not, there is no copy of it.
        """
        carrier: Any = self.context.metadata.get(_CARRIER)
        given: Beside = {}
        for number, text in enumerate(texts):
            given |= beside_content(str(number), text)
        if carrier is not None and carrier.additional_properties:
            given["copy"] = {"additional_properties": jsonable(carrier.additional_properties)}
        if not given:
            return
        left = as_beside(await self._left(given, beside="copy")) if same else {}
        if left == given:
            return
        for number, text in enumerate(texts):
            put_beside(text, str(number), left)
        if carrier is not None:
            kept = left.get("copy", {}).get("additional_properties", {})
            changed = replace(carrier, additional_properties=kept, item_additional_properties={})
            self.context.metadata[_CARRIER] = changed

    async def _request_left(self, contents: Iterable[theirs.Content]) -> list[theirs.Content]:
        """Return a request to the user as the guards left it."""
        asked = [without_raw(content) for content in contents]
        said = [plain_content(content) for content in asked]
        left = await self._left(said, beside="request")
        return asked if left == freeze(said) else as_result(left)

    async def _left(self, said: object, *, is_error: bool = False, beside: str = "") -> Value:
        """Return the guarded version of a result, or of the data beside it: that is not stored with the call."""
        call_id = f"{self.call_id} {beside}" if beside else self.call_id
        return await self.request.tool_result(self.name, said, call_id, arguments=self.arguments, is_error=is_error)


_CARRIER = "_function_result_carrier"
"""The key under which the framework's MCP tools leave what is added to a result behind all middleware."""
