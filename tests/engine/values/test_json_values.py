"""What a tool takes and gives: JSON values only, because a guard walks nothing else."""

from __future__ import annotations

import collections
import dataclasses
from types import MappingProxyType
from typing import Any

import pytest

from penstock import Answer, Processor, ToolPart, Workflow
from penstock.engine import MessageError, StepFailedError
from penstock.engine.values.frozen import DEEPEST, FrozenDict, freeze, json_value

MAIL = "a@b.com"


@dataclasses.dataclass
class Holder:
    """An object with text in it."""

    text: str = MAIL


def nested(levels: int) -> Any:
    """A str under so many lists."""
    value: Any = MAIL
    for _ in range(levels):
        value = [value]
    return value


ODD: list[tuple[Any, str]] = [
    ({MAIL}, "result: expected a JSON value, not set"),
    (MAIL.encode(), "result: expected a JSON value, not bytes"),
    ({"e": frozenset([MAIL])}, "result.*: expected a JSON value, not frozenset"),
    ({"e": [1, {MAIL}]}, "result.*[1]: expected a JSON value, not set"),
    ([Holder()], "result[0]: expected a JSON value, not Holder"),
    ({MAIL: collections.deque([MAIL])}, "result.*: expected a JSON value, not deque"),
    ({(MAIL, 1): 1}, "result: expected a mapping with str keys, but a key is of type tuple"),
    (FrozenDict({"e": Holder()}), "result.*: expected a JSON value, not Holder"),
    ({"e": nested(DEEPEST + 1)}, f"result: it is nested deeper than {DEEPEST} levels"),
]


@pytest.mark.parametrize(("value", "words"), ODD, ids=[row[1] for row in ODD])
def test_what_is_no_json_value_is_refused(value: Any, words: str) -> None:
    """The error names the place and the type, and nothing of the text."""
    with pytest.raises(MessageError) as caught:
        json_value(value, "result")
    assert str(caught.value).startswith(words)
    assert MAIL not in str(caught.value)


def test_a_json_value_is_frozen_whatever_its_containers_are() -> None:
    """Lists and mappings of any class; what was frozen before is looked through too."""
    given = {"a": [1, 2.5, None, True, "x"], "b": collections.UserDict(c=()), "d": MappingProxyType({"e": nested(3)})}
    made = json_value(given, "result")
    assert made == {"a": (1, 2.5, None, True, "x"), "b": {"c": ()}, "d": {"e": (((MAIL,),),)}}
    assert all(isinstance(value, FrozenDict) for value in (made, made["b"], made["d"]))
    assert json_value(nested(DEEPEST), "result") == freeze(nested(DEEPEST))


def test_what_is_nested_too_deep_to_walk_is_refused() -> None:
    """With an error that says so, not a RecursionError from anywhere."""
    with pytest.raises(MessageError, match=f"deeper than {DEEPEST} levels"):
        freeze(nested(5000))
    with pytest.raises(MessageError, match=f"deeper than {DEEPEST} levels"):
        json_value(nested(5000), "result")


@pytest.mark.parametrize("field", ["arguments", "result"])
def test_a_tool_part_holds_json_values(field: str) -> None:
    """Malformed arguments are a str, which is one."""
    assert ToolPart("1", "t", arguments='{"a": ').arguments == '{"a": '
    fields: dict[str, Any] = {field: {MAIL: {MAIL}}}
    with pytest.raises(MessageError) as caught:
        ToolPart("1", "t", **fields)
    assert str(caught.value).startswith(f"{field}.*: expected a JSON value, not set")
    assert MAIL not in str(caught.value)


class Gives(Processor):
    """A step that gives what it was told to."""

    edits = "anything"

    def __init__(self, given: Any) -> None:
        self.given = given

    def process_tool_call(self, _ctx: Any) -> Any:
        """Give it."""
        return self.given

    def process_tool_result(self, _ctx: Any) -> Any:
        """Give it."""
        return self.given


@pytest.mark.parametrize(
    ("stage", "given", "place"),
    [
        ("process_tool_call", {"e": {MAIL}}, "arguments.*"),
        ("process_tool_call", Answer(Holder()), "answer"),
        ("process_tool_result", [Holder()], "result[0]"),
        ("process_tool_result", Answer({MAIL}), "result"),
    ],
    ids=["arguments", "an answer for a tool", "a result", "an answer for a result"],
)
def test_a_hook_that_gives_no_json_value_for_a_tool_has_failed(stage: str, given: Any, place: str) -> None:
    """Guards behind it could not read what it gave."""
    with pytest.raises(StepFailedError) as caught:
        Workflow("w").then(Gives(given)).check_sync({}, stage=stage)
    assert f"it returned something that is not a JSON value: {place}: expected a JSON value, not" in str(caught.value)
    assert MAIL not in str(caught.value)
