"""`penstock coverage`: the table, its formats, and the exit code of what is required."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CODE = """
from penstock import Agent, PIIDetector, Workflow
from penstock.testing import ScriptedModel

half = Workflow("half").then(PIIDetector(phase="input"))
agent = Agent(ScriptedModel(["x"]), processors=[PIIDetector()])
changing = Agent(ScriptedModel(["x"]), processors=lambda context: [PIIDetector()])
"""


@pytest.fixture
def file(world: Path) -> Path:
    """A file with a workflow and agents."""
    path = world / "covered.py"
    path.write_text(CODE, "utf-8")
    return path


def test_the_table_is_written_in_each_format(run, file, world: Path) -> None:
    """By --format, or by the extension of the file; gaps alone are no failure."""
    ran = run("coverage", "covered.py:half")
    assert ran.code == 0
    assert "coverage of 'half'" in ran.out
    assert "not read on every path" in ran.out
    assert json.loads(run("coverage", "covered.py:half", "-f", "json").out)["name"] == "half"
    assert run("coverage", "covered.py:half", "-o", "c.md").code == 0
    assert (world / "c.md").read_text("utf-8").startswith("# Coverage of half")
    assert run("coverage", "safety").code == 0


@pytest.mark.parametrize(
    ("workflow", "required", "code"),
    [
        ("covered.py:half", ["secrets:user_text"], 0),
        ("covered.py:half", ["secrets:user_text,tool_call"], 1),
        ("covered.py:half", ["secrets"], 1),
        ("covered.py:half", ["secrets:user_text", "injection:user_text"], 1),
        ("covered.py:half", ["pii-detector:tool_result"], 0),
        ("covered.py:agent", ["secrets", "personal"], 0),
        ("safety", ["secrets", "personal", "injection", "leaks"], 0),
        ("safety", ["moderation:user_text"], 1),
    ],
)
def test_what_is_required_decides_the_exit_code(run, file, workflow: str, required: list[str], code: int) -> None:
    """On every path, enforced; what is only reported does not count."""
    ran = run("coverage", workflow, *(word for one in required for word in ("--require", one)))
    assert ran.err == ("" if code else f"read on every path: {', '.join(required)}\n")
    assert ran.code == code
    assert ("not read on every path" in ran.out) is bool(code)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("covered.py:half", "--require", "secret"), "did you mean 'secrets'"),
        (("covered.py:half", "--require", "secrets:anwser"), "did you mean 'answer'"),
        (("covered.py:half", "--require", "secrets:"), "no requirement"),
        (("covered.py:half", "-o", "x.png"), "the formats are"),
        (("covered.py:changing",), "depends on the request"),
        (("covered.py:nothing",), "no 'nothing'"),
    ],
)
def test_mistakes_are_explained(run, file, argv: tuple[str, ...], told: str) -> None:
    """In one line, with exit code 2."""
    ran = run("coverage", *argv)
    assert ran.code == 2
    assert told in ran.err
