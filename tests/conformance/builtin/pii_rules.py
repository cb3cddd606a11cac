"""Where `PIIDetector` differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.conformance.builtin.calls import equal_texts_are_asked_about_once
from tests.conformance.builtin.frame import Fields

KEY = b"conformance"
DIGITS = 8
EMBEDDED = {
    "email": r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}",
    "ssn": r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])",
    "credit-card": r"(?<!\d)(?:\d{4}[ -]?){3}\d{4}(?!\d)",
    "phone": (
        r"(?<![\w.])(?:\+?\d{1,3}[ .-]?)?(?:\(\d{3}\)|\d{3})[ .-]?\d{3}[ .-]\d{4}(?!\w)"
        r"|(?<![\w.+-])[2-9]\d{9}(?![\w-])"
    ),
    "api-key": (
        r"\b[sp]k[-_](?:live|test|proj)[-_][A-Za-z0-9]{16,}"
        r"|\b(?i:api[-_]?(?:key|secret))\s*[:=]\s*[\"']?[\w-]{20,}"
    ),
    "crypto-wallet": r"\b(?:0x[0-9a-fA-F]{40}|bc1[a-z0-9]{39,59}|[13][1-9A-HJ-NP-Za-km-z]{25,34})\b",
    "url": r"https?://[^\s\"'<>]*[\w/]",
    "ip-address": r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b",
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
}
LOCAL = {*EMBEDDED, "api-key", "date-of-birth", "crypto-wallet", "mac"}
END = re.compile(r"[.!?\u2026]['\"\u201d\u2019\u00bb)\]]{0,3}\s|[\u3002\uff01\uff1f]|\n")
LEAST, OVERLAP = 40, 200  # characters of a piece, and of the text before it that are shown with it
Span = tuple[int, int, str]


def masked(type: str, value: str) -> str:
    """Return a value under a mask that keeps its form."""
    size = len(value)
    if type in ("phone", "credit-card", "ssn"):
        shown = 4 if len(re.findall(r"\d", value)) > 4 else 0
        return re.sub(r"\d", "X" if type == "phone" else "*", value[: size - shown]) + value[size - shown :]
    if type == "email" and value.count("@") == 1:
        local, domain = value.split("@")
        first, dot, rest = domain.partition(".")
        stars = local[0] + "*" * (len(local) - 2) + local[-1] if len(local) > 2 else "***"
        return f"{stars}@{'*' * len(first)}.{rest}" if dot else f"{stars}@***"
    if type == "email":
        return "*" * min(size, 8)
    if type == "uuid":
        return re.sub("[0-9a-fA-F]", "*", value)
    first, last, least = {"crypto-wallet": (4, 4, 8), "iban": (2, 4, 6)}.get(type, (1, 1, 3))
    return "*" * size if size <= least else value[:first] + "*" * (size - first - last) + value[size - last :]


def formatted(options: Fields, type: str, value: str) -> str:
    """Return what stands in place of a value."""
    method = options["redaction_method"]
    if method == "hash":
        return f"[HASH:{hmac.new(KEY, value.encode(), hashlib.sha256).hexdigest()[:DIGITS]}]"
    if method == "placeholder":
        return f"[{type.upper()}]"
    if method == "remove":
        return ""
    return masked(type, value) if options["preserve_format"] else "*" * min(len(value), 8)


def luhn(value: str) -> bool:
    """Tell whether the check digit of a card's number is right."""
    digits = [int(digit) for digit in re.findall(r"\d", value)][::-1]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


def is_iban(value: str) -> bool:
    """Tell whether the check digits of an IBAN are right."""
    plain = re.sub(r"\W", "", value).upper()
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def is_one(type: str, value: str) -> bool:
    """Tell whether a value is what it looks like."""
    if type == "credit-card":
        return luhn(value)
    if type == "ssn":
        return not re.match(r"000|666|9|\d{3}-?00|\d{3}-?\d{2}-?0000", value)
    if type == "phone" and value.isdigit():
        return bool(re.fullmatch(r"1?[2-9]\d{9}", value))
    return is_iban(value) if type == "iban" else True


def embedded(options: Fields, text: str) -> list[Span]:
    """Return what patterns find in a text, of the types that are looked for."""
    return [
        (*found.span(), type)
        for type, pattern in EMBEDDED.items()
        if type in options["detection_types"]
        for found in re.finditer(pattern, text)
        if is_one(type, found.group())
    ]


def united(spans: Sequence[Span]) -> list[Span]:
    """Return stretches that do not overlap; the longest says what a stretch is."""
    made: list[tuple[Span, int]] = []
    for start, end, type in sorted(spans, key=lambda span: (span[0], -span[1])):
        if made and start < made[-1][0][1]:
            (low, high, owner), size = made[-1]
            longer = end - start > size
            made[-1] = (low, max(high, end), type if longer else owner), max(size, end - start)
        else:
            made.append(((start, end, type), end - start))
    return [span for span, _ in made]


def hidden(options: Fields, text: str, spans: Sequence[Span]) -> str:
    """Return a text with stretches hidden."""
    for start, end, type in reversed(united(spans)):
        text = text[:start] + formatted(options, type, text[start:end]) + text[end:]
    return text


def said(options: Fields, entry: Fields) -> list[tuple[str, str | None]]:
    """Return the types and values that a verdict is sure enough of."""
    verdict: Fields = entry.get("object") or Fields()
    detections: list[Fields] = verdict.get("detections") or []
    if detections:
        return [(one["type"], one["value"]) for one in detections if one["confidence"] >= options["threshold"]]
    categories: list[Fields] = verdict.get("categories") or []
    return [(one["type"], None) for one in categories if one["score"] >= options["threshold"]]


class Reading(NamedTuple):
    """What is found in a text: where, what the judge was shown, what stands nowhere, whether it failed."""

    spans: list[Span]
    shown: list[str]
    lost: list[str]
    failed: bool


def windows(options: Fields, text: str) -> Iterator[tuple[int, str]]:
    """Yield the pieces that a judge is asked about, cut behind sentences or, if they are long, spaces."""
    most = options["buffer_size"]
    start = 0 if any(type not in LOCAL for type in options["detection_types"]) else len(text)
    while start < len(text):
        ends = [one.end() for one in END.finditer(text, start, start + most) if one.end() - start >= LEAST]
        spaces = [at + 1 for at in range(start + most // 2 + 1, start + most) if text[at : at + 1].isspace()]
        end = ends[0] if ends else len(text) if len(text) - start <= most else (spaces or [start + most])[-1]
        if text[start:end].strip():
            yield start, text[start:end]
        start = end


def places(value: str | None, text: str) -> list[tuple[int, int]]:
    """Return where a value stands as a word; where it stands at all, if it nowhere does."""
    plain = re.escape(value or "")
    for pattern in (rf"(?<!\w){plain}(?!\w)", plain) if value else ():
        if found := [one.span() for one in re.finditer(pattern, text, re.IGNORECASE)]:
            return found
    return []


def read(options: Fields, text: str, script: Iterator[Fields]) -> Reading:
    """Return what is found in a text by patterns, and by a judge who is asked about each piece of it."""
    spans, shown, lost, failed = embedded(options, text), list[str](), list[str](), False
    for start, piece in windows(options, text):
        entry = next(script, Fields())
        view = text[max(start - min(OVERLAP, options["buffer_size"]), 0) : start + len(piece)]
        seen = hidden({**options, "redaction_method": "placeholder"}, view, embedded(options, view))
        shown.append(seen)
        failed = failed or "error" in entry
        for type, value in said(options, entry):
            spans += [(low + start, high + start, type) for low, high in places(value, piece)]
            if not places(value, view) and (not value or value not in seen):
                lost.append(type)
    return Reading(united(spans), shown, lost, failed and options["error_strategy"] == "strict")


def script_of(given: Fields) -> Iterator[Fields]:
    """Yield what the judge says, the last of it again and again."""
    rows: list[Fields] = given.get("model_script") or [Fields()]
    yield from rows
    while True:
        yield rows[-1]


def verdict(options: Fields, readings: Sequence[Reading]) -> Fields:
    """Return the verdict about texts, and what is told about them."""
    types = sorted(
        {type for one in readings for _, _, type in one.spans} | {type for one in readings for type in one.lost}
    )
    stuck = options["strategy"] == "redact" and any(one.lost for one in readings)
    event = {"flagged": True, "strategyApplied": options["strategy"], "types": types}
    fields: Fields = {
        "analyzed": [piece for one in readings for piece in one.shown],
        "llm_calls": sum(len(one.shown) for one in readings),
        "detection_events": [event] if types else [],
    }
    if any(one.failed for one in readings):
        fields["tripwire"] = {"reason": "failed"}
    elif stuck or (types and options["strategy"] == "block"):
        counted = ". Detections: 1" if options["include_detections"] else ""
        fields["tripwire"] = {"reason": f"Types: {', '.join(types)}{counted}"}
    return fields


def a_hash_is_keyed(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Nobody can find a value by going through all there are."""
    if given["method"] != "redact_value" or options["redaction_method"] != "hash":
        return None
    return {**expected, "text": formatted(options, given["type"], given["value"])}


def length_is_counted_in_characters(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A character is one, whatever it takes."""
    if given["method"] != "redact_value" or max(map(ord, given["value"]), default=0) <= 0xFFFF:
        return None
    return {**expected, "text": formatted(options, given["type"], given["value"])}


def a_short_number_is_hidden_whole(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Four digits are all that a mask shows, so a number of four shows none."""
    if given["method"] != "redact_value" or given["type"] not in ("phone", "credit-card", "ssn"):
        return None
    return {**expected, "text": formatted(options, given["type"], given["value"])}


def what_is_found_counts(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Patterns come first, values are searched for, each by its own confidence, and each part is rewritten in place."""
    if not {"messages"} <= set(given) or given["method"] not in ("process_input", "process_output_result"):
        return None
    script, kept, readings = script_of(given), list[Fields](), list[Reading]()
    for index, message in enumerate(given["messages"]):
        passed = options["last_message_only"] and index < len(given["messages"]) - 1
        parts, found = list[Fields](), False
        for part in message["content"]["parts"]:
            if passed or part["type"] != "text":
                parts.append(part)
                continue
            readings.append(reading := read(options, part["text"], script))
            found = found or bool(reading.spans or reading.lost)
            hides = options["strategy"] == "redact"
            parts.append({**part, "text": hidden(options, part["text"], reading.spans)} if hides else part)
        if options["strategy"] != "filter" or not found:
            kept.append({**message, "content": {"format": 2, "parts": parts}})
    fields = verdict(options, readings)
    told = {name: it for name, it in expected.items() if name not in ("messages", "tripwire")}
    told = {name: fields.get(name, it) for name, it in told.items()}
    return {**told, "tripwire": fields["tripwire"]} if "tripwire" in fields else {**told, "messages": kept}


def a_stream_says_what_the_whole_would(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Nothing is lost, reordered, or seen before it is judged; types of one's own are looked for, too."""
    if "chunks" not in given:
        return None
    text = "".join(row["payload"]["text"] for row in given["chunks"] if row["type"] == "text-delta")
    reading = read(options, text, script_of(given))
    fields = verdict(options, [reading])
    told = {name: it for name, it in expected.items() if name not in ("emitted", "text", "tripwire")}
    told = {name: fields.get(name, it) for name, it in told.items()}
    if "tripwire" in fields:
        return {**told, "tripwire": fields["tripwire"]}
    emitted, at = list[Fields](), 0
    for row in given["chunks"]:
        size = len(row["payload"]["text"]) if row["type"] == "text-delta" else 0
        out = [said_of(options, text, reading.spans, place) for place in range(at, at + size)]
        payload = {**row["payload"], "text": "".join(out)} if size else row.get("payload", {})
        emitted.append({**row, "payload": payload})
        at += size
    return {**told, "emitted": emitted, "text": "".join(one["payload"].get("text", "") for one in emitted)}


def said_of(options: Fields, text: str, spans: Sequence[Span], at: int) -> str:
    """Return what a client sees of a character: where something hidden begins, what stands in its place."""
    if options["strategy"] == "filter":
        ends = [start for start, _ in windows({**options, "detection_types": ["x"]}, text)]
        low = max((end for end in ends if end <= at), default=0)
        high = min((end for end in ends if end > at), default=len(text))
        return "" if any(start < high and low < end for start, end, _ in spans) else text[at]
    span = next((one for one in spans if one[0] <= at < one[1]), None)
    if span is None or options["strategy"] == "warn":
        return text[at]
    return formatted(options, span[2], text[span[0] : span[1]]) if at == span[0] else ""


def the_judge_is_asked_for_values(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Not for places, which it cannot count, nor for the text again, which it may change."""
    if given["method"] != "verdict_schema":
        return None
    entry = {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "value": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["type", "value", "score"],
    }
    form = {
        "type": "object",
        "properties": {"findings": {"type": "array", "items": {"$ref": "#/$defs/PIIEntry"}}},
        "required": ["findings"],
        "$defs": {"PIIEntry": entry},
    }
    return {**expected, "json_schema": form}


RULES = (
    a_hash_is_keyed,
    length_is_counted_in_characters,
    a_short_number_is_hidden_whole,
    what_is_found_counts,
    a_stream_says_what_the_whole_would,
    the_judge_is_asked_for_values,
    equal_texts_are_asked_about_once,
)
