"""The recorded vectors against our processors, row by row; that the comparison can fail; and that rules are rules."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.builtin.catalogue import broken, families
from tests.conformance.builtin.frame import ORACLE, Family, Given, Row, Rule, judge, judge_rows, load
from tests.conformance.builtin.regex_invented import neighbours
from tests.conformance.runner import HERE, SABOTEURS, Report, run_file
from tests.conformance.runtime.frame import SCENARIOS
from tests.conformance.runtime.scenarios import SCENARIO_MODULES

FILES = sorted(ORACLE.glob("*.json"))
DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"
RULE_LINES = 25
FAMILIES = dict(families().values())
RULES = [(family, rule) for family in FAMILIES.values() for rule in family.rules]
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
each_family = pytest.mark.parametrize("name", FAMILIES)
each_rule = pytest.mark.parametrize(("family", "rule"), RULES, ids=[rule.__name__ for _, rule in RULES])


@cache
def report(path: Path) -> Report:
    """Return what came of a file."""
    return run_file(path)


@each_file
def test_processors_do_what_was_recorded_or_better(path: Path) -> None:
    """Every row is the same, or better by its rule; none is missing."""
    wrong = [
        f"{one.kind} {one.name} [{one.rule}] {one.detail}\n  expected {one.expected}\n  got      {one.ours}"
        for one in report(path).findings
        if not one.passed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("saboteur", SABOTEURS)
@each_file
@pytest.mark.rest
def test_wrong_processors_are_found_out_in_every_file(path: Path, saboteur: str) -> None:
    """Processors that pass, block or drop all differ somewhere; so does repeating what is expected."""
    assert run_file(path, saboteur).red


def test_every_family_has_its_vectors_here() -> None:
    """What is implemented is tested where the design's folder is absent."""
    assert not broken()
    assert set(families()) == {path.stem for path in FILES}


@each_family
@pytest.mark.rest
def test_rules_hold_for_other_rows_too(name: str) -> None:
    """Rows as they may have been recorded elsewhere are the same, or better by their rules."""
    family = FAMILIES[name]
    found = [judge(family, row) for row in family.invented()]
    wrong = [f"{one.kind} {one.name} {one.rule}\n  {one.expected}\n  {one.ours}" for one in found if not one.passed]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("row", neighbours(), ids=lambda row: row.name)
def test_parts_that_are_complete_are_judged_by_themselves(row: Row) -> None:
    """A match does not grow into the next part, and a report names the part that it is about."""
    found = judge(FAMILIES["tests.conformance.builtin.regex_filter"], row)
    assert found.passed, (found.expected, found.ours)


@each_rule
@pytest.mark.rest
def test_a_rule_is_needed(family: Family, rule: Rule) -> None:
    """Without it, at least one row would differ."""
    less = replace(family, rules=tuple(one for one in family.rules if one is not rule))
    paths = [path for path in FILES if path.stem in family.files]
    known = [*(row for path in paths for row in load(path, family)), *family.invented()]
    rows = [row for row in known if (found := family.covering(row)) and rule.__name__ in found[0].split(" + ")]
    assert any(judge(family, row).passed and judge(less, row).kind == "differs" for row in rows)


@each_rule
def test_a_rule_is_told_with_its_reason(family: Family, rule: Rule) -> None:
    """Its name stands in docs/differences.md, and it says in a sentence what is right."""
    assert f"`{rule.__name__}`" in DIFFERENCES.read_text("utf-8")
    assert inspect.getdoc(rule)


@each_rule
def test_a_rule_is_short_and_knows_nothing_of_ours(family: Family, rule: Rule) -> None:
    """At most 25 lines, its helpers each too; nothing that it reaches comes from penstock, and nothing is imported."""
    for function in reached(rule):
        lines, _ = inspect.getsourcelines(function)
        assert len(lines) <= RULE_LINES
        tree = ast.parse(textwrap.dedent("".join(lines)))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def reached(function: Any, seen: set[Any] | None = None) -> set[Any]:
    """Return a function and those of the tests that it calls; fail if it gets hold of anything of penstock's."""
    seen = set() if seen is None else seen
    seen.add(function)
    for name in names(function.__code__):
        value = function.__globals__.get(name)
        home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        assert not str(home).startswith("penstock"), f"{function.__name__} uses {name}"
        if inspect.isfunction(value) and str(home).startswith("tests.") and value not in seen:
            reached(value, seen)
    return seen


def names(code: CodeType) -> set[str]:
    """Return the names that code looks up, its inner functions' too."""
    inner = [names(one) for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*inner)


def test_every_neutral_field_says_why() -> None:
    """Not a field is left out without a reason, nor for a method that nobody projects."""
    for _, family in families().values():
        for (method, _field), why in family.neutral.items():
            assert method in family.projections
            assert why


def test_an_unknown_method_or_file_is_missing() -> None:
    """What nothing serves is never counted as passed."""
    _, family = families()["unicode_normalizer"]
    row = Row("f", "r", Given({}, {"method": "process_thoughts"}), {"text": ""})
    assert [one.kind for one in judge_rows(family, [row])] == ["missing"]
    assert [one.kind for one in judge_rows(None, [row])] == ["missing"]


def test_a_crash_is_missing_and_never_better() -> None:
    """An implementation that breaks has not differed on purpose."""
    _, family = families()["unicode_normalizer"]
    row = Row("f", "r", Given({"trim": "yes"}, {"method": "process_input", "text": "a"}), {"text": "a"})
    assert [one.kind for one in judge_rows(family, [row])] == ["missing"]


def test_the_command_counts_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts per file and rule, and of the rows made by hand; exit status 0 where nothing differs."""
    for name in ("classifier", "memory_legacy", "skills"):
        (tmp_path / f"{name}.json").write_bytes((ORACLE / f"{name}.json").read_bytes())
    assert main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"classifier +6 ", shown)
    assert "in all" in shown
    assert re.search(r"made by hand: \d+ same, \d+ better\n$", shown)


def test_the_command_knows_every_scenario() -> None:
    """Those that need the agent, too; and who repeats what is expected is found out in them."""
    files = sorted((HERE / "runtime").glob("*.json"))
    assert {path.stem.split("-")[0] for path in files} == set(SCENARIOS)
    assert {one.play.__module__ for one in SCENARIOS.values()} == {module.__name__ for module in SCENARIO_MODULES}
    assert run_file(next(path for path in files if path.stem.startswith("G04")), "echo").red


def test_the_command_fails_on_what_differs_or_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing fails only if that is asked for."""
    given = {"options": {}, "input": {"method": "process_input", "text": "a"}}
    row = json.dumps([{"name": "r", "engine": "e", **given, "expected": {"text": "b"}}])
    (tmp_path / "unheard_of.json").write_text(row, "utf-8")
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path), "--strict-missing"]) == 1
    (tmp_path / "unicode_normalizer.json").write_text(row, "utf-8")
    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "unheard_of (1)" in shown
    assert "differs: unicode_normalizer/r" in shown
