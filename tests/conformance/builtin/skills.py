"""The vectors of `SkillsProcessor` and `SkillSearchProcessor`: what the model is told of skills, and is answered."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import anyio

from penstock import MessageList, Workflow
from penstock.engine.run.run import Run
from penstock.engine.values.frozen import thaw
from penstock.processors.discovery.skill import Skill
from penstock.processors.discovery.skill_search import SkillSearchProcessor
from penstock.processors.discovery.skills import SkillsProcessor
from penstock.tools.tool import Tool
from tests.conformance.builtin import skills_invented, skills_rules
from tests.conformance.builtin.frame import Family, Fields, Given

ARGUMENTS = {"skillName": "skill_name"}
INSTRUCTIONS = re.compile(r'<skill_instructions skill="(.*?)">\n(.*?)\n</skill_instructions>', re.DOTALL)
LISTS = ("catalog", "text", "output", "result", "formatted", "entries")
"""What the list may be called: rows of the method that gives it alone are kept back."""

LABELS = frozenset({"name", "description", "location", "source", "available", "skills", "path"})


def run(given: Given) -> Fields:
    """List the skills, or play the calls of the row."""
    skills = [taken_in(row) for row in given.input.get("skills") or []]
    if "calls" in given.input:
        return anyio.run(played, searching(skills, given), given.input)
    form = given.options.get("format", given.input.get("format", "xml"))
    fields = anyio.run(listed, SkillsProcessor(skills, format=form, format_location=located(given.options)))
    if given.method == "process_input_step":
        return fields
    return {"form": fields["form"], **{name: fields[name] or "" for name in LISTS}}


def taken_in(row: Fields) -> Skill:
    """Return the skill of a row."""
    source = row.get("source") or {"type": "local"}
    return Skill(row["name"], row["description"], row.get("instructions", ""), row.get("path"), source["type"])


def located(options: Fields) -> Any:
    """Return the function that a row describes by a text with holes, or None."""
    text = options.get("format_location")
    return None if text is None else lambda skill: text.replace("{name}", skill.name).replace("{path}", skill.path)


def searching(skills: list[Skill], given: Given) -> SkillSearchProcessor:
    """Return the processor, with the search that the row has scripted."""
    scripted = [(hit["skillName"], hit["score"]) for hit in given.input.get("search_results") or []]
    search = given.options["search"]
    ttl = given.options["ttl"] / 1000 or None
    return SkillSearchProcessor(skills, **search, search=lambda _query, _wanted: scripted, ttl=ttl)


async def listed(processor: SkillsProcessor) -> Fields:
    """Return what the model is told before its first answer."""
    async with started(processor) as run:
        await run.process_input(MessageList("hello"))
        outcome = await run.process_input_step()
    told = [message.text for message in outcome.message_list.system]
    lists = [text for text in told if text.startswith(("<", "{", "Available"))]
    shown = lists[0] if lists else None
    count = {"system_message_count": len(told), "usage_note_present": len(told) > len(lists)}
    form = {"<": "xml", "{": "json"}.get(shown[0], "markdown") if shown else None
    return {**count, "form": form, **dict.fromkeys(LISTS, shown)}


def started(processor: Any) -> Run:
    """Return a run of a thread."""
    return Workflow("w").then(processor).start(request_context={"thread_id": "t"})


async def played(processor: SkillSearchProcessor, given: Fields) -> Fields:
    """Return what was seen at each step."""
    steps: list[Fields] = []
    async with started(processor) as run:
        await run.process_input(MessageList("teach me something"))
        for call in given["calls"]:
            outcome = await run.process_input_step(tools={"mine": Tool.external("mine")})
            tools: Any = outcome.overrides.get("tools") or {}
            told = [INSTRUCTIONS.fullmatch(message.text) for message in outcome.message_list.system]
            loaded = [f"[Skill: {html.unescape(one[1])}]\n\n{one[2]}" for one in told if one]
            step: Fields = {"visible_tools": list(tools), "skill_messages": loaded}
            if call and call["tool"] in tools:
                arguments = {ARGUMENTS.get(name, name): value for name, value in call["args"].items()}
                step["result"] = thaw(await tools[call["tool"]].call(arguments))
            steps.append(step)
    return {"steps": steps}


def projection(fields: Fields) -> Fields:
    """Lists as what they say of each skill; of results hits, success, the name and what is suggested."""
    for step in fields.get("steps", []):
        if "result" in step:
            step["result"] = answered(step["result"])
    return {name: entries(value) if name in LISTS and value is not None else value for name, value in fields.items()}


def answered(result: Fields) -> Fields:
    """Return what a result says, without its wording."""
    if "results" in result:
        return {"results": result["results"]}
    meant = re.search(r"mean:? (.*?)\?", result.get("message", ""))
    name = result.get("skillName", result.get("skill_name")) if result["success"] else None
    return {"success": result["success"], "name": name, "suggestions": meant[1].split(", ") if meant else []}


def entries(told: Any) -> list[list[str]]:
    """Return the words that a list has for each skill, whether it was recorded as a text or as what it holds."""
    if isinstance(told, dict):
        held = next((inner for inner in told.values() if isinstance(inner, dict | list)), None)
        return entries([told] if held is None else held)
    if isinstance(told, list):
        return [words(one) for one in told]
    if told.startswith("<"):
        return [words([field.text or "" for field in skill]) for skill in ET.fromstring(told)]  # noqa: S314 - our own
    try:
        return entries(json.loads(told))
    except ValueError:
        return [words(one) for one in re.split(r"^(?=[-*] )", told, flags=re.MULTILINE) if one.startswith(("- ", "* "))]


def words(told: Any) -> list[str]:
    """Return the words of an entry, in any order: the form of a list in Markdown is free."""
    if isinstance(told, dict | list):
        inner = told.values() if isinstance(told, dict) else told
        return sorted(word for one in inner for word in words(one))
    found = (re.sub(r"^\W+|[^\w.]+$", "", word) for word in str(told).split())
    return sorted(word for word in found if word and word.lower() not in LABELS)


def complete(options: Fields) -> Fields:
    """Return the options with the reference's defaults."""
    search = {"top_k": 5, "min_score": 0, **options.get("search", {})}
    return {"format": "xml", "blocking_refresh": False, "ttl": 3_600_000, **options, "search": search}


FAMILY = Family(
    files=("skills",),
    run=run,
    projections={"process_input_step": projection, "format_catalog": projection},
    rules=skills_rules.RULES,
    defaults=complete,
    invented=lambda: skills_invented.rows(complete),
)
