"""`DropParts` and `DropMessages`: what they drop where, and what goes with it."""

from typing import Any

import pytest

from penstock import Message, MessageList, OptionError, TextPart, ToolPart, Workflow
from penstock.engine import ImagePart, ReasoningPart, StepFailedError, StepStartPart, UnknownPart
from penstock.processors.memory import DropMessages, DropParts
from penstock.processors.memory.drop_messages import Dropper

THOUGHT = Message.assistant([ReasoningPart("hm"), TextPart("a")])


def kinds(processor: Any, listed: MessageList, stage: str = "process_input") -> list[list[str]]:
    """Return the kinds of parts of each message after the processor ran."""
    outcome = Workflow("w").then(processor).check_sync(listed, stage=stage)
    return [[part.type for part in message.parts] for message in outcome.message_list]


def test_parts_of_some_types_go_and_messages_left_with_nothing_too() -> None:
    """Of remembered messages; what the caller sends is not touched."""
    messages = [THOUGHT, Message.assistant([StepStartPart(), ReasoningPart("hm")]), Message.user("b")]
    listed = MessageList(messages, source="memory").add(Message.user([ReasoningPart("x")]), source="input")
    assert kinds(DropParts(types=["reasoning"]), listed) == [["text"], ["text"], ["reasoning"]]


def test_parts_of_unknown_kinds_are_dropped_by_what_they_call_themselves() -> None:
    """As providers name them."""
    parts = [UnknownPart({"type": "redacted-reasoning"}), UnknownPart("odd"), TextPart("a")]
    listed = MessageList([Message.assistant(parts)], source="memory")
    assert kinds(DropParts(types=["redacted-reasoning"]), listed) == [["unknown", "text"]]
    assert kinds(DropParts(types=["unknown"]), listed) == [["unknown", "text"]]


def test_what_the_caller_sends_can_be_meant() -> None:
    """Then what is remembered is not touched."""
    listed = MessageList([Message.user([ImagePart("u"), TextPart("a")])], source="memory")
    listed = listed.add(Message.user([ImagePart("u"), TextPart("b")]), source="input")
    assert kinds(DropParts(types=["image"], scope="input"), listed) == [["image", "text"], ["text"]]


def test_a_prompt_loses_them_up_to_the_current_turn() -> None:
    """The conversation itself stays: providers want the thoughts of the turn that goes on."""
    listed = MessageList([THOUGHT, Message.user("b"), THOUGHT])
    assert kinds(DropParts(types=["reasoning"], scope="prompt"), listed, "process_llm_request") == [
        ["text"],
        ["text"],
        ["reasoning", "text"],
    ]
    alone = MessageList([THOUGHT])
    assert kinds(DropParts(types=["reasoning"], scope="prompt"), alone, "process_llm_request") == [["text"]]


def test_the_record_tells_how_many_messages_were_dropped_and_changed() -> None:
    """Counts, and no text; nothing where nothing was."""
    messages = MessageList([THOUGHT, Message.assistant([ReasoningPart("hm")])], source="memory")
    workflow = Workflow("w").then(DropParts(types=["reasoning"]))
    assert workflow.check_sync(messages).records[0].details == {"dropped": 1, "changed": 1}
    assert workflow.check_sync("hi").records[0].status == "passed"


def test_messages_that_a_function_picks_go() -> None:
    """Whole, in their order."""
    listed = MessageList([Message.user("a.mp3"), Message.user("b")], source="memory")
    assert kinds(DropMessages(lambda message: ".mp3" in message.text), listed) == [["text"]]


@pytest.mark.parametrize("dropped", [0, 1])
def test_calls_and_results_of_dropped_messages_go_together(dropped: int) -> None:
    """Whichever half is in the dropped message; one without an id is paired by its tool."""
    for call_id in ("c1", ""):
        pair = [
            Message.assistant([TextPart("a"), ToolPart(call_id, "f")]),
            Message.tool([ToolPart(call_id, "f", state="result"), ToolPart("c2", "f", state="result")]),
        ]
        listed = MessageList(pair, source="memory")
        chosen = listed.remembered[dropped].id
        left = kinds(DropMessages(lambda message, chosen=chosen: message.id == chosen), listed)  # type: ignore[misc]
        assert left == ([["tool"]] if dropped == 0 else [["text"]])


def test_a_function_that_breaks_lets_nothing_pass() -> None:
    """Why something is to be dropped is not known, so the failure is raised."""
    workflow = Workflow("w").then(DropMessages(lambda _: 1 / 0 > 0))
    with pytest.raises(StepFailedError):
        workflow.check_sync(MessageList("a", source="memory"))


async def keep(message: Message) -> bool:
    """Judge slowly."""
    return False


def test_options_that_cannot_be_meant_are_refused() -> None:
    """When the processor is made."""
    for make in (
        lambda: DropParts(types=[]),
        lambda: DropParts(types="reasoning"),
        lambda: DropParts(types=[3]),  # type: ignore[list-item]
        lambda: DropParts(types=["a"], scope="b"),  # type: ignore[arg-type]
        lambda: DropMessages(3),  # type: ignore[arg-type]
        lambda: DropMessages(keep),  # type: ignore[arg-type]
    ):
        with pytest.raises(OptionError):
            make()
    assert DropParts(types=["a", "b"], id="x") == DropParts(types=["b", "a"], id="x")
    assert DropMessages(kinds, id="x").id == "x"  # type: ignore[arg-type]


def test_a_dropper_must_say_what_is_left() -> None:
    """The base class is of no use by itself."""
    with pytest.raises(NotImplementedError):
        Dropper().left([])
