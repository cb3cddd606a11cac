"""`attack`: it finds a case where a workflow has a hole, and none where there is none; and its report, and its test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Agent, PIIDetector, Workflow
from penstock.engine.values.errors import UsageError
from penstock.testing import ScriptedModel
from penstock.testing.attack import ATTACKS, ROWS, Case, Row, as_test, attack, find_leak, parse_rows
from penstock.testing.attack.attacking import MOST_LEAKS
from penstock.workflows.coverage import KINDS
from tests.workflows.coverage.holes import CODE, HOLES, ROWS as CODENAMES, WHOLE, ByChunk, Codenames, then

if TYPE_CHECKING:
    from pathlib import Path

FAST = ("an arm without a guard", "an arm for short texts", "shadow", "single chunks", "the wrong list", "no sources")
FAST_WHOLE = ("secrets", "in both arms")
QUICK, MANY, FULL = 100, 60, 250
"""How many cases: of some workflows in `make test`, of those without a hole, and of those whose hole is to be found."""
DISGUISED = tuple(name for name in ATTACKS if name not in ("disguises", "encodings"))


def _marked(names: Any, fast: tuple[str, ...]) -> list[Any]:
    return [name if name in fast else pytest.param(name, marks=pytest.mark.rest) for name in names]


def tried(name: str, workflow: Any, most: int) -> Any:
    """Attack; a guard of a user's own does not read through disguises."""
    own = "own" in name or name in ("single chunks", "one stage alone")
    only = DISGUISED if own else ()
    return attack(workflow, CODENAMES if own else None, seconds=None, most=most, only=only)


@pytest.mark.rest
@pytest.mark.parametrize("name", _marked(HOLES, FAST))
def test_a_hole_is_found(name: str) -> None:
    """In the channel that the table names, too."""
    make, _kind, channel = HOLES[name]
    report = tried(name, make(), QUICK + 30 if name in FAST else FULL)
    assert report.found
    assert channel in {leak.case.channel for _, leak in report.leaks}, str(report)


@pytest.mark.rest
@pytest.mark.parametrize("name", _marked(WHOLE, FAST_WHOLE))
def test_where_there_is_no_hole_nothing_leaks(name: str) -> None:
    """Presets and variants."""
    report = tried(name, WHOLE[name](), QUICK if name in FAST_WHOLE else MANY)
    assert not report.found, str(report)
    assert sum(report.tried.values()) or not report.rows


@pytest.mark.rest
def test_each_attack_is_made() -> None:
    """Also within few cases."""
    both = Workflow("w").parallel(Codenames(), PIIDetector(detection_types=["email"]))
    report = attack(both, CODENAMES, seconds=None, most=100)
    assert all(report.tried[name] for name in ATTACKS if name != "encodings"), report.tried


def test_channels_that_nobody_reads_do_not_end_an_attack() -> None:
    """A guard of inputs leaks in each channel of answers; the inputs are attacked all the same."""
    report = attack(then(PIIDetector(phase="input")), seconds=None, most=130)
    assert len(report.leaks) >= MOST_LEAKS
    assert {name for name, _ in report.leaks} == {"plain"}
    assert all(report.tried[name] for name in ("lengths", "cuts", "disguises", "wire formats")), report.tried
    assert "ended after" not in str(report)
    leak = ("cuts", report.leaks[0][1])
    assert "ended after 20 such leaks" in str(replace(report, leaks=[leak] * MOST_LEAKS))


@pytest.mark.rest
def test_the_same_seed_tries_the_same_cases() -> None:
    """And finds the same."""
    one, other = (attack(then(ByChunk()), CODENAMES, seconds=None, most=80, seed=3) for _ in range(2))
    assert one.leaks == other.leaks
    assert one.tried == other.tried


def test_a_leak_is_told_in_its_smallest_case() -> None:
    """Two pieces, no more text than the secret where that is enough."""

    class Whole(ByChunk):
        reads = ("answer", "answer_live", "reasoning", "reasoning_live")

    report = attack(then(Whole()), CODENAMES, seconds=None, most=200, only=["cuts"])
    (leak,) = [leak for _, leak in report.leaks if leak.case.channel == "answer_live"]
    assert len(leak.case.pieces) == 2
    assert CODE in leak.case.text
    assert find_leak(then(Whole()), leak.case) == leak
    assert find_leak(then(Codenames()), leak.case) is None


def test_a_row_that_no_guard_finds_is_told() -> None:
    """Somebody gave it, so it must be found."""
    report = attack(then(PIIDetector()), ["nothing that is personal", *CODENAMES], seconds=None, most=10)
    assert [row.text for row in report.missed] == ["nothing that is personal", CODENAMES[0].text]
    assert report.found
    assert "not found by any guard" in str(report)


def test_a_workflow_without_guards_has_nothing_to_attack() -> None:
    """It says so."""
    report = attack(Workflow("w"), seconds=None, most=10)
    assert not report.found
    assert "no guard" in str(report)


@pytest.mark.rest
def test_the_tools_and_the_memory_of_an_agent_are_not_used() -> None:
    """An attack must not send mail."""

    def send_mail(q: str) -> str:
        """Send it."""
        raise AssertionError(q)

    agent = Agent(ScriptedModel([]), processors=[PIIDetector()], tools=[send_mail])
    assert not attack(agent, seconds=None, most=30).found


def test_an_agent_that_lets_answers_go_leaks_what_is_judged_later() -> None:
    """Its option ``release`` counts."""
    live = Agent(ScriptedModel([]), processors=[PIIDetector(phase="input")], release="live")
    report = attack(live, seconds=None, most=20)
    assert "answer_live" in {leak.case.channel for _, leak in report.leaks}


def test_there_is_a_limit() -> None:
    """And mistakes are explained."""
    with pytest.raises(UsageError, match="needs a limit"):
        attack(Workflow("w"), seconds=None)
    with pytest.raises(UsageError, match="no attack 'cust'"):
        attack(Workflow("w"), only=["cust"])
    with pytest.raises(UsageError, match="not str"):
        attack("w", seconds=1)  # type: ignore[arg-type]


def test_time_is_a_limit() -> None:
    """It ends behind the case that runs."""
    report = attack(then(PIIDetector()), seconds=0.01)
    assert sum(report.tried.values()) == 1


def test_rows_are_read() -> None:
    """Texts and objects; mistakes are told with their line."""
    assert parse_rows(["a b", "", '{"text": "c d", "secret": "d", "kind": "x"}']) == [Row("a b"), Row("c d", "d", "x")]
    for odd in ("{", '{"text": ""}', '{"text": "a", "secret": "b"}', '{"text": "a", "other": 1}', '{"text": 1}'):
        with pytest.raises(UsageError, match="row 2"):
            parse_rows(["fine", odd])
    with pytest.raises(UsageError, match="no rows"):
        parse_rows(["", "  "])


def test_there_is_a_row_of_each_kind_that_has_one_form() -> None:
    """Rules of one's own, languages and calls have none."""
    assert {row.kind for row in ROWS} == set(KINDS) - {"patterns", "language", "calls"}
    assert all(row.hidden in row.text for row in ROWS)


def test_a_case_says_what_is_unusual() -> None:
    """As the name of a test."""
    assert str(Case("answer", ("x",), ("x",))) == "answer"
    odd = Case("answer", ("x", "y"), ("x",), seam="blocks", fault=("a", "raises"), order=3, stalls=True)
    assert str(odd) == "answer, 2 blocks, a raises, parallel steps in order 3, stalls"


FILE = """
from penstock import PIIDetector, Workflow
guard = Workflow("guard").then(PIIDetector(phase="input"))
repaired = Workflow("guard").then(PIIDetector())
"""


@pytest.mark.rest
def test_the_written_test_fails_until_the_hole_is_closed(tmp_path: Path) -> None:
    """It runs under pytest or unittest as it is."""
    (tmp_path / "guards.py").write_text(FILE, "utf-8")
    report = attack(then(PIIDetector(phase="input")), seconds=None, most=60)
    for name, code in (("guard", 1), ("repaired", 0)):
        (tmp_path / "test_leaks.py").write_text(as_test(report, f"guards.py:{name}"), "utf-8")
        ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "test_leaks.py"], cwd=tmp_path, check=False)
        assert ran.returncode == code
        (tmp_path / "test_leaks.py").write_text(as_test(report, f"guards.py:{name}", "unittest"), "utf-8")
        assert subprocess.run([sys.executable, "test_leaks.py"], cwd=tmp_path, check=False).returncode == code


@pytest.mark.rest
def test_the_json_form_is_as_documented() -> None:
    """Its keys are a promise."""
    told = json.loads(json.dumps(attack(then(PIIDetector(phase="input")), seconds=None, most=60).to_json()))
    assert list(told) == ["name", "seed", "seconds", "tried", "rows", "missed", "leaks"]
    assert {"attack", "reader", "read", "case"} == set(told["leaks"][0])
