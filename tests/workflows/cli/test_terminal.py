"""What goes to stderr: errors that cannot control the terminal, and a summary."""

import json
from pathlib import Path

STEERING = "\x1b]0;owned\x07\x1b[31mred"


def test_names_and_arguments_cannot_control_the_terminal(run) -> None:
    """Wrong ones are repeated in errors."""
    for argv in (("draw", f"{STEERING}:x"), ("draw", "hygiene", "x", STEERING), ("run", "hygiene", "-f", STEERING)):
        ran = run(*argv)
        assert ran.code == 2
        assert "\x1b" not in ran.err


def test_rows_in_a_pipe_end_with_a_summary_on_stderr(run, lines) -> None:
    """One line, so that a log shows how it went."""
    ran = run("run", "guards.py:guard", "-", stdin=lines("fine", "ann@b.com", "bomb"))
    assert ran.err.startswith("penstock: 3 rows: 1 passed, 1 edited, 1 blocked in ")
    assert ran.err.count("\n") == 1
    assert len(ran.rows) == 3


def test_one_text_has_no_summary(run) -> None:
    """Its line of JSON says all."""
    ran = run("run", "guards.py:guard", "fine")
    assert ran.err == ""
    assert json.loads(ran.out)["status"] == "passed"


def test_a_stage_may_be_named_without_its_prefix(run, world: Path, lines) -> None:
    """As people say it."""
    ran = run("run", "guards.py:guard", "-", "--stage", "output_step", stdin=lines("ann@b.com"))
    assert ran.rows[0]["text"] == "[EMAIL]"
    assert run("draw", "guards.py:guard", "--stage", "input").code == 0
    assert run("validate", "guards.py:guard", "--stage", "input").code == 0
