"""JSON text stays JSON when a guard edits it, whole and in a stream, however that is cut."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Workflow
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.edits import Edit
from penstock.engine.values.json_text import JsonReader
from tests.laws import examples

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext


class Sevens(TextGuard):
    """Hides each run of sevens and what touches it; its replacement holds a quote."""

    id = "sevens"
    reach = 12

    def __init__(self, numbers: str = "null") -> None:
        self.numbers = numbers

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        """Find them."""
        del ctx, final
        return [Edit(one.start(), one.end(), '["7"]', "redact") for one in re.finditer(r"7{1,9}[\",]?", text)]


def whole(text: str, guard: TextGuard) -> str:
    """Return what a whole text becomes."""
    return Workflow("w").then(guard).check_sync(text).text


def streamed(pieces: list[str], guard: TextGuard) -> str:
    """Return what a stream of a text becomes."""
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        return "".join(chunk.text for chunk in chunks)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-80_000, 80_000),
        st.sampled_from([7, 17.75, 0.7, -77, 1e77]),
        st.text(alphabet='ab7"\\\né', max_size=6),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(alphabet='k"é', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.one_of(st.lists(VALUES), st.dictionaries(st.text("ab", max_size=2), VALUES)), st.data())
@settings(max_examples=examples(60))
def test_json_text_stays_json_and_a_stream_becomes_what_the_whole_text_does(value: Any, data: st.DataObject) -> None:
    """Its keys and its form stay; no seven is left in a string, and none in a number."""
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    if data.draw(st.booleans()):
        text = f"Here it is:\n```json\n{text}\n```\nOf 7 rows."
    numbers = data.draw(st.sampled_from(["null", "text"]))
    made = whole(text, Sevens(numbers))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert streamed(pieces, Sevens(numbers)) == made
    inner = made.partition("```json")[2].rpartition("```")[0] or made
    same(value, json.loads(inner), numbers)


def same(before: Any, after: Any, numbers: str) -> None:
    """Compare the forms of two values."""
    if isinstance(before, dict):
        assert before.keys() == after.keys()
        for key, item in before.items():
            same(item, after[key], numbers)
    elif isinstance(before, list):
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            same(one, other, numbers)
    elif isinstance(before, str):
        assert ("7" in before) == ('["7"]' in after)
        assert "7" not in after.replace('["7"]', "")
    elif "7" in json.dumps(before):
        assert after is None if numbers == "null" else '["7"]' in after
    else:
        assert before == after


class Wide(TextGuard):
    """Hides all from an x to the next y, whatever stands between."""

    id = "wide"
    reach = 60

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        """Find them."""
        del ctx, final
        return [Edit(one.start(), one.end(), "", "redact") for one in re.finditer(r"x[^y]{0,40}y", text)]


PIECES = (
    '{"a": ',
    "{ ",
    "```\n",
    '["x',
    "secret",
    '"',
    ", ",
    "{",
    "}",
    "]",
    "[",
    "x",
    "y",
    " ",
    "\n",
    "12x",
    "7",
    "xy",
    'secret"]',
    "true",
)


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.data())
@settings(max_examples=examples(150))
def test_what_an_edit_covers_is_gone_in_json_and_around_it(pieces: list[str], data: st.DataObject) -> None:
    """Only brackets, commas, literals and blanks may stay; a stream leaves the same."""
    text = "".join([*data.draw(st.sampled_from([[], ["{}"], ["[1]\n"], ["["]])), *pieces])
    made = whole(text, Wide())
    covered = sum(one.group().count("secret") for one in re.finditer(r"x[^y]{0,40}y", text))
    assert made.count("secret") == text.count("secret") - covered
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    assert streamed([text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True)], Wide()) == made


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"a": "x"} secret y', '{"a": ""}'),
        ('{"a": 1, "bx": 2, // secret y\n 3}', '{"a": 1, "b": null, \n 3}'),
        ('{"a": "x"}\n{"b": "secret y z"}', '{"a": ""}\n{"": " z"}'),
        ("[x] secret y", "["),
        ('{"a": 1} x secret {"b": "y"}', '{"a": 1} {"": ""}'),
        ('See: { "a": "x"} secret y', 'See: { "a": ""}'),
    ],
)
def test_an_edit_of_more_than_a_value_goes_on_around_json(text: str, after: str) -> None:
    """What stands between values stays, so that they are JSON; text before, behind and between is gone."""
    assert whole(text, Wide()) == after


@pytest.mark.parametrize("before", ["NaN", "Infinity", "-Infinity"])
def test_what_python_writes_for_odd_numbers_is_json(before: str) -> None:
    """The values behind it stay JSON."""
    assert whole(f'{{"a": {before}, "b": 17}}', Sevens()) == f'{{"a": {before}, "b": null}}'


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[7] See there, 7 rows.", "[null] See there, 7 rows."),
        ("[note] 7 rows", '[note] ["7"] rows'),
        ('{"a": 7} {"b": "7"}', '{"a": null} {"b": "[\\"7\\"]"}'),
        ('Its 7 rows: {"a": 7}, {"b": [7, "7"]}.', 'Its ["7"] rows: {"a": null}, {"b": [null, "[\\"7\\"]"]}.'),
        ('200 OK\n{\n "a": -7.5e7\n}', '200 OK\n{\n "a": null\n}'),
        ("```\n[7]\n```", "```\n[null]\n```"),
        ("{7} f({a: 7})", '{["7"]} f({a: ["7"]})'),
    ],
)
def test_json_is_told_from_text_around_it(text: str, after: str) -> None:
    """It begins a text or a fence, or with a brace and a quote, and goes on up to what does not belong there."""
    assert whole(text, Sevens()).replace('["7"] rows.', "7 rows.") == after
    for size in (1, 2, 5):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert streamed(pieces, Sevens()).replace('["7"] rows.', "7 rows.") == after


def test_a_value_has_the_path_of_its_keys() -> None:
    """Indexes of lists are left out."""
    reader = JsonReader()
    for piece in ('{"a": [{"b.c": 1}, ', '{"d', '\\u0065": "x', 'y"}], "f": -2', ".5e3}"):
        reader.feed(piece)
    found = [(token.kind, token.path) for token in reader.tokens]
    assert found == [
        ("key", ()),
        ("key", ("a",)),
        ("number", ("a", "b.c")),
        ("key", ("a",)),
        ("string", ("a", "de")),
        ("key", ()),
        ("number", ("f",)),
    ]


def test_a_reader_keeps_nothing_of_what_is_decided() -> None:
    """Neither of values nor of brackets without anything in them, however long a stream is."""
    reader = JsonReader()
    seen = 0
    for _ in range(200):
        reader.feed('{} [] {"a": [1, "b\\n"]} ')
        seen += 24
        reader.forget(seen)
    kept = [name for name in ("tokens", "_escapes", "_stretches") if getattr(reader, name)]
    assert kept == []
