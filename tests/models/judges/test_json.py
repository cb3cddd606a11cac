"""Reading JSON as models write it."""

import json

import pytest
from hypothesis import given, strategies as st

from penstock.models.judges.lenient_json import UnreadableError, objects

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=3))
def test_what_is_json_is_read_as_json(value: dict[str, object]) -> None:
    """Whatever stands around it, as long as that has no braces."""
    assert objects(f"Sure!\n```json\n{json.dumps(value, indent=1)}\n```\nAnything else?") == [value]


@given(st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=3))
def test_the_tolerant_reader_reads_json_too(value: dict[str, object]) -> None:
    """A trailing comma calls for it; all else stays what it was."""
    written = json.dumps(value)
    assert objects(f"{written[:-1]},}}") == [value]


@given(st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=3), st.data())
def test_what_is_cut_off_is_never_completed(value: dict[str, object], data: st.DataObject) -> None:
    """A verdict without its end may lack what matters."""
    written = json.dumps(value)
    size = data.draw(st.integers(2, len(written) - 1))
    with pytest.raises(UnreadableError):
        objects(written[:size])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}),
        ("{a: True, b_2: None, c: False,}", {"a": True, "b_2": None, "c": False}),
        ('{"a": "two\nlines", // why\n /* and\nmore */ "b": .5}', {"a": "two\nlines", "b": 0.5}),
        ('{"a": +1, "b": -2.50, "c": 1e3, "d": 7.,}', {"a": 1, "b": -2.5, "c": 1000.0, "d": 7.0}),
        ('{"a": {"b": [{}, []]},}', {"a": {"b": [{}, []]}}),
        ("{'a': '\\u00e9\\n\\\\',}", {"a": "é\n\\"}),
        ('{"a": "} ] {", \'b\': "{\'x\': 1}",}', {"a": "} ] {", "b": "{'x': 1}"}),
        ("I like {braces} and {more braces}: {}", {}),
    ],
)
def test_what_models_get_wrong_is_read_as_it_is_meant(text: str, value: object) -> None:
    """Commas, quotes, keys, words, comments, line ends, numbers."""
    assert objects(text) == [value]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        "{a: 1, 'a': 1,}",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": Infinity,}',
        '{"a": 1e999,}',
        '{"a": maybe}',
        '{"a": 1 "b": 2}',
        '{"a" 1}',
        '{"a": 1, , "b": 2}',
        '{"a": "\\q"}',
        '{"a": 1.2.3}',
        '{"a": 12abc}',
        '{"a": [1, 2}',
        "{a: " + "[" * 100 + "]" * 100 + ",}",
        '{"a": ' + "[" * 100_000,
        '{"a": 1} and {"b": ',
        '{"a": /* no end',
        '{"a": ' + "9" * 5000 + "}",
    ],
)
def test_what_could_mean_two_things_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UnreadableError) as raised:
        objects(text)
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize("unit", ["{", "{ ", "{a", "{/*", '{"', "{a:", "{a :{", "[", "{'\\", '{"a":"', "//", "{//\n"])
def test_reading_takes_time_in_proportion_to_the_text(unit: str) -> None:
    """A judge's answer may be the work of somebody who wants the guard to hang; the fuse of the test is the limit."""
    try:
        found = objects(unit * 100_000)
    except UnreadableError:
        found = []
    assert found == []


def test_all_objects_of_a_text_are_found() -> None:
    """The outermost ones, in order; also in a list."""
    assert objects('first {"a": {"b": 1}} then [{"c": 2}, {"d": 3}]') == [{"a": {"b": 1}}, {"c": 2}, {"d": 3}]
    assert objects("none") == []
