"""The vectors of `PromptInjectionDetector`: what it makes of a judge's verdict. Its embedded detector is left out."""

from __future__ import annotations

import re
from typing import Any

import anyio

from penstock import Message, MessageList, PromptInjectionDetector, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from penstock.processors.guards.detection import Detection
from penstock.testing import ScriptedModel
from tests.conformance.builtin import prompt_injection_invented, prompt_injection_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.language_detector import FENCED, turn
from tests.conformance.builtin.moderation import schema
from tests.conformance.builtin.regex_filter import Logs
from tests.conformance.builtin.shapes import naming, options_named, read, told

OPTIONS = ("detection_types", "threshold", "strategy", "include_scores", "last_message_only", "instructions")
DEFAULTS = prompt_injection_rules.DEFAULTS
FLAGGED = re.compile(
    r"(?<!filtering: )Prompt injection detected\. Types: ([^.]+?)(?:\.|$)"
    r"|(?:take over the model|found in \w+): ([^(;]+?)(?: \(|;|$)"
)
SCORES = re.compile(r"([\w/-]+):? (\d+(?:\.\d+)?)")


def run(given: Given) -> Fields:
    """Run the stage of the method, or ask once to see how; ``error_strategy`` is the step's policy here."""
    model = ScriptedModel([turn(row) for row in given.input.get("model_script", [{}])], repeat_last=True)
    events: list[Fields] = []
    options: Any = {name: value for name, value in given.options.items() if name in OPTIONS}

    def heard(detection: Detection) -> None:
        events.append(event(detection))

    try:
        guard = PromptInjectionDetector(
            model, embedded=False, retries=0, unscanned="allow", on_detection=heard, include_text=True, **options
        )
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {}
    policy: Any = "allow" if given.options["error_strategy"] == "warn" else "block"
    workflow = Workflow("w").then(guard, on_error=policy)
    if given.method == "verdict_schema":
        anyio.run(workflow.check, "What is asked for?")
        return asked(model)
    with Logs() as logs:
        fields = anyio.run(stage, given, workflow)
    texts = [found[2] for request in model.requests if (found := FENCED.search(str(request.messages[-1].text)))]
    return {
        "analyzed": texts,
        "llm_calls": len(model.requests),
        "logs": logs.rows,
        "detection_events": events,
        **fields,
    }


async def stage(given: Given, workflow: Workflow) -> Fields:
    """Run the input stage on stored messages."""
    messages = MessageList().add(read(given.input["messages"]), source="input")
    outcome = await workflow.start().process_input(messages)
    return told(outcome) if outcome.blocked else {"messages": [*map(shown, outcome.message_list.conversation)]}


def event(detection: Detection) -> Fields:
    """Return what a callback is told, in the reference's words."""
    found = [{"type": name, "score": score} for name, score in detection.scores.items()]
    return {
        "detectionResult": {"categories": found, "reason": detection.reason},
        "input": detection.text,
        "flagged": detection.flagged,
        "strategyApplied": detection.strategy,
    }


def shown(message: Message) -> Fields:
    """Return a message as it is stored, as far as it is compared."""
    parts = [
        {"type": "text", "text": part.text} if part.type == "text" else {"type": part.type} for part in message.parts
    ]
    return {"id": message.id, "content": {"parts": parts, "metadata": thaw(message.metadata)}}


def asked(model: ScriptedModel) -> Fields:
    """Return the form that a judge was asked for, and how."""
    request = model.requests[0]
    assert request.response_format is not None
    form: Any = request.response_format.schema
    return {"json_schema": thaw(form), "temperature": request.settings["temperature"]}


def projection(fields: Fields) -> Fields:
    """Of verdicts and warnings the kinds they name, of errors the options; of messages their parts and metadata.

    Warnings are of what passes. What a rewriting says, and that there was none, stands in the messages.
    """
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tripwire" in fields:
        fields["tripwire"] = verdict(fields["tripwire"])
        fields.pop("logs", None)
    if "logs" in fields:
        warnings = [kinds(line["text"]) for line in fields["logs"] if line["level"] == "warn"]
        fields["logs"] = [found for found in warnings if found]
    for heard in fields.get("detection_events", ()):
        result = heard["detectionResult"]
        listed = {entry["type"]: float(entry["score"]) for entry in result["categories"] or ()}
        heard["detectionResult"] = {"categories": listed, "reason": result["reason"]}
    if "messages" in fields:
        fields["messages"] = [stored(message) for message in fields["messages"]]
    return fields


def stored(message: Fields) -> Fields:
    """Return a message's parts and metadata."""
    content = message["content"]
    parts = [part.get("text", part["type"]) for part in content["parts"]]
    return {"id": message["id"], "parts": parts, "metadata": content.get("metadata") or {}}


def kinds(line: str) -> list[str]:
    """Return the kinds of attacks that a line names."""
    found = FLAGGED.search(line)
    return sorted(name.strip() for name in (found[1] or found[2]).split(",")) if found else []


def verdict(tripwire: Fields) -> Fields:
    """Return the kinds that a verdict names, the scores and the reason that it tells; failures name none."""
    reason = tripwire["reason"]
    scores = re.search(r"[Ss]cores: (.*)$", reason)
    why = re.search(r"\((.*?)\)(?:;|$)|Reason: (.*?)(?:\. Scores|$)", reason)
    return {
        "kinds": kinds(reason),
        "scores": sorted((name, float(score)) for name, score in SCORES.findall(scores[1])) if scores else [],
        "why": ((why[1] or why[2]) if why else None) if kinds(reason) else None,
        "retry": bool(tripwire.get("retry")),
    }


FAMILY = Family(
    files=("prompt_injection",),
    run=run,
    projections={"process_input": projection, "verdict_schema": schema, "construct": naming(*OPTIONS)},
    rules=prompt_injection_rules.RULES,
    defaults=DEFAULTS,
    invented=prompt_injection_invented.rows,
)
