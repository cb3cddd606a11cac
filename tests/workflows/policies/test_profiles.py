"""Whether profiles change what they name, in the file, in its groups, and in the files that it uses."""

from pathlib import Path

import pytest

from penstock import PIIDetector, UnicodeNormalizer, Workflow
from penstock.processors.text import RegexFilterProcessor
from penstock.workflows.policies import PolicyError, load_policy, parse_policy
from tests.workflows.policies.reading import START

FILE = """\
penstock: 1
steps:
  - unicode-normalizer
  - {use: regex-filter, id: keys, with: {presets: [secrets], strategy: warn}}
  - id: group
    steps:
      - parallel: [{use: pii-detector, with: {strategy: warn, threshold: 0.5}, timeout: 1s}]
profiles:
  dev:
    keys: {skip: true}
    pii-detector: {mode: shadow}
  prod:
    keys: {with: {strategy: block}, timeout: 2s}
    pii-detector: {with: {strategy: block}}
    unicode-normalizer: {skip: false, on_error: block}
  same: {}
"""
KEYS = RegexFilterProcessor(id="keys", presets=["secrets"], strategy="warn")


def expected(**changed: object) -> Workflow:
    """Return the workflow of the file without a profile."""
    detector = PIIDetector(strategy="warn", threshold=0.5)
    start = Workflow("policy").then(UnicodeNormalizer()).then(KEYS)
    return start.then(Workflow("group").parallel(detector, timeout=1))


def test_without_a_profile_a_file_is_as_it_stands() -> None:
    """Also with an empty one."""
    assert parse_policy(FILE, environment={}) == expected()
    assert parse_policy(FILE, profile="same") == expected()


def test_a_profile_changes_options_and_policies_and_leaves_steps_out() -> None:
    """Each option replaces that of the step; others stay."""
    prod = parse_policy(FILE, profile="prod")
    blocks = RegexFilterProcessor(id="keys", presets=["secrets"], strategy="block")
    detector = PIIDetector(strategy="block", threshold=0.5)
    assert prod == (
        Workflow("policy")
        .then(UnicodeNormalizer(), on_error="block")
        .then(blocks, timeout=2)
        .then(Workflow("group").parallel(detector, timeout=1))
    )
    dev = parse_policy(FILE, profile="dev")
    shadow = PIIDetector(strategy="warn", threshold=0.5)
    assert dev == (
        Workflow("policy").then(UnicodeNormalizer()).then(Workflow("group").parallel(shadow, timeout=1, mode="shadow"))
    )


def test_the_environment_may_name_the_profile() -> None:
    """A file without profiles ignores it; an argument counts more."""
    assert parse_policy(FILE, environment={"PENSTOCK_PROFILE": "prod"}) == parse_policy(FILE, profile="prod")
    assert parse_policy(FILE, environment={"PENSTOCK_PROFILE": ""}) == expected()
    assert parse_policy(FILE, profile="same", environment={"PENSTOCK_PROFILE": "prod"}) == expected()
    plain = FILE.partition("profiles:")[0]
    assert parse_policy(plain, environment={"PENSTOCK_PROFILE": "prod"}) == expected()


FAULTS = {
    "staging": "there is no profile staging; use one of dev, prod, same",
    "base": "there is no profile base; use one of dev, prod, same",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_profile_that_does_not_exist_is_an_error(name: str) -> None:
    """Also one that the environment names, since a policy that is not the one meant protects nobody."""
    for given in ({"profile": name, "environment": {}}, {"environment": {"PENSTOCK_PROFILE": name}}):
        with pytest.raises(PolicyError) as caught:
            parse_policy(FILE, **given)
        assert [problem.message for problem in caught.value.problems] == [FAULTS[name]]


def test_a_profile_is_checked_where_it_is_used() -> None:
    """Ids of steps, keys, and what they are set to."""
    text = FILE + "  bad:\n    key: {with: {}}\n    keys: {strategy: block, timeout: soon}\n    pii-detector: block\n"
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, profile="bad")
    assert [str(one).removeprefix("policy.yaml:") for one in caught.value.problems] == [
        "18:5: profile bad has no key key; did you mean keys?",
        (
            "19:12: what profile bad changes of keys has no key strategy; use one of mode, offload, on_error, overlap, "
            "retries, retry_delay, skip, timeout, with"
        ),
        "19:38: timeout must be a time above 0, such as 2s, 500ms or 1.5m",
        "20:19: what profile bad changes of pii-detector must be a mapping of names to values",
    ]


def test_no_profile_may_be_called_base() -> None:
    """Tests name the file without a profile so."""
    with pytest.raises(PolicyError, match="no profile may have the name base"):
        parse_policy("penstock: 1\nsteps: [hygiene]\nprofiles: {base: {}}\n")


def test_a_profile_goes_into_the_files_that_are_used_and_included(tmp_path: Path) -> None:
    """Included steps belong to the file; a file that is used has profiles of its own."""
    (tmp_path / "keys.yaml").write_text(FILE.replace("unicode-normalizer: ", "# "))
    (tmp_path / "main.yaml").write_text(
        "penstock: 1\ninclude: [shared.yaml]\nsteps: [{use: ./keys.yaml}]\n"
        "profiles: {dev: {unicode-normalizer: {skip: true}}, other: {}}\n"
    )
    (tmp_path / "shared.yaml").write_text("penstock: 1\nsteps: [unicode-normalizer]\n")
    used = load_policy(tmp_path / "keys.yaml", profile="dev")
    assert load_policy(tmp_path / "main.yaml", profile="dev") == Workflow("main").then(used)
    plain = load_policy(tmp_path / "keys.yaml", environment={})
    assert load_policy(tmp_path / "main.yaml", profile="other") == Workflow("main").then(UnicodeNormalizer()).then(
        plain
    )
    with pytest.raises(PolicyError, match="there is no profile prod; use one of dev, other"):
        load_policy(tmp_path / "main.yaml", profile="prod")


@pytest.mark.parametrize("written", ["on", '"yes"', "no", "[true]", "1"])
def test_skip_is_true_or_false(written: str) -> None:
    """YAML 1.2 reads ``on`` and ``yes`` as texts: a step that somebody meant to leave out, or to keep, is told."""
    text = f"{START}  - {{use: unicode-normalizer, id: a}}\n  - hygiene\nprofiles:\n  dev: {{a: {{skip: {written}}}}}\n"
    with pytest.raises(PolicyError, match="skip must be true or false"):
        parse_policy(text, profile="dev", environment={})
