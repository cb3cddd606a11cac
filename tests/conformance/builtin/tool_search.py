"""The vectors of `ToolSearchProcessor`: what the model sees of the tools step by step, and what it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from penstock import Message, MessageList, ToolPart, Workflow
from penstock.engine.run.run import Run
from penstock.engine.values.frozen import thaw
from penstock.processors.discovery.tool_search import ToolAccess, ToolSearchProcessor
from penstock.testing import VirtualClock
from penstock.tools.tool import Tool
from tests.conformance.builtin import tool_search_invented, tool_search_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import constructed, naming

ARGUMENTS = {"toolName": "tool_name", "toolNames": "tool_names"}
OPTIONS = ("include_resolved_tools", "inject_catalog", "top_k", "min_score", "auto_load", "storage", "ttl")
SHOWN = 100
"""How much of a hit's description is compared: where searches cut it, what is known of the reference does not say."""


def run(given: Given) -> Fields:
    """Play the calls of the row, each after a step of its own."""
    clock = VirtualClock()
    if given.method == "construct":
        return constructed(lambda: made(given.options, given.input, clock))
    processor = made(given.options, given.input, clock)
    return anyio.run(played, processor, given.input, clock)


def made(options: Fields, given: Fields, clock: VirtualClock) -> ToolSearchProcessor:
    """Return the processor that the row is about; the reference's time to live is in milliseconds, and 0 is never."""
    return ToolSearchProcessor(
        described(given.get("catalog") or {}),
        include_resolved_tools=options["include_resolved_tools"],
        inject_catalog=options["inject_catalog"],
        **options["search"],
        storage=options["storage"],
        ttl=options["ttl"] / 1000 or None,
        filter=denying(given["denied"]) if given.get("denied") else None,
        clock=clock,
    )


def described(catalog: dict[str, str]) -> list[Tool]:
    """Return tools of those names and descriptions."""
    return [Tool.external(name, description=text) for name, text in catalog.items()]


def denying(denied: list[Fields]) -> Callable[[ToolAccess], bool]:
    """Return a filter that denies what the row denies."""

    def allows(asked: ToolAccess) -> bool:
        return not any(asked.tool_name == one["tool"] and asked.phase in one["phases"] for one in denied)

    return allows


async def played(processor: ToolSearchProcessor, given: Fields, clock: VirtualClock) -> Fields:
    """Return what was seen at each step; what belongs to one thread is one run."""
    workflow = Workflow("w").then(processor)
    runs: dict[str | None, Run] = {}
    steps: list[Fields] = []
    for call in given["calls"]:
        wanted: Fields = call or {}
        clock.advance(wanted.get("wait_ms", 0) / 1000)
        thread = wanted.get("thread_id", given.get("thread_id"))
        if thread not in runs:
            runs[thread] = workflow.start(request_context={"thread_id": thread})
            await runs[thread].process_input(MessageList("find me something"))
        steps.append(await stepped(runs[thread], described(given.get("step_tools") or {}), wanted))
    return {"steps": steps}


async def stepped(run: Run, own: list[Tool], call: Fields) -> Fields:
    """Take a step and make a call."""
    outcome = await run.process_input_step(tools={tool.name: tool for tool in own})
    tools: Any = outcome.overrides.get("tools") or {}
    told = [message.text for message in outcome.message_list.system]
    step: Fields = {"visible_tools": list(tools), "system_messages": len(told)}
    listed = [line for text in told for line in text.splitlines() if line.startswith("- `")]
    if listed:
        step["catalog"] = "\n".join(listed)
    if call.get("tool") in tools:
        arguments = {ARGUMENTS.get(name, name): value for name, value in call["args"].items()}
        result = await tools[call["tool"]].call(arguments)
        step["result"] = thaw(result)
        part = ToolPart(f"c{len(outcome.message_list)}", call["tool"], arguments, "result", result)
        run.message_list = outcome.message_list.add(Message.assistant([part]))
    return step


def projection(fields: Fields) -> Fields:
    """Tools, messages and catalogue as they are; of results hits, success and the names that they are about."""
    for step in fields.get("steps", []):
        if "result" in step:
            step["result"] = answered(step["result"])
    return fields


def answered(result: Fields) -> Fields:
    """Return what a result says, without its wording."""
    if "results" in result:
        return {"results": [{**hit, "description": hit["description"][:SHOWN]} for hit in result["results"]]}
    names = [value for name, value in result.items() if name not in ("success", "message", "suggestions")]
    flat = [one for value in names for one in (value if isinstance(value, list) else [value])]
    return {"success": result["success"], "names": sorted(set(map(str, flat)))}


def complete(options: Fields) -> Fields:
    """Return the options with the reference's defaults."""
    search = {"top_k": 5, "min_score": 0, "auto_load": False, **options.get("search", {})}
    return {**tool_search_invented.DEFAULTS, **options, "search": search}


FAMILY = Family(
    files=("tool_search",),
    run=run,
    projections={"process_input_step": projection, "construct": naming(*OPTIONS)},
    rules=tool_search_rules.RULES,
    defaults=complete,
    invented=lambda: tool_search_invented.rows(complete),
)
