"""`penstock attack`: its report, its exit codes, its rows and the test that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CODE = """
from penstock import PIIDetector, Workflow

half = Workflow("half").then(PIIDetector(phase="input"))
whole = Workflow("whole").then(PIIDetector(detection_types=["email"]))
"""


@pytest.fixture
def file(world: Path) -> Path:
    """A file with workflows."""
    path = world / "attacked.py"
    path.write_text(CODE, "utf-8")
    return path


def test_a_leak_is_told_and_written_as_a_test(run, file, world: Path) -> None:
    """With exit code 1."""
    ran = run("attack", "attacked.py:half", "--most", "25", "--write-test", "test_leaks.py")
    assert ran.code == 1
    assert "plain: answer" in ran.out
    assert "the client read 'ada.lovelace@example.com'" in ran.out
    assert ran.err.endswith("wrote test_leaks.py\n")
    written = (world / "test_leaks.py").read_text("utf-8")
    assert "load_workflow_or_agent('attacked.py:half')" in written
    compile(written, "test_leaks.py", "exec")
    run("attack", "attacked.py:half", "--most", "25", "--write-test", "test_unit.py", "--test-format", "unittest")
    written = (world / "test_unit.py").read_text("utf-8")
    assert "pytest" not in written
    compile(written, "test_unit.py", "exec")


def test_where_nothing_leaks_the_exit_code_is_0(run, file, world: Path) -> None:
    """And no test is written."""
    ran = run("attack", "attacked.py:whole", "--most", "25", "--write-test", "test_leaks.py")
    assert (ran.code, ran.out.endswith("nothing leaked\n")) == (0, True)
    assert not (world / "test_leaks.py").exists()


def test_rows_of_ones_own_must_be_found(run, file, world: Path) -> None:
    """A row that no guard finds is told."""
    (world / "rows.txt").write_text("write to bob@example.org\nthe project bluebird\n", "utf-8")
    ran = run("attack", "attacked.py:whole", "--rows", "rows.txt", "--most", "5", "-f", "json")
    told = json.loads(ran.out)
    assert ran.code == 1
    assert [row["text"] for row in told["missed"]] == ["the project bluebird"]
    assert told["leaks"] == []


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("attacked.py:half", "--only", "cust"), "no attack 'cust'"),
        (("attacked.py:half", "--rows", "none.txt"), "none.txt"),
        (("attacked.py:half", "--rows", "empty.txt"), "there are no rows"),
        (("attacked.py:half", "--seconds", "0"), "seconds"),
    ],
)
def test_mistakes_are_explained(run, file, world: Path, argv: tuple[str, ...], told: str) -> None:
    """With exit code 2."""
    (world / "empty.txt").write_text("", "utf-8")
    ran = run("attack", *argv)
    assert ran.code == 2
    assert told in ran.err
