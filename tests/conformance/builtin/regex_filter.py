"""The vectors of `RegexFilterProcessor`: what it finds, in which order of precedence, and what it tells of it."""

from __future__ import annotations

import logging
import re
from typing import Any, Self

from penstock import Message, MessageList, RegexFilterProcessor, Workflow
from penstock.processors.text import Violation
from tests.conformance.builtin import regex_invented, regex_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.regex_whole import rules_logged
from tests.conformance.builtin.shapes import constructed, joined, options_named, read, spelt_as, streamed, told, write
from tests.conformance.builtin.streaming import streamed_through

OPTIONS = ("rules?", "presets?", "stream_carryover_size", "strategy", "phase", "include_redacted_values")
SHOWN = ("strategy", "phase", "messageId", "partIndex", "redactions")
DEFAULTS = {
    "rules": [],
    "presets": [],
    "strategy": "block",
    "phase": "all",
    "include_redacted_values": False,
    "stream_carryover_size": 128,
}


def run(given: Given) -> Fields:
    """Run the stage of the method with a filter that has the row's options, and note what it reports and logs."""
    seen: list[Violation] = []

    def made() -> RegexFilterProcessor:
        options = {name: value for name, value in given.options.items() if name in DEFAULTS}
        return RegexFilterProcessor(on_violation=seen.append, unscanned="allow", **options)

    refused = constructed(made)
    if refused or given.method == "construct":
        return refused
    with Logs() as logs:
        fields = stages(given, Workflow("w").then(made()))
    return {**fields, "violations": [reported(one) for one in seen], "logs": logs.rows}


def stages(given: Given, workflow: Workflow) -> Fields:
    """Run the input or the result stage on a text or on stored messages."""
    if "chunks" in given.input:
        return with_leaks(streamed_through(workflow, given.input["chunks"]))
    if "text" in given.input:
        role = "user" if given.method == "process_input" else "assistant"
        messages = [Message(role, given.input["text"], id="m1")]
    else:
        messages = read(given.input["messages"])
    source: Any = "input" if given.method == "process_input" else "response"
    outcome = getattr(workflow.start_sync(), given.method)(MessageList().add(messages, source=source))
    if outcome.blocked or "text" in given.input:
        return told(outcome) or {"text": outcome.text}
    after = {message["id"]: message for message in write(outcome.message_list)}
    return {"messages": [after[message.id] for message in messages]}


def with_leaks(fields: Fields) -> Fields:
    """Add to a verdict what left of the block that it is about from its first match on; nothing may."""
    matches = fields.get("tripwire", {}).get("metadata", {}).get("matches", ())
    for match in matches[:1]:
        block = match.get("message_id")
        mine = [row for row in fields["emitted"] if block in ("", row.get("payload", {}).get("id"))]
        fields["tripwire"]["leaked"] = joined(mine)[match["index"] :]
    return fields


class Logs(logging.Handler):
    """Collects the warnings of the package."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.rows: list[Fields] = []
        self.logger = logging.getLogger("penstock")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.rows.append({"level": record.levelname.lower().removesuffix("ing"), "text": record.getMessage()})

    def __enter__(self) -> Self:
        """Listen, alone."""
        self.spoke, self.logger.propagate = self.logger.propagate, False
        self.logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self.logger.removeHandler(self)
        self.logger.propagate = self.spoke


def reported(one: Violation) -> Fields:
    """Return a report in the reference's shape."""
    redactions = []
    for match in one.matches:
        overlapping = {"overlappingRules": list(match.overlapping_rules)} if match.overlapping_rules else {}
        value = {} if match.value is None else {"value": match.value}
        head = {"rule": match.rule, "index": match.index, "length": match.length, "replacement": match.replacement}
        redactions.append({**head, **overlapping, **value})
    phase = re.sub(r"_(\w)", lambda letter: letter[1].upper(), one.stage)
    place = {"phase": phase, "messageId": one.message_id, "partIndex": one.part}
    return {"detail": {"strategy": one.strategy, **place, "redactions": redactions}}


def projection(fields: Fields) -> Fields:
    """Texts as they are; of verdicts what was found where; of reports of redactions all but the sentence.

    Of errors the options that are named, of log lines and of reports of what was not redacted the rules.
    """
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tripwire" in fields:
        fields["tripwire"] = verdict(fields["tripwire"])
    if "violations" in fields:
        fields["violations"] = reports(fields["violations"])
    if "logs" in fields:
        fields["logs"] = sorted(set(rules_logged(fields["logs"])))
    return fields


def in_stream(fields: Fields) -> Fields:
    """Of a stream the joined text of each block and the other chunks in order; what was found, whenever it was told.

    Of a verdict only what was found first: the stream ends there, so what stands behind it may be unread. How much of
    what stands before it was out by then is a matter of time; what left from it on is compared.
    """
    if "tripwire" in fields:
        metadata = fields["tripwire"].get("metadata", {})
        first = min(metadata.get("matches", ()), key=lambda one: (one.get("part", 0), one["index"]), default=None)
        fields["tripwire"]["metadata"] = {**metadata, "matches": [] if first is None else [first]}
    fields = projection(fields)
    if "tripwire" in fields:
        fields.pop("emitted", None)
        fields.pop("text", None)
    if "emitted" in fields:
        fields["emitted"] = streamed(fields["emitted"])
    if "violations" in fields:
        redactions = [match for one in fields["violations"] if isinstance(one, dict) for match in one["redactions"]]
        others = [one for one in fields["violations"] if isinstance(one, list) and "tripwire" not in fields]
        fields["violations"] = [*redactions, *others]
    if "tripwire" in fields:
        del fields["tripwire"]["names"]
    fields.pop("found", None)
    return fields


def verdict(tripwire: Fields) -> Fields:
    """Return the rules that a verdict names, and the places of their matches; whether it quotes what it found."""
    metadata = tripwire.get("metadata", {})
    matches = metadata.get("matches", ())
    return {
        "retry": bool(tripwire.get("retry")),
        "strategy": metadata.get("strategy"),
        "names": sorted(set(rules_logged([{"text": tripwire["reason"]}]))),
        "matches": sorted({(one["index"], one["rule"]) for one in matches}),
        "leaked": tripwire.get("leaked", ""),
        "quotes": [one["match"] for one in matches if not one.get("match", "[]").startswith("[")],
    }


def reports(violations: list[Any]) -> list[Any]:
    """Return the redactions reported, text by text, and once the names of the rules that did something else."""
    details = [violation["detail"] for violation in violations]
    others = {(one["strategy"], match["rule"]) for one in details for match in one["redactions"]}
    return [
        *({name: one.get(name) for name in SHOWN} for one in details if one["strategy"] == "redact"),
        *sorted(list(one) for one in others if one[0] != "redact"),
    ]


FAMILY = Family(
    files=("regex_filter",),
    run=run,
    projections={
        **dict.fromkeys(("process_input", "process_output_result", "construct"), projection),
        "stream_through_runner": in_stream,
    },
    rules=regex_rules.RULES,
    spelling=spelt_as("stream_through_runner"),
    defaults=DEFAULTS,
    invented=regex_invented.rows,
)
