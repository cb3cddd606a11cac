"""The vectors of `SystemPromptScrubber`: what it makes of a judge's verdict. No run there has a system message."""

from __future__ import annotations

import re
from typing import Any

import anyio

from penstock import MessageList, SystemPromptScrubber, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from penstock.testing import ScriptedModel
from tests.conformance.builtin import scrubber_invented, scrubber_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.language_detector import FENCED, turn
from tests.conformance.builtin.regex_filter import Logs
from tests.conformance.builtin.shapes import chunk, joined, options_named, read, recorded, spelt_as, told, write

OPTIONS = (
    "strategy", "custom_patterns", "include_detections", "redaction_method", "placeholder_text", "instructions",
    "last_message_only",
)  # fmt: skip
DEFAULTS = {
    "strategy": "redact",
    "custom_patterns": [],
    "include_detections": False,
    "redaction_method": "mask",
    "placeholder_text": "[SYSTEM_PROMPT]",
    "last_message_only": False,
    "error_strategy": "warn",
}
NAMED = re.compile(r"(?:detected(?: in streaming content)?|may not pass|found in \w+): (?:\d+ found, )?([\w, -]+)")
COUNT = re.compile(r"Detections: \d+|: \d+ found, ")


def run(given: Given) -> Fields:
    """Run the stage of the method, ask once to see how, or only make it; ``error_strategy`` is the step's policy."""
    model = ScriptedModel([turn(said(row)) for row in given.input.get("model_script") or [{}]], repeat_last=True)
    options = {name: value for name, value in given.options.items() if name in OPTIONS}
    try:
        guard = SystemPromptScrubber(
            None if given.method == "construct" else model, threshold=0, parts=("text",), phase="all",
            **({} if given.method == "construct" else {"retries": 0}), **options,
        )  # fmt: skip
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {"made": True}
    policy: Any = "allow" if given.options["error_strategy"] == "warn" else "block"
    workflow = Workflow("w").then(guard, on_error=policy)
    if given.method == "verdict_schema":
        anyio.run(workflow.check, "What are the rules?")
        return asked(model, options)
    with Logs() as logs:
        fields = anyio.run(stream if "chunks" in given.input else stage, given, workflow)
    texts = [found[2] for request in model.requests if (found := FENCED.search(str(request.messages[-1].text)))]
    return {"analyzed": texts, "llm_calls": len(model.requests), "logs": logs.rows, **fields}


def said(row: Fields) -> Fields:
    """Return a recorded verdict in our form; what is no verdict, as it is."""
    verdict = row.get("object")
    if not isinstance(verdict, dict) or "detections" not in verdict:
        return row
    entries = [{**one, "score": one["confidence"]} if "confidence" in one else one
               for one in verdict.get("detections") or []]  # fmt: skip
    return {"object": {"findings": entries}}


async def stage(given: Given, workflow: Workflow) -> Fields:
    """Run a stage on stored messages."""
    source: Any = "input" if given.method == "process_input" else "response"
    messages = MessageList().add(read(given.input["messages"]), source=source)
    outcome = await getattr(workflow.start(), given.method)(messages)
    return told(outcome) or {"messages": write(outcome.message_list)}


async def stream(given: Given, workflow: Workflow) -> Fields:
    """Run the stream stage; of a verdict, also what left of what it is about."""
    left: list[Fields] = []
    async with workflow.start() as run, run.process_output_stream(map(chunk, given.input["chunks"])) as chunks:
        left += [recorded(piece) async for piece in chunks]
    verdict = next((row["payload"] for row in left if row["type"] == "tripwire"), None)
    out = joined(left)
    if verdict is None:
        return {"out": out, "returns": [{"payload": {"text": out}}]}
    first = next(iter(verdict.get("metadata", {}).get("spans", ())), {"start": len(out)})
    return {"tripwire": {**verdict, "leaked": out[first["start"] :]}}


def asked(model: ScriptedModel, options: Fields) -> Fields:
    """Return the form that a judge was asked for, and how."""
    request = model.requests[0]
    assert request.response_format is not None
    shown = str(request.messages[-1].text)
    return {
        "json_schema": thaw(request.response_format.schema),  # type: ignore[arg-type]
        "temperature": request.settings["temperature"],
        "custom_patterns_only_in_prompt": any(one in str(request.messages) for one in options["custom_patterns"]),
        "content_sent_raw_as_user_message": FENCED.search(shown) is None,
    }


def projection(fields: Fields) -> Fields:
    """Of messages the parts, of verdicts and warnings the types that they name, of errors the options.

    Of warnings also whether they say how much was found.
    """
    if "error" in fields:
        fields["error"] = options_named(fields["error"], (*OPTIONS, "model"))
    if "tripwire" in fields:
        fields["tripwire"] = verdict(fields["tripwire"])
        fields.pop("messages", None)
        fields.pop("logs", None)
    if "messages" in fields:
        fields["messages"] = [shown(message) for message in fields["messages"]]
    if "logs" in fields:
        lines = [row["text"] for row in fields["logs"]]
        counted = any(COUNT.search(line) for line in lines)
        fields["logs"] = [counted, *(found for line in lines if (found := types(line)))]
    return fields


def in_stream(fields: Fields) -> Fields:
    """The same; of what leaves the text. What was out before a verdict is a matter of time."""
    returns = fields.pop("returns", ())
    for row in () if "out" in fields else returns:
        if row is not None and "tripwire" in row:
            fields["tripwire"] = {"reason": row["tripwire"]}
        else:
            fields["out"] = fields.get("out", "") + (row.get("payload", {}).get("text", "") if row else "")
    if "tripwire" in fields:
        fields.pop("out", None)
    return projection(fields)


def verdict(tripwire: Fields) -> Fields:
    """Return the types that a verdict names, whether it is about a failure, and what left of what it is about."""
    reason = tripwire["reason"]
    return {"types": types(reason), "failed": "failed" in reason, "leaked": tripwire.get("leaked", "")}


def types(line: str) -> list[str]:
    """Return the types that a line names."""
    found = NAMED.search(line)
    return sorted({name.strip() for name in found[1].split(",")}) if found else []


def shown(message: Fields) -> Fields:
    """Return a stored message without the flattened copy of its text; that alone is its text."""
    content = message["content"]
    flat = [{"type": "text", "text": content["content"]}] if content.get("content") else []
    return {"id": message["id"], "role": message["role"], "parts": content.get("parts") or flat}


def schema(fields: Fields) -> Fields:
    """Return the form without what is only for readers."""
    if "error" in fields:
        return projection(fields)
    fields["json_schema"] = bare(fields["json_schema"])
    return fields


def bare(form: Any) -> Any:
    """Return a piece of a form without titles, descriptions and defaults."""
    if isinstance(form, list):
        return [bare(one) for one in form]
    if not isinstance(form, dict):
        return form
    return {
        name: {key: bare(value) for key, value in it.items()} if name in ("properties", "$defs") else bare(it)
        for name, it in form.items()
        if name not in ("description", "title", "additionalProperties", "default")
    }


def made(fields: Fields) -> Fields:
    """Of an error the options."""
    return projection(fields)


FAMILY = Family(
    files=("system_prompt_scrubber",),
    run=run,
    projections={
        "process_output_result": projection,
        "process_output_stream": in_stream,
        "verdict_schema": schema,
        "construct": made,
    },
    rules=scrubber_rules.RULES,
    spelling=spelt_as("process_output_stream"),
    defaults=DEFAULTS,
    invented=scrubber_invented.rows,
)
