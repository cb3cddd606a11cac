"""Traces written by hand, for tests of what reads, shows and compares them."""

from __future__ import annotations

from typing import Any

from penstock import Tripwire
from penstock.engine.tracing.trace import Span, SpanArm, SpanChunk, SpanEdit, SpanText, Trace

VERDICT = Tripwire("no bombs", "judge", "process_input", metadata={"score": 0.9})
STAGE = "process_input"


def hidden(start: int, end: int, replacement: str = "[EMAIL]", message: str = "m1") -> SpanEdit:
    """A redaction."""
    return SpanEdit(message, 0, "text", start, end, "redact", replacement)


def step(id: int, name: str, parent: int = 1, **fields: Any) -> Span:
    """A step of the stage."""
    return Span(id, parent, "step", name.rsplit("/", 1)[-1], name, STAGE, processor=name, **fields)


def trace(*spans: Span, **fields: Any) -> Trace:
    """A run of one stage with these spans in it."""
    stage = Span(1, 0, "stage", STAGE, stage=STAGE, at=0.0, seconds=0.01)
    given = {"run_id": "r1", "workflow": "guard", "status": "passed", "seconds": 0.01, **fields}
    return Trace(spans=(Span(0, None, "run", "guard", seconds=0.01), stage, *spans), **given)


def blocked(**fields: Any) -> Trace:
    """A run with something of everything."""
    usage = {"input_tokens": 1200, "output_tokens": 40}
    return trace(
        step(2, "trim", at=0.0, seconds=0.001),
        step(3, "inner/mail", at=0.001, seconds=0.002, status="edited", edits=(hidden(3, 9), hidden(12, 20))),
        Span(
            4,
            1,
            "branch",
            "branch",
            "branch",
            STAGE,
            0.003,
            0.005,
            "tripped",
            arms=(SpanArm("is_long", taken=True), SpanArm("otherwise", taken=False)),
        ),
        step(5, "branch/judge", 4, at=0.003, seconds=0.005, status="tripped", tripwire=VERDICT),
        step(6, "branch/audit", 4, status="skipped"),
        step(7, "watch", at=0.003, seconds=0.001, status="failed", shadow=True, error="ValueError", details={"n": [1]}),
        step(8, "notes", seconds=0.001, flagged=("email", "url")),
        Span(9, 0, "model_step", "", at=0.008, seconds=0.002, number=0, usage=usage),
        Span(10, 9, "model", "gpt", at=0.008, seconds=0.001, usage=usage, finish_reason="stop"),
        Span(11, 9, "tool", "search", at=0.009, seconds=0.001, status="failed", error="invalid"),
        **{"status": "blocked", "tripwire": VERDICT, "usage": usage, "started": 1.8e9, "thread_id": "t1", **fields},
    )


def with_texts() -> Trace:
    """A run whose trace holds the texts and the chunks."""
    changed = SpanText("m1", 0, "user", "to ann@example.com", "to [EMAIL]")
    chunks = (SpanChunk(0.001, "to a", 1, "to "), SpanChunk(0.002, "nn", 3, ""))
    return trace(
        step(2, "mail", status="edited", edits=(hidden(3, 18),), texts=(changed,)),
        Span(3, 0, "stage", "process_output_stream", stage="process_output_stream", chunks=chunks),
        texts=True,
        status="edited",
    )
