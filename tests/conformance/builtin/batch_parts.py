"""The vectors of `BatchPartsProcessor`: which pieces of text are joined, and where other chunks stand among them."""

from __future__ import annotations

from typing import Any

from penstock import Workflow
from penstock.processors.streaming import BatchPartsProcessor
from tests.conformance.builtin import batch_invented
from tests.conformance.builtin.batch_rules import RULES
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import HEAD, constructed, options_named
from tests.conformance.builtin.streaming import streamed_through

OPTIONS = ("batch_size", "max_wait_time", "emit_on_non_text")
MILLISECONDS = 1000  # in one of our seconds: the reference counts in them
DEFAULTS: Fields = {"batch_size": 5, "max_wait_time": None, "emit_on_non_text": True}


def run(given: Given) -> Fields:
    """Run the stream stage with one batcher; a call by call recording is a stream that ends after it."""
    options = {name: given.options[name] for name in OPTIONS}
    if options["max_wait_time"] is not None:
        options["max_wait_time"] /= MILLISECONDS

    def made() -> BatchPartsProcessor:
        return BatchPartsProcessor(**options)

    refused = constructed(made)
    if refused or given.method == "construct":
        return refused
    fields = streamed_through(Workflow("w").then(made()), given.input.get("events", given.input.get("chunks", ())))
    if given.method == "process_output_stream":
        fields["returns"] = [{"emit": row} for row in fields["emitted"]]
    return fields


def by_call(fields: Fields) -> Fields:
    """Return a recording call by call as what left, in order; a parked chunk that is driven again follows its call."""
    if "returns" in fields:
        calls = [call for call in fields.pop("returns") if "waited" not in call]
        fields["emitted"] = [row for call in calls for row in (call.get("emit"), call.get("reprocess")) if row]
    return through_runner(fields)


def through_runner(fields: Fields) -> Fields:
    """Return the pieces: of text the block, the text and what else it says; of others what they say.

    A piece of text without any says nothing.
    """
    if "emitted" in fields:
        pieces = [piece(row) for row in fields["emitted"]]
        fields["emitted"] = [[kind, body] for kind, body in pieces if kind != "text-delta" or body["text"]]
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    return {name: value for name, value in fields.items() if name in ("emitted", "tripwire", "error")}


def piece(row: Fields) -> list[Any]:
    """Return a chunk without what is the run's."""
    body = {
        **row.get("payload", row.get("data", {})),
        **{name: value for name, value in row.items() if name not in HEAD},
    }
    return [row["type"], body]


FAMILY = Family(
    files=("batch_parts",),
    run=run,
    projections={"process_output_stream": by_call, "stream_through_runner": through_runner, "construct": by_call},
    rules=RULES,
    invented=lambda: list(batch_invented.rows()),
    neutral={("process_output_stream", "left_in_state"): "the state is the processor's own"},
    defaults=DEFAULTS,
)
