"""Rows for the pattern filter as others may have been recorded: what the reference does is worked out after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row
from tests.conformance.builtin.regex_whole import Segment, matches, segments, shown

TEXTS = {
    "pii": (
        "nothing to see",
        "write to bob.smith+tag@mail.acme-corp.co.uk, or not",
        "call 555-123-4567 or (555) 123-4567 or +1 555 123 4567 or 555.123.4567",
        "order 5551234567 shipped",
        "ts=1700000000 and 1700000000123",
        "call me at 5551234567",
        "+44 20 7946 0958 is London, +4915112345678 is mobile",
        "SSN 123-45-6789, not 000-12-3456, 666-12-3456 or 123-00-4567",
        "cards 4111111111111111, 4111 1111 1111 1112, 5500-0000-0000-0004, 378282246310005 and 3782 822463 10005",
        "a@b.io 123-45-6789 4111111111111111 (555) 123-4567 at 10.1.2.3",
        "IBAN DE89370400440532013000 or GB82 WEST 1234 5698 7654 32",
        "server 192.168.1.10, version 1.2.3.4, home 127.0.0.1",
    ),
    "secrets": (
        "nothing to see",
        "api_key=abcdefghijklmnopqrstuvwx12345",
        'API-KEY: "abcdefghijklmnopqrstuvwx12345"',
        "Authorization: Bearer abc123 and the bearer of news",
        "AKIAIOSFODNN7EXAMPLE",
        "token gh" + "p_abcdefghijklmnopqrstuvwxyz0123456789",
        "slack xo" + "xb-1234567890-abcdefghijkl",
        "sk" + "-ant-api03-ABCdef123456789xyz and sk-" + "abcdefghijklmnopqrstuvwx1234",
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_123 end",
        "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEabcdefghijklmnopqrstuvwxyz012345\n-----END RSA PRIVATE KEY-----",
    ),
    "urls": ("none", "http://a.b/c?d=e#f and HTTPS is not a scheme", "ftp://files.example/x and www.example.com/y"),
}
CONTENTS: dict[str, tuple[str, Any]] = {
    "one part": ("user", {"format": 2, "parts": [{"type": "text", "text": "a@b.io"}]}),
    "two parts around a file": (
        "user",
        {
            "format": 2,
            "parts": [
                {"type": "text", "text": "hello c@d.io"},
                {"type": "file", "data": "plain", "mimeType": "text/plain"},
                {"type": "text", "text": "x@y.io and (555) 123-4567"},
            ],
        },
    ),
    "a match in two parts": (
        "user",
        {"format": 2, "parts": [{"type": "text", "text": "hello a@"}, {"type": "text", "text": "b.io and more"}]},
    ),
    "copy": ("user", {"format": 2, "parts": [{"type": "text", "text": "mail a@b.io"}], "content": "mail a@b.io"}),
    "another copy": ("user", {"format": 2, "parts": [{"type": "text", "text": "mail"}], "content": "mail a@b.io"}),
    "copy alone": ("user", {"format": 2, "parts": [], "content": "mail a@b.io"}),
    "copy without parts": ("user", {"format": 2, "content": "mail a@b.io"}),
    "plain text": ("user", "mail a@b.io"),
    "nothing": ("user", None),
    "tool": (
        "assistant",
        {
            "format": 2,
            "parts": [
                {
                    "type": "tool-invocation",
                    "toolInvocation": {
                        "state": "result",
                        "toolCallId": "c1",
                        "toolName": "t",
                        "args": {"to": "a@b.io"},
                        "result": {"from": ["c@d.io"]},
                    },
                },
                {"type": "text", "text": "done a@b.io"},
            ],
        },
    ),
    "reasoning": (
        "assistant",
        {
            "format": 2,
            "parts": [{"type": "reasoning", "reasoning": "a@b.io", "details": [{"type": "text", "text": "a@b.io"}]}],
        },
    ),
}
TOOL = {"type": "tool-call", "payload": {"toolCallId": "c1", "toolName": "search", "args": {"q": "x"}}}
OWN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cat Cat CAT", {"name": "x", "pattern": "cat", "flags": "g"}),
    ("cat Cat CAT", {"name": "x", "pattern": "cat", "flags": "gi", "replacement": "dog"}),
    ("cat cat cat", {"name": "x", "pattern": "cat", "flags": ""}),
    ("a1 b22", {"name": "d", "pattern": r"([a-z])(\d+)", "flags": "g", "replacement": "$2$1"}),
    ("cost $5", {"name": "d", "pattern": r"\$\d", "flags": "g", "replacement": "money"}),
    ("line\nline", {"name": "m", "pattern": "^line$", "flags": "gm", "replacement": "L"}),
)


def rows() -> list[Row]:
    """Return all rows."""
    return [*unknown(), *own(), *messages(), *presets(), *streams()]


def presets() -> Iterator[Row]:
    """Yield each text with its preset, and with all, in every strategy and at both stages."""
    for preset, texts in TEXTS.items():
        for text in texts:
            for strategy in ("redact", "block", "warn"):
                for chosen in ([preset], ["pii", "secrets", "urls"]):
                    options = {"presets": chosen, "strategy": strategy}
                    yield row(options, "process_input", text)
                yield row({"presets": [preset], "strategy": strategy}, "process_output_result", text)
            yield row({"presets": [preset], "strategy": "redact", "phase": "output"}, "process_input", text)
            values = {"presets": [preset], "strategy": "redact", "include_redacted_values": True}
            yield row(values, "process_input", text)


def own() -> Iterator[Row]:
    """Yield rows with rules of the user's."""
    for text, rule in OWN:
        for strategy in ("redact", "block", "warn"):
            yield row({"rules": [rule], "strategy": strategy}, "process_input", text)


def messages() -> Iterator[Row]:
    """Yield rows with messages, whose texts stand in other places than one part."""
    for name, (role, content) in CONTENTS.items():
        told = [
            {"id": "m1", "role": role, "createdAt": "2026-01-01T00:00:00.000Z", "content": content},
            {
                "id": "m2",
                "role": "user",
                "createdAt": "2026-01-01T00:00:01.000Z",
                "content": {"format": 2, "parts": []},
            },
        ]
        for strategy in ("redact", "warn", "block"):
            yield row({"presets": ["pii"], "strategy": strategy}, "process_input", told, name)


NEIGHBOURS = (("mail a@b.io ", " c@d.io"), ("mail a@b.io", "plain text"), ("mail a@b.io", "c@d.io"))


def neighbours() -> list[Row]:
    """Return rows whose parts are texts that stand beside each other, each complete in itself."""
    rows = []
    for texts in NEIGHBOURS:
        content = {"format": 2, "parts": [{"type": "text", "text": text} for text in texts]}
        told = [{"id": "m1", "role": "user", "createdAt": "2026-01-01T00:00:00.000Z", "content": content}]
        options = {"presets": ["pii"], "strategy": "redact"}
        rows.append(row(options, "process_input", told, " | ".join(texts)))
    return rows


def streams() -> Iterator[Row]:
    """Yield texts as streams: whole, in two, in pieces, with a chunk between, with two blocks, and without an end."""
    texts = [(preset, text) for preset, texts in TEXTS.items() for text in texts]
    for index, (preset, text) in enumerate(texts):
        middle = len(text) // 2
        cuts = [[text], [text[:middle], text[middle:]], list(text), [text[:middle], TOOL, text[middle:]]]
        for strategy in ("redact", "block", "warn"):
            for cut in (*cuts, [f"{text} ", {"id": "t2", "text": "b@c.io"}]):
                yield stream({"presets": [preset], "strategy": strategy}, cut, ended=index % 2 == 0)
        yield stream({"presets": [preset], "strategy": "redact", "phase": "input"}, cuts[1], ended=True)
    for text, rule in OWN:
        yield stream({"rules": [rule], "strategy": "redact"}, list(text), ended=True)


def stream(options: Fields, pieces: list[Any], *, ended: bool) -> Row:
    """Return a row of a stream; a piece is a text of the block t1, or what a payload holds."""
    deltas = [{"id": "t1", "text": piece} if isinstance(piece, str) else piece for piece in pieces]
    chunks = [one if "type" in one else {"type": "text-delta", "payload": one} for one in deltas]
    finish = {"type": "finish", "payload": {"finishReason": "stop"}}
    options = complete(options)
    given = {"method": "stream_through_runner", "chunks": [*chunks, finish] if ended else chunks}
    found = {one: matches(options, one.text) if options["phase"] != "input" else [] for one in segments(given)}
    expected = shown(options, given, {}, found)
    del expected["found"]
    cut = f"{len(pieces)} pieces" if all(isinstance(one, str) for one in pieces) else "pieces and others"
    name = f"stream {options['strategy']} {'+'.join(options['presets'])} {cut} {deltas[0]['text']}"
    return Row("regex_filter", name, Given(options, given), expected)


def unknown() -> Iterator[Row]:
    """Yield rows with presets that do not exist, alone and beside others."""
    error = {"error": "RegexFilterProcessor requires at least one rule or preset"}
    given = Given(complete({"presets": ["emails"]}), {"method": "construct"})
    yield Row("regex_filter", "unknown preset", given, error)
    yield row({"presets": ["pii", "emails"], "strategy": "redact"}, "process_input", "a@b.io")


def complete(options: Fields) -> Fields:
    """Return the options with the reference's defaults."""
    defaults: Fields = {"rules": [], "presets": [], "strategy": "block", "phase": "all"}
    return {**defaults, "include_redacted_values": False, "stream_carryover_size": 128, **options}


def row(options: Fields, method: str, told: Any, name: str = "") -> Row:
    """Return a row with what the reference does there."""
    options = complete(options)
    given = {"method": method, "text" if isinstance(told, str) else "messages": told}
    ignored = options["phase"] == "output" and method == "process_input"
    found: dict[Segment, Any] = {
        segment: [] if segment.unread or ignored else matches(options, segment.text) for segment in segments(given)
    }
    expected = shown(options, given, {}, found)
    for one in (*expected.get("logs", ()), *expected.get("tripwire", {}).get("metadata", {}).get("matches", ())):
        one.pop("matches", None)
        one.pop("place", None)
    for message, before in zip(expected.get("messages", ()), given.get("messages", ()), strict=False):
        if isinstance(message["content"], dict) and "content" in message["content"]:
            message["content"]["content"] = before["content"]["content"]
    name = f"{method} {options['strategy']} {'+'.join(options['presets'])} {name or told}"
    return Row("regex_filter", name, Given(options, given), expected)
