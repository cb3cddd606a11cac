"""Whether a trace is the same after a way through JSON, fits the published schema, and malformed ones are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from penstock.engine import Span, Trace, TraceError
from tests.engine.tracing.traces import blocked, hidden, step, trace, with_texts

TRACES = [
    pytest.param(blocked(), id="blocked"),
    pytest.param(with_texts(), id="texts"),
    pytest.param(trace(), id="bare"),
]
SCHEMA = Path(__file__).parents[3] / "docs" / "trace.schema.json"


def through_json(value: Trace) -> Any:
    """What another program reads of it."""
    return json.loads(json.dumps(value.to_json()))


@pytest.mark.parametrize("made", TRACES)
def test_a_trace_is_the_same_after_a_way_through_json(made: Trace) -> None:
    """Nothing is lost."""
    data = through_json(made)
    assert Trace.from_json(data) == made
    assert through_json(Trace.from_json(data)) == data


@pytest.mark.parametrize("made", TRACES)
def test_a_trace_fits_its_schema(made: Trace) -> None:
    """As another program would check it."""
    jsonschema.Draft202012Validator.check_schema(Trace.json_schema())
    jsonschema.validate(through_json(made), Trace.json_schema())


def test_the_parts_of_a_trace_say_alone_what_they_say_in_it() -> None:
    """Texts, chunks and arms have the same JSON form by themselves."""
    texted, branched = with_texts(), blocked()
    texts = [one.to_json() for span in texted.spans for one in span.texts]
    chunks = [one.to_json() for span in texted.spans for one in span.chunks]
    arms = [one.to_json() for span in branched.spans for one in span.arms]
    assert texts
    assert chunks
    assert arms
    assert texts == [one for span in through_json(texted)["spans"] for one in span.get("texts", ())]
    assert chunks == [one for span in through_json(texted)["spans"] for one in span.get("chunks", ())]
    assert arms == [one for span in through_json(branched)["spans"] for one in span.get("arms", ())]


def test_the_schema_refuses_what_is_no_trace() -> None:
    """Or fitting it would mean nothing."""
    data = through_json(blocked())
    data["spans"][1]["status"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, Trace.json_schema())


def plain(schema: Any) -> Any:
    """A schema without what releases of pydantic write differently."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = schema["allOf"][0] if len(schema.get("allOf", ())) == 1 else {}
    return {
        key: plain(item) for key, item in {**inner, **schema}.items() if key not in ("allOf", "additionalProperties")
    }


def test_the_published_schema_is_the_current_one() -> None:
    """To write it anew: ``json.dumps(Trace.json_schema(), indent=2)`` and a line end."""
    assert plain(json.loads(SCHEMA.read_text("utf-8"))) == plain(Trace.json_schema())


def test_the_schema_describes_every_field() -> None:
    """In the words of the class, without titles that repeat the name."""
    schema = Trace.json_schema()
    for shape in (schema, *schema["$defs"].values()):
        assert all(field.get("description") for field in shape["properties"].values()), shape["title"]
        assert not any("title" in field for field in shape["properties"].values())
    assert set(schema["$defs"]) == {"Arm", "Chunk", "Edit", "Span", "Text", "Tripwire"}


def test_what_does_not_apply_is_left_out() -> None:
    """So that a trace stays small; what is 0 or false is kept where it says something."""
    plain = Span(0, None, "stage", "process_input").to_json()
    assert set(plain) == {"id", "parent", "kind", "name", "path", "stage", "at", "seconds", "status"}
    assert Span(0, None, "model_step", "", number=0).to_json()["number"] == 0
    assert Span(0, None, "model", "m", usage={}).to_json()["usage"] == {}


def test_details_become_json_without_quoting_what_json_does_not_have() -> None:
    """The text of an object could be what was hidden."""
    details: dict[Any, Any] = {"seen": {1: "x", "n": math.inf}, "of": {"a"}, "by": object(), "list": [1.5, None]}
    made = step(2, "a", details=details).to_json()["details"]
    assert made == {"seen": {"n": "inf"}, "of": "frozenset", "by": "object", "list": [1.5, None]}


def test_fields_of_later_versions_are_ignored() -> None:
    """Fields may be added without a new number."""
    data = through_json(blocked())
    data["spans"][0]["colour"] = data["region"] = "x"
    assert Trace.from_json(data) == blocked()


def broken(**fields: Any) -> dict[str, Any]:
    """A trace with other fields."""
    return {**through_json(blocked()), **fields}


def broken_span(**fields: Any) -> dict[str, Any]:
    """A trace with other fields in its second span."""
    data = through_json(blocked())
    data["spans"][1].update(fields)
    return data


DEEP: dict[str, Any] = {}
for _ in range(300):
    DEEP = {"a": DEEP}

BROKEN = [
    (None, "", "expected object, not NoneType"),
    ([], "", "expected object, not list"),
    ("{}", "", "expected an object, not a text; parse it with json.loads first"),
    ({}, "version", "it is missing"),
    (broken(version=2), "version", "this release reads version 1, not 2"),
    (broken(version="1"), "version", "expected 1"),
    (broken(seconds="1"), "seconds", "expected number, not str"),
    (broken(seconds=-1), "seconds", "expected a number of at least 0"),
    (broken(started=math.nan), "started", "expected a finite number"),
    (broken(status="fine"), "status", "expected 'passed', 'edited', 'blocked' or 'failed'"),
    (broken(usage=DEEP), "", "a value is nested deeper than 200 levels; flatten it"),
    (broken_span(id=0), "spans[1].id", "0 is the id of an earlier span, too"),
    (broken_span(parent=7), "spans[1].parent", "no earlier span has the id 7"),
    (broken_span(chunks=[{"at": 0, "in": 1}]), "spans[1].chunks[0].in", "expected string, not int"),
    (broken_span(edits=[{}]), "spans[1].edits[0].message", "it is missing"),
]


@pytest.mark.parametrize(("data", "place", "problem"), BROKEN)
def test_a_malformed_trace_is_refused_with_the_place_and_the_problem(data: Any, place: str, problem: str) -> None:
    """And without a text of it."""
    with pytest.raises(TraceError) as raised:
        Trace.from_json(data)
    assert (raised.value.place, raised.value.problem) == (place, problem)
    assert str(raised.value) == (f"trace: {place}: {problem}" if place else f"trace: {problem}")


def test_traces_cannot_be_changed() -> None:
    """They are values, down to their mappings."""
    usage = {"input_tokens": 1}
    made = trace(step(2, "a", details=usage, edits=(hidden(1, 2),)), usage=usage)
    usage["input_tokens"] = 2
    assert made.usage == made.spans[2].details == {"input_tokens": 1}
    assert made == trace(step(2, "a", details={"input_tokens": 1}, edits=(hidden(1, 2),)), usage={"input_tokens": 1})
