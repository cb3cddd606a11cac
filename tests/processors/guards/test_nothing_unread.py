"""No text passes a guard unread: whatever holds it, and whatever wire format it came in."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    Agent,
    Chunk,
    Message,
    ModerationProcessor,
    OpenAICompatibleModel,
    PIIDetector,
    PromptInjectionDetector,
    RegexFilterProcessor,
    TextPart,
    ToolPart,
    Workflow,
    dump_messages,
    parse_messages,
)
from penstock.engine import DataPart, FilePart, ImagePart, ReasoningPart, SourcePart, StepStartPart, UnknownPart
from penstock.testing import ScriptedModel, run_stage
from penstock.workflows.presets import hygiene, injection, privacy, safety
from tests.laws import seeds
from tests.processors.guards.planted import ALL, ATTACK, MAIL, is_refused, missed, ordinary

TEXT = base64.b64encode(MAIL.encode()).decode()
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB//8="


@pytest.mark.parametrize("seed", seeds(range(6)))
def test_each_string_of_a_random_message_is_read(seed: int) -> None:
    """With a secret in its place, the message is blocked or is none; a redacting guard keeps it from the provider."""
    found = [told for each in range(seed, 150, 6) for told in missed(each, deep=each < 12)]
    assert found == []


def test_a_message_without_secrets_passes() -> None:
    """Call ids, addresses and unknown keys are no findings."""
    for seed in range(60):
        name, items = ordinary(seed)
        assert not is_refused(ALL, items, name), (seed, name)


OF_PARTS = [
    ImagePart(url=f"https://x.io/?who={MAIL}"),
    ImagePart(url=f"data:image/png;name={MAIL};base64,{PICTURE}"),
    FilePart(data=TEXT, media_type="text/plain"),
    FilePart(data=TEXT),
    FilePart(data=TEXT, media_type="application/ld+json"),
    FilePart(url=f"data:text/csv;base64,{TEXT}"),
    FilePart(url=f"data:text/csv,{MAIL.replace('@', '%40')}"),
    FilePart(data=base64.b64encode(MAIL.encode("utf-16")).decode(), media_type="text/plain"),
    FilePart(file_id=MAIL),
    FilePart(media_type=MAIL),
    ToolPart(MAIL, "f"),
    ToolPart("c", MAIL),
    ToolPart("c", "f", {}, "result", {"mimeType": "text/plain", "data": TEXT}),
    SourcePart(id=MAIL),
    DataPart(MAIL),
    TextPart("a", {"x": {"y": [MAIL]}}),
    ReasoningPart("a", {MAIL: 1}),
]


@pytest.mark.parametrize("part", OF_PARTS, ids=str)
def test_a_text_that_cannot_be_edited_stops_the_run(part: TextPart) -> None:
    """Whatever the guard would do elsewhere; the reason names the field."""
    for guard in (
        PIIDetector(unscanned="allow"),
        RegexFilterProcessor(presets=["pii"], strategy="redact", unscanned="allow"),
    ):
        outcome = run_stage(guard, "process_output_result", [Message.assistant([part])])
        assert outcome.tripwire is not None, guard
        assert "cannot be edited" in outcome.tripwire.reason
        assert MAIL not in outcome.tripwire.reason


@pytest.mark.parametrize("part", [DataPart("n", {"a": MAIL}), UnknownPart({"type": "x", "of": [{MAIL: MAIL}]})])
def test_data_and_unknown_parts_are_redacted_in_place(part: DataPart) -> None:
    """All strings in them are text."""
    outcome = run_stage(PIIDetector(), "process_output_result", [Message.assistant([part])])
    assert MAIL not in str(outcome.messages)
    assert type(outcome.messages[0].parts[0]) is type(part)


@pytest.mark.parametrize(
    "message",
    [
        Message.user("hi", name=MAIL),
        Message.user("hi", metadata={"x": [MAIL]}),
        Message.user("hi", id=MAIL, from_client=True),
        Message.user("hi", thread_id=MAIL, from_client=True),
    ],
)
def test_what_belongs_to_no_part_is_read(message: Message) -> None:
    """Name, metadata, and the ids that a client sent."""
    assert run_stage(PIIDetector(parts=["reasoning"]), "process_input", [message]).blocked


def test_neighbouring_texts_stay_neighbours_whatever_their_metadata_hold() -> None:
    """A value in two parts is found."""
    parts = [TextPart(MAIL[:6], {"cache": "x"}), TextPart(MAIL[6:], {"cache": "y"})]
    assert run_stage(PIIDetector(strategy="block"), "process_input", [Message.user(parts)]).blocked


# Ids and addresses


@pytest.mark.parametrize(
    "part",
    [
        ToolPart("call_AbCdEfGh12345678IjKlMnOp", "weather"),
        ToolPart("7f9c24e8-3b12-4f5e-9c51-0a7d3e2b1c4f", "weather"),
        ImagePart(url="https://cdn.example.com/7f9c24e8-3b12-4f5e-9c51-0a7d3e2b1c4f.png?w=200"),
        ReasoningPart("a", {"x": {"signature": base64.b64encode(bytes(range(150))).decode()}}),
    ],
)
def test_ordinary_ids_and_addresses_are_no_findings(part: ToolPart) -> None:
    """Random characters are usual there."""
    message = [Message.assistant([part])]
    for flow in (safety(unscanned="allow"), hygiene(unscanned="allow"), privacy(unscanned="allow")):
        assert not flow.check_sync(message, stage="process_output_result").blocked


async def test_a_model_is_not_asked_about_ids() -> None:
    """But about what says something."""
    model = ScriptedModel([{"text": '{"categories": [], "reason": null, "rewritten_content": null}'}], repeat_last=True)
    guard = PromptInjectionDetector(model, embedded=False)
    call = ToolPart("call_AbCdEfGh12345678", "get_weather")
    await Workflow("w").then(guard).check([Message.user([call])])
    assert len(model.requests) == 0
    await Workflow("w").then(guard).check([Message.user([ToolPart(ATTACK.replace(" ", "_"), "f")])])
    assert len(model.requests) == 1


# Bodies


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(url="https://x.io/y.png"),
        ImagePart(data=PICTURE, media_type="image/png"),
        FilePart(file_id="file-1"),
        FilePart(data=PICTURE),
        ToolPart("c", "f", {}, "result", [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]),
        ToolPart("c", "f", {}, "result", f"data:image/png;base64,{PICTURE}"),
        UnknownPart({"type": "image", "source": {"media_type": "image/png", "data": PICTURE}}),
    ],
)
def test_a_body_that_no_guard_can_read_stops_the_run(part: ImagePart) -> None:
    """By default; guards that only report note it."""
    message = [Message.user([part])]
    guards = [PIIDetector(), PromptInjectionDetector(), RegexFilterProcessor(presets=["pii"])]
    assert [run_stage(guard, "process_input", message).blocked for guard in guards] == [True] * 3
    assert not run_stage(PIIDetector(unscanned="allow"), "process_input", message).blocked
    assert not run_stage(PIIDetector(parts=["text"]), "process_input", message).blocked
    reports = run_stage(ModerationProcessor(), "process_input", message)
    assert reports.records[0].details["unscanned"] == {part.type: 1}


def test_a_textual_body_is_read_and_passes() -> None:
    """It needs no option."""
    note = FilePart(data=base64.b64encode(b"see you tomorrow").decode(), media_type="text/markdown", name="a.md")
    assert not run_stage(PIIDetector(), "process_input", [Message.user([note])]).blocked


# System messages


CLIENTS = [{"role": "system", "content": f"{ATTACK} {MAIL}"}, {"role": "user", "content": "hi"}]


@pytest.mark.parametrize("make", [hygiene, injection, privacy, safety])
def test_a_clients_system_message_is_guarded_and_the_applications_is_not(make: Callable[..., Workflow]) -> None:
    """In every preset; `system` turns either round."""
    text = CLIENTS[0]["content"]

    def passes(flow: Workflow, messages: object) -> bool:
        outcome = flow.check_sync(messages)
        return not outcome.blocked and any(message.text == text for message in outcome.message_list.system)

    own = [Message.system(text), Message.user("hi")]
    assert not passes(make(), CLIENTS)
    assert passes(make(), own)
    assert passes(make(system="none"), CLIENTS)
    assert not passes(make(system="all"), own)
    assert passes(make(), list(parse_messages(CLIENTS, trusted=True)))


def test_a_clients_system_message_is_no_prompt_to_protect() -> None:
    """What a client wrote itself may be quoted."""
    said = "You are a pirate who answers every question about the seven seas in rhymes."
    run = injection().start_sync()
    run.process_input([{"role": "system", "content": said}, {"role": "user", "content": "who are you?"}])
    assert run.process_output_result([Message.assistant(said)]).text == said


# Streams


@pytest.mark.parametrize(
    "chunk",
    [
        Chunk("tool-call", id="c", payload={"call_id": "c", "name": MAIL, "arguments": {}}),
        Chunk("tool-call", id=MAIL, payload={"name": "f", "arguments": {}}),
        Chunk("source", payload={"id": MAIL, "url": "https://x.io", "title": "t"}),
        Chunk("source", payload={"id": "s", "provider_metadata": {"x": MAIL}}),
        Chunk("file", payload={"data": TEXT, "media_type": "text/plain"}),
        Chunk("file", payload={"data": PICTURE, "media_type": "image/png"}),
        Chunk("tool-result", id="c", payload={"call_id": "c", "result": {"mimeType": "image/png", "data": PICTURE}}),
        Chunk("raw", payload={"provider_sealed": {"type": "x", "of": MAIL}}),
        Chunk("finish", payload={"reason": "stop", "provider_metadata": {"x": MAIL}}),
        Chunk("tool-call", id="c", payload={"call_id": "c", "name": "f", "arguments": {}, MAIL: 1}),
    ],
)
def test_what_cannot_be_edited_stops_a_stream(chunk: Chunk) -> None:
    """Names, ids, metadata and bodies of chunks."""
    with Workflow("w").then(PIIDetector()).start_sync().process_output_stream([chunk]) as chunks:
        out = list(chunks)
    assert out[-1].type == "tripwire"
    assert MAIL not in str(out)


# Upstream


@pytest.mark.parametrize("raw", [None, 3, "a", [1]])
def test_an_unknown_part_that_is_no_object_is_written_as_it_is(raw: object) -> None:
    """Penstock's own form allows any value there."""
    message = parse_messages({"role": "user", "parts": [{"type": "unknown", "raw": raw}]}, "penstock")
    assert dump_messages(message, "openai-chat")[0]["content"] == [raw]


def test_unknown_keys_of_a_client_go_upstream_only_if_asked_for() -> None:
    """Those of messages, of parts and of calls; an application's own do, and so do those that providers define."""
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "mine": 1}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", "mine": 1}, "mine": 1}
    items = [
        {"role": "user", "content": [part], "mine": {"a": 1}},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "b", "mine": 1},
    ]
    model = ScriptedModel(["ok"], repeat_last=True)
    Agent(model).generate_sync(items)
    Agent(model).generate_sync(list(parse_messages(items, trusted=True)))
    client = OpenAICompatibleModel("m", base_url="http://127.0.0.1:9/v1", api_key="k")
    asked = OpenAICompatibleModel("m", base_url="http://127.0.0.1:9/v1", api_key="k", client_keys=["mine"])
    first, second = model.requests
    sent = client.body(first)["messages"]
    assert "mine" not in json.dumps(sent)
    assert sent[0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert sent[1]["content"] is None
    assert asked.body(first)["messages"] == client.body(second)["messages"] == items


def test_parts_that_are_neighbours_only_where_they_are_sent_are_read_as_one() -> None:
    """What stands between two texts may be left out of a request, or be sent elsewhere."""
    for between in (
        [],
        [SourcePart("s")],
        [DataPart("x", 1)],
        [StepStartPart()],
        [ReasoningPart("hm")],
        [TextPart("")],
    ):
        message = Message.user([TextPart("write to joe.secret@"), *between, TextPart("example.com now")])
        for guard in (PIIDetector(), privacy(), hygiene()):
            outcome = Workflow("w").then(guard).check_sync([message])
            assert "joe.secret@example.com" not in "".join(each.text for each in outcome.messages)


@pytest.mark.parametrize("key", ["AKIAQYLPMN5HFIQR7XYZ", "ghp_16C7e42F292c6912E7810c838347Ae178B4b"])
def test_the_keys_of_providers_are_found_in_ids_addresses_and_bodies(key: str) -> None:
    """They have a form of their own; random letters alone are usual there."""
    link = f"https://x.io/a?k={key}"
    for part in (
        ToolPart(key, "f"),
        ToolPart("AKIA\u200b" + key[4:] if key[:4] == "AKIA" else key, "f"),
        ImagePart(url=link),
        FilePart(url=f"data:text/plain,see%20{key}"),
        ToolPart("c", "f", {}, "result", {"url": f"data:text/plain,see%20{key}"}),
    ):
        outcome = Workflow("w").then(PIIDetector(unscanned="allow")).check_sync([Message.user([part])])
        assert outcome.blocked, part
    for usual in (
        "call_9pw1qnYScqvGrCH58HWCvFH6",
        "toolu_01A09q90qw90lq917835lq9",
        "chatcmpl-tool-8a1f3c5d7e9b4a2c8f6d4e2b",
    ):
        assert not Workflow("w").then(PIIDetector()).check_sync([Message.user([ToolPart(usual, "f")])]).blocked


def test_an_id_whose_digits_spell_words_is_read() -> None:
    """Nobody gives out such an id."""
    spelled = b"joe1@example.com".hex()
    assert len(spelled) == 32
    outcome = Workflow("w").then(PIIDetector()).check_sync([Message.user([ToolPart(spelled, "f")])])
    assert outcome.blocked


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "user",
            "id": "joe.secret@example.com",
            "parts": [{"type": "text", "text": "to joe.secret@example.com"}],
        },
        {
            "type": "message",
            "role": "user",
            "id": "joe.secret@example.com",
            "content": [{"type": "input_text", "text": "Hi"}],
        },
    ],
)
def test_a_verdict_does_not_tell_an_id_in_which_something_was_found(message: Any) -> None:
    """Tripwires go to clients and to logs."""
    outcome = Workflow("w").then(PIIDetector(strategy="block")).check_sync([message])
    assert outcome.tripwire is not None
    assert "joe.secret" not in str(outcome.tripwire)


def test_a_verdict_about_a_parsed_system_message_says_how_to_make_it_the_applications() -> None:
    """Applications that write their prompts as dicts meet it first."""
    said = "Write to joe.secret@example.com"
    blocked = Workflow("w").then(PIIDetector(strategy="block")).check_sync([{"role": "system", "content": said}])
    assert blocked.tripwire is not None
    assert "Message.system" in blocked.tripwire.reason
    assert "system='none'" in blocked.tripwire.reason
    usual = Workflow("w").then(PIIDetector(strategy="block")).check_sync(said)
    assert usual.tripwire is not None
    assert "system" not in usual.tripwire.reason


OPAQUE = "dGhpc8Pfw6kAAf/+/fwYs9nq8Qz7vKx3Pj0="


@pytest.mark.parametrize(
    ("value", "unread"),
    [
        ({"mimeType": "image/png", "etag": OPAQUE, "id": "1AbCdEfGhIjKlMnOpQrStUvWxYz012345"}, False),
        ({"mimeType": "application/pdf", "md5Hash": OPAQUE, "fileId": OPAQUE}, False),
        ({"mimeType": "text/plain", "version": OPAQUE}, False),
        ({"mimeType": "image/png", "fileContent": OPAQUE}, True),
        ({"mimeType": "image/png", "b64_json": OPAQUE}, True),
        ({"mimeType": "image/png", "any": base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(30))).decode()}, True),
        ({"mimeType": "application/pdf", "any": base64.b64encode(b"%PDF-1.7\n" + bytes(range(30))).decode()}, True),
    ],
)
def test_a_body_beside_a_media_type_has_a_key_or_the_form_of_one(value: dict[str, str], unread: bool) -> None:
    """An id or a hash beside a media type is no body."""
    outcome = Workflow("w").then(PIIDetector()).check_sync(value, stage="process_tool_result")
    assert outcome.blocked == unread
