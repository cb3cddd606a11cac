"""What is imported before there is a first line of output, or a first verdict: imports are most of a short command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"anyio", "asyncio", "email", "networkx", "numpy", "pydantic", "rich", "sqlite3", "ssl", "tiktoken"}
"""Libraries that take long to import; whoever needs one imports it where it is used."""

VERSION, LISTING = (
    f"import os; from penstock.workflows.cli import main; import sys; sys.stdout = open(os.devnull, 'w'); main({argv})"
    for argv in (["--version"], ["list"])
)
VERDICT = "from penstock.workflows.presets import safety; safety().check_sync('Write to ann@example.com')"


def loaded(code: str) -> set[str]:
    """Return the modules that a new process has loaded after some code."""
    shown = f"{code}\nimport json, sys\nsys.__stdout__.write(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("code", "needed"),
    [(VERSION, set[str]()), (LISTING, {"anyio", "email"}), (VERDICT, set[str]())],
    ids=["version", "list", "verdict"],
)
def test_no_heavy_library_is_imported_that_is_not_needed(code: str, needed: set[str]) -> None:
    """A version, a list of names and a verdict of embedded guards need no models, tables, loops and databases."""
    assert loaded(code) & HEAVY <= needed


def test_a_version_needs_only_the_command_line() -> None:
    """No engine, no processor and no format: what stands in the arguments of other commands is not loaded."""
    ours = {name for name in loaded(VERSION) if name.startswith("penstock.")}
    allowed = ("penstock.workflows.cli", "penstock.engine.values", "penstock.lazy")
    packages = {"penstock.workflows", "penstock.engine"}
    assert {name for name in ours - packages if not name.startswith(allowed)} == set()


def test_a_verdict_needs_no_other_detector_and_no_stream() -> None:
    """What no guard of the preset asks for is not loaded."""
    others = ("penstock.detection.language", "penstock.engine.streams", "penstock.formats", "penstock.pictures")
    assert {name for name in loaded(VERDICT) if name.startswith(others)} == set()


def test_a_list_of_names_loads_no_rules() -> None:
    """The presets are described by their docstrings; only JSON, and one name in full, say their stages."""
    assert {name for name in loaded(LISTING) if name.startswith("penstock.detection.personal_data.pii_rules")} == set()


@pytest.mark.parametrize("argv", [["list"], ["run", "hygiene", "x"], ["nothing"], ["--help"], ["memory", "list"]])
def test_a_parser_of_one_command_reads_it_as_the_parser_of_all_does(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same arguments, or the same message."""
    from penstock.workflows.cli.arguments.parser import command_parser

    answers = list[object]()
    for first in (argv[0], ""):
        try:
            answers.append(vars(command_parser("1", first).parse_args(argv)))
        except SystemExit as end:
            answers.append((end.code, *capsys.readouterr()))
    assert answers[0] == answers[1]
