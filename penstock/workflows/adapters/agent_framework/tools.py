"""The stages around each call of a tool: the middleware of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import agent_framework as theirs
from agent_framework import FunctionMiddleware, MiddlewareFailure

from penstock.engine.values.frozen import freeze, thaw
from penstock.workflows.adapters.agent_framework.running import Bound
from penstock.workflows.adapters.agent_framework.values import as_result, jsonable, result_value
from penstock.workflows.adapters.agent_framework.verdicts import GuardBlockedError
from penstock.workflows.hosting import HostRequest, raised_as

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.workflows.adapters.agent_framework.running import CallNext


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
        arguments: Any = context.arguments
        given = jsonable(arguments.model_dump() if hasattr(arguments, "model_dump") else dict(arguments))
        checked = await request.tool_call(name, given, call_id)
        if checked.answered:
            context.result = as_result(checked.answer)
            return
        if checked.arguments != freeze(given):
            context.arguments = thaw(checked.arguments)
        await _guarded_call(request, context, call_next, name, call_id, checked.arguments)


async def _guarded_call(
    request: HostRequest,
    context: theirs.FunctionInvocationContext,
    call_next: CallNext,
    name: str,
    call_id: str,
    arguments: Value,
) -> None:
    """Call a tool, and check its result or error."""

    async def check_result() -> None:
        said = result_value(context.result)
        left = await request.tool_result(name, said, call_id, arguments=arguments)
        if left != freeze(said):
            context.result = as_result(left)

    try:
        await call_next()
    except theirs.MiddlewareTermination as ended:  # the loop ends with what the middleware behind us has set
        if context.result is None:
            context.result = _unpacked(ended.result)
        if context.result is not None and not _asks(context.result):
            await check_result()
        raise
    except (MiddlewareFailure, theirs.UserInputRequiredException):
        raise
    except Exception as failure:
        said = str(failure)
        left = await request.tool_result(name, said, call_id, arguments=arguments, is_error=True)
        if left != said:
            raise theirs.exceptions.ToolExecutionException(str(left)) from None
        raise
    if not _asks(context.result):
        await check_result()


def _unpacked(result: Any) -> Any:
    if isinstance(result, theirs.Content) and result.type == "function_result":
        return result.items or result.result
    return result


def _asks(result: Any) -> bool:
    """Return whether a result asks for an approval, with the arguments that the guards have checked."""
    return isinstance(result, theirs.Content) and result.type == "function_approval_request"
