"""Rows for prompt injection as others may have been recorded; what the reference does is after its spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row
from tests.conformance.builtin.prompt_injection_rules import DEFAULTS, SIX

CLEAN: Fields = {"object": {"categories": [], "reason": None, "rewritten_content": None}}
NOTHING: Fields = {"object": {"categories": None, "reason": None}}
LEAD = "Prompt injection detected. Types: "


def user(text: str, id: str = "u1", *others: Fields) -> Fields:
    """Return a stored message."""
    return {"id": id, "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": text}, *others]}}


def says(*scores: tuple[str, Any], why: str | None = None, rewritten: str | None = None) -> Fields:
    """Return a judge's verdict."""
    listed = [{"type": name, "score": score} for name, score in scores]
    return {"object": {"categories": listed, "reason": why, "rewritten_content": rewritten}}


def heard(text: str, strategy: str, *scores: tuple[str, float], why: str | None = None) -> Fields:
    """Return what the callback is told."""
    result = {"categories": [{"type": name, "score": score} for name, score in scores], "reason": why}
    return {"detectionResult": result, "input": text, "flagged": strategy != "none", "strategyApplied": strategy}


def row(name: str, options: Fields, sent: list[Fields], script: list[Fields], **expected: Any) -> Row:
    """Return a row of the input stage."""
    given = {"method": "process_input", "messages": sent, "model_script": script}
    return Row("prompt_injection", name, Given({**DEFAULTS, **options}, given), expected)


def rows() -> Sequence[Row]:
    """Return them all."""
    two = [user("one"), user("two", "u2")]
    bad = ("injection", 0.9)
    null: Fields = {"detectionResult": {"categories": None, "reason": None}, "input": "x", "flagged": False,
                    "strategyApplied": "none"}  # fmt: skip
    passed: Fields = {
        "messages": [user("x")],
        "llm_calls": 1,
        "analyzed": ["x"],
        "detection_events": [null],
        "logs": [],
    }
    return [
        row("the first of two blocks", {}, two, [says(bad), says(("jailbreak", 0.8))],
            tripwire={"reason": LEAD + "injection"}, llm_calls=1, analyzed=["one"],
            detection_events=[heard("one", "block", bad)]),
        row("two are warned of", {"strategy": "warn"}, two, [says(bad), says(("jailbreak", 0.8))],
            messages=two, llm_calls=2, analyzed=["one", "two"],
            detection_events=[heard("one", "warn", bad), heard("two", "warn", ("jailbreak", 0.8))],
            logs=[{"level": "warn", "text": LEAD + "injection", "has_error": False},
                  {"level": "warn", "text": LEAD + "jailbreak", "has_error": False}]),
        row("the only message is filtered", {"strategy": "filter"}, [user("x")], [says(bad)],
            messages=[], llm_calls=1, analyzed=["x"], detection_events=[heard("x", "filter", bad)], logs=[]),
        row("the only message cannot be rewritten", {"strategy": "rewrite"}, [user("x")], [says(bad, rewritten="")],
            messages=[], llm_calls=1, analyzed=["x"], detection_events=[heard("x", "rewrite", bad)], logs=[]),
        row("a rewriting of what is clean is ignored", {"strategy": "rewrite"}, [user("x")], [says(rewritten="y")],
            messages=[user("x")], llm_calls=1, analyzed=["x"], detection_events=[heard("x", "none")], logs=[]),
        row("equal texts", {}, [user("one"), user("one", "u2")], [CLEAN, CLEAN],
            messages=[user("one"), user("one", "u2")], llm_calls=2, analyzed=["one", "one"]),
        row("a score beyond one is broken", {}, [user("x")], [says(("injection", 1.5))], **passed),
        row("a made-up kind is broken", {}, [user("x")], [says(("spam", 0.9))], **passed),
        row("a made-up kind warns", {"strategy": "warn"}, [user("x")], [says(("spam", 0.9))], **passed),
        row("a broken entry alone is fatal", {"error_strategy": "strict"}, [user("x")], [says(("jailbreak", "high"))],
            tripwire={"reason": "Prompt injection detection failed"}, llm_calls=1, analyzed=["x"],
            detection_events=[]),
        row("six kinds with their scores", {"include_scores": True}, [user("x")],
            [says(*((name, 0.8) for name in SIX), why="w")],
            tripwire={"reason": LEAD + ", ".join(SIX) + ". Reason: w. Scores: "
                      + ", ".join(f"{name}: 0.8" for name in SIX)}, llm_calls=1, analyzed=["x"],
            detection_events=[heard("x", "block", *((name, 0.8) for name in SIX), why="w")]),
        row("no kinds", {"detection_types": []}, [user("x")], [CLEAN], **passed),
    ]  # fmt: skip
