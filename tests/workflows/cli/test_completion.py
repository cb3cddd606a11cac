"""The script that completes commands in a shell."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("shtab")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_each_shell_gets_a_script_with_the_commands(run, shell) -> None:
    """Commands, options and their values."""
    ran = run("completion", shell)
    assert ran.code == 0
    for word in ("run", "draw", "validate", "memory", "--fail-on"):
        assert word in ran.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_values_and_files(run, tmp_path: Path) -> None:
    """As a person would press the key."""
    (tmp_path / "rows.jsonl").write_text("")
    (tmp_path / "script").write_text(run("completion", "bash").out)

    def completed(*words: str) -> list[str]:
        line = f"source ./script; COMP_WORDS=({' '.join(words)} ''); COMP_CWORD={len(words)}; "
        line += "_shtab_penstock; printf '%s\\n' \"${COMPREPLY[@]}\""
        return subprocess.run(
            [shutil.which("bash") or "", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.split()

    assert {"run", "draw", "completion"} <= {*completed("penstock")}
    assert {"table", "jsonl", "csv", "parquet"} == {*completed("penstock", "run", "hygiene", "--format")}
    assert "rows.jsonl" in completed("penstock", "run", "hygiene", "--input")


def test_without_the_library_the_extra_is_named(run, monkeypatch) -> None:
    """In one line, with what to install."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    ran = run("completion", "bash")
    assert (ran.code, ran.out) == (2, "")
    assert "pip install 'penstock[completion]'" in ran.err
