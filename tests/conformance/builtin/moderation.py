"""The vectors of `ModerationProcessor`: what it makes of a judge's verdict. Its embedded detector is left out of it."""

from __future__ import annotations

import re
from typing import Any

import anyio

from penstock import MessageList, ModerationProcessor, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from penstock.testing import ScriptedModel
from tests.conformance.builtin import moderation_invented, moderation_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.language_detector import FENCED, turn
from tests.conformance.builtin.regex_filter import Logs
from tests.conformance.builtin.shapes import chunk, joined, naming, options_named, read, recorded, spelt_as, told

OPTIONS = ("categories", "threshold", "strategy", "include_scores", "chunk_window", "last_message_only", "instructions")
DEFAULTS = {
    "threshold": 0.5,
    "strategy": "block",
    "include_scores": False,
    "chunk_window": 0,
    "last_message_only": False,
    "error_strategy": "warn",
}
STAGES = ("process_input", "process_output_result", "process_output_stream")
FLAGGED = re.compile(r"Categories: ([^.]+?)(?:\.|$)|(?:flagged|found in \w+): ([^(;]+?)(?: \(|;|$)")
SCORES = re.compile(r"([\w/-]+):? (\d+(?:\.\d+)?)")


def run(given: Given) -> Fields:
    """Run the stage of the method, or ask once to see how; ``error_strategy`` is the step's policy here."""
    model = ScriptedModel([turn(row) for row in given.input.get("model_script", [{}])], repeat_last=True)
    options = {name: value for name, value in given.options.items() if name in OPTIONS}
    try:
        guard = ModerationProcessor(model, embedded=False, retries=0, unscanned="allow", **options)
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {}
    policy: Any = "allow" if given.options["error_strategy"] == "warn" else "block"
    workflow = Workflow("w").then(guard, on_error=policy)
    if given.method == "verdict_schema":
        anyio.run(workflow.check, "Is this text fit to be shown?")
        return asked(model, options)
    with Logs() as logs:
        fields = anyio.run(stream if "chunks" in given.input else stage, given, workflow)
    texts = [found[2] for request in model.requests if (found := FENCED.search(str(request.messages[-1].text)))]
    return {"analyzed": texts, "llm_calls": len(model.requests), "logs": logs.rows, **fields}


async def stage(given: Given, workflow: Workflow) -> Fields:
    """Run a stage on stored messages."""
    source: Any = "input" if given.method == "process_input" else "response"
    messages = MessageList().add(read(given.input["messages"]), source=source)
    outcome = await getattr(workflow.start(), given.method)(messages)
    if outcome.blocked:
        return told(outcome)
    left = outcome.message_list.conversation
    kept = [message for message in left if message.text or not was_taken(given, message.id)]
    return {"kept_ids": [message.id for message in kept]}


def was_taken(given: Given, message_id: str) -> bool:
    """Tell whether a message had text when it was given."""
    return any(message.id == message_id and message.text for message in read(given.input["messages"]))


async def stream(given: Given, workflow: Workflow) -> Fields:
    """Run the stream stage; what leaves is told as a text, whenever it does."""
    fields: Fields = {}
    left: list[Fields] = []
    async with workflow.start() as run, run.process_output_stream(map(chunk, given.input["chunks"])) as chunks:
        async for piece in chunks:
            row = recorded(piece)
            if piece.type == "tripwire":
                fields["tripwire"] = row["payload"]
            left.append(row)
    out = joined(left)
    for span in fields.get("tripwire", {}).get("metadata", {}).get("spans", ())[:1]:
        fields["tripwire"]["leaked"] = out[span["start"] :] if span["field"] == "text" else ""
    return {**fields, "out": out}


def asked(model: ScriptedModel, options: Fields) -> Fields:
    """Return the form that a judge was asked for, and how."""
    request = model.requests[0]
    assert request.response_format is not None
    form: Any = request.response_format.schema
    system = " ".join(str(message.text) for message in request.messages)
    named = all(name in system for name in options.get("categories", moderation_rules.ELEVEN))
    return {
        "json_schema": thaw(form),
        "temperature": request.settings["temperature"],
        "system_mentions_categories": named,
    }


def projection(fields: Fields) -> Fields:
    """Of verdicts and of warnings the categories that they name, of errors the options; texts without their margins."""
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tripwire" in fields:
        fields["tripwire"] = verdict(fields["tripwire"])
        fields.pop("logs", None)
    if "logs" in fields:
        warnings = [line["text"] for line in fields["logs"] if line["level"] == "warn"]
        fields["logs"] = [names for line in warnings if (names := categories(line))]
    if "analyzed" in fields:
        fields["analyzed"] = [text.strip() for text in fields["analyzed"]]
    return fields


def in_stream(fields: Fields) -> Fields:
    """The same. How much of what stands before a verdict was out by then is a matter of time.

    The reference tells what left by what became of each chunk.
    """
    fields.pop("returns", None)
    if "tripwire" in fields:
        fields.pop("out", None)
    return projection(fields)


def categories(line: str) -> list[str]:
    """Return the categories that a line names."""
    found = FLAGGED.search(line)
    return sorted(name.strip() for name in (found[1] or found[2]).split(",")) if found else []


def verdict(tripwire: Fields) -> Fields:
    """Return the categories that a verdict names, the scores and the reason that it tells; failures name none."""
    reason = tripwire["reason"]
    scores = re.search(r"[Ss]cores: (.*)$", reason)
    why = re.search(r"\((.*?)\)(?:;|$)|Reason: (.*?)(?:\. Scores|$)", reason)
    return {
        "categories": categories(reason),
        "scores": sorted((name, float(score)) for name, score in SCORES.findall(scores[1])) if scores else [],
        "why": ((why[1] or why[2]) if why else None) if categories(reason) else None,
        "retry": bool(tripwire.get("retry")),
        "leaked": tripwire.get("leaked", ""),
    }


def schema(fields: Fields) -> Fields:
    """Return the form in one spelling: references resolved, without titles and descriptions."""
    if "error" in fields:
        return projection(fields)
    form = fields["json_schema"]
    fields["json_schema"] = plain(form, form.get("$defs", {}))
    return fields


def plain(form: Any, known: Fields) -> Any:
    """Return a piece of a form in one spelling."""
    if isinstance(form, list):
        return [plain(one, known) for one in form]
    if not isinstance(form, dict):
        return form
    if "$ref" in form:
        return plain(known[form["$ref"].rpartition("/")[2]], known)
    return {
        name: {key: plain(one, known) for key, one in value.items()} if name == "properties" else plain(value, known)
        for name, value in form.items()
        if name not in ("$defs", "title", "description", "default")
    }


FAMILY = Family(
    files=("moderation",),
    run=run,
    projections={
        "process_input": projection,
        "process_output_result": projection,
        "process_output_stream": in_stream,
        "verdict_schema": schema,
        "construct": naming(*OPTIONS),
    },
    spelling=spelt_as("process_output_stream"),
    rules=moderation_rules.RULES,
    defaults=DEFAULTS,
    invented=moderation_invented.rows,
)
