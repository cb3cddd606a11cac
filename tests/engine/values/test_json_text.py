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
@settings(max_examples=60)
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


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[7] See there, 7 rows.", "[null] See there, 7 rows."),
        ("[note] 7 rows", '[note] ["7"] rows'),
        ('{"a": 7} {"b": "7"}', '{"a": null} {"b": "[\\"7\\"]"}'),
    ],
)
def test_text_that_only_begins_like_json_is_text(text: str, after: str) -> None:
    """It is JSON up to the first character that does not belong there."""
    assert whole(text, Sevens()).replace('["7"] rows.', "7 rows.") == after


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
