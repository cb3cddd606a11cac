"""Strict tools: the schemas that OpenAI's strict mode wants, and what cannot have one."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from penstock import OptionError, Tool


class Place(BaseModel):
    """A place on a map."""

    x: int
    y: int = 0
    near: list[Place] = []


HERE = Place(x=1)


def parameters(function: Any) -> Any:
    """Return the strict schema of a function's arguments."""
    made = Tool(function, strict=True)
    assert made.spec.strict is True
    return made.spec.parameters


def test_every_field_is_required_and_no_other_allowed() -> None:
    """What has a default may be null, so that the model can leave the choice to it."""

    def f(a: str, b: int = 3, c: int | None = None) -> None: ...

    assert parameters(f) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": ({"type": "integer"}, {"type": "null"})},
            "c": {"anyOf": ({"type": "integer"}, {"type": "null"})},
        },
        "required": ("a", "b", "c"),
        "additionalProperties": False,
    }


async def test_a_null_for_what_has_a_default_means_the_default() -> None:
    """Where None is a value of its own, it is that."""

    def f(a: int = 3, b: int | None = 4) -> object:
        return [a, b]

    assert await Tool(f, strict=True).call({"a": None, "b": None}) == (3, None)


def test_nothing_stands_beside_a_reference() -> None:
    """OpenAI refuses a description there, so what is referred to stands in its place."""

    def f(place: Annotated[Place, Field(description="where")]) -> None: ...

    made = parameters(f)
    place = made["properties"]["place"]
    assert (place["description"], place["required"]) == ("where", ("x", "y", "near"))
    assert place["properties"]["near"]["items"] == {"$ref": "#/$defs/Place"}
    assert made["$defs"]["Place"]["additionalProperties"] is False
    assert "default" not in made["$defs"]["Place"]["properties"]["y"]


class Node(BaseModel):
    """A node of a tree."""

    below: list[Annotated[Node, Field(description="the next ones")]]


def test_a_definition_that_holds_itself_is_written_once() -> None:
    """Its reference to itself stays, without what stood beside it."""

    def f(node: Annotated[Node, Field(description="the first")]) -> None: ...

    node = parameters(f)["properties"]["node"]
    assert node["description"] == "the first"
    assert node["properties"]["below"]["items"] == {"$ref": "#/$defs/Node"}


def test_an_optional_reference_keeps_its_description() -> None:
    """Beside the choice between it and null."""

    def f(place: Annotated[Place | None, Field(description="where")] = None, other: Place = HERE) -> None: ...

    fields = parameters(f)["properties"]
    assert fields["place"]["description"] == "where"
    assert fields["other"]["anyOf"] == ({"$ref": "#/$defs/Place"}, {"type": "null"})


class Loose(BaseModel):
    """Anything at all."""

    data: dict[str, int]


@pytest.mark.parametrize("hint", [dict[str, int], Any, tuple[int, str], list[Any], Loose, list[Loose]], ids=str)
def test_what_cannot_be_strict_is_named(hint: Any) -> None:
    """Open mappings, tuples, values without a type, here or further down."""

    def f(a: int, b) -> None: ...

    f.__annotations__["b"] = hint
    with pytest.raises(OptionError, match="where strict=True") as caught:
        Tool(f, strict=True)
    assert caught.value.option == "f(b)"
    assert Tool(f).spec.strict is None


STRICT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def test_a_given_schema_is_strict_or_refused() -> None:
    """It is shown as it stands, so it must be in the form already."""

    def f(a: int = 1) -> None: ...

    for loose in (STRICT | {"required": []}, STRICT | {"additionalProperties": True}):
        for make in (Tool.external, lambda name, schema, **more: Tool(f, parameters=schema, **more)):
            with pytest.raises(OptionError, match="'parameters'"):
                make("f", loose, strict=True)
    assert Tool(f, parameters=STRICT, strict=True).spec.strict is True
    assert Tool.from_schema(len, name="f", parameters=STRICT, strict=True).spec.strict is True
