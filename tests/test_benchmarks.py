"""Every benchmark compares like with like: its contestants give the same. Nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[1]
SCENARIOS = sorted(file.stem for file in (ROOT / "benchmarks" / "scenarios").glob("*.py"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the benchmarks as `make bench` does."""
    command = [sys.executable, "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_contestants_of_a_scenario_give_the_same(name: str) -> None:
    """Penstock, the hand-written way, and the peers that are installed."""
    done = run("--check", "--only", name)

    assert done.returncode == 0, done.stderr
    assert f"{name}: all contestants give the same" in done.stdout


def test_figures_come_as_a_table_and_as_json(tmp_path: Path) -> None:
    """Each figure stands beside its floor and its target; what is not built is said."""
    file = tmp_path / "figures.json"

    done = run("--quick", "--only", "branch", "--json", str(file))

    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text(encoding="utf-8"))
    for row in found["rows"]:
        assert row["figures"].keys() == {"by hand", "penstock"}
        assert row["ratio"] == row["figures"]["penstock"] / row["figures"]["by hand"]
        assert row["met"] == (row["ratio"] <= row["target"])
        assert row["name"].split()[0] in done.stdout


def test_contestants_that_give_different_results_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a benchmark could compare nothing with something."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from harness import Contest, Timed

    async def one(_times: int) -> int:
        return 1

    async def two(_times: int) -> int:
        return 2

    async def contests() -> list[Contest]:
        return [Contest("a contest", "one", two, one)]

    with pytest.raises(AssertionError, match="a contest: penstock gives 2, by hand it is 1"):
        Timed("unequal", contests).check()
