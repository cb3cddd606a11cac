"""Whether values are values: frozen mappings, messages, chunks, results, and what is refused when they are made."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import weakref
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import Answer, BlockedError, Chunk, Key, Message, Retry, TextPart, ToolPart, Tripwire, Workflow, processor
from penstock.engine import MessageError, MissingExtraError, StepFailedError, TextEdits
from penstock.engine.values.frozen import EMPTY, FrozenDict, equal, freeze, thaw
from penstock.engine.values.messages import text_message
from penstock.engine.values.protocols import RANDOM_IDS


def test_a_frozen_mapping_is_like_a_dict_that_does_not_change() -> None:
    """It compares, hashes, copies, pickles and dumps; it refuses every change, and says what to do."""
    made = freeze({"a": [1, {"b": {2}}], 3: None})
    assert made == {"a": (1, {"b": frozenset({2})}), 3: None}
    assert hash(made) == hash(FrozenDict({"a": 0, 3: 0}))
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own bytes
    assert copy.copy(made) is copy.deepcopy(made) is made
    assert type(made | {"c": 1}) is FrozenDict
    assert json.loads(json.dumps(freeze({"a": [1]}))) == thaw(freeze({"a": [1]})) == {"a": [1]}
    for change in (
        lambda: made.update(x=1),
        lambda: made.pop("a"),
        made.clear,
        lambda: made.setdefault("z", 1),
        lambda: made.__setitem__("z", 1),
        lambda: made.__delitem__("a"),
        made.popitem,
        lambda: made.__ior__({"z": 1}),
    ):
        with pytest.raises(TypeError, match="read-only"):
            change()
    assert freeze(EMPTY) is EMPTY


def test_chunks_are_told_apart_and_rewritten_cheaply() -> None:
    """Control, content, data; a new text, everything else kept."""
    chunk = Chunk("text-delta", "hi", "t1", {"n": [1]}, "r1", transient=True)
    assert chunk.with_text("ho") == Chunk("text-delta", "ho", "t1", {"n": (1,)}, "r1", transient=True)
    assert (chunk.is_control, chunk.is_data) == (False, False)
    assert Chunk("finish").is_control
    assert Chunk("data-mine").is_data


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Message("robot", "hi"), "role must be one of system, user, assistant, tool, not 'robot'"),
        (lambda: Message.user([3]), r"parts\[0\]"),
        (lambda: TextPart(3), "a text part needs a str, not int"),
        (lambda: ToolPart("c", "t", {}, "done"), "a tool part's state must be one of"),
        (lambda: ToolPart("c", "t", {}, approval="maybe"), "a tool part's approval must be one of .*, not 'maybe'"),
    ],
)
def test_a_message_that_cannot_be_is_refused_when_it_is_made(make: Any, words: str) -> None:
    """With its place."""
    with pytest.raises(MessageError, match=words):
        make()


def test_messages_are_made_by_role() -> None:
    """A str is one text part."""
    roles = [made("hi").role for made in (Message.user, Message.assistant, Message.system, Message.tool)]
    assert roles == ["user", "assistant", "system", "tool"]
    assert Message.user([TextPart("a"), ToolPart("c", "t"), TextPart("b")]).text == "a\nb"
    assert Message.user([ToolPart("c", "t")]).text == ""
    assert Message.user("hi", metadata={"a": 1}).with_metadata(b=[2]).metadata == {"a": 1, "b": (2,)}


def test_a_retry_waits_for_no_negative_time() -> None:
    """Nor for one that is no number."""
    for after in (-1, float("nan")):
        with pytest.raises(ValueError, match="0 or more"):
            Retry(after)


@pytest.mark.parametrize(
    "other",
    [
        {"a": (1, {"b": "c"})},
        {"a": (1, {"b": "d"})},
        {"a": (1,)},
        {"b": (1, {"b": "c"})},
        {"a": [1, {"b": "c"}]},
        (),
        1,
    ],
)
def test_values_are_equal_as_python_says(other: Any) -> None:
    """Layer by layer."""
    value = {"a": (1, {"b": "c"})}
    assert equal(value, other) == (value == other)


def test_a_missing_extra_says_what_to_install() -> None:
    """And it is an import error too."""
    error = MissingExtraError("language detection", "language")
    assert isinstance(error, ImportError)
    assert "pip install 'penstock[language]'" in str(error)
    assert (error.feature, error.extra) == ("language detection", "language")


@pytest.mark.parametrize(
    ("stage", "result", "words"),
    [
        ("process_tool_call", 3, "returned an int; process_tool_call takes None"),
        ("process_tool_call", {"a": object()}, "not a JSON value"),
        ("process_tool_call", TextEdits({("arguments", "nowhere"): []}), "a place without text"),
        ("process_tool_result", object(), "not a JSON value"),
        ("process_tool_result", print, "not a JSON value"),
        ("process_tool_result", [Message.user("hi")], "returned messages"),
        ("process_tool_result", Answer({1, 2}), "not a JSON value"),
        ("process_tool_result", TextEdits({("arguments", "a"): []}), "a place without text"),
        ("process_llm_response", [Message.user("hi")], "process_llm_response takes None"),
    ],
)
def test_what_a_stage_does_not_take_is_refused(stage: Any, result: Any, words: str) -> None:
    """The error names the step and the stage, and says what it takes."""

    @processor(stage, id="culprit")
    def step(ctx: Any) -> Any:
        return result

    with pytest.raises(StepFailedError, match=words) as caught:
        Workflow("w").then(step).check_sync({"a": "text"} if "tool" in stage else "hi", stage=stage)
    assert (caught.value.step, caught.value.stage) == ("culprit", stage)


def test_a_tools_stages_may_change_messages_too() -> None:
    """By a list derived from the context's."""
    for stage in ("process_tool_call", "process_tool_result"):

        @processor(stage, id="step")
        def step(ctx: Any) -> Any:
            return ctx.message_list.add(Message.user("noted"))

        outcome = Workflow("w").then(step).check_sync({"a": 1}, stage=stage)
        assert [message.text for message in outcome.message_list] == ["noted"]


def test_a_verdict_that_was_raised_can_be_pickled() -> None:
    """Processes hand it over; it says what it said."""
    verdict = Tripwire("too long", "limit", "process_input", metadata={"count": 3})
    error = pickle.loads(pickle.dumps(BlockedError(verdict)))  # noqa: S301 - our own
    assert error.tripwire == verdict
    assert str(error) == str(BlockedError(verdict))


def test_random_ids_differ():
    """Each has 24 hexadecimal digits, however many are asked for."""
    ids = [RANDOM_IDS.next() for _ in range(1_000)]
    assert len({*ids}) == len(ids)
    assert all(len(id) == 24 and int(id, 16) >= 0 for id in ids)


FORKS = """
import os
from penstock.engine.values.messages import text_message
from penstock.engine.values.protocols import RANDOM_IDS
RANDOM_IDS.next()
child = os.fork()
ids = [RANDOM_IDS.next() for _ in range(100)]
if child:
    os.waitpid(child, 0)  # so that only one prints at a time
print(*ids)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_ids_of_its_own():
    """The ids that its parent has in stock are not its own."""
    ids = subprocess.run([sys.executable, "-c", FORKS], check=True, capture_output=True, text=True).stdout.split()
    assert len({*ids}) == len(ids) == 200


def test_a_key_is_one_object_for_each_name():
    """Made again, with another type, copied or read from a pickle."""
    key = Key[str]("a-tongue")
    assert key.value_type is str
    for same in (Key("a-tongue"), Key[int]("a-tongue"), copy.deepcopy(key), pickle.loads(pickle.dumps(key))):  # noqa: S301
        assert same is key
    assert key.value_type is None  # in whatever order its two types were given
    assert Key("other") != key
    with pytest.raises(ValueError, match="needs a name"):
        Key("")


def test_a_copy_of_a_message_is_like_one_that_was_made() -> None:
    """With other parts, another origin, or from a client: frozen, equal, hashed, pickled, weakly held."""
    now = datetime(2025, 1, 1, tzinfo=UTC)
    rest: dict[str, Any] = {"thread_id": "t", "resource_id": "r", "metadata": {"a": 1}, "name": "Ann"}
    message = Message.user("hi", id="1", created_at=now, **rest)
    made = {
        message.with_parts([TextPart("ho")]): Message.user("ho", id="1", created_at=now, **rest),
        message.with_origin("2", None): Message.user("hi", id="2", **rest),
        message.as_from_client(): Message.user("hi", id="1", created_at=now, from_client=True, **rest),
        text_message("assistant", "hi", "3", now): Message.assistant("hi", id="3", created_at=now),
    }
    for copied, whole in made.items():
        assert copied == whole == pickle.loads(pickle.dumps(copied)) == copy.deepcopy(copied)  # noqa: S301 - our own
        assert (hash(copied), repr(copied), type(copied)) == (hash(whole), repr(whole), Message)
        assert weakref.ref(copied)() is copied
        with pytest.raises(AttributeError):
            copied.id = "4"  # type: ignore[misc]
    wrong: Any = [TextPart("a"), "b"]
    with pytest.raises(MessageError, match=r"parts\[1\]"):
        message.with_parts(wrong)
