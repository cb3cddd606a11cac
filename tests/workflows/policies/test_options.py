"""Whether every option of every processor takes any value of a file: a workflow, or a problem with its place."""

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from penstock.workflows.policies import PolicyError, parse_policy
from penstock.workflows.policies.option_values import wrong_values
from penstock.workflows.policies.options import may_be_null, option_names, option_shapes, required_names
from penstock.workflows.policies.problems import Problems
from penstock.workflows.policies.registry import known_names, maker_of
from penstock.workflows.policies.yaml_nodes import MappingNode, read_nodes
from tests.laws import examples
from tests.workflows.policies.reading import START, told

NAMES = known_names()
WORDS = ["block", "redact", "warn", "detect", "first", "email", "secrets", "pii", "en", "hate", "a@b.c", "(", "1", ""]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*WORDS, "name", "pattern", "type", "start"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def options_of(name: str) -> list[str]:
    """Return the options of what has a name; a made-up one where any is taken."""
    return sorted(option_names(maker_of(name)) or {"anything"})


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given=st.data())
def test_any_value_of_any_option_is_a_workflow_or_a_problem_with_a_place(name: str, given: st.DataObject) -> None:
    """Never another exception: a constructor may meet a value of a type that it did not expect."""
    required = required_names(maker_of(name))
    others = given.draw(st.lists(st.sampled_from(options_of(name) or ["x"]), max_size=3, unique=True))
    options = {option: given.draw(VALUES) for option in dict.fromkeys([*required, *others])}
    text = json.dumps({"penstock": 1, "steps": [{"use": name, "with": options}]}, ensure_ascii=True)
    try:
        workflow = parse_policy(text, file="a.json", environment={})
    except PolicyError as error:
        problems = error.problems
    else:
        problems = ()
        workflow.validate()
        assert workflow.draw("text")
    assert all(one.place.line == 1 and one.place.column > 1 and one.message for one in problems)


@pytest.mark.parametrize("written", ["no", "off", "'false'", "yes", "0", "[]"])
def test_a_text_is_no_switch(written: str) -> None:
    """YAML 1.2 reads ``no`` as a text, which Python takes for true: restoring would be on, not off."""
    found = told(f"{START}  - {{use: privacy, with: {{restore: {written}}}}}\n")
    assert len(found) == 1
    assert "must be true or false" in found[0]


def is_allowed(value: object, shape: object) -> bool:
    """Return whether a value has the form of an option, by the library that checks JSON Schemas."""
    return jsonschema.Draft202012Validator({"$defs": {"variable": {"not": {}}}, **shape}).is_valid(value)  # type: ignore[dict-item]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given=st.data())
def test_a_value_of_a_wrong_type_is_told_at_its_option(name: str, given: st.DataObject) -> None:
    """As the schema says that editors read; also where the constructor takes it, and would fail with a request."""
    maker = maker_of(name)
    shapes = option_shapes(maker)
    option = given.draw(st.sampled_from(sorted(shapes) or ["x"]))
    if not shapes:
        return
    value = given.draw(VALUES.filter(lambda one: not (isinstance(one, float) and one.is_integer())))
    root = read_nodes(json.dumps({"with": {option: value}}), "a.json", Problems())
    assert isinstance(root, MappingNode)
    options = root.get("with")
    assert isinstance(options, MappingNode)
    shape, found = shapes[option], wrong_values(name, maker, options)
    if (value is None and may_be_null(maker, option)) or "1.0" in json.dumps(value):
        return
    if option != "id":
        assert bool(found) is (shape is None or not is_allowed(value, shape))
    assert all(told.startswith(f"{name}: option '{option}") for faults in found.values() for _, told in faults)


WRONG = {
    "{use: token-cost-control, with: {limits: [], clock: 1}}": "'clock' takes an object of Python, which a file cannot",
    "{use: response-cache, with: {ids: true}}": "'ids' takes an object of Python, which a file cannot give",
    "{use: regex-filter, with: {banned_words: spam}}": "'banned_words' is spam, but must be a list of texts",
    "{use: hygiene, with: {secrets: true}}": "'secrets' must be one of redact, block, warn",
    "{use: moderation, with: {strategy: blok}}": "'strategy' is blok, but must be one of block, warn, filter",
    "{use: moderation, with: {threshold: {hate: high}}}": "'threshold.hate' is high, but must be a number",
    "{use: moderation, with: {id: a/b}}": "'id' must be a text without '/'",
    "{use: restore, with: {parts: [text, 1]}}": "'parts[1]' is 1, but must be a text; write it in quotes",
    "{use: safety, with: {model: x}}": "'model' is 'x', but must be <provider>/<model>",
    "{use: safety, with: {languages: [klingon]}}": "'languages",
    "{use: pii-detector, with: {hash_key: 12, strategy: redact}}": "'hash_key' must be a text",
}


@pytest.mark.parametrize("step", WRONG)
def test_a_wrong_value_is_told_with_the_steps_name_at_its_place(step: str) -> None:
    """Not with the name of a guard within a preset, and in the words of a file."""
    found = next(line for line in told(f"{START}  - {step}\n") if WRONG[step].partition(" ")[0] in line)
    use = step.partition("use: ")[2].partition(",")[0]
    where, _, what = found.partition(": ")
    assert what.startswith(f"{use}: option {WRONG[step]}")
    assert int(where.partition(":")[2]) > step.index("with:")
    assert not any(word in found for word in ("None", "True", "False", "()"))


def test_an_option_that_is_missing_is_asked_for_in_words_of_a_file() -> None:
    """Not by the default of the constructor, such as () or None."""
    (found,) = told(f"{START}  - regex-filter\n")
    assert found == (
        "3:5: regex-filter needs the option rules: one rule or more, or presets: of pii, secrets, urls, "
        "or banned_words:"
    )
    (found,) = told(f"{START}  - {{use: tool-policy, with: {{strategy: warn}}}}\n")
    assert "tool-policy needs the option allow: names of tools, or give deny:, ask:, limits:, pins: or" in found
    (found,) = told(f"{START}  - {{use: tool-policy, with: {{untrusted: [read]}}}}\n")
    assert found.endswith(
        "tool-policy needs the option sensitive: names of tools: a flow has untrusted: and sensitive:"
    )
