"""Where `ModerationProcessor` differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.conformance.builtin.frame import Fields

ELEVEN = [
    "hate", "hate/threatening", "harassment", "harassment/threatening",
    "self-harm", "self-harm/intent", "self-harm/instructions",
    "sexual", "sexual/minors", "violence", "violence/graphic",
]  # fmt: skip
END = re.compile(r"[.!?…]['\"”’»)\]]{0,3}\s|[。！？]|\n")
LEAST, MOST, OVERLAP = 40, 600, 200  # a window of an answer; and what of the text before it is shown


class Said(NamedTuple):
    """A judge's verdict; broken if it is none."""

    scores: dict[str, float]
    why: str | None = None
    broken: bool = False


def said(entry: Fields, options: Fields) -> Said:
    """Return what an entry of the script says; a category that was not offered is ``unlisted``, scores are clamped."""
    known = options.get("categories", ELEVEN)
    try:
        verdict = entry["object"] if "object" in entry else json.loads(entry["text"])
        listed, lost = verdict["category_scores"], 0
        if listed is None and not verdict.get("reason"):
            return Said({}, broken=True)  # it says nothing, not that nothing was found
        scores: dict[str, float] = {}
        for row in listed or ():
            score = row.get("score") if isinstance(row, dict) else None
            if not isinstance(score, int | float) or not isinstance(row.get("category"), str):
                lost += 1
                continue
            name = row["category"] if row["category"] in known else "unlisted"
            scores[name] = max(scores.get(name, 0.0), min(max(score, 0), 1))
    except (KeyError, TypeError, ValueError, AttributeError):
        return Said({}, broken=True)
    flagged = any(score >= options["threshold"] for score in scores.values())
    return Said(scores, verdict.get("reason"), broken=bool(lost) and not flagged)


def flagged(verdict: Said, options: Fields) -> list[str]:
    """Return the categories that reach the threshold."""
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


def reason(found: Iterable[Said], options: Fields) -> str:
    """Return a verdict's reason in the reference's words: all categories, the first one's scores and why."""
    over = [verdict for verdict in found if flagged(verdict, options)]
    names = dict.fromkeys(name for verdict in over for name in flagged(verdict, options))
    told = f"Categories: {', '.join(names)}"
    told += f". Reason: {over[0].why}" if over[0].why else ""
    scores = ", ".join(f"{name}: {score:.4g}" for name, score in over[0].scores.items())
    return f"{told}. Scores: {scores}" if options["include_scores"] else told


def outcome(options: Fields, found: list[Said]) -> Fields | None:
    """Return the verdict or the warnings that come of judges' verdicts; None if the texts pass or are filtered."""
    if any(verdict.broken for verdict in found) and options["error_strategy"] == "strict":
        return {"tripwire": {"reason": "the call failed"}}
    over = [verdict for verdict in found if not verdict.broken and flagged(verdict, options)]
    if any(verdict.broken for verdict in found):
        over = []  # the whole step has failed, and passes
    if over and options["strategy"] == "block":
        return {"tripwire": {"reason": reason(over, options)}}
    warns = options["strategy"] == "warn"
    names = dict.fromkeys(name for verdict in over for name in flagged(verdict, options))
    return {"logs": [{"level": "warn", "text": f"Categories: {', '.join(names)}"}] if warns and names else []}


def windows(text: str) -> list[str]:
    """Return a text's windows: at least 40 characters up to a sentence's end, at most 600."""
    start, found = 0, []
    while start < len(text):
        ends = [hit.end() for hit in END.finditer(text, start, start + MOST) if hit.end() - start >= LEAST]
        spaces = [at + 1 for at in range(start + MOST // 2 + 1, start + MOST) if text[at : at + 1].isspace()]
        end = ends[0] if ends else len(text) if len(text) - start <= MOST else (spaces or [start + MOST])[-1]
        found.append(text[start:end])
        start = end
    return found


def strings(value: Any) -> list[str]:
    """Return the texts in a tool's arguments, with their keys."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (key, *strings(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


def an_answer_is_judged_by_sentences(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A stream is held to a sentence's end, and judged with the text before it; so is what a tool is given."""
    if "chunks" not in given:
        return None
    text = "".join(row["payload"]["text"] for row in given["chunks"] if row.get("type") == "text-delta")
    calls = [" ".join(strings(row["payload"]["args"])) for row in given["chunks"] if row.get("type") == "tool-call"]
    cut = windows(text)
    shown = options["chunk_window"] * MOST or OVERLAP
    places = [(len("".join(cut[:at])), window) for at, window in enumerate(cut) if window.strip()]
    texts = [*calls, *(text[max(start - shown, 0) : start + len(window)] for start, window in places)]
    found = verdicts(options, given, len(texts))
    keeps = ["" if options["strategy"] == "filter" and flagged(v, options) else w
             for (_, w), v in zip(places, found[len(calls) :], strict=True)]  # fmt: skip
    told = outcome(options, found) or {}
    out = "" if "tripwire" in told else "".join(keeps) if text.strip() else text
    rest = {name: value for name, value in expected.items() if name not in ("tripwire", "logs", "returns")}
    return {**rest, "out": out, "analyzed": texts, "llm_calls": len(texts), **told}


def messages_are_judged_beside_each_other(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A verdict waits for no message before it, and names all categories that it is about; each is warned of once."""
    if "messages" not in given:
        return None
    messages = looked_at(options, given)
    texts = list(dict.fromkeys(map(text_of, messages)))
    told = outcome(options, verdicts(options, given, len(texts))) if len(messages) > 1 else None
    if told is None:
        return None
    rest = {name: value for name, value in expected.items() if name not in ("tripwire", "logs")}
    return {**rest, "analyzed": texts, "llm_calls": len(texts), **told}


def a_verdict_is_read_entry_by_entry(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """One entry that is wrong voids no verdict, and a category that was made up counts."""
    messages = looked_at(options, given)
    if len(messages) != 1 or "chunks" in given:
        return None
    verdict = verdicts(options, given, 1)[0]
    if verdict.broken or not flagged(verdict, options) or "tripwire" in expected:
        return None
    rest = {name: value for name, value in expected.items() if name != "logs"}
    told = outcome(options, [verdict]) or {}
    if options["strategy"] == "filter":
        told = {"logs": [], "kept_ids": [one["id"] for one in given["messages"] if one["id"] != messages[0]["id"]]}
    if "tripwire" in told:
        rest.pop("kept_ids", None)
    return {**rest, **told}


def a_verdict_of_nothing_is_a_failure(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A judge that answers null everywhere has not judged: where failures stop the run, that does too."""
    messages = looked_at(options, given)
    judged = verdicts(options, given, 1) if len(messages) == 1 else []
    if not any(verdict.broken for verdict in judged) or options["error_strategy"] != "strict" or "tripwire" in expected:
        return None
    rest = {name: value for name, value in expected.items() if name not in ("kept_ids", "logs")}
    return {**rest, "tripwire": {"reason": "the call failed"}}


def what_leaves_nothing_to_answer_stops(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A filter that takes away all that the user asked stops the run: nothing is left to answer."""
    users = [message["id"] for message in given.get("messages", ()) if message["role"] == "user"]
    kept = expected.get("kept_ids")
    if kept is None or given["method"] != "process_input" or not users or set(users) & set(kept):
        return None
    rest = {name: value for name, value in expected.items() if name not in ("kept_ids", "logs")}
    return {**rest, "tripwire": {"reason": "nothing is left"}}


def a_guard_without_categories_is_refused(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """An empty list is an error: it could find nothing."""
    return {"error": "categories"} if options.get("categories") == [] else None


RULES: tuple[Callable[[Fields, Fields, Fields], Fields | None], ...] = (
    an_answer_is_judged_by_sentences,
    a_verdict_is_read_entry_by_entry,
    messages_are_judged_beside_each_other,
    a_verdict_of_nothing_is_a_failure,
    what_leaves_nothing_to_answer_stops,
    a_guard_without_categories_is_refused,
)
