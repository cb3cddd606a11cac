"""The vectors of `ClassifierProcessor`: what is asked about, what its user's code is told, and what it decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import ClassifierProcessor, MessageList, Workflow
from penstock.processors.guards import Classification
from tests.conformance.builtin import classifier_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import constructed, options_named, read, spelt_as, told
from tests.conformance.builtin.streaming import streamed_through

OPTIONS = ("chunk_window", "max_input_length", "last_message_only", "id")
DEFAULTS = {"error_strategy": "strict", "chunk_window": 0, "max_input_length": None, "last_message_only": False}


def run(given: Given) -> Fields:
    """Run the stage with a classifier that says what the script says; ``error_strategy`` is the step's policy here."""
    seen: list[str] = []
    callbacks: list[Fields] = []
    options = {name: value for name, value in given.options.items() if name in OPTIONS}

    def made() -> ClassifierProcessor[str]:
        decide = decided(given.input.get("policy") or {}, callbacks)
        return ClassifierProcessor(
            scripted(given.input.get("verdict_script", [{}]), seen), decide, unscanned="allow", **options
        )

    refused = constructed(made)
    if refused or given.method == "construct":
        return refused
    policy: Any = "allow" if given.options["error_strategy"] == "warn" else "block"
    workflow = Workflow("w").then(made(), on_error=policy)
    if "chunks" in given.input:
        fields = streamed_through(workflow, given.input["chunks"])
        return {**fields, "analyzed": seen, "callbacks": callbacks}
    source: Any = "input" if given.method == "process_input" else "response"
    sent = MessageList().add(read(given.input["messages"]), source=source)
    outcome = getattr(workflow.start_sync(), given.method)(sent)
    kept = {} if outcome.blocked else {"kept_ids": [message.id for message in outcome.message_list.of(source)]}
    if outcome.tripwire is not None:
        kept = {"stopped_by": outcome.tripwire.processor_id}
    return {**kept, "analyzed": seen, "callbacks": callbacks, **told(outcome)}


def scripted(script: list[Fields], seen: list[str]) -> Callable[[str], str]:
    """Return a classifier that answers by the script, the last entry again and again, and notes the texts."""

    def classify(text: str) -> str:
        entry = script[min(len(seen), len(script) - 1)]
        seen.append(text)
        if "error" in entry:
            raise RuntimeError(entry["error"])
        answer: str = entry["answer"]
        return answer

    return classify


def decided(policy: Fields, callbacks: list[Fields]) -> Callable[[str, Classification[str]], None]:
    """Return code that decides by the policy of the row, and notes what it was told."""

    def decide(answer: str, about: Classification[str]) -> None:
        callbacks.append({"phase": about.phase, "answer": answer})
        if answer == policy.get("abort_if"):
            about.abort(f"policy: {answer}")
        if answer == policy.get("filter_if"):
            about.filter()

    return decide


def projection(fields: Fields) -> Fields:
    """All as it is; of verdicts the reason if it is the code's own, of errors the options."""
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tripwire" in fields:
        reason = fields["tripwire"]["reason"]
        fields["tripwire"] = {"reason": reason if reason.startswith("policy: ") else "failed"}
    return fields


def in_stream(fields: Fields) -> Fields:
    """Of a stream its text, what was asked about and what was told; of one with a verdict also what left before it."""
    fields = projection(fields)
    return {name: fields[name] for name in ("text", "analyzed", "callbacks", "tripwire") if name in fields}


FAMILY = Family(
    files=("classifier",),
    run=run,
    projections={
        **dict.fromkeys(("process_input", "process_output_result", "construct"), projection),
        **dict.fromkeys(("process_output_stream", "stream_through_runner"), in_stream),
    },
    rules=classifier_rules.RULES,
    spelling=spelt_as("process_output_stream"),
    defaults=DEFAULTS,
    invented=classifier_rules.rows,
)
