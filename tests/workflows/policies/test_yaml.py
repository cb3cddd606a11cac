"""Whether YAML and JSON are read as YAML 1.2 says, in bounded time, and hostile files are refused with a place."""

import json
from itertools import pairwise

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from penstock.workflows.policies import PolicyError, parse_policy
from penstock.workflows.policies.problems import Problems
from penstock.workflows.policies.scalars import is_plain_text, plain_value
from penstock.workflows.policies.yaml_nodes import DEEPEST, plain_data, read_nodes
from tests.laws import examples
from tests.workflows.policies.reading import START, told


def data(text: str, file: str = "any.yaml") -> object:
    """Return a text as plain data."""
    problems = Problems()
    node = read_nodes(text, file, problems)
    assert problems.found == []
    assert node is not None
    return plain_data(node)


SCALARS = {
    "no": "no",
    "yes": "yes",
    "on": "on",
    "y": "y",
    "12:30": "12:30",
    "12:30:00": "12:30:00",
    "2020-01-01": "2020-01-01",
    "010": 10,
    "0o17": 15,
    "0x1F": 31,
    "0b11": "0b11",
    "1e3": 1000.0,
    "1_000": "1_000",
    ".5": 0.5,
    "-.inf": float("-inf"),
    "true": True,
    "FALSE": False,
    "tRue": "tRue",
    "~": None,
    "null": None,
    "": None,
    "'1'": "1",
    '"true"': "true",
}


@pytest.mark.parametrize("written", SCALARS)
def test_scalars_mean_what_yaml_1_2_says(written: str) -> None:
    """YAML 1.1, which most libraries read, takes ``no`` for False, and ``12:30:00`` for 45000."""
    assert data(f"a: {written}\n") == {"a": SCALARS[written]}


def test_numbers_with_more_digits_than_python_reads_are_text() -> None:
    """They would be an error of the interpreter without a place."""
    assert plain_value("9" * 5000) == "9" * 5000
    assert told(f"{START}  - {{use: token-limiter, with: {{limit: {'9' * 5000}}}}}\n")[0].startswith("3:40: ")


@given(st.text(max_size=40))
def test_a_text_that_is_written_plain_is_that_text_in_yaml_1_1_and_1_2(text: str) -> None:
    """So a file that Penstock wrote means the same to other programs."""
    if is_plain_text(text):
        assert yaml.safe_load(f"a: {text}\n") == {"a": text}
        assert data(f"a: {text}\n") == {"a": text}


def test_words_of_yaml_1_1_are_not_written_plain() -> None:
    """They would be a bool, a number, a date or nothing there."""
    words = [
        "*",
        "*name",
        "y",
        "n",
        "yes",
        "no",
        "on",
        "off",
        "true",
        "null",
        "~",
        "12:30",
        "010",
        "1e3",
        "0o17",
        "0x1f",
        "1_000",
        "2020-01-01",
        "=",
        "<<",
        ".inf",
        "NO",
        "On",
    ]
    assert [word for word in words if is_plain_text(word)] == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(200))
@given(JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_json_is_read_as_json_says(value: object, ascii_only: bool, indent: int | str | None) -> None:
    """Halves of characters, tabs, and line breaks of YAML that are none in JSON."""
    written = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    if any(
        (ord(each) < 32 and each not in "\t\n") or 0x7F <= ord(each) < 0xA0 or each in "\ufffe\uffff"
        for each in written
    ):
        return  # a control character, which YAML does not allow
    if '""' in written and "<<" in written:
        return
    assert data(written, "any.json") == value


def test_json_has_what_yaml_writes_in_another_way() -> None:
    """Each of these was read wrongly by a parser of YAML alone."""
    assert data('{"a":"\\ud83d\\ude00"}', "a.json") == {"a": "😀"}
    assert data('{"a":"\\\\\\ud83d\\ude00"}', "a.json") == {"a": "\\😀"}
    assert data('{"a":"\\\\ud83d"}', "a.json") == {"a": "\\ud83d"}
    assert data('{"a":"x \u2028 y"}', "a.json") == {"a": "x \u2028 y"}
    assert data('{\t"a"\t:\t["\\t", "\\/"]}', "a.json") == {"a": ["\t", "/"]}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("penstock: 1\nsteps: []\n", "1:1"),
        ('{"penstock": 1,\n "steps": [],}', "2:14"),
        ('{"penstock": 1, "steps": []} # why', "1:30"),
        ('{"penstock": 1, "steps": []}{}', "1:29"),
        ('{"penstock": 1, "steps": [NaN]}', "1:1"),
        ('{"penstock": 1, "name": "a\nb", "steps": []}', "1:27"),
    ],
)
def test_a_json_file_holds_json_alone(text: str, place: str) -> None:
    """What YAML takes beyond that is refused, as other programs refuse it."""
    (line,) = told(text, file="policy.json")
    assert line.startswith(f"{place}: this is no valid JSON: ")


def test_the_same_key_twice_is_refused_in_both_forms() -> None:
    """Most parsers take the last one, so the first one, which one reads, is without effect."""
    assert told(f"{START}  - {{use: hygiene, id: a, id: b}}\n") == [
        "3:27: id stands here twice, first in line 3; remove one of them"
    ]
    assert told('{"penstock": 1, "steps": ["hygiene"],\n "steps": []}', file="a.json") == [
        "2:2: steps stands here twice, first in line 1; remove one of them"
    ]


def test_anchors_stand_for_what_they_name() -> None:
    """As in any YAML file."""
    first = "{use: regex-filter, id: a, with: &w {presets: [pii]}}"
    text = f"{START}  - {first}\n  - {{use: regex-filter, id: b, with: *w}}\n"
    one, other = parse_policy(text).root.nodes
    assert one.processor.presets == other.processor.presets == ("pii",)


def bomb(depth: int, width: int) -> str:
    """Return a billion laughs: each list holds the one before it many times."""
    names = [f"n{level}" for level in range(depth)]
    lines = [f"{names[0]}: &{names[0]} [{','.join('x' * width)}]"]
    lines += [f"{name}: &{name} [{','.join([f'*{before}'] * width)}]" for before, name in pairwise(names)]
    return "\n".join(lines)


HOSTILE = {
    "many aliases": bomb(9, 10),
    "wide aliases": bomb(3, 300),
    "an alias within itself": "penstock: 1\nsteps: &a [*a]\n",
    "an unknown alias": "penstock: 1\nsteps: *a\n",
    "lists in lists": f"penstock: 1\nsteps: {'[' * 10_000}{']' * 10_000}\n",
    "mappings in mappings": f"penstock: 1\nsteps: {'{a: ' * 10_000}",
    "blocks in blocks": START + "".join(f"{' ' * level}-\n" for level in range(1, 1_000)),
    "a long file": f"{START}  - hygiene\n#{'x' * 1_000_000}\n",
    "NUL": f"{START}  - hyg\0iene\n",
    "a control character": f"{START}  - hyg\x07iene\n",
    "half a character": f"{START}  - hyg\ud800iene\n",
    "half a character, escaped": f'{START}  - "hyg\\ud800iene"\n',
    "a tab": "penstock: 1\nsteps:\n\t- hygiene\n",
    "an object": f"{START}  - !!python/object/apply:os.system [ls]\n",
    "a name": f"{START}  - !!python/name:os.system\n",
    "a tag of one's own": f"%TAG ! tag:example.org,2000:\n---\n{START}  - !a hygiene\n",
    "merged keys": f"{START}  - &a {{use: hygiene}}\n  - <<: *a\n",
    "a second document": f"{START}  - hygiene\n---\n{START}  - hygiene\n",
    "a key that is a list": "penstock: 1\n? [a, b]\n: c\nsteps: [hygiene]\n",
    "nothing": "",
    "a comment": "# penstock: 1\n",
    "an open list": "penstock: 1\nsteps: [hygiene\n",
    "a text": "hello",
    "ten thousand steps": START + "  - hygiene\n" * 10_000,
    "ten thousand branches": START + "  - branch: [{when: 'true', steps: [unicode-normalizer]}]\n" * 10_000,
    "ten thousand beside each other": f"{START}  - parallel: [{', '.join(['unicode-normalizer'] * 10_000)}]\n",
    "ten thousand faults": START + "  - nobody\n" * 10_000,
    "ten thousand keys": START + "".join(f"  - {{k{number}: 1}}\n" for number in range(10_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_a_place(name: str) -> None:
    """Without running out of memory, time or stack."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(HOSTILE[name], environment={})
    assert 1 <= len(caught.value.problems) <= Problems.most
    assert all(problem.message and problem.place.line >= 1 for problem in caught.value.problems)


def test_a_thousand_steps_are_read() -> None:
    """That is more than anybody writes."""
    assert len(parse_policy(START + "  - unicode-normalizer\n" * 1_000).root.nodes) == 1_000


def test_nesting_is_bounded_where_a_person_could_still_read_it() -> None:
    """A graph within graphs."""
    deep = DEEPEST // 2 - 2
    text = f"penstock: 1\nsteps: {'[{id: a, steps: ' * deep}[hygiene]{'}]' * deep}\n"
    assert "hygiene" in repr(parse_policy(text).root)
    assert told(text.replace("[hygiene]", f"{'[{id: a, steps: ' * deep}[hygiene]{'}]' * deep}"))[0].endswith(
        f"nested deeper than {DEEPEST} levels; write them flatter"
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_of_each_system_are_read(ends: str, mark: str) -> None:
    """Windows' editors write both."""
    text = mark + f"{START}  - unicode-normalizer\n".replace("\n", ends)
    assert len(parse_policy(text).root.nodes) == 1
    assert told(text.replace("unicode", "unicoed"))[0].startswith("3:5: unknown processor unicoed-normalizer; ")


@given(st.text(max_size=200))
def test_any_text_is_a_workflow_or_an_error_with_places(text: str) -> None:
    """Never another exception."""
    for file in ("a.yaml", "a.json"):
        for given_text in (text, f"{START}  - {text}\n", f"{START}  - use: pii-detector\n    with: {text}\n"):
            assert all(line[0].isdigit() for line in told(given_text, file=file))
