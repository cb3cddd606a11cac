"""Rows for moderation as others may have been recorded; what the reference does is after its spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row
from tests.conformance.builtin.moderation_rules import ELEVEN

DEFAULTS: Fields = {
    "threshold": 0.5,
    "strategy": "block",
    "include_scores": False,
    "chunk_window": 0,
    "last_message_only": False,
    "error_strategy": "warn",
}
CLEAN: Fields = {"object": {"category_scores": [], "reason": None}}
NOTHING: Fields = {"object": {"category_scores": None, "reason": None}}
FIRST, SECOND = "The first sentence is long enough to be one window. ", "The second one is, too, and ends the answer."


def user(text: str, id: str = "u1") -> Fields:
    """Return a stored message."""
    return {"id": id, "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": text}]}}


def says(*scores: tuple[str, Any], why: str | None = None) -> Fields:
    """Return a judge's verdict."""
    return {
        "object": {"category_scores": [{"category": name, "score": score} for name, score in scores], "reason": why}
    }


def row(name: str, options: Fields, sent: list[Fields], script: list[Fields], **expected: Any) -> Row:
    """Return a row of the input stage."""
    given = {"method": "process_input", "messages": sent, "model_script": script}
    return Row("moderation", name, Given({**DEFAULTS, **options}, given), expected)


def stream(name: str, options: Fields, pieces: Sequence[str], script: list[Fields], **expected: Any) -> Row:
    """Return a row of the stream stage."""
    chunks = [{"type": "text-delta", "runId": "r", "payload": {"id": "t1", "text": text}} for text in pieces]
    given = {"method": "process_output_stream", "chunks": chunks, "model_script": script}
    return Row("moderation", name, Given({**DEFAULTS, **options}, given), expected)


def rows() -> Sequence[Row]:
    """Return them all."""
    lead = "Content flagged for moderation. Categories: "
    two = [user("one"), user("two", "u2")]
    made_up: Fields = {"kept_ids": ["u1"], "llm_calls": 1, "analyzed": ["x"], "logs": []}
    return [
        row("the first of two blocks", {}, two, [says(("hate", 0.9)), says(("sexual", 0.9))],
            tripwire={"reason": lead + "hate"}, llm_calls=1, analyzed=["one"]),
        row("a verdict of nothing", {"error_strategy": "strict"}, [user("one")], [NOTHING],
            kept_ids=["u1"], llm_calls=1, analyzed=["one"], logs=[]),
        row("the last alone", {"last_message_only": True}, two, [CLEAN],
            kept_ids=["u1", "u2"], llm_calls=1, analyzed=["two"], logs=[]),
        row("one of two is filtered", {"strategy": "filter"}, two, [says(("hate", 0.9)), CLEAN],
            kept_ids=["u2"], llm_calls=2, analyzed=["one", "two"], logs=[]),
        row("equal texts are asked about once", {}, [user("one"), user("one", "u2")], [CLEAN],
            kept_ids=["u1", "u2"], llm_calls=2, analyzed=["one", "one"], logs=[]),
        row("a score beyond one is broken", {}, [user("x")], [says(("hate", 1.5))], **made_up),
        row("a made-up category that is not sure", {}, [user("x")], [says(("spam", 0.2))], **made_up),
        row("one broken entry of two", {}, [user("x")], [says(("hate", 0.9), ("violence", "high"))], **made_up),
        row("a broken entry alone is fatal", {"error_strategy": "strict"}, [user("x")], [says(("violence", "high"))],
            tripwire={"reason": "Moderation failed"}, llm_calls=1, analyzed=["x"]),
        row("eleven categories", {"include_scores": True}, [user("x")],
            [says(*((name, 0.6) for name in ELEVEN), why="w")],
            tripwire={"reason": lead + ", ".join(ELEVEN) + ". Reason: w. Scores: "
                      + ", ".join(f"{name}: 0.6" for name in ELEVEN)}, llm_calls=1, analyzed=["x"]),
        row("no categories", {"categories": []}, [user("x")], [CLEAN], **made_up),
        row("a warning of two", {"strategy": "warn"}, two, [says(("hate", 0.9)), says(("sexual", 0.9))],
            kept_ids=["u1", "u2"], llm_calls=2, analyzed=["one", "two"],
            logs=[{"level": "warn", "text": lead + "hate"}, {"level": "warn", "text": lead + "sexual"}]),
        stream("a late verdict", {}, [FIRST[:9], FIRST[9:] + SECOND], [CLEAN, says(("hate", 0.9))],
               tripwire={"reason": lead + "hate"}, returns=["emit", "tripwire"], llm_calls=2,
               analyzed=[FIRST[:9], FIRST[9:] + SECOND]),
        stream("a sentence is filtered", {"strategy": "filter", "chunk_window": 1}, [FIRST, SECOND],
               [says(("hate", 0.9)), CLEAN], returns=["drop", "emit"], llm_calls=2, analyzed=[FIRST, FIRST + SECOND],
               logs=[]),
        stream("with a window of what went before", {"chunk_window": 1}, ["a" * 700, "b" * 100], [CLEAN],
               returns=["emit", "emit"], llm_calls=2, analyzed=["a" * 700, "b" * 100], logs=[]),
        stream("a stream is warned of", {"strategy": "warn"}, [FIRST], [says(("hate", 0.9))], returns=["emit"],
               llm_calls=1, analyzed=[FIRST], logs=[{"level": "warn", "text": lead + "hate"}]),
    ]  # fmt: skip
