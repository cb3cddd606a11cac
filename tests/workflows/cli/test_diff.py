"""`penstock diff`, and `penstock draw --trace`."""

import json
from pathlib import Path

import pytest

OTHER = """
from penstock import Workflow
import guards

guard = Workflow("guard").then(guards.Mail()).then(guards.Judge(), id="late", timeout=3)
"""


@pytest.fixture
def other(world: Path) -> str:
    """A second workflow."""
    (world / "other.py").write_text(OTHER)
    return "other.py:guard"


def test_the_same_workflow_has_no_differences(run) -> None:
    """The exit code is that of ``diff``."""
    ran = run("diff", "guards.py:guard", "guards.py:guard")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("no differences between")


def test_differences_are_shown_and_told_by_the_exit_code(run, other: str) -> None:
    """On stdout, as text."""
    ran = run("diff", "guards.py:guard", other)
    assert ran.code == 1
    assert ran.out.startswith("--- guard")
    assert "+ late" in ran.out


def test_a_diff_is_written_as_json_or_as_a_picture(run, world: Path, other: str) -> None:
    """By --format, or by the extension of the file."""
    data = json.loads(run("diff", "guards.py:guard", other, "--format", "json").out)
    assert data["same"] is False
    ran = run("diff", "guards.py:guard", other, "-o", "diff.svg")
    assert (ran.code, ran.out, ran.err) == (1, "", "wrote diff.svg\n")
    assert (world / "diff.svg").read_text("utf-8").startswith("<svg")
    assert run("diff", "guards.py:guard", other, "-o", "diff.md", "--format", "text").code == 1
    assert (world / "diff.md").read_text("utf-8").startswith("--- guard")


def test_other_files_are_refused(run, other: str) -> None:
    """The formats are named."""
    ran = run("diff", "guards.py:guard", other, "-o", "diff.png")
    assert (ran.code, ran.out) == (2, "")
    assert "cannot write a diff into diff.png: the formats are .txt .json .svg" in ran.err


def test_a_workflow_that_cannot_be_loaded_is_trouble(run) -> None:
    """As a file that is missing is to ``diff``."""
    assert run("diff", "guards.py:guard", "missing.py:guard").code == 2


def test_a_trace_is_laid_over_a_picture(run, world: Path) -> None:
    """From the JSON that was kept of it."""
    from penstock.workflows.loading import load_workflow

    trace = load_workflow("guards.py:guard").check_sync("write to a@b.c").trace
    (world / "trace.json").write_text(json.dumps(trace.to_json()))
    ran = run("draw", "guards.py:guard", "--trace", "trace.json", "-o", "run.svg")
    assert (ran.code, ran.err) == (0, "wrote run.svg\n")
    assert 'data-mark="edited"' in (world / "run.svg").read_text("utf-8")
    piped = run("draw", "guards.py:guard", "--trace", "-", "-f", "svg", stdin=json.dumps(trace.to_json()).encode())
    assert 'data-mark="edited"' in piped.out
    row = run("run", "guards.py:guard", "write to a@b.c", "--trace", "--format", "jsonl").out
    assert 'data-mark="edited"' in run("draw", "guards.py:guard", "--trace", "-", "-f", "svg", stdin=row.encode()).out
    ran = run("draw", "guards.py:guard", "--trace", "trace.json")
    assert ran.code == 2
    assert "draw('svg', trace=...)" in ran.err


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_what_is_no_trace_is_said(run, world: Path, text: str) -> None:
    """With the name of the file."""
    (world / "trace.json").write_text(text)
    ran = run("draw", "guards.py:guard", "--trace", "trace.json", "-f", "svg")
    assert ran.code == 2
    assert "trace.json is not the JSON of a trace" in ran.err
