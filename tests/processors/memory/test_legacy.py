"""The older memory processors, and how they are run on what a conversation remembers."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock import Message, MessageList, OptionError, TextPart, ToolPart, Workflow
from penstock.engine import ImagePart, ReasoningPart, StepFailedError
from penstock.processors.memory import LegacyMemory, LegacyMemoryProcessor, MemoryTokenLimiter, MemoryToolCallFilter


def words(text: str) -> int:
    """Count a token for each word."""
    return len(text.split())


def conversation(*remembered: Message) -> MessageList:
    """Return a conversation that remembers those messages and is sent another."""
    return MessageList(remembered, source="memory").add(Message.user("new"), source="input")


def remembered(listed: MessageList, *processors: Any, **options: Any) -> list[str]:
    """Return the texts of what is remembered after the processors ran."""
    outcome = Workflow("w").then(LegacyMemory(*processors, **options)).check_sync(listed)
    assert outcome.message_list.input == listed.input
    return [message.text for message in outcome.message_list.remembered]


class Recorder(LegacyMemoryProcessor):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.told: dict[str, Any] = {}

    def process(self, messages: Sequence[Message], **told: Any) -> Sequence[Message]:
        """Take note."""
        self.told = told
        return messages


def test_the_base_class_changes_nothing() -> None:
    """It returns what it was given; it has a name."""
    messages = [Message.user("a")]
    assert LegacyMemoryProcessor().process(messages) is messages
    assert LegacyMemoryProcessor().name == "LegacyMemoryProcessor"
    assert LegacyMemoryProcessor("x") != LegacyMemoryProcessor()
    assert repr(LegacyMemoryProcessor()) == "LegacyMemoryProcessor()"


def test_a_processor_is_told_of_the_rest_of_the_conversation() -> None:
    """System messages, those of an owner apart, and what the caller sends."""
    recorder = Recorder()
    listed = conversation(Message.user("a")).add([Message.system("s")]).add([Message.system("m")], tag="memory")
    assert remembered(listed, recorder) == ["a"]
    assert recorder.told.pop("new_messages") == listed.input
    assert recorder.told == {"system_message": "s", "memory_system_message": "m"}
    remembered(conversation(), recorder)
    assert recorder.told["system_message"] is None


class Changing:
    """An object that only has the method: drops the first message, changes the second, adds one, turns the order."""

    def process(self, messages: Sequence[Message], **_: Any) -> Sequence[Message]:
        """Make a new list."""
        _, second, *rest = messages
        return [Message.assistant("made"), *reversed(rest), second.with_parts([TextPart("changed")])]


def test_what_a_processor_returns_takes_the_place_of_what_was_remembered() -> None:
    """Dropped, changed, added and in its order; the rest of the conversation stays where it is."""
    listed = MessageList([Message.system("s")])
    for text, source in (("1", "memory"), ("2", "memory"), ("x", "input"), ("3", "memory"), ("4", "memory")):
        listed = listed.add(Message.user(text), source=source)  # type: ignore[arg-type]
    outcome = Workflow("w").then(LegacyMemory(Changing())).check_sync(listed)
    assert [m.text for m in outcome.message_list] == ["s", "made", "4", "x", "3", "changed"]


class Loading:
    """Remembers something out of nothing."""

    async def process(self, messages: Sequence[Message], **_: Any) -> Sequence[Message]:
        """Add a message."""
        return [*messages, Message.assistant("loaded")]


async def test_an_async_processor_is_awaited() -> None:
    """Beside others that are not; what it adds stands before the caller's message."""
    workflow = Workflow("w").then(LegacyMemory(Loading(), LegacyMemoryProcessor()))
    outcome = await workflow.check(MessageList("new"))
    assert [(entry.message.text, entry.source) for entry in outcome.message_list.entries] == [
        ("loaded", "memory"),
        ("new", "input"),
    ]


def test_processors_may_run_before_each_call() -> None:
    """In the other stage that they can serve."""
    workflow = Workflow("w").then(LegacyMemory(MemoryToolCallFilter(), stage="process_input_step"))
    outcome = workflow.check_sync(conversation(Message.assistant([ToolPart("c", "f")])), stage="process_input_step")
    assert outcome.message_list.remembered == ()


class Broken:
    """Returns no messages."""

    def process(self, messages: Sequence[Message], **_: Any) -> Any:
        """Forget to return."""


def test_a_processor_that_returns_no_messages_is_named() -> None:
    """What it protects is not known, so its failure is raised."""
    with pytest.raises(StepFailedError) as caught:
        remembered(conversation(Message.user("a")), Broken())
    assert "Broken.process must return a list of messages, not NoneType" in str(caught.value.__cause__)


def test_an_adapter_needs_processors_and_a_stage_that_they_serve() -> None:
    """Refused when it is made."""
    for make in (LegacyMemory, lambda: LegacyMemory(3), lambda: LegacyMemory(Broken(), stage="x")):  # type: ignore[arg-type]
        with pytest.raises(OptionError):
            make()
    assert LegacyMemory(MemoryToolCallFilter(), id="mine") == LegacyMemory(MemoryToolCallFilter(), id="mine")


def test_calls_and_results_are_filtered_by_their_tools() -> None:
    """What is said beside them stays; a result goes without its call too."""
    messages = [
        Message.assistant([TextPart("look"), ToolPart("c1", "f"), ToolPart("c2", "g")]),
        Message.tool([ToolPart("c1", "other", state="result")]),
        Message.tool([ToolPart("c2", "g", state="result")]),
        Message.tool([ToolPart("c9", "f", state="result")]),
    ]
    assert [len(m.parts) for m in MemoryToolCallFilter(exclude=["f"]).process(messages)] == [2, 1]
    assert [m.text for m in MemoryToolCallFilter().process(messages)] == ["look"]
    assert MemoryToolCallFilter(exclude=[]).process(messages) is messages
    for odd in ("f", [3]):
        with pytest.raises(OptionError, match="exclude"):
            MemoryToolCallFilter(exclude=odd)  # type: ignore[arg-type]


def test_the_newest_messages_are_kept_up_to_the_first_that_does_not_fit() -> None:
    """24 a conversation, 3.8 a message; system messages and new ones use the budget too."""
    messages = [Message.user("one"), Message.user(" 1 2 3 4 5 6 7 8 9"), Message.user(" two"), Message.user(" six")]
    limiter = MemoryTokenLimiter(24 + 2 * 5.8, token_counter=words)
    assert limiter.process(messages) == messages[2:]
    assert limiter.process(messages, new_messages=[Message.user(" x")]) == messages[3:]
    assert limiter.process(messages, system_message=" s", memory_system_message=" m") == []
    assert limiter.process(messages, new_messages=messages) == []
    assert MemoryTokenLimiter(1000, token_counter=words).process(messages) == messages


def test_a_result_whose_call_was_cut_off_goes_with_it() -> None:
    """No provider takes a result without its call."""
    messages = [
        Message.assistant([ToolPart("c1", "f", {"q": "1 2 3 4 5 6 7 8 9"})]),
        Message.tool([ToolPart("c1", "f", state="result", result="r"), ToolPart("c2", "f", state="result")]),
        Message.user(" two"),
    ]
    kept = MemoryTokenLimiter(40, token_counter=words).process(messages)
    assert [[getattr(part, "call_id", "") for part in message.parts] for message in kept] == [["c2"], [""]]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([TextPart("a"), TextPart("b")], "userab"),
        ([ToolPart("c", "f", {"q": 1})], 'userf{"q":1}'),
        ([ToolPart("c", "f", "q=1")], "userfq=1"),
        ([ToolPart("c", "f", {"q": 1}, "result", {"n": 4})], 'userf{"q":1}{"n":4}'),
        ([ToolPart("c", "f", state="result", result="r")], "userr"),
        ([ToolPart("c", "f", state="error", error="e")], "usere"),
        ([ReasoningPart("hm")], 'user{"type":"reasoning","text":"hm"}'),
    ],
)
def test_a_message_counts_all_that_it_says(parts: list[Any], text: str) -> None:
    """In one go, as it would be sent; JSON counts in full."""
    counted: list[str] = []
    MemoryTokenLimiter(0, token_counter=lambda given: counted.append(given) or 1).count(Message.user(parts))
    assert counted == [text]


def test_an_image_counts_no_more_than_providers_take_for_it() -> None:
    """Its base64 is not read as text."""
    limiter = MemoryTokenLimiter(0, token_counter=len)
    assert limiter.count(Message.user([ImagePart(data="A" * 9000)])) == 4 + 765 + 3.8


def test_a_budget_must_be_a_number_from_0_on() -> None:
    """Nothing else can be meant."""
    for odd in (-1, True, float("nan"), "9"):
        with pytest.raises(OptionError, match="limit"):
            MemoryTokenLimiter(odd, token_counter=words)  # type: ignore[arg-type]
