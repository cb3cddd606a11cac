"""Whether messages of other origin are written as OpenAI chat has them."""

from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats import openai_chat


def test_an_assistants_steps_become_messages_with_their_results():
    """As UI and stored messages hold them: several steps in one message, results in the calls."""
    message = Message.assistant(
        [
            TextPart("a"),
            ToolPart("c1", "f", {"q": 1}, "result", {"n": 4}),
            ToolPart("c2", "f", {}, "error", error="broke"),
            StepStartPart(),
            ReasoningPart("hm"),
            TextPart("b"),
            ToolPart("c3", "f", {}, "result", "4"),
            TextPart("c"),
        ]
    )
    roles = [
        (item["role"], item.get("content"), [entry["id"] for entry in item.get("tool_calls", [])])
        for item in openai_chat.write([message])
    ]
    assert roles == [
        ("assistant", "a", ["c1", "c2"]),
        ("tool", '{"n":4}', []),
        ("tool", "broke", []),
        ("assistant", "b", ["c3"]),
        ("tool", "4", []),
        ("assistant", "c", []),
    ]


def test_what_the_format_has_no_place_for_is_left_out():
    """Exactly the kinds that the format names; a message of nothing else is not sent empty."""
    parts = [SourcePart(url="https://x.test"), DataPart("progress", 1), StepStartPart()]
    assert {part.type for part in parts} == openai_chat.LEAVES_OUT
    assert openai_chat.write([Message.assistant(parts)]) == []
    assert openai_chat.write([Message.assistant([*parts, TextPart("a")])]) == [{"role": "assistant", "content": "a"}]


def test_media_of_other_formats_are_shown_as_what_they_are():
    """A file that holds an image or a sound goes out as one, and an unknown part as it is."""
    parts = [
        FilePart(data="AAAA", media_type="image/png"),
        FilePart(url="data:audio/mpeg;base64,AAAA", media_type="audio/mpeg"),
        FilePart(url="https://x.test/a.pdf", media_type="application/pdf", name="a.pdf"),
        FilePart(data="AAAA"),
        ImagePart(data="AAAA"),
        UnknownPart({"type": "novelty"}),
    ]
    (item,) = openai_chat.write([Message.user(parts)])
    assert item["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        {"type": "file", "file": {"file_data": "https://x.test/a.pdf", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "data:application/octet-stream;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "novelty"},
    ]


def test_sounds_go_out_with_what_is_known_of_them():
    """Data or URL, and the format's name if there is a type."""
    parts = [AudioPart(url="https://x.test/a.wav", media_type="audio/wav"), AudioPart(data="AAAA"), AudioPart()]
    (item,) = openai_chat.write([Message.user(parts)])
    assert [part["input_audio"] for part in item["content"]] == [
        {"url": "https://x.test/a.wav", "format": "wav"},
        {"data": "AAAA"},
        {},
    ]


def test_a_tool_message_of_our_own_is_written():
    """Each result becomes a message, and text without a call one too."""
    messages = [Message.tool([ToolPart("c1", "f", state="result"), TextPart("a")])]
    assert openai_chat.write(messages) == [
        {"role": "tool", "content": "a"},
        {"role": "tool", "tool_call_id": "c1", "content": "null"},
    ]
