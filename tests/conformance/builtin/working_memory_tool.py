"""The vectors of the tool that changes a working memory: what each call is answered, and what is stored then."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio

from penstock.engine.values.frozen import thaw
from penstock.engine.values.stored import Thread
from penstock.processors.memory.working_memory_update import working_memory_tool
from penstock.tools.context import ToolContext, ToolError
from penstock.tools.tool import Tool
from tests.conformance.builtin import working_memory_invented, working_memory_tool_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.processors.memory.small_store import SmallStore

DEFAULTS = {"template": None, "schema": None, "version": None, "use_state_signals": False, "scope": "resource"}
ARGUMENTS = {"newMemory": "new_memory", "searchString": "search_string", "updateReason": "update_reason"}
OWNER = "r1"
"""Whose the thread ``t1`` is in every row."""


def run(given: Given) -> Fields:
    """Make the calls of a row, one after the other."""
    return anyio.run(played, given)


async def played(given: Given) -> Fields:
    """Return what each call was answered, and what is stored then."""
    store, context, scope = SmallStore(), given.input.get("context") or {}, given.options["scope"]
    await store.create_thread(Thread("t1", OWNER))
    mine = {"thread_id": context.get("threadId"), "resource_id": context.get("resourceId")}
    key = mine[f"{scope}_id"] or "nobody"
    if given.input.get("initial") is not None:
        await store.put_working_memory(scope, key, given.input["initial"], expected=0)
    tool = made(given.options, store)
    results = [await called(tool, call, mine) for call in given.input["calls"]]
    record = await store.working_memory(scope, key)
    return {"tool_name": tool.name, "results": results, "stored": record.text if record else None}


def made(options: Fields, store: SmallStore) -> Tool:
    """Return the tool that the row is about."""
    update: Any = "edit" if options["version"] == "vnext" else "replace" if options["schema"] is None else "merge"
    name = "set_working_memory" if options["use_state_signals"] else "update_working_memory"
    template = options["template"] if options["schema"] is None else options["schema"]
    return working_memory_tool(store, template=template, scope=options["scope"], update=update, name=name)


async def called(tool: Tool, call: Fields, mine: Fields) -> Fields:
    """Return what a call is answered."""
    arguments = {ARGUMENTS.get(name, name): value for name, value in call.items()}
    try:
        result: Fields = thaw(await tool.call(arguments, ToolContext(request_context=mine, run_id="run")))
    except ToolError as error:
        refused = error.__cause__ is not None and error.__cause__.__cause__ is not None
        return {"error": error.problem} if refused else {"validation_error": True}
    return {"validation_error": True} if result.get("problem") == "does-not-fit" else result


def projection(fields: Fields) -> Fields:
    """Results as success, failure, refusal or error; objects as objects; nothing known is nothing stored."""
    results: Any = fields.get("results")
    answers = [answered(result) for result in results] if isinstance(results, list) else results
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(fields.get("tool_name"))).lower()
    return {"tool_name": name, "results": answers, "stored": kept(fields.get("stored"))}


def answered(result: Fields) -> Any:
    """Return what a result says, without its wording."""
    return next((kind for kind in ("validation_error", "error") if kind in result), result.get("success"))


def kept(text: Any) -> Any:
    """Return what is stored."""
    try:
        found = json.loads(text or "null")
    except (ValueError, TypeError):
        return text
    return (found if isinstance(found, dict) else text) or None


FAMILY = Family(
    files=("working_memory_tool",),
    run=run,
    projections={"update_working_memory": projection},
    rules=working_memory_tool_rules.RULES,
    defaults=DEFAULTS,
    invented=lambda: working_memory_invented.changed(DEFAULTS),
)
