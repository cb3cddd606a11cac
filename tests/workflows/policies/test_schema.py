"""Whether the published JSON Schema says what the constructors take, and agrees with what is read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from jsonschema import Draft202012Validator

from penstock.workflows.policies import PolicyError, parse_policy, policy_schema
from penstock.workflows.policies.options import option_names
from penstock.workflows.policies.problems import Problems
from penstock.workflows.policies.registry import known_names, maker_of
from penstock.workflows.policies.yaml_nodes import plain_data, read_nodes
from tests.laws import examples
from tests.workflows.policies.test_options import VALUES

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "policy.schema.json"
EXAMPLES = sorted((ROOT / "examples" / "policies").rglob("*.yaml"))
PAGE = (ROOT / "docs" / "policies.md").read_text("utf-8")
SNIPPETS = re.findall(r"^```yaml\n(penstock: .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SCHEMA = json.loads(PUBLISHED.read_text("utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)


def data_of(text: str) -> Any:
    """Return a policy file as plain data."""
    node = read_nodes(text, "a.yaml", Problems())
    assert node is not None
    return plain_data(node)


def test_the_published_schema_is_up_to_date() -> None:
    """`penstock schema policy >docs/policy.schema.json` makes it so."""
    Draft202012Validator.check_schema(policy_schema())
    assert json.loads(PUBLISHED.read_text("utf-8")) == json.loads(json.dumps(policy_schema()))


@pytest.mark.parametrize("text", [*(path.read_text("utf-8") for path in EXAMPLES), *SNIPPETS])
def test_every_example_fits_the_schema(text: str) -> None:
    """Those in the repository, and those in the docs."""
    assert [error.message for error in VALIDATOR.iter_errors(data_of(text))] == []


BROKEN = [
    "penstock: 2\nsteps: []\n",
    "steps: []\n",
    "penstock: 1\n",
    "penstock: 1\nsteps: hygiene\n",
    "penstock: 1\nsteps: [pii-detectr]\n",
    "penstock: 1\nsteps: [{use: pii-detector, with: {strategie: block}}]\n",
    "penstock: 1\nsteps: [{use: pii-detector, with: {strategy: blokc}}]\n",
    "penstock: 1\nsteps: [{use: pii-detector, with: {threshold: high}}]\n",
    "penstock: 1\nsteps: [{use: regex-filter, with: {presets: 5}}]\n",
    "penstock: 1\nsteps: [{use: token-limiter}]\n",
    "penstock: 1\nsteps: [{use: hygiene, with: {personal: 5}}]\n",
    "penstock: 1\nsteps: [{use: hygiene, timeout: soon}]\n",
    "penstock: 1\nsteps: [{use: hygiene, mode: on}]\n",
    "penstock: 1\nsteps: [{use: hygiene, retries: -1}]\n",
    "penstock: 1\nsteps: [{use: hygiene, dag: []}]\n",
    "penstock: 1\nsteps: [{steps: [hygiene]}]\n",
    "penstock: 1\nsteps: [{branch: [{when: 5, steps: [hygiene]}]}]\n",
    "penstock: 1\nsteps: [{branch: [{when: a}]}]\n",
    "penstock: 1\nsteps: [{parallel: [hygiene], merge: newest}]\n",
    "penstock: 1\nsteps: []\nprofiles: {a: {b: {strategy: block}}}\n",
    "penstock: 1\nsteps: []\ntests: [{text: a}]\n",
    "penstock: 1\nsteps: []\ntests: [{text: a, value: b, expect: blocked}]\n",
    "penstock: 1\nsteps: []\ntests: [{text: a, expect: changed}]\n",
    "penstock: 1\nsteps: []\ntests: [{text: a, stage: now, expect: blocked}]\n",
    "penstock: 1\nsteps: []\nexclude: []\n",
]


@pytest.mark.parametrize("text", BROKEN)
def test_what_the_schema_refuses_is_refused_when_it_is_read(text: str) -> None:
    """Both find it, so that an editor shows what `penstock validate` would."""
    assert list(VALIDATOR.iter_errors(data_of(text)))
    with pytest.raises(PolicyError):
        parse_policy(text, profile="a" if "profiles:" in text else None, environment={})


def test_each_option_has_a_description_and_its_default() -> None:
    """From the docstrings and the constructors."""
    options = SCHEMA["$defs"]["with-pii-detector"]["properties"]
    assert options["strategy"]["default"] == "redact"
    assert {"redact", "block", "warn", "filter"} <= set(options["strategy"]["anyOf"][0]["enum"])
    assert options["threshold"]["description"]
    assert options["phase"]["anyOf"][0]["enum"] == ["input", "output", "all"]  # of the options that all guards have
    assert "on_detection" not in options  # a function
    described = [one for name in known_names() for one in _options(name).values() if one.get("description")]
    every = [one for name in known_names() for one in _options(name).values()]
    assert len(described) > 0.85 * len(every)  # the docstrings of presets describe some of theirs together


def _options(name: str) -> dict[str, Any]:
    return SCHEMA["$defs"].get(f"with-{name.replace(':', '-')}", {}).get("properties", {})


def test_each_name_has_its_branch() -> None:
    """The options of each are those of its constructor."""
    definitions = SCHEMA["$defs"]
    branches = {one["if"]["properties"]["use"]["const"] for one in definitions["use"]["allOf"]}
    built_in = {name for name in known_names() if ":" not in name or name.startswith("preset:")}
    assert branches == built_in
    for name in built_in:
        assert set(_options(name)) <= set(option_names(maker_of(name)) or ())


@pytest.mark.parametrize("name", [name for name in known_names() if ":" not in name])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given=st.data())
def test_the_schema_refuses_nothing_that_is_read(name: str, given: st.DataObject) -> None:
    """Of simple values: a text is an iterable, which some constructors take for a list of its letters."""
    names = sorted(_options(name))
    if not names:
        return
    options = given.draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=3))
    try:
        parse_policy(json.dumps({"penstock": 1, "steps": [{"use": name, "with": options}]}), file="a.json")
    except PolicyError:
        return
    errors = list(VALIDATOR.iter_errors({"penstock": 1, "steps": [{"use": name, "with": options}]}))
    if any(isinstance(value, (str, dict, list, float)) or value is None for value in options.values()):
        return  # what constructors take beyond their types: texts for lists, 1.0 for 1, anything for a flag
    assert errors == [], options
