"""Rows for the detector of personal data as others may have been recorded; the reference's side is after its spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {
    "detection_types": [
        "email", "phone", "credit-card", "ssn", "api-key", "ip-address", "name", "address", "date-of-birth", "url",
        "uuid", "crypto-wallet", "iban",
    ],
    "threshold": 0.6,
    "strategy": "redact",
    "redaction_method": "mask",
    "preserve_format": True,
    "include_detections": False,
    "buffer_size": 200,
    "last_message_only": False,
    "error_strategy": "warn",
}  # fmt: skip
REGEX_ONLY = {"detection_types": ["email", "phone", "ssn", "credit-card"]}
FINISH: Fields = {"type": "finish", "payload": {"finishReason": "stop"}}
IMAGE: Fields = {"type": "file", "data": "aGk=", "mimeType": "image/png"}
NO: Fields = {"object": {"categories": [], "detections": []}}
HELD = ["Nobody whom I know lives around here. ", "I am John Doe. ", "That is all there is to say about me."]

LONG = f"{'words without an end ' * 15}stop. {'And another sentence of some length. ' * 3}"


def user(*parts: str | Fields, id: str = "u1") -> Fields:
    """Return a stored message."""
    made = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"id": id, "role": "user", "createdAt": "2026-01-01T00:00:00.000Z", "content": {"format": 2, "parts": made}}


def says(*found: tuple[str, str, float], categories: Sequence[tuple[str, float]] = ()) -> Fields:
    """Return a judge's verdict in the reference's form."""
    rows = [{"type": type, "value": value, "confidence": sure, "start": 0, "end": 1} for type, value, sure in found]
    named = [{"type": type, "score": score} for type, score in categories]
    return {"object": {"categories": named, "detections": rows}}


def sent(name: str, options: Fields, asked: list[Fields], script: list[Fields], **expected: Any) -> Row:
    """Return a row of the input stage."""
    given = {"method": "process_input", "messages": asked, "model_script": script}
    return Row("pii_detector", name, Given({**DEFAULTS, **options}, given), {"llm_calls": len(script), **expected})


def streams(name: str, options: Fields, pieces: list[str], script: list[Fields], **expected: Any) -> Row:
    """Return a row of the stream stage."""
    chunks = [{"type": "text-delta", "payload": {"id": "t1", "text": piece}} for piece in pieces]
    given = {"method": "stream_through_runner", "chunks": [*chunks, FINISH], "model_script": script}
    return Row("pii_detector", name, Given({**DEFAULTS, **options}, given), expected)


def out(*pieces: str) -> Fields:
    """Return what left of a stream."""
    rows = [{"type": "text-delta", "payload": {"id": "t1", "text": piece}} for piece in pieces]
    return {"emitted": [*rows, FINISH], "text": "".join(pieces)}


def local(text: str, *found: tuple[str, int, int, str]) -> Row:
    """Return a row of what patterns find."""
    rows = [
        {"type": type, "value": text[low:high], "start": low, "end": high, "redacted_value": hides}
        for type, low, high, hides in found
    ]
    redacted = text
    for _, low, high, hides in reversed(found):
        redacted = redacted[:low] + hides + redacted[high:]
    expected = {"detections": rows, "redacted": redacted if rows else None}
    return Row("pii_detector", f"local {text}", Given(DEFAULTS, {"method": "detect_local", "text": text}), expected)


def value(type: str, text: str, expected: str, **options: Any) -> Row:
    """Return a row of how a value is hidden."""
    given = Given({**DEFAULTS, **options}, {"method": "redact_value", "type": type, "value": text})
    return Row("pii_detector", f"hide {type} {text}", given, {"text": expected})


def rows() -> Sequence[Row]:
    """Return them all."""
    mail = "mail john.doe@example.com now"
    email = ("email", "john.doe@example.com", 0.9)
    return [
        sent("parts are one", {"redaction_method": "placeholder"}, [user("mail a@b.io", IMAGE, "or c@d.io")],
            [says(("email", "a@b.io", 0.9), ("email", "c@d.io", 0.9))],
            messages=[user("mail [EMAIL] or [EMAIL]")]),
        sent("nothing is left", {"redaction_method": "remove"}, [user("john.doe@example.com")], [says(email)],
            messages=[user("john.doe@example.com")]),
        sent("all below the threshold", {}, [user("I am Bob")], [says(("name", "Bob", 0.3))],
            messages=[user("I am Bob")]),
        sent("one below the threshold is hidden, too", {"redaction_method": "placeholder"}, [user("Bob or Al")],
            [says(("name", "Bob", 0.9), ("name", "Al", 0.2))], messages=[user("[NAME] or [NAME]")]),
        sent("warn", {"strategy": "warn"}, [user(mail)], [says(email)], messages=[user(mail)]),
        sent("every place of a name", {"redaction_method": "placeholder"}, [user("Bob, bob, Bobolink")],
            [says(("name", "Bob", 0.9))], messages=[user("[NAME] bob, Bobolink")]),
        sent("a judge fails that must not", {"error_strategy": "strict", "strategy": "block"}, [user(mail)],
            [{"error": "boom"}], tripwire={"reason": "PII detection failed because the internal model call failed"}),
        sent("the first of two fails", {"strategy": "block"}, [user("hi"), user(mail, id="u2")], [NO, {"error": "x"}],
            messages=[user("hi"), user(mail, id="u2")]),
        streams("the first half is out", {**REGEX_ONLY, "strategy": "block"}, ["write bob@", "acme.com now"], [NO],
            emitted=[], text="write bob@", tripwire={"reason": "PII detected in streaming content. Types: email"}),
        streams("the second half is dropped", {**REGEX_ONLY, "strategy": "filter"}, ["write bob@", "acme.com now"],
            [NO], **out("write bob@")),
        streams("warn", {**REGEX_ONLY, "strategy": "warn"}, ["bob@acme.com"], [NO], **out("bob@acme.com")),
        streams("a type of one's own is not blocked", {"detection_types": ["passport"], "strategy": "block"},
            ["passport AB1234567."], [says(("passport", "AB1234567", 0.9))], **out("passport AB1234567.")),
        streams("spaces overtake", {"detection_types": ["name"], "strategy": "block"}, ["One", " ", "two."], [NO],
            **out(" ", "Onetwo.")),
        streams("a sentence is filtered", {"detection_types": ["name"], "strategy": "filter"}, HELD,
            [NO, says(("name", "John Doe", 0.9)), NO], **out(HELD[0], HELD[2])),
        streams("names by window", {"detection_types": ["name"], "redaction_method": "placeholder"}, HELD,
            [NO, says(("name", "John Doe", 0.9))], **out(HELD[0], "I am [NAME]. ", HELD[2])),
        streams("a key in two pieces", {"detection_types": ["api-key"], "redaction_method": "placeholder"},
            ["key sk_live_abcdefg", "hijklmnop now"], [NO], **out("key sk_live_abcdefghijklmnop now")),
        streams("a wallet in two pieces", {"detection_types": ["crypto-wallet"], "redaction_method": "placeholder"},
            ["to 1A1zP1eP5QGefi2", "DMPTfTL5SLmv7DivfNa"], [NO], **out("to [CRYPTO-WALLET]")),
        sent("equal texts", {}, [user("I am Bob"), user("I am Bob", id="u2")], [NO, NO],
            messages=[user("I am Bob"), user("I am Bob", id="u2")], analyzed=["I am Bob", "I am Bob"]),
        sent("what is long is shown in pieces", {}, [user(LONG)], [NO], messages=[user(LONG)], analyzed=[LONG]),
        local("a@b.io", ("email", 0, 6, "***@*.io")),
        local("4111 1111 1111 1112", ("credit-card", 0, 19, "**** **** **** 1112")),
        local("123-45-6789", ("ssn", 0, 11, "***-**-6789")),
        local("000-45-6789", ("ssn", 0, 11, "***-**-6789")),
        local("123e4567-e89b-12d3-a456-426614174000", ("uuid", 0, 36, "********-****-****-****-************")),
        local("see https://a.example/u?id=1", ("url", 4, 28, "h**********************1")),
        local("see https://a.example/u.", ("url", 4, 24, "h******************.")),
        local(
            "see https://a.example/u?m=a@b.io",
            ("url", 4, 32, f"h{'*' * 26}o"),
            ("email", 26, 32, "***@*.io"),
        ),
        local("2a02:db8::1"),
        local("DE89370400440532013001", ("phone", 2, 15, "XXXXXXXXX4053"), ("iban", 0, 22, "DE****************3001")),
        local("born 1990-01-31"),
        local("version 1.2.3.4", ("ip-address", 8, 15, "1*****4")),
        local("378282246310005", ("phone", 0, 13, "XXXXXXXXX3100")),
        local("+44 20 7946 0958"),
        local("2001:db8::1"),
        local("see www.example.com"),
        local("GB82 WEST 1234 5698 7654 32"),
        local("AKIAIOSFODNN7EXAMPLE"),
        local("DOB: 01/31/1990"),
        local("order 5551234567", ("phone", 6, 16, "XXXXXX4567")),
        local("call 555-123-4567", ("phone", 5, 17, "XXX-XXX-4567")),
        value("ssn", "6789", "6789"),
        value("phone", "4567", "4567"),
        value("email", "a@b", "***@***"),
        value("email", "john@mail.example.co.uk", "j**n@****.example.co.uk"),
        value("name", "😀😀", "****"),
        value("phone", "555-1234", "[HASH:00000000]", redaction_method="hash"),
    ]  # fmt: skip
