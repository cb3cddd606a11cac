"""What formats keep in metadata beside the fields, and the words in it that guards skip."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from penstock.engine.text_guards.reading import message_texts
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import Message, TextPart
from penstock.formats import FORMATS, Format, dump_messages, parse_messages
from penstock.formats.anthropic import TERMS as ANTHROPIC_TERMS
from penstock.formats.openai_responses import BUILT_IN
from penstock.formats.shape import WireShape, WireTerms, note_words
from tests.formats.wire_messages import MARKER, made

CALL = {"id": "c", "type": "function", "function": {"name": "f"}}
TOLD = {"toolCallId": "c", "toolName": "f"}
REASONING = {"type": "reasoning.text", "text": "b"}


ARGUMENTS = ("", '{"é": 1}', '{"\\u00e9": 1}', '{"\\u00e9":1}', '{\n  "é": 1\n}')


def _arguments(text: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": text}}]}


def _stored(**content: Any) -> dict[str, Any]:
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    return {"id": "m", "role": "assistant", "content": {"format": 2, "parts": texts, **content}}


RARE: list[tuple[Format, dict[str, Any] | list[Any]]] = [
    *(
        ("openai-chat", _arguments(text))
        for text in ("", '{"é": 1}', '{"\\u00e9": 1}', '{"\\u00e9":1}', '{\n  "é": 1\n}')
    ),
    (
        "openai-chat",
        {**_arguments('{"a": 1}'), "reasoning_details": [REASONING, REASONING], "reasoning_content": "b\n\nb"},
    ),
    (
        "openai-chat",
        {"role": "assistant", "reasoning_details": [{**REASONING, "text": "c"}, REASONING], "reasoning": "b"},
    ),
    (
        "openai-chat",
        {"role": "assistant", "thinking_blocks": [{"type": "thinking", "thinking": "c", "signature": "s"}]},
    ),
    *(("stored", _stored(content=text)) for text in ("a\nb", "ab", "a b", "a\n\nb", "b", "a", "c")),
    ("stored", _stored(content=3)),
    ("stored", {"id": "m", "role": "signal", "content": None}),
    ("ai-sdk-ui", {"id": "m", "role": "user", "parts": [], "createdAt": "2026-01-01T00:00:00.000Z"}),
    ("ai-sdk-ui", {"id": "m", "role": "user", "parts": [{"type": "dynamic-tool", **TOLD, "state": "output-denied"}]}),
    ("ai-sdk-ui", {"id": "m", "role": "user", "parts": [{"type": "tool-f", **TOLD, "state": "call", "output": None}]}),
    ("ai-sdk-model", {"role": "assistant", "content": [{"type": "tool-call", **TOLD, "args": {}}]}),
    ("ai-sdk-model", {"role": "assistant", "content": [{"type": "tool-result", **TOLD}]}),
    (
        "ai-sdk-model",
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", **TOLD, "input": {}},
                    {"type": "text", "text": "a"},
                    {"type": "tool-approval-request", "approvalId": "a", "toolCallId": TOLD["toolCallId"]},
                ],
            },
            {"role": "tool", "content": [{"type": "tool-approval-response", "approvalId": "a", "approved": True}]},
        ],
    ),
    ("langchain", {"role": "human", "content": [{"text": "a"}]}),
    ("langchain", {"role": "assistant", "content": "a"}),
    ("langchain", {"type": "ai", "content": [{"type": "video", "url": "a"}]}),
    (
        "langchain",
        {
            "type": "ai",
            "content": [{"type": "tool_call", "id": "c", "name": "f", "args": {}}],
            "tool_calls": [{"type": "tool_call", "id": "c", "name": "f", "args": {}}],
            "additional_kwargs": {"tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{}"}}]},
        },
    ),
    ("langchain", {"type": "ai", "content": [{"type": "server_tool_result", "tool_call_id": "c"}]}),
    ("google", {"role": "tool", "parts": [{"function_call": {"name": "f"}}]}),
    ("pydantic-ai", {"kind": "request", "parts": []}),
    ("pydantic-ai", {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": 3}]}),
    ("pydantic-ai", {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": None}]}),
    (
        "pydantic-ai",
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": [{"kind": "document-url", "url": "a"}]}]},
    ),
    *(
        ("anthropic", {"role": "assistant", "content": [{"type": kind, "id": "c", "name": "f", "input": {}}]})
        for kind in ANTHROPIC_TERMS
        if kind.endswith("tool_use")
    ),
    *(
        ("anthropic", {"role": "assistant", "content": [{"type": kind, "tool_use_id": "c", "content": "a"}]})
        for kind in ANTHROPIC_TERMS
        if kind.endswith("tool_result")
    ),
    ("anthropic", {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f"}]}),
    *(("openai-responses", {"type": kind, "id": "i", "name": "f", "call_id": "c"}) for kind in BUILT_IN),
]
"""Messages that formats read in a way that random ones seldom show."""

BY_OTHERS = {"of"}
"""The checksum that models keep: it is the only word that no format writes."""

OPAQUE = {"extra", "inner", "odd", "head", "metadata", "odd_time", "pieces", "details", "block", "lc"}
"""Entries that hold what the wire had, whatever that is."""


def _random(name: Format, count: int) -> Iterator[Message]:
    for seed in range(count):
        try:
            yield from parse_messages(made(name, seed, spoil=False), name)
        except MessageError:
            continue


def _messages() -> Iterator[Message]:
    for name in FORMATS:
        yield from _random(name, 120)
    for name, item in RARE:
        yield from parse_messages(item, name)


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from () if key in OPAQUE else _said(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _said(item)
    elif isinstance(value, str):
        yield value


def test_each_word_that_guards_skip_is_one_that_formats_write():
    """No word is left behind when a format changes, except for those of other writers."""
    shapes = [
        value.metadata.get(name) for message in _messages() for value in (message, *message.parts) for name in FORMATS
    ]
    written = {*FORMATS, *(text for shape in shapes for text in _said(thaw(shape)))}
    assert note_words() - written == BY_OTHERS


def test_each_entry_that_a_format_writes_is_declared():
    """Guards would read an undeclared one, and writing would not know its type."""
    own = {"id", "signature", "provider_name", "provider_details", "provider_url", "canonical_system"}
    names = {
        key
        for message in _messages()
        for value in (message, *message.parts)
        for name in FORMATS
        for key in value.metadata.get(name, ())
    }
    assert names - own - {"provider_response_id"} <= get_type_hints(WireShape).keys()


def test_the_words_are_terms_and_say_nothing():
    """Each is a term in lower case, without a space: nothing that somebody would have said."""
    for word in note_words():
        assert re.fullmatch(r"[a-z]+(64)?([_-][a-z]+)*|redactedData|thoughtSignature", word)
    assert get_type_hints(WireTerms).keys() <= note_words()


@pytest.mark.parametrize("name", FORMATS)
def test_guards_read_every_string_that_a_format_keeps_from_the_wire(name: Format):
    """Whatever entry it stands in: only what formats write by themselves is skipped."""
    for message in _random(name, 60):
        kept = MARKER.findall(" ".join(_all(thaw([message.metadata, *(part.metadata for part in message.parts)]))))
        read = " ".join(text.text for text in message_texts(message, {"tool", *(part.type for part in message.parts)}))
        assert set(kept) <= set(MARKER.findall(read))


def _all(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        yield from _all(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _all(item)
    elif isinstance(value, str):
        yield value


def test_entries_of_a_wrong_type_are_left_out_when_a_message_is_written():
    """Metadata may come from a client: an id that is no text is none, and a list of blocks is no object."""
    message = Message.user(
        [TextPart("a", {"openai-chat": {"extra": ["b"], "type": 3}})], metadata={"openai-chat": {"id": 3}}
    )
    assert dump_messages(message, "openai-chat") == [{"role": "user", "content": "a"}]


def test_plain_texts_are_checked_without_the_formats():
    """The words are loaded with the first metadata that a guard reads."""
    code = (
        "import sys; from penstock import PIIDetector, Workflow;"
        "Workflow('guard').then(PIIDetector()).check_sync('write to a@b.org');"
        "print(any(name.startswith('penstock.formats') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
