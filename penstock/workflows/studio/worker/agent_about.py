"""The page's facts about an agent: its model, its instructions, its tools and its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.plain import plain
from penstock.workflows.agent.request import system_messages
from penstock.workflows.studio.worker.constructor_arguments import arguments_of
from penstock.workflows.studio.worker.running import dumped

if TYPE_CHECKING:
    from penstock.tools.tool import Tool
    from penstock.workflows.agent import Agent
    from penstock.workflows.studio.protocol import Json

_ON_REQUEST = "a function of the request"


def agent_about(agent: Agent) -> Json:
    """Return an agent as data, without its processors. What depends on a request is said to."""
    instructions = (arguments_of(agent) or {}).get("instructions") or None
    shown = _ON_REQUEST if callable(instructions) else None
    return {
        "model": str(getattr(agent.model, "name", _ON_REQUEST)),
        "instructions": shown or (instructions and dumped(system_messages(instructions))),
        "tools": [_tool_json(tool) for tool in agent.tools.values()],
        "memory": _memory_json(agent),
    }


def _tool_json(tool: Tool) -> Json:
    approval = tool.approval
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": plain(tool.spec.parameters),
        "approval": "by its arguments" if callable(approval) else approval,
        "external": tool.is_external,
    }


def _memory_json(agent: Agent) -> Json | None:
    """Return what a memory loads before the model, and what it stores after it."""
    memory = agent.memory
    if memory is None:
        return None
    placed = memory.around(())
    storage: object = getattr(memory, "storage", None)
    return {
        "kind": type(memory).__name__,
        "storage": None if storage is None else type(storage).__name__,
        "before": [_name_of(item) for item in placed.before],
        "after": [_name_of(item) for item in placed.after],
    }


def _name_of(item: object) -> str:
    name: object = getattr(item, "id", None) or getattr(item, "name", None)
    return str(name or type(item).__name__)
