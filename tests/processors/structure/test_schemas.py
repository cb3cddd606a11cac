"""What an object must look like: types and JSON Schemas, how models are told of them, what is refused."""

import builtins
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator

from penstock import OptionError
from penstock.engine import MissingExtraError
from penstock.engine.values.frozen import thaw
from penstock.processors.structure.schemas import SchemaMismatchError
from penstock.processors.structure.structured_output import schema_of

CITY = {
    "title": "City report",
    "type": "object",
    "properties": {"city": {"type": "string"}, "temp": {"type": "number", "maximum": 60}},
    "required": ["city", "temp"],
    "additionalProperties": False,
}


class Inner(BaseModel):
    """A part."""

    day: date


class Outer(BaseModel):
    """A whole."""

    inner: Inner = Field(description="told beside a reference")
    note: str = "none"


def problems(schema: Any, data: Any) -> list[tuple[str, str, str]]:
    """Return what is wrong with data."""
    with pytest.raises(SchemaMismatchError) as caught:
        schema_of(schema).validate(data)
    return [tuple(problem) for problem in caught.value.problems]


def test_a_type_is_told_as_providers_want_it() -> None:
    """Every field required, no others, nothing beside a reference, no titles; strict, so that it is kept."""
    told = schema_of(Outer).response_format
    schema = thaw(told.schema)
    assert (told.name, told.strict, schema["required"]) == ("Outer", True, ["inner", "note"])
    assert schema["properties"]["inner"] == {"$ref": "#/$defs/Inner"}
    assert schema["additionalProperties"] is False


def test_what_no_provider_can_keep_is_not_strict() -> None:
    """A mapping, or a JSON Schema with fields that may be left out."""
    assert not schema_of(dict[str, int]).response_format.strict
    assert not schema_of({**CITY, "required": ["city"]}).response_format.strict
    assert schema_of(CITY).response_format.strict
    assert schema_of(CITY).response_format.name == "City_report"


def test_what_is_no_object_is_held_by_one() -> None:
    """Providers take objects only; what the value refers to is found there still."""
    told = thaw(schema_of(list[Inner]).json_schema)
    assert list(told["properties"]) == ["value"]
    assert told["$defs"].keys() == {"Inner"}
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}
    form = schema_of(tree)
    assert form.json_schema["properties"]["value"] == {"$ref": "#/$defs/node"}
    assert form.validate({"value": [[], [[]]]}) == [[], [[]]]


def test_json_is_read_as_pydantic_reads_it() -> None:
    """A date is a text there; defaults are filled in."""
    assert schema_of(Outer).validate({"inner": {"day": "2026-01-02"}}) == Outer(inner=Inner(day=date(2026, 1, 2)))


def test_a_validator_of_ones_own_does_not_tell_what_it_saw() -> None:
    """Its message may quote; the kind of error is told."""

    class Careless(BaseModel):
        word: str

        @field_validator("word")
        @classmethod
        def short(cls, word: str) -> str:
            if word == "break":
                raise KeyError(word)
            raise ValueError(f"{word} is too long")

    assert problems(Careless, {"word": "s3cret"}) == [("word", "value_error", "it is not allowed")]
    assert problems(Careless, {"word": "break"}) == [("the whole", "validator", "it could not be validated (KeyError)")]


def test_a_json_schema_gives_plain_values() -> None:
    """As the answer said them."""
    assert schema_of(CITY).validate({"city": "Paris", "temp": 21}) == {"city": "Paris", "temp": 21}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"city": 3, "temp": 1}, ("city", "type", "it must fit 'type': \"string\"")),
        ({"city": "Paris"}, ("the whole", "required", "it lacks 'temp'")),
        ({"city": "Paris", "temp": 99}, ("temp", "maximum", "it must fit 'maximum': 60")),
        (
            {"city": "P", "temp": 1, "s3cret": 1},
            ("the whole", "additionalProperties", "it has fields that are not allowed"),
        ),
    ],
)
def test_a_json_schema_says_what_is_wrong_and_quotes_itself_only(data: Any, problem: tuple[str, str, str]) -> None:
    """Place, kind, and the rule; never what was found."""
    assert problems(CITY, data) == [problem]


def test_only_some_problems_are_told() -> None:
    """A model that mends these is asked about the rest."""
    assert len(problems(list[int], ["a"] * 50)) == 5


@pytest.mark.parametrize(
    "schema",
    [
        None,
        "Weather",
        object(),
        {"type": "nonsense"},
        {"$ref": "https://example.com/schema.json"},
        {"type": "object", "properties": {"a": {"items": [{"$ref": "other.json"}]}}},
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    """Nothing is fetched either: a schema holds all that it refers to."""
    with pytest.raises(OptionError, match="'schema'"):
        schema_of(schema)


def test_values_become_json_for_clients() -> None:
    """By their aliases; a secret stays one; what has no JSON is named by its type."""

    class Kind(Enum):
        A = "a"

    class Account(BaseModel):
        kind: Kind = Field(alias="Kind")
        key: SecretStr

    form = schema_of(Account)
    assert form.to_json(form.validate({"Kind": "a", "key": "k"})) == {"Kind": "a", "key": "**********"}
    assert schema_of(float).to_json(float("nan")) is None
    assert schema_of(Path).to_json(object()) == "object"


def test_a_json_schema_wants_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the error names it; so does guessing."""
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith(("jsonschema", "json_repair")):
            raise ImportError(name)
        return imported(name, *args, **kwargs)

    from penstock.processors.structure.object_parsing import check_repair

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"penstock\[json-schema\]"):
        schema_of(CITY)
    with pytest.raises(MissingExtraError, match=r"penstock\[repair\]"):
        check_repair()


def test_forms_of_one_schema_are_equal() -> None:
    """So that processors with equal options are."""
    assert schema_of(Outer) == schema_of(Outer)
    assert schema_of(Outer) != schema_of(Inner)
    assert schema_of(CITY) != schema_of(Outer)
