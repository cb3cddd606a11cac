"""The vectors of `WorkingMemory`: what the model is told of a memory, and what it is shown of it."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio

from penstock import MessageList, Outcome, Workflow
from penstock.engine.values.errors import OptionError
from penstock.processors.memory._working_templates import DEFAULT_TEMPLATE
from penstock.processors.memory.working_memory import WorkingMemory
from tests.conformance.builtin import working_memory_invented, working_memory_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import constructed
from tests.processors.memory.small_store import SmallStore

DEFAULTS = {"template": None, "scope": "resource", "use_v_next": False, "read_only": False}


def run(given: Given) -> Fields:
    """Show a memory, or tell what the template is that counts by default."""
    if given.method == "default_template":
        return {"heading": DEFAULT_TEMPLATE.splitlines()[0], "fields": re.findall(r"\*\*(.*?)\*\*", DEFAULT_TEMPLATE)}
    if given.method == "construct":
        return constructed(lambda: made(given, SmallStore(), fixed=False))
    try:
        return anyio.run(played, given)
    except OptionError as error:
        return {"error": str(error)}


async def played(given: Given) -> Fields:
    """Return what the model is told and shown."""
    store, context = SmallStore(), given.input.get("context") or {}
    mine = {"thread_id": (context.get("thread") or {}).get("id"), "resource_id": context.get("resource")}
    for scope, key in (("thread", mine["thread_id"]), ("resource", mine["resource_id"])):
        text = given.input.get(f"{scope}_working_memory")
        if text is not None:
            await store.put_working_memory(scope, key or "somebody", text, expected=None)
    fixed = given.options["read_only"] or read_only(context.get("config"))
    async with Workflow("w").then(made(given, store, fixed=fixed)).start(request_context=mine) as run:
        outcome = await run.process_input(MessageList("hello"))
        step = await run.process_input_step()
    tools: Any = step.overrides.get("tools") or {}
    return {**counted(outcome), **seen(outcome, tools)}


def read_only(config: Any) -> bool:
    """Tell whether a request's configuration of the memory says so, at whatever depth."""
    if not isinstance(config, dict):
        return False
    return any(item is True if name == "readOnly" else read_only(item) for name, item in config.items())


def made(given: Given, store: SmallStore, *, fixed: bool) -> WorkingMemory:
    """Return the processor of a row; objects are changed as the reference changes them."""
    options = given.options
    is_json = (options["template"] or {}).get("format") == "json"
    provided: Any = given.input.get("template_provider_returns")
    update: Any = "edit" if options["use_v_next"] else "merge" if is_json else None
    return WorkingMemory(
        store,
        template=options["template"],
        scope=options["scope"],
        update=update if provided is None else None,
        read_only=lambda _context: fixed,
        template_provider=None if provided is None else lambda _context: provided,
    )


def counted(outcome: Outcome) -> Fields:
    """Return how many system messages there are."""
    listed = outcome.message_list
    return {
        "system_messages_tagged_memory": len(listed.tagged("memory")),
        "untagged_system_messages": len(listed.tagged(None)),
    }


def seen(outcome: Outcome, tools: Fields) -> Fields:
    """Return what the system message says, and what stands in the message that shows the memory."""
    told = "".join(message.text for message in outcome.message_list.tagged("memory"))
    memory_element = "".join(message.text for message in outcome.message_list.of("context"))
    if not told:
        return {}
    fields = {name for tool in tools.values() for name in tool.spec.parameters["properties"]}
    words = [word for word in ("JSON", "Markdown") if word in told]
    example = element("working_memory_empty", memory_element)
    return {
        "variant": "vnext" if "new_memory" in fields else "tool" if tools else "read_only",
        "data_block": element("working_memory_data", memory_element),
        "template_block": element("working_memory_template", memory_element),
        "format_word": words[0] if words else None,
        "empty_json_object": None if example is None else json.loads(example),
        "mentions_tool": any(name in told for name in tools),
        "string_only_rules": "as one text" in told,
        "template_only_rule": "only what the template asks for" in told,
    }


def element(name: str, text: str) -> str | None:
    """Return what stands in an element, or None."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", text, re.DOTALL)
    return found[1] if found else None


def projection(fields: Fields) -> Fields:
    """All as it is; of a template, white space aside; of an error, that there is one."""
    if fields.get("error"):
        return {"error": True}
    block = fields.get("template_block")
    return {**fields, "template_block": block.split()} if isinstance(block, str) else fields


FAMILY = Family(
    files=("working_memory",),
    run=run,
    projections={"process_input": projection, "default_template": projection, "construct": projection},
    rules=working_memory_rules.RULES,
    defaults=DEFAULTS,
    invented=lambda: working_memory_invented.shown(DEFAULTS),
)
