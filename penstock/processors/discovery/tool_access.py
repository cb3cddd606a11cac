"""Who may find, load and use which tool: the question that an application's filter is asked, and asking it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

ToolPhase = Literal["search", "load", "active"]
"""What is to be done with a tool: show it among hits, load it, offer it to the model."""

_LOG = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """A question to a filter: whether a request may do something with a tool.

    Attributes:
        tool_name: the tool's name.
        tool: the tool.
        request_context: the caller's mapping for the request.
        phase: what is to be done with it.
    """

    tool_name: str
    tool: Value
    request_context: dict[str, Value]
    phase: ToolPhase


ToolFilter: TypeAlias = Callable[[ToolAccess], bool | Awaitable[bool]]
"""Answers: True, and nothing else, allows."""

Asked: TypeAlias = "Callable[[ToolPhase, str, Value], Awaitable[bool]]"
"""Whether a phase of a tool is allowed in the request at hand: phase, name, tool."""


def asking(ask: ToolFilter | None, request_context: dict[str, Value]) -> Asked:
    """Return what asks a filter for one request. One that raises has not allowed; the log names the error."""

    async def allowed(phase: ToolPhase, name: str, tool: Value) -> bool:
        if ask is None:
            return True
        try:
            answer = ask(ToolAccess(name, tool, request_context, phase))
            return (await answer if inspect.isawaitable(answer) else answer) is True
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no yes
            _LOG.warning("the filter failed, so tool %r is denied (%s): %s", name, phase, type(error).__name__)
            return False

    return allowed
