"""`examples/guards.py`, run as the README says."""

import json
from pathlib import Path

import pytest

from penstock.workflows.cli import main

ROOT = Path(__file__).parents[2]


def test_the_example_runs_as_the_readme_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the root of the checkout, over the messages that are shipped; the words are the README's own."""
    command = "penstock run examples/guards.py:guard --input examples/data/messages.jsonl"
    assert command in (ROOT / "README.md").read_text("utf-8")
    monkeypatch.chdir(ROOT)

    assert main(command.split()[1:]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 270
    assert {"passed", "edited"} <= {row["status"] for row in rows}
