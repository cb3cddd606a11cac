"""Whether docs/differences.md names every rule by which the runtime differs, and no other."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ("rules.py", "rules_streams.py", "rules_agent.py")
RULES = [ROOT / "tests" / "conformance" / "runtime" / name for name in NAMES]
SECTION = re.compile(r"^## Runtime\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
RULE_LINES = 25


def rules() -> dict[str, int]:
    """Return the rules by name, with their lengths."""
    nodes = [node for path in RULES for node in ast.parse(path.read_text("utf-8")).body]
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return {node.name: (node.end_lineno or 0) - node.lineno + 1 for node in found}


def section() -> str:
    """Return the section on the runtime."""
    found = SECTION.search((ROOT / "docs" / "differences.md").read_text("utf-8"))
    assert found is not None
    return found.group(1)


def test_every_rule_is_told_with_its_reason() -> None:
    """The last column of the table holds the names of all rules, and of nothing else."""
    rows = [line.strip("|").split("|") for line in section().splitlines() if re.match(r"\| [A-Z]\d", line)]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row[-1])}
    assert named == set(rules())
    assert all(len(row) == 5 for row in rows)


def test_every_quirk_is_answered() -> None:
    """Q1 to Q42, those with a letter too (Q21b, the cost, is the benchmarks')."""
    told = set(re.findall(r"Q\d+b?", " ".join(re.findall(r"^\| ([^|]*)\|", section(), re.MULTILINE))))
    assert told >= {f"Q{number}" for number in range(1, 43)} | {"Q1b", "Q4b", "Q7b", "Q9b"}


def test_rules_are_short_and_see_nothing_of_ours() -> None:
    """At most 25 lines; nothing of penstock is imported."""
    assert max(rules().values()) <= RULE_LINES
    assert not [path for path in RULES if "penstock" in path.read_text("utf-8")]
