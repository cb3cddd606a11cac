"""Where `ClassifierProcessor` differs from the reference on purpose, and rows as others may have been recorded.

The reasons are in docs/differences.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {
    "error_strategy": "strict",
    "chunk_window": 0,
    "max_input_length": None,
    "last_message_only": False,
}
END = re.compile(r"[.!?…]['\"”’»)\]]{0,3}\s|[。！？]|\n")
LEAST, MOST = 40, 600  # characters of a window of an answer


def windows(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the windows of a text begin and end: at ends of sentences; those that are blank are left out."""
    start = 0
    while start < len(text):
        ends = [found.end() for found in END.finditer(text, start, start + MOST) if found.end() - start >= LEAST]
        end = ends[0] if ends else min(len(text), start + MOST)
        if text[start:end].strip():
            yield start, end
        start = end


def blocks(given: Fields) -> list[str]:
    """Return the texts of a stream, block by block."""
    texts: dict[str, str] = {}
    for chunk in given.get("chunks", ()):
        if chunk["type"] == "text-delta":
            id = chunk["payload"].get("id", "")
            texts[id] = texts.get(id, "") + chunk["payload"]["text"]
    return list(texts.values())


def answers_of(options: Fields, given: Fields) -> list[tuple[str, str, Fields]]:
    """Return the windows of a stream with what is shown of each, and what the script says about it."""
    found: list[tuple[str, str, Fields]] = []
    script = given["verdict_script"]
    for text in blocks(given):
        for start, end in windows(text):
            before = max(start - options["chunk_window"] * MOST, 0)
            view = text[before:end].strip()[: options["max_input_length"]]
            found.append((text[start:end], view, script[min(len(found), len(script) - 1)]))
    return found


def an_answer_is_asked_about_by_windows(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A stream is cut at the ends of sentences, however it came; nothing leaves before it is decided."""
    if "chunks" not in given:
        return None
    policy, left, told, seen = given.get("policy") or {}, "", list[Fields](), list[str]()
    for window, view, entry in answers_of(options, given):
        seen.append(view)
        if "error" in entry and options["error_strategy"] == "warn":
            left += window
            continue
        if "error" in entry:
            return {"text": left, "analyzed": seen, "tripwire": {"reason": "failed"}, "callbacks": told}
        told.append({"phase": "stream", "answer": entry["answer"]})
        if entry["answer"] == policy.get("abort_if"):
            reason = f"policy: {entry['answer']}"
            return {"text": left, "analyzed": seen, "tripwire": {"reason": reason}, "callbacks": told}
        left += "" if entry["answer"] == policy.get("filter_if") else window
    rest = {name: value for name, value in expected.items() if name not in ("returns", "tripwire")}
    return {**rest, "text": left, "analyzed": seen, "callbacks": told}


def a_question_that_is_gone_is_not_answered(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """If every message of the user's is filtered out, the run stops."""
    users = [message["id"] for message in given.get("messages", ()) if message["role"] == "user"]
    if given["method"] != "process_input" or not users or set(users) & set(expected.get("kept_ids", users)):
        return None
    rest = {name: value for name, value in expected.items() if name != "kept_ids"}
    return {**rest, "tripwire": {"reason": "filtered"}}


def part_of_an_answer_may_go(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What the model said stays a message where its text is taken away."""
    if given["method"] != "process_output_result" or "kept_ids" not in expected:
        return None
    return {**expected, "kept_ids": [message["id"] for message in given["messages"]]}


RULES: tuple[Callable[[Fields, Fields, Fields], Fields | None], ...] = (
    an_answer_is_asked_about_by_windows,
    a_question_that_is_gone_is_not_answered,
    part_of_an_answer_may_go,
)


def message(id: str, text: str, role: str = "user") -> Fields:
    """Return a stored message."""
    parts = [{"type": "text", "text": text}]
    return {"id": id, "role": role, "createdAt": "2026-01-01T00:00:00.000Z", "content": {"format": 2, "parts": parts}}


def row(name: str, method: str, options: Fields, given: Fields, **expected: Any) -> Row:
    """Return a row."""
    return Row("classifier", name, Given({**DEFAULTS, **options}, {"method": method, **given}), expected)


def streamed(*texts: str) -> list[Fields]:
    """Return pieces of one block."""
    return [{"type": "text-delta", "payload": {"id": "t1", "text": text}} for text in texts]


def rows() -> Sequence[Row]:
    """Return rows as they may have been recorded elsewhere; what the reference does is after its spec."""
    two = [message("u1", "first text"), message("u2", "second text")]
    both = ["first text", "second text"]
    said = [message("a1", "an answer", "assistant")]
    ok, bad, boom = {"answer": "ok"}, {"answer": "bad"}, {"error": "boom"}
    told = [{"phase": "input", "answer": "bad"}, {"phase": "input", "answer": "ok"}]
    return [
        row("the first of two aborts", "process_input", {},
            {"messages": two, "verdict_script": [bad, ok], "policy": {"abort_if": "bad"}},
            tripwire={"reason": "policy: bad"}, analyzed=both[:1], callbacks=told[:1]),
        row("an id of one's own", "process_input", {"id": "mine"},
            {"messages": two, "verdict_script": [bad], "policy": {"abort_if": "bad"}},
            tripwire={"reason": "policy: bad"}, stopped_by="mine"),
        row("no number of windows", "construct", {"chunk_window": -1}, {}, error="chunkWindow must be 0 or more"),
        row("a window with the one before it", "process_output_stream", {"chunk_window": 1},
            {"chunks": streamed("a" * 700, "b" * 100), "verdict_script": [ok], "policy": None},
            returns=["emit", "emit"], analyzed=["a" * 700, "a" * 700 + "b" * 100],
            callbacks=[{"phase": "stream", "answer": "ok"}] * 2),
        row("both are filtered", "process_input", {},
            {"messages": two, "verdict_script": [bad], "policy": {"filter_if": "bad"}},
            kept_ids=[], analyzed=both, callbacks=told[:1] * 2),
        row("a failure passes", "process_input", {"error_strategy": "warn"},
            {"messages": two, "verdict_script": [boom, ok], "policy": None},
            kept_ids=["u1", "u2"], analyzed=both, callbacks=told[1:]),
        row("the last only", "process_input", {"last_message_only": True},
            {"messages": two, "verdict_script": [ok], "policy": None},
            kept_ids=["u1", "u2"], analyzed=both[1:], callbacks=told[1:]),
        row("a text is cut", "process_input", {"max_input_length": 5},
            {"messages": two[:1], "verdict_script": [ok], "policy": None},
            kept_ids=["u1"], analyzed=["first"], callbacks=told[1:]),
        row("an answer is filtered", "process_output_result", {},
            {"messages": said, "verdict_script": [bad], "policy": {"filter_if": "bad"}},
            kept_ids=[], analyzed=["an answer"], callbacks=[{"phase": "output", "answer": "bad"}]),
        row("a stream passes", "process_output_stream", {},
            {"chunks": streamed("a", " ", "c"), "verdict_script": [ok], "policy": None},
            returns=["emit", "emit", "emit"], analyzed=["a", "c"],
            callbacks=[{"phase": "stream", "answer": "ok"}] * 2),
        row("a stream is filtered", "process_output_stream", {},
            {"chunks": streamed("a", "b"), "verdict_script": [ok, bad], "policy": {"filter_if": "bad"}},
            returns=["emit", "drop"], analyzed=["a", "b"],
            callbacks=[{"phase": "stream", "answer": "ok"}, {"phase": "stream", "answer": "bad"}]),
        row("a stream is aborted", "process_output_stream", {},
            {"chunks": streamed("This is a sentence that is long enough. ", "b"), "verdict_script": [ok, bad],
             "policy": {"abort_if": "bad"}},
            returns=["emit"], tripwire={"reason": "policy: bad"}, analyzed=["a", "b"],
            callbacks=[{"phase": "stream", "answer": "ok"}, {"phase": "stream", "answer": "bad"}]),
        row("a stream fails", "process_output_stream", {},
            {"chunks": streamed("a", "b"), "verdict_script": [boom], "policy": None},
            returns=[], tripwire={"reason": "Classification failed"}, analyzed=["a"], callbacks=[]),
        row("a stream's failure passes", "process_output_stream", {"error_strategy": "warn"},
            {"chunks": streamed("a", "b"), "verdict_script": [boom], "policy": None},
            returns=["emit", "emit"], analyzed=["a", "b"], callbacks=[]),
        row("a window of what went before", "process_output_stream", {"chunk_window": 2},
            {"chunks": streamed("a", "b"), "verdict_script": [ok], "policy": None},
            returns=["emit", "emit"], analyzed=["a", "ab"], callbacks=[{"phase": "stream", "answer": "ok"}] * 2),
    ]  # fmt: skip
