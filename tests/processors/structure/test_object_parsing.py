"""Objects in answers: where they are found, what is put right, what is refused."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from penstock.processors.structure.object_parsing import is_shown_in, parse_object
from penstock.processors.structure.schemas import SchemaMismatchError
from penstock.processors.structure.structured_output import schema_of


class Weather(BaseModel):
    """A city's weather."""

    city: str
    temp: float


PARIS = Weather(city="Paris", temp=21)


def found(text: str, schema: Any = Weather, *, repair: bool = False) -> Any:
    """Return the object that an answer holds."""
    return parse_object(text, schema_of(schema), repair=repair).value


def refused(text: str, schema: Any = Weather, *, repair: bool = False) -> str:
    """Return why an answer holds none."""
    with pytest.raises(SchemaMismatchError) as caught:
        found(text, schema, repair=repair)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Paris", "temp": 21}',
        '```json\n{"city": "Paris", "temp": 21}\n```',
        'Here it is:\n```\n{"city": "Paris", "temp": 21}\n```\nAnything else?',
        'It is {"city": "Paris", "temp": 21}, as you asked.',
        "{'city': 'Paris', 'temp': 21,}",
        '{city: "Paris", /* mild */ temp: 21}',
        '<think>{"city": "Rome", "temp": 3}</think>{"city": "Paris", "temp": 21}',
        'First {"a": 1}, then {"city": "Paris", "temp": 21}.',
        '{"city": "Paris", "temp": 21} and once more {"temp": 21, "city": "Paris"}',
        'In braces {like these}:\n```json\n{"city": "Paris", "temp": 21}\n```\nand {"broken": ',
    ],
)
def test_an_object_is_found_however_it_is_wrapped(text: str) -> None:
    """Alone, in fences, in prose, behind thoughts, with the slips that models make."""
    assert found(text) == PARIS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("It is 21 in Paris.", "there is no JSON in it"),
        ("  ", "it is empty"),
        ('{"city": "Paris", "te', "cut off"),
        ('{"city": "Paris", "temp": 21} or {"city": "Rome", "temp": 3}', "that differ"),
        ('{"city": "Paris", "temp": 21, "temp": 3}', "twice"),
        ('{"city": "Paris", "temp": NaN}', "no"),
        ('{"city": "Paris"}', r"the whole: Field required (temp)"),
        ('{"city": "Paris", "temp": {"a": ' + "[" * 300 + "1" + "]" * 300 + "}}", "nested"),
    ],
)
def test_nothing_is_made_up(text: str, why: str) -> None:
    """What is missing, cut off, ambiguous or no JSON is refused, and the reason told."""
    assert why in refused(text)


def test_no_problem_quotes_the_answer() -> None:
    """Places are fields of the schema, a star for other keys; the words are pydantic's, without what was found."""
    told = refused('{"weather": {"s3cret": "p4ssword"}}', dict[str, dict[str, int]])
    assert "s3cret" not in told
    assert "p4ssword" not in told
    assert told.startswith("*.*: ")


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (list[int], 'So: ```json\n{"value": [1, 2]}\n```', [1, 2]),
        (Literal["yes", "no"], "yes", "yes"),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (int, "42", 42),
        (str, "Hello there", "Hello there"),
        (str, "42", "42"),
        (dict[str, int], '{"value": 3}', {"value": 3}),
        (int | None, "null", None),
    ],
)
def test_values_that_are_no_objects_are_found_alone_or_held(schema: Any, text: str, value: Any) -> None:
    """A model is asked for an object that holds them; one that just says them is understood."""
    assert found(text, schema) == value


def test_a_dataclass_is_made() -> None:
    """Whatever pydantic can validate is a schema."""

    @dataclass
    class Point:
        x: int
        y: int = 0

    assert found('{"x": 1}', Point) == Point(1)


def test_what_is_held_wrongly_is_told_of_as_it_stands() -> None:
    """Not of the field that holds it."""
    assert refused('{"value": [1, "x"]}', list[int]).startswith("[1]: ")


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Paris", "temp": 21',
        '{"city": Paris, "temp": 21}',
        'Well: {"city": "Paris" "temp": 21}',
    ],
)
def test_broken_json_is_guessed_on_demand_only(text: str) -> None:
    """Missing ends, quotes and commas are no slips of which it is certain what was meant."""
    assert refused(text)
    assert found(text, repair=True) == PARIS


def test_guesses_have_limits() -> None:
    """What has no beginning, or what not even the library dares to guess, is refused."""
    assert refused("nothing", repair=True)
    assert refused('{"city" "Paris" "temp" 21}', repair=True)
    assert refused("{" * 50_000, repair=True)


def test_more_than_can_be_read_is_refused() -> None:
    """A model may never end, and may write thousands of objects."""
    assert "more than 1,000,000 characters" in refused("x" * 1_000_001)
    assert "too many JSON" in refused('{"a": 1} ' * 101)


@pytest.mark.parametrize(
    ("data", "text", "stands"),
    [
        ({"a": "b", "n": [1, 2.5, True, None]}, 'a b 1 2.5 {"n"}', True),
        ({"a": "x@y"}, r'{"a": "x\u0040y"}', False),
        ({"a": "two\nlines"}, r'{"a": "two\nlines"}', False),
        ({"x@y": 1}, r'{"x\u0040y": 1}', False),
        ([4111111111111111.0], "[4.111111111111111e15]", False),
    ],
)
def test_what_escapes_hide_does_not_stand_in_a_text(data: Any, text: str, stands: bool) -> None:
    """A guard that has read the text has read an object only if all of its words stand there."""
    assert is_shown_in(data, text) is stands


@pytest.mark.parametrize("schema", [Weather, dict[str, str | float], {"type": "object"}])
def test_half_a_surrogate_pair_is_refused_as_any_other_slip(schema: Any) -> None:
    """A model cuts an emoji in two: nobody could be sent that, so the model is told."""
    assert "surrogate" in refused(r'{"city": "\ud83d", "temp": 21}', schema)


def test_words_are_looked_for_in_their_order() -> None:
    """Those that stand elsewhere are found too, up to a number that keeps long objects from taking long."""
    numbers = list(range(10_000, 14_000))
    assert is_shown_in(numbers, str(numbers))
    assert is_shown_in(numbers[:900][::-1], str(numbers))
    assert not is_shown_in(numbers[::-1], str(numbers))
