"""Whether both type checkers accept the programs of this folder and find its mistakes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = [str(HERE / name) for name in ("programs.py", "mistakes.py")]


def run(*command: str) -> None:
    """Run a checker from the root; what it prints is the failure."""
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command, *FILES], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_mypy_accepts_the_programs_and_finds_the_mistakes() -> None:
    """Strict, as pyproject.toml has it: an ignored line without a mistake is an error too."""
    run("mypy")


@pytest.mark.timeout(180)
def test_pyright_accepts_the_programs_and_finds_the_mistakes() -> None:
    """Strict, with needless ignores reported."""
    run("pyright", "--pythonpath", sys.executable)
