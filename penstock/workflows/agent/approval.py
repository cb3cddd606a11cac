"""Which calls to tools may run: each is looked up, and asked about where it wants approval. It runs no tool."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.tools.context import ToolError
from penstock.workflows.agent.tool_calls import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.values.messages import ToolPart
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.options import Approve


class Desk(NamedTuple):
    """Where calls are decided about.

    Attributes:
        tools: the tools of the step, by name.
        offered: the names of those that the model was offered.
        approve: decides about calls that want approval.
    """

    tools: Mapping[str, Tool]
    offered: frozenset[str]
    approve: Approve | None


async def decided(call: ToolPart, judged: Outcome, desk: Desk) -> Work | None:
    """Return what is to be done about a call; None leaves it to the caller.

    Args:
        call: the call, as the model made it.
        judged: what `process_tool_call` made of it.
        desk: what there is to call, and whom to ask.
    """
    answer = judged.overrides.get("answer")
    if "answer" in judged.overrides:
        return Work(call, judged.arguments, answer=answer)
    tool = desk.tools.get(call.name)
    if tool is None or call.name not in desk.offered:
        known = f"there is no such tool; the tools are {', '.join(sorted(desk.offered)) or 'none'}"
        return Work(call, judged.arguments, problem=ToolError(call.name, "unknown", known))
    if tool.is_external:
        return None
    try:
        tool.read(judged.arguments)
    except ToolError as error:
        return Work(call, judged.arguments, problem=error)
    if tool.wants_approval(judged.arguments):
        verdict = await _asked(desk.approve, replace(call, arguments=judged.arguments))
        if verdict is None:
            return None
        if verdict is not True:
            why = verdict if isinstance(verdict, str) and verdict else "the user did not allow this call"
            return Work(call, judged.arguments, problem=ToolError(call.name, "refused", why))
    return Work(call, judged.arguments, tool)


async def _asked(approve: Approve | None, call: ToolPart) -> bool | str | None:
    if approve is None:
        return None
    verdict = approve(call)
    return await verdict if inspect.isawaitable(verdict) else verdict
