"""Reading the arguments of a call: what is converted, what is refused, and what the model is told of it."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

from penstock import Tool
from penstock.engine.values.frozen import freeze
from penstock.tools import ToolError


class Size(Enum):
    """A size."""

    SMALL = "s"


class Item(BaseModel):
    """A thing to order."""

    name: str
    count: int = 1


def order(
    item: Item,
    when: date | None = None,
    size: Size = Size.SMALL,
    kind: Literal["a", "b"] = "a",
    codes: Annotated[set[int], Field(max_length=2)] = frozenset(),
) -> None:
    """Order a thing."""


def no(text: str) -> str:
    """Quote what is refused."""
    raise ValueError(text)


def told(made: Tool, given: Any) -> str:
    """Return what the model is told of arguments that do not fit."""
    with pytest.raises(ToolError) as caught:
        made.read(given)
    assert caught.value.kind == "invalid-arguments"
    return caught.value.for_model


def test_arguments_become_what_the_types_say() -> None:
    """Models, dates, enums, sets."""
    given = {"item": {"name": "lamp", "count": "2"}, "when": "2026-11-22", "size": "s", "codes": [1, 1]}
    assert Tool(order).read(given) == {
        "item": Item(name="lamp", count=2),
        "when": date(2026, 11, 22),
        "size": Size.SMALL,
        "codes": {1},
    }


@pytest.mark.parametrize(
    ("hint", "given", "read"),
    [
        (int, "3", 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, "true", True),
        (Decimal, "1.10", Decimal("1.10")),
        (timedelta, "PT5M", timedelta(minutes=5)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (bytes, "ä", "ä".encode()),
        (object, {"a": [None]}, {"a": [None]}),
    ],
    ids=str,
)
def test_what_loses_nothing_is_converted(hint: Any, given: Any, read: Any) -> None:
    """As pydantic converts JSON."""

    def f(x) -> None: ...

    f.__annotations__["x"] = hint
    assert Tool(f).read({"x": given}) == {"x": read}


@pytest.mark.parametrize(
    ("hint", "given"),
    [(int, 3.5), (int, "three"), (str, 3), (str, None), (list[int], "[1]"), (dict[str, int], '{"a": 1}'), (bool, 7)],
    ids=str,
)
def test_what_would_have_to_be_guessed_is_refused(hint: Any, given: Any) -> None:
    """JSON inside of a text too: what was escaped there, no guard has read."""

    def f(x) -> None: ...

    f.__annotations__["x"] = hint
    assert told(Tool(f), {"x": given}).startswith("the arguments do not fit: x: Input should be")


@pytest.mark.parametrize("given", [None, "", {}], ids=str)
def test_no_arguments_may_be_written_in_several_ways(given: Any) -> None:
    """Models write nothing, or null, where a tool takes none."""
    assert Tool(lambda: 1, name="f").read(given) == {}


@pytest.mark.parametrize("given", ["{", '{"a": 1}', [1], 3, True], ids=str)
def test_arguments_are_a_json_object(given: Any) -> None:
    """A text is none, even if it holds one."""
    assert told(Tool(order), given) == "the arguments do not fit: the arguments must be a JSON object"


@pytest.mark.parametrize("given", [float("nan"), float("inf"), date(2026, 1, 1), b"x", {1: 2}], ids=str)
def test_arguments_are_json_values(given: Any) -> None:
    """Whoever calls a tool by hand is told, too."""
    told(Tool(lambda x: x, name="f"), {"x": given})


def test_half_a_surrogate_pair_is_no_text() -> None:
    """A model can write one as an escape."""
    told(Tool(lambda x: x, name="f"), {"x": "\ud800"})


def test_mappings_of_all_kinds_are_objects() -> None:
    """Frozen ones too, as they stand in messages."""
    made = Tool(order)
    for given in (freeze({"item": {"name": "x"}}), MappingProxyType({"item": {"name": "x"}})):
        assert made.read(given) == {"item": Item(name="x")}


def test_a_model_is_told_all_that_is_wrong_so_that_it_can_put_it_right() -> None:
    """What is missing, unknown, and of the wrong type; what there is."""
    words = told(Tool(order), {"size": "xl", "colour": "red", "kind": "c"})
    assert words == (
        "the arguments do not fit: item: it is required; size: Input should be 's'; kind: Input should be 'a' or 'b';"
        " colour: there is no such argument; there are item, when, size, kind, codes"
    )
    assert "there are none" in told(Tool(lambda: 1, name="f"), {"x": 1})


def test_a_model_is_told_where_something_is_wrong() -> None:
    """By the path to it."""
    assert "item.name: it is required" in told(Tool(order), {"item": {"count": 2}})


def test_a_model_is_told_at_most_eight_errors() -> None:
    """A list of thousands would fill its window."""
    words = told(Tool(order), {"item": {"name": "x"}, "codes": ["x"] * 100})
    assert words.count("codes.") == 8


def test_the_error_quotes_nothing_that_the_model_wrote() -> None:
    """It may end up in a log; what the model is told passes the guards."""

    def f(x: Annotated[str, AfterValidator(no)]) -> None: ...

    with pytest.raises(ToolError) as caught:
        Tool(f).read({"x": "secret", "secret": 1})
    assert "secret" in caught.value.for_model
    assert "secret" not in f"{caught.value} {caught.value.problem}"
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


async def test_a_null_for_what_has_a_default_means_the_default() -> None:
    """Models write null for what they leave out. Where None fits, it is None, whatever else is wrong."""

    def f(a: int, b: int = 2, c: int | None = 3) -> object:
        return [a, b, c]

    assert await Tool(f).call({"a": 1, "b": None, "c": None}) == (1, 2, None)
    assert told(Tool(f), {"a": None, "b": None}).endswith("a: Input should be a valid integer")


def test_a_field_s_alias_is_what_the_model_sees() -> None:
    """The function gets its own name for it."""

    def f(from_: Annotated[str, Field(alias="from")]) -> None: ...

    made = Tool(f)
    assert list(made.spec.parameters["properties"]) == ["from"]
    assert made.read({"from": "x"}) == {"from_": "x"}
