"""Whether the policy files that the docs show are read, and pass their own tests, and the examples are the presets."""

import re
from pathlib import Path

import pytest

from penstock.workflows.policies import load_policy, parse_policy, read_policy, run_tests
from penstock.workflows.presets import PRESETS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```yaml\n(penstock: .*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = [
    pytest.param(block[1], id=f"{path.name}-{number}")
    for path in PAGES
    for number, block in enumerate(BLOCK.finditer(path.read_text("utf-8")))
]
EXAMPLES = [*sorted((ROOT / "examples" / "policies").rglob("*.yaml")), ROOT / "examples" / "gateway" / "guard.yaml"]
ENVIRONMENT = {
    "SYSTEM_PROMPT": "You are Bo, the assistant of Acme, and you never give a refund.",
    "STATE_URL": "valkey://valkey.example.org:6379/0",
}


def failures(path: Path) -> list[str]:
    """Return the tests of a file that fail, without a profile and with each one."""
    first = read_policy(path, environment=ENVIRONMENT)
    found: list[str] = []
    for profile in (None, *first.profiles):
        document = read_policy(path, profile=profile, environment=ENVIRONMENT)
        found += [str(one) for one in run_tests(document.workflow, document.tests, profile=profile) if one.problem]
    return found


@pytest.mark.parametrize("text", SNIPPETS)
def test_a_file_that_the_docs_show_is_read_and_passes_its_tests(text: str, tmp_path: Path) -> None:
    """A reader copies it as it stands."""
    path = tmp_path / "policy.yaml"
    path.write_text(text, "utf-8")
    assert failures(path) == []


def test_there_are_such_files() -> None:
    """On the page about them, and beside the processors."""
    assert len(SNIPPETS) > 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read_and_passes_its_tests(path: Path) -> None:
    """Those without tests are presets."""
    assert failures(path) == []
    assert bool(read_policy(path, environment=ENVIRONMENT).tests) == (path.parent.name != "presets")


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_shown_as_a_file(name: str) -> None:
    """Equal to the preset, and written as `to_policy` writes it."""
    path = ROOT / "examples" / "policies" / "presets" / f"{name}.yaml"
    assert load_policy(path) == PRESETS[name]()
    assert path.read_text("utf-8") == f"# The preset {name}, step by step.\n{PRESETS[name]().to_policy()}"


def test_the_errors_that_the_page_shows_are_those_that_are_told() -> None:
    """Line by line."""
    page = (ROOT / "docs" / "policies.md").read_text("utf-8")
    shown = re.findall(r"^    policy\.yaml:(.+)$", page, re.MULTILINE)
    text = (
        "penstock: 1\nsteps:\n  - use: pii-detectr\n  - {use: moderation, mode: shadow, mode: shadow}\n"
        '  - branch:\n      - when: fact.language == "en"\n        steps: [hygiene]\n'
    )
    from penstock.workflows.policies import PolicyError

    with pytest.raises(PolicyError) as caught:
        parse_policy(text.replace("- branch", "- language-detector\n  - branch"), environment={})
    told = [str(one).removeprefix("policy.yaml:") for one in caught.value.problems]
    assert [line.partition(": ")[2] for line in shown] == [line.partition(": ")[2] for line in told]
