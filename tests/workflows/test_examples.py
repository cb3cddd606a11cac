"""`examples/`: each runs and says what it promises; `guards.py` as the README says, `demo.py` in a file of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.workflows.cli import main

ROOT = Path(__file__).parents[2]


@pytest.mark.rest
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


EXAMPLES = {
    "private_chat.py": [
        "the model reads:  Write to [EMAIL_1] and [EMAIL_2] that **** **** **** 1111 is charged.",
        "the client reads: I have written to ann@example.com and bob@example.com. No card is needed.",
    ],
    "by_language.py": [
        "de: ['Antworte auf Deutsch und duze niemanden.']",
        "fr: ['Réponds en français et vouvoie.']",
        "en: []",
        "und: []",
    ],
    "judged_moderation.py": [
        "'Thank you for the quick answer.': passed",
        "'You are too dim to fill a form.': blocked",
        "    {'harassment': 0.93} - the text was flagged: harassment (insults a colleague)",
        "'What is the capital of Peru?': blocked",
        "    unreadable - moderation failed, so what it checks is blocked",
        "The judge gets its task in 2 messages, with the text between fences.",
    ],
}


@pytest.mark.rest
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_prints_what_it_is_about(name: str, tmp_path: Path) -> None:
    """In a process of its own, from any folder, as one would run it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, ROOT / "examples" / name]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().splitlines() == EXAMPLES[name]


def test_every_example_is_run_by_a_test() -> None:
    """None is left to rot."""
    files = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert files == {*EXAMPLES, "guards.py", "demo.py"}
