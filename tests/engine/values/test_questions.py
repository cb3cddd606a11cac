"""Questions to persons: their ids, their contents, and the answers that fit."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine import UsageError
from penstock.engine.values.answer_schema import answer_problem, check_schema
from penstock.engine.values.questions import PendingQuestion, question_id

DECISION = {
    "type": "object",
    "properties": {
        "decision": {"enum": ["approve", "reject"]},
        "amount": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": ["number", "null"]},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 2},
        "note": {"type": "string", "minLength": 2, "description": "a note"},
        "sure": {"const": True},
    },
    "required": ["decision"],
    "additionalProperties": False,
}


def asked(**changed: Any) -> PendingQuestion:
    """Make a question."""
    given: dict[str, Any] = {"id": "i", "step": "s", "processor_id": "s", "stage": "process_input", "reason": "why"}
    return PendingQuestion(**{**given, **changed})


@pytest.mark.parametrize(
    "answer",
    [
        {"decision": "approve"},
        {"decision": "reject", "amount": 9, "share": None, "names": ["ann", "bob"], "note": "no", "sure": True},
        {"decision": "reject", "amount": 2.0, "share": 0.5},
    ],
)
def test_answers_that_fit(answer: Any) -> None:
    """They are returned frozen."""
    given = asked(schema=DECISION).check(answer)
    assert given == asked().check(answer)
    with pytest.raises(TypeError):
        given["decision"] = "other"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("approve", "the answer must be of type object"),
        ({}, "the answer has no field 'decision'"),
        ({"decision": "maybe"}, "the answer.decision must be one of 'approve', 'reject'"),
        ({"decision": "approve", "secret": 1}, "the answer has a field that the schema does not name"),
        ({"decision": "approve", "amount": 0}, "the answer.amount must be 1 or more"),
        ({"decision": "approve", "amount": 10}, "the answer.amount must be 9 or less"),
        ({"decision": "approve", "amount": True}, "the answer.amount must be of type integer"),
        ({"decision": "approve", "amount": 1.5}, "the answer.amount must be of type integer"),
        ({"decision": "approve", "amount": float("inf")}, "the answer.amount must be of type integer"),
        ({"decision": "approve", "share": "half"}, "the answer.share must be of type number or null"),
        ({"decision": "approve", "names": []}, "the answer.names must have 1 items or more"),
        ({"decision": "approve", "names": ["a"] * 3}, "the answer.names must have 2 items or fewer"),
        ({"decision": "approve", "names": ["long"]}, "the answer.names[0] must have 3 characters or fewer"),
        ({"decision": "approve", "note": "n"}, "the answer.note must have 2 characters or more"),
        ({"decision": "approve", "sure": 1}, "the answer.sure must be True"),
    ],
)
def test_answers_that_do_not_fit(answer: Any, problem: str) -> None:
    """The error names the place and quotes no answer."""
    assert (answer_problem(DECISION, answer) or "").startswith(problem)
    with pytest.raises(UsageError, match="does not fit the schema of the question"):
        asked(schema=DECISION).check(answer)


def test_an_answer_is_a_json_value() -> None:
    """Without a schema, too."""
    with pytest.raises(UsageError, match="an answer is a JSON value"):
        asked().check({"when": object()})


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("object", "must be a JSON Schema as a mapping"),
        ({"pattern": "a+"}, "has the word 'pattern'"),
        ({"type": "text"}, "schema.type has a value"),
        ({"type": []}, "schema.type has a value"),
        ({"required": "a"}, "schema.required has a value"),
        ({"minLength": -1}, "schema.minLength has a value"),
        ({"properties": {"a": {"format": "email"}}}, "schema.properties.a has the word 'format'"),
        ({"items": {"oneOf": []}}, "schema.items has the word 'oneOf'"),
        ({"additionalProperties": {}}, "schema.additionalProperties has a value"),
    ],
)
def test_a_schema_that_could_not_be_read_whole_is_refused(schema: Any, problem: str) -> None:
    """So that no word of it is ignored."""
    with pytest.raises(UsageError, match=problem):
        check_schema(schema)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": ""},
        {"reason": None},
        {"shown": ["a"]},
        {"shown": {"a": object()}},
        {"schema": {"type": "text"}},
        {"expires_in": 0},
        {"expires_in": True},
        {"expires_in": float("inf")},
    ],
)
def test_what_cannot_be_stored_is_refused(wrong: dict[str, Any]) -> None:
    """When it is asked, not when it is stored."""
    with pytest.raises(UsageError):
        asked(**wrong)


def test_ids_of_questions_differ() -> None:
    """Whatever ids steps and calls have."""
    made = [
        question_id("process_tool_call", *rest)
        for rest in [("a", 1, ""), ("a", 2, ""), ("a#2", 1, ""), ("w/a", 1, ""), ("a", 1, "c"), ("a", 1, "c//1")]
    ]
    assert len(set(made)) == len(made)
    assert made[0] == "process_tool_call/a//1"
