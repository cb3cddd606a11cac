"""`PlannedCall`: a call of a tool with the decision about it, also in its stored form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import FrozenDict
from penstock.tools.context import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import ToolPart
    from penstock.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call and what to do about it.

    Attributes:
        call: the call, as the model made it.
        arguments: the arguments for the tool, after the guards.
        tool: the tool to run; None if nothing is to run.
        answer: the answer of a processor in place of the tool, if there is one.
        problem: why the call does not run, or None.
    """

    call: ToolPart
    arguments: Value
    tool: Tool | None = None
    answer: Value = None
    problem: ToolError | None = None


def dump_plan(plan: PlannedCall) -> Values:
    """Return a plan as JSON values, without its call and the texts for the model."""
    problem = None if plan.problem is None else {"kind": plan.problem.kind, "problem": plan.problem.problem}
    return FrozenDict(runs=plan.tool is not None, problem=problem)


def load_plan(
    call: ToolPart, dumped: Values, tools: Mapping[str, Tool], known: tuple[Value, ToolError | None] | None
) -> PlannedCall | None:
    """Return the plan that `dump_plan` wrote, for a call with the arguments that it was stored with.

    Args:
        call: the call.
        dumped: what was written.
        tools: the tools by name.
        known: a result, or why it does not run, that is known by now.

    Returns:
        The plan; None if the call has to be judged again, since there is no such tool or its arguments do not fit.
    """
    tool = tools.get(call.name)
    if known is not None:
        return PlannedCall(call, call.arguments, None, *known)
    if dumped["problem"] is not None and dumped["problem"]["kind"] == "refused":
        return PlannedCall(call, call.arguments, problem=ToolError(call.name, **dumped["problem"]))
    return PlannedCall(call, call.arguments, tool) if dumped["runs"] and tool is not None else None
