"""`TrailingAssistantGuard` as a step: which models need it, what counts as an answer, and what it leaves alone."""

from datetime import timedelta
from typing import Any

import pytest

from penstock import Message, MessageList, TextPart, ToolPart, TrailingAssistantGuard, Workflow
from penstock.engine import DataPart
from penstock.engine.values.model import ResponseFormat
from penstock.testing import ScriptedModel

GEMINI = "google/gemini-3-pro"


def added(model: Any, *messages: Message, formed: bool = False) -> list[str]:
    """Return what is added to a conversation for a model."""
    run = Workflow("w").then(TrailingAssistantGuard()).start_sync()
    form = ResponseFormat({"type": "object"}) if formed else None
    begun = MessageList(messages or [Message.user("a"), Message.assistant("b")], source="memory")
    outcome = run.process_input_step(begun, model=model, response_format=form)
    return [message.text for message in outcome.message_list.of("context")]


@pytest.mark.parametrize(
    "model",
    [
        GEMINI,
        "google-gla:gemini-3.1-flash",
        "gemini/gemini-flash-latest",
        "openrouter/google/gemini-3-pro-preview",
        "google.vertex.chat/gemini-4",
        "gemini-exp-1206",
        ScriptedModel([], name=GEMINI),
        ["openai/gpt-5", GEMINI],
        "fallback:openai:gpt-5,google:gemini-3-pro",
    ],
)
def test_gemini_from_3_on_is_given_a_word_to_go_on(model: Any) -> None:
    """So is one whose version nobody tells, wherever it is offered."""
    assert added(model) == ["Continue."]


@pytest.mark.parametrize(
    "model", ["google/gemini-2.5-pro", "google/gemini-1.5-flash-002", "google/gemma-3", "openai/gpt-5", None, "x"]
)
def test_others_are_not(model: Any) -> None:
    """They take a prompt that ends on an answer, and may go on with it."""
    assert added(model) == []
    assert added(model, formed=True) == []


@pytest.mark.parametrize(
    ("model", "refuses"),
    [
        ("claude-opus-4-6", True),
        ("claude-opus-4.6", True),
        ("claude-sonnet-4-10-20270101", True),
        ("claude-opus-5", True),
        ("claude-latest", True),
        ("us.anthropic.claude-opus-4-6-v1:0", True),
        ("claude-sonnet-4-5-20250929", False),
        ("claude-opus-4-20250514", False),
        ("claude-haiku-4-5@20251001", False),
        ("claude-3-5-sonnet-latest", False),
        ("claude-3.7-sonnet", False),
        ("claude-v2:1", False),
        ("claude-instant-1.2", False),
    ],
)
def test_claude_from_4_6_on_is_only_where_its_provider_sees_to_the_form(model: str, refuses: bool) -> None:
    """The word is another one then: it must not lead away from the form."""
    found = added(f"anthropic/{model}", formed=True)
    assert bool(found) == refuses
    assert "Continue." not in found
    assert added(f"anthropic/{model}") == []


def settled(state: Any = "result") -> ToolPart:
    """Return a call that has come to an end."""
    return ToolPart("c1", "t", state=state)


@pytest.mark.parametrize(
    ("messages", "needed"),
    [
        ([Message.user("a")], False),
        ([Message.user("a"), Message.assistant([settled()])], False),
        ([Message.user("a"), Message.assistant([settled("error")])], False),
        ([Message.user("a"), Message.assistant([TextPart("b"), ToolPart("c1", "t")])], True),
        ([Message.user("a"), Message.assistant([ToolPart("c1", "t", state="partial")])], False),
        ([Message.assistant("b"), Message.assistant([ToolPart("c1", "t")])], True),
        ([Message.user("a"), Message.assistant([TextPart("b"), DataPart("x", 1)])], True),
        ([Message.user("a"), Message.assistant([])], False),
        ([Message.user("a"), Message.assistant("b"), Message.tool([settled()])], False),
        ([Message.assistant([])], False),
        ([Message.assistant("b"), Message.system("s")], True),
    ],
)
def test_an_answer_is_what_is_left_to_be_sent_at_the_end(messages: list[Message], needed: bool) -> None:
    """Results end a turn; calls that nobody answered and what no provider is sent are passed over."""
    assert bool(added(GEMINI, *messages)) == needed


def test_the_message_is_not_the_callers_and_stands_behind_the_last_one() -> None:
    """No history keeps it, and whoever sorts by time finds it last."""
    run = Workflow("w").then(TrailingAssistantGuard()).start_sync(records=True)
    begun = MessageList([Message.user("a"), Message.assistant("b")], source="memory")
    messages = run.process_input_step(begun, model=GEMINI).message_list
    *_, answer, last = messages.conversation
    assert (messages.input, messages.response, messages.of("context")) == ((), (), (last,))
    assert answer.created_at is not None
    assert last.created_at == answer.created_at + timedelta(milliseconds=1)
    assert dict(run.records[0].details) == {"added": 1}


def test_what_was_added_is_enough_for_the_next_step() -> None:
    """A step that is tried again is not told twice."""
    run = Workflow("w").then(TrailingAssistantGuard()).start_sync()
    run.process_input_step(MessageList([Message.assistant("b")], source="memory"), model=GEMINI)
    assert len(run.process_input_step(model=GEMINI).message_list) == 2
