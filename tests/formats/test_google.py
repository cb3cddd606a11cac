"""Whether contents of Gemini are read, written and read again without a loss."""

from typing import Any

import pytest

from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolPart
from penstock.formats import google, parse_messages

EXAMPLES: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "hi"}]},
    {"parts": [{"text": "hi"}]},
    {"role": "model"},
    {"role": "model", "parts": []},
    {"role": "system", "parts": [{"text": "hi"}]},
    {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"r": 1}}}]},
    {
        "role": "user",
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"inline_data": {"mime_type": "audio/mp3", "data": "AAAA", "display_name": None}},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/a.pdf", "displayName": "a.pdf"}},
            {"fileData": {"fileUri": "https://x.test/a.mp4"}, "videoMetadata": {"fps": 1}},
            {"novelty": {"x": 1}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"id": "i1", "name": "f"}},
            {"executableCode": {"language": "PYTHON", "code": "print(4)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "f", "response": {"r": 1}}},
            {"text": "go"},
            {"functionResponse": {"id": "i1", "name": "f", "response": {"r": 1}, "parts": [{"inlineData": {}}]}},
        ],
    },
    {"role": "user", "parts": [{"text": "a", "inline_data": None, "thought": None, "thought_signature": None}]},
]


@pytest.mark.parametrize("item", EXAMPLES)
def test_a_content_is_written_as_it_was_read(item: dict[str, Any]):
    """Each key in the spelling that it had."""
    assert google.write(google.read([item])) == [item]


def test_the_examples_are_written_as_they_were_read_together():
    """Ids that were made for calls are not written."""
    assert google.write(google.read(EXAMPLES)) == EXAMPLES


def test_a_response_without_an_id_answers_the_first_open_call_of_its_name():
    """The ids that both get say where the call stands."""
    call = {"functionCall": {"name": "f", "args": {}}}
    response = {"functionResponse": {"name": "f", "response": {"r": 1}}}
    messages = google.read([{"role": "model", "parts": [call, call]}, {"role": "user", "parts": [response, response]}])
    assert [message.role for message in messages] == ["assistant", "tool"]
    ids = [[part.call_id for part in message.parts if isinstance(part, ToolPart)] for message in messages]
    assert ids == [["call-0-0", "call-0-1"]] * 2


def test_parts_become_what_they_hold():
    """By their media type."""
    (message, answer) = google.read([EXAMPLES[6], EXAMPLES[7]])
    assert [type(part) for part in message.parts[:4]] == [ImagePart, AudioPart, FilePart, FilePart]
    assert [type(part) for part in answer.parts[:2]] == [ReasoningPart, ToolPart]


def test_a_requests_body_is_read_as_its_messages():
    """The system instruction first."""
    body = {
        "systemInstruction": {"parts": [{"text": "be terse"}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }
    assert [(message.role, message.text) for message in parse_messages(body)] == [
        ("system", "be terse"),
        ("user", "hi"),
    ]


def test_messages_of_other_formats_are_written():
    """A result that is no object becomes one."""
    messages = [
        Message.system("be terse"),
        Message.assistant([TextPart("a"), ToolPart("c1", "f", {"q": 1}, "result", "4")]),
        Message.user([ImagePart(data="AA"), FilePart(url="https://x.test/a.pdf", media_type="application/pdf")]),
    ]
    assert google.write(messages) == [
        {"role": "system", "parts": [{"text": "be terse"}]},
        {"role": "model", "parts": [{"text": "a"}, {"functionCall": {"id": "c1", "name": "f", "args": {"q": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "f", "response": {"result": "4"}}}]},
        {
            "role": "user",
            "parts": [
                {"inlineData": {"data": "AA", "mimeType": "image/png"}},
                {"fileData": {"fileUri": "https://x.test/a.pdf", "mimeType": "application/pdf"}},
            ],
        },
    ]
