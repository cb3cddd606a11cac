"""Where `PromptInjectionDetector` differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.conformance.builtin.calls import equal_texts_are_asked_about_once
from tests.conformance.builtin.frame import Fields

SIX = ["injection", "jailbreak", "tool-exfiltration", "data-exfiltration", "system-override", "role-manipulation"]
DEFAULTS: Fields = {
    "threshold": 0.7,
    "strategy": "block",
    "include_scores": False,
    "last_message_only": False,
    "error_strategy": "warn",
}


class Said(NamedTuple):
    """A judge's verdict; broken if it is none."""

    scores: dict[str, float]
    why: str | None = None
    rewritten: str | None = None
    broken: bool = False


def said(entry: Fields, options: Fields) -> Said:
    """Return what an entry of the script says; a kind that was not offered is ``unlisted``, scores are clamped."""
    known = options.get("detection_types", SIX)
    try:
        verdict = entry["object"] if "object" in entry else json.loads(entry["text"])
        scores: dict[str, float] = {}
        lost = 0
        if verdict["categories"] is None and not verdict.get("reason") and not verdict.get("rewritten_content"):
            return Said({}, broken=True)  # it says nothing, not that nothing was found
        for row in verdict["categories"] or ():
            if not isinstance(row.get("score"), int | float) or not isinstance(row.get("type"), str):
                lost += 1
                continue
            name = row["type"] if row["type"] in known else "unlisted"
            scores[name] = max(scores.get(name, 0.0), min(max(row["score"], 0), 1))
        found = Said(scores, verdict.get("reason"), verdict.get("rewritten_content"))
    except (KeyError, TypeError, ValueError, AttributeError):
        return Said({}, broken=True)
    return found._replace(broken=bool(lost) and not flagged(found, options))


def flagged(verdict: Said, options: Fields) -> list[str]:
    """Return the kinds that reach the threshold."""
    return [name for name, score in verdict.scores.items() if score >= options["threshold"]]


def text_of(message: Fields) -> str:
    """Return a message's text as guards of the reference read it."""
    content = message["content"]
    parts = " ".join(part["text"] for part in content["parts"] if part["type"] == "text").strip()
    return parts or content.get("content", "").strip()


def looked_at(options: Fields, given: Fields) -> list[Fields]:
    """Return the messages that are judged."""
    messages = given.get("messages", [])
    chosen = messages[-1:] if options["last_message_only"] else messages
    return [message for message in chosen if text_of(message)]


def verdicts(options: Fields, given: Fields, count: int) -> list[Said]:
    """Return the verdicts about so many texts, in their order."""
    script = given["model_script"]
    return [said(script[min(at, len(script) - 1)], options) for at in range(count)]


def events(options: Fields, texts: Sequence[str], found: Sequence[Said]) -> list[Fields]:
    """Return what the callback is told of texts."""
    return [
        {
            "detectionResult": {
                "categories": [{"type": name, "score": score} for name, score in verdict.scores.items()],
                "reason": verdict.why,
            },
            "input": text,
            "flagged": bool(flagged(verdict, options)),
            "strategyApplied": options["strategy"] if flagged(verdict, options) else "none",
        }
        for text, verdict in zip(texts, found, strict=True)
    ]


def named(found: Sequence[Said], options: Fields) -> str:
    """Return all kinds that verdicts flag, in the reference's words, and why, as the first of them says."""
    over = [verdict for verdict in found if flagged(verdict, options)]
    names = dict.fromkeys(name for verdict in over for name in flagged(verdict, options))
    told = f"Prompt injection detected. Types: {', '.join(names)}" + (
        f". Reason: {over[0].why}" if over and over[0].why else ""
    )
    scores = ", ".join(f"{name}: {score:.4g}" for name, score in over[0].scores.items()) if over else ""
    return f"{told}. Scores: {scores}" if options["include_scores"] else told


def messages_are_judged_beside_each_other(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A verdict waits for no message before it, and names all kinds that it is about; each is warned of once."""
    texts = [text_of(message) for message in looked_at(options, given)]
    found = verdicts(options, given, len(texts)) if texts else []
    if len(texts) < 2 or any(verdict.broken for verdict in found):
        return None
    rest = {**expected, "analyzed": texts, "llm_calls": len(texts), "detection_events": events(options, texts, found)}
    over = any(flagged(verdict, options) for verdict in found)
    if options["strategy"] == "warn" and over:
        return {**rest, "logs": [{"level": "warn", "text": named(found, options), "has_error": False}]}
    if options["strategy"] == "block" and over:
        return {**rest, "tripwire": {"reason": named(found, options)}}
    return rest if "tripwire" not in expected else None


def a_verdict_is_read_entry_by_entry(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """One entry that is wrong voids no verdict, and a kind that was made up counts."""
    messages = looked_at(options, given)
    if len(messages) != 1 or "tripwire" in expected or options["strategy"] not in ("block", "warn"):
        return None
    found = verdicts(options, given, 1)
    if found[0].broken or not flagged(found[0], options):
        return None
    rest = {**expected, "detection_events": events(options, [text_of(messages[0])], found)}
    if options["strategy"] == "block":
        rest.pop("messages", None)
        return {**rest, "tripwire": {"reason": named(found, options)}}
    return {**rest, "logs": [{"level": "warn", "text": named(found, options), "has_error": False}]}


def a_failure_is_no_detection(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Of a text that was not judged the callback is told nothing; a verdict of nothing but null is a failure too."""
    messages = looked_at(options, given)
    if not messages or not any(verdict.broken for verdict in verdicts(options, given, len(messages))):
        return None
    if options["error_strategy"] == "strict" and "tripwire" not in expected:
        expected = {name: value for name, value in expected.items() if name not in ("messages", "logs")}
        expected["tripwire"] = {"reason": "the call failed"}
    return {**expected, "detection_events": []}


def a_rewriting_keeps_the_other_parts(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Only text is rewritten; pictures, files and tools stay where they are."""
    if options["strategy"] != "rewrite" or "messages" not in expected:
        return None
    before = {message["id"]: message["content"]["parts"] for message in given["messages"]}
    rewritten = []
    for message in expected["messages"]:
        text = [part for part in message["content"]["parts"] if part["type"] == "text"]
        parts = [part for part in before[message["id"]] if part["type"] != "text"]
        first = [part["type"] for part in before[message["id"]]].index("text") if text else 0
        rewritten.append(
            {**message, "content": {**message["content"], "parts": [*parts[:first], *text, *parts[first:]]}}
        )
    return {**expected, "messages": rewritten}


def what_leaves_nothing_to_answer_stops(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A filter that takes away all that the user asked stops the run: nothing is left to answer."""
    users = {message["id"] for message in given.get("messages", ()) if message["role"] == "user"}
    kept = expected.get("messages")
    if kept is None or not users or users & {message["id"] for message in kept}:
        return None
    rest = {name: value for name, value in expected.items() if name not in ("messages", "logs")}
    return {**rest, "tripwire": {"reason": "nothing is left"}}


def a_guard_that_looks_for_nothing_is_refused(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """An empty list is an error: it could find nothing."""
    return {"error": "detection_types"} if options.get("detection_types") == [] else None


RULES: tuple[Callable[[Fields, Fields, Fields], Fields | None], ...] = (
    a_verdict_is_read_entry_by_entry,
    messages_are_judged_beside_each_other,
    a_failure_is_no_detection,
    a_rewriting_keeps_the_other_parts,
    what_leaves_nothing_to_answer_stops,
    a_guard_that_looks_for_nothing_is_refused,
    equal_texts_are_asked_about_once,
)
