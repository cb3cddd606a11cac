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
from tests.conformance.builtin.shapes import constructed, options_named, read, told, write

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
        return RegexFilterProcessor(**{"on_violation": seen.append, **given.options})

    refused = constructed(made)
    if refused or given.method == "construct":
        return refused
    with Logs() as logs:
        fields = stages(given, Workflow("w").then(made()))
    return {**fields, "violations": [reported(one) for one in seen], "logs": logs.rows}


def stages(given: Given, workflow: Workflow) -> Fields:
    """Run the input or the result stage on a text or on stored messages."""
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


def verdict(tripwire: Fields) -> Fields:
    """Return the rules that a verdict names, and the places of their matches; whether it quotes what it found."""
    metadata = tripwire.get("metadata", {})
    matches = metadata.get("matches", ())
    return {
        "retry": bool(tripwire.get("retry")),
        "strategy": metadata.get("strategy"),
        "names": sorted(set(rules_logged([{"text": tripwire["reason"]}]))),
        "matches": sorted({(one["index"], one["rule"]) for one in matches}),
        "quotes": [one["match"] for one in matches if not one.get("match", "[]").startswith("[")],
    }


def reports(violations: list[Any]) -> list[Any]:
    """Return the redactions reported, text by text, and once the names of the rules that did something else."""
    details = [violation["detail"] for violation in violations]
    others = {(one["strategy"], match["rule"]) for one in details for match in one["redactions"]}
    return [
        *({name: one[name] for name in SHOWN} for one in details if one["strategy"] == "redact"),
        *sorted(list(one) for one in others if one[0] != "redact"),
    ]


FAMILY = Family(
    files=("regex_filter",),
    run=run,
    projections=dict.fromkeys(("process_input", "process_output_result", "construct"), projection),
    rules=regex_rules.RULES,
    defaults=DEFAULTS,
    invented=regex_invented.rows,
)
