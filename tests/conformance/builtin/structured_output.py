"""The vectors of `StructuredOutputProcessor`: a stream, then the end of its step, then what objects came of it."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio

from penstock import StructuredOutputProcessor, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from penstock.testing import ScriptedModel
from tests.conformance.builtin import structured_output_invented, structured_output_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.language_detector import turn
from tests.conformance.builtin.regex_filter import Logs
from tests.conformance.builtin.shapes import chunk, chunks_given, options_named

OPTIONS = ("schema", "model", "instructions", "error_strategy", "fallback_value", "json_prompt_injection")
FENCED = re.compile(r"<(\w+)>\n(.*)\n</\1>", re.DOTALL)
SECTION = re.compile(r"^# (.+)$", re.MULTILINE)
REFUSED = re.compile(r"option '(\w+)' is")
CALL = re.compile(r"^## (?P<name>\S+)\n### Input: (?P<input>.*)$|^(?P<ours>\w+): (?P<written>.*)$", re.MULTILINE)
KINDS = {"reasoning": "thoughts", "thoughts": "thoughts", "calls": "calls", "results": "results"}


def run(given: Given) -> Fields:
    """Make the processor; unless that is all, run the stream, its step, and the end of the run."""
    options = {name: value for name, value in given.options.items() if name in OPTIONS}
    model = ScriptedModel([turn(row) for row in given.input.get("model_script", [{}])], repeat_last=True)
    if given.method == "construct":
        options["model"] = model if "model" in options else None
    else:
        options["model"] = model
    schema = options.pop("schema", None)
    try:
        processor = StructuredOutputProcessor(schema, **options)
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {"constructed": True}
    with Logs() as logs:
        fields = anyio.run(played, given.input["chunks"], Workflow("w").then(processor))
    shown = FENCED.search(model.requests[0].messages[-1].text) if model.requests else None
    prompt = None if shown is None else shown[2]
    return {"llm_calls": len(model.requests), "prompt_sections": prompt, "logs": logs.rows, **fields}


async def played(rows: list[Fields], workflow: Workflow) -> Fields:
    """Run the stages of one answer, in the shape of the vectors."""
    sent = [chunk(row) for row in chunks_given(rows)]
    reason = next((row["payload"].get("finishReason") for row in rows if row.get("type") == "finish"), None)
    async with workflow.start() as run:
        async with run.process_output_stream(sent) as chunks:
            left = [piece async for piece in chunks]
        returns = ["emit" if piece in left else "drop" for piece in sent]
        step = await run.process_output_step(chunks.message, finish_reason=reason)
        fields: Fields = {"returns": returns, "last_object": None, "object_chunk_types": [], "output_step": "pass"}
        if step.tripwire is not None:
            return {**fields, "output_step": {"tripwire": {"retry": step.tripwire.retry}}}
        for piece in (await run.process_output_result()).data:
            told = thaw(piece.payload)
            metadata = {"from": "structured-output", **({"fallback": True} if told.get("fallback") else {})}
            fields["last_object"] = {"type": "object-result", "object": told["data"], "metadata": metadata}
            fields["object_chunk_types"].append("object-result")
    return fields


def projection(fields: Fields) -> Fields:
    """The object and whether it is the fallback; the sections' contents in order; levels of logs; no reasons."""
    if isinstance(fields.get("prompt_sections"), str):
        fields["prompt_sections"] = sections(fields["prompt_sections"])
    if isinstance(fields.get("output_step"), dict):
        fields["output_step"] = {"retry": fields["output_step"]["tripwire"]["retry"]}
    if fields.get("last_object"):
        last = fields["last_object"]
        fields["last_object"] = [last["type"], last["object"], last.get("metadata", {}).get("fallback", False)]
    if "logs" in fields:
        fields["logs"] = [line["level"] for line in fields["logs"] if line["level"] in ("warn", "error")]
    return fields


def option(fields: Fields) -> Fields:
    """Which option is refused: the one that the error is about, whatever others it names."""
    if "error" in fields:
        about = REFUSED.search(fields["error"])
        fields["error"] = options_named(about[1] if about else fields["error"], OPTIONS)
    return fields


def either(fields: Fields) -> Fields:
    """What came of the stream; or which option is refused, where it could not be made."""
    return option(fields) if "error" in fields else projection(fields)


def sections(prompt: str) -> list[Any]:
    """Return the sections of a prompt: of which kind, and what stands there."""
    titles = list(SECTION.finditer(prompt))
    ends = [*(title.start() for title in titles[1:]), len(prompt)]
    found: list[Any] = []
    for title, end in zip(titles, ends, strict=True):
        body = prompt[title.end() : end].strip()
        kind = next((kind for word, kind in KINDS.items() if word in title[1].lower()), "answer")
        found.append([kind, READ.get(kind, str)(body)])
    return found


def calls(body: str) -> list[Any]:
    """Return the names and arguments of calls."""
    return [[hit["name"] or hit["ours"], json.loads(hit["input"] or hit["written"])] for hit in CALL.finditer(body)]


def results(body: str) -> list[Any]:
    """Return the names and results of tools; a result may take several lines."""
    heads = list(re.finditer(r"^(\w+): ", body, re.MULTILINE))
    ends = [*(head.start() for head in heads[1:]), len(body)]
    return [[head[1], value(body[head.end() : end])] for head, end in zip(heads, ends, strict=True)]


def value(written: str) -> Any:
    """Return what is written as JSON, or the text."""
    try:
        return json.loads(written)
    except ValueError:
        return written.strip()


READ = {"calls": calls, "results": results}

FAMILY = Family(
    files=("structured_output",),
    run=run,
    projections={"stream_then_output_step": either, "construct": option},
    rules=structured_output_rules.RULES,
    defaults=structured_output_invented.DEFAULTS,
    invented=structured_output_invented.rows,
)
