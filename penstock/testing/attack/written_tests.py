"""The cases that leaked, as a test for pytest or for unittest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from penstock.testing.attack.attacking import AttackReport

_PYTEST = '''"""Cases that `penstock attack` found in {reference}, seed {seed}. They fail until the guards read them."""

import pytest

from penstock.testing.attack import Case, find_leak
from penstock.workflows.loading import load_workflow_or_agent

CASES = [
{cases}
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_gets_past_the_guards(case: Case) -> None:
    """Neither the model, nor the client, nor a tool reads what must be hidden."""
    assert find_leak(load_workflow_or_agent({reference!r}), case) is None
'''


_UNITTEST = '''"""Cases that `penstock attack` found in {reference}, seed {seed}. They fail until guards read them."""

import unittest

from penstock.testing.attack import Case, find_leak
from penstock.workflows.loading import load_workflow_or_agent

CASES = [
{cases}
]


class Leaks(unittest.TestCase):
    """Neither the model, nor the client, nor a tool reads what must be hidden."""

    def test_nothing_gets_past_the_guards(self) -> None:
        for case in CASES:
            with self.subTest(str(case)):
                self.assertIsNone(find_leak(load_workflow_or_agent({reference!r}), case))


if __name__ == "__main__":
    unittest.main()
'''


def as_test(report: AttackReport, reference: str, runner: Literal["pytest", "unittest"] = "pytest") -> str:
    """Return the leaks of a report as the code of a test.

    Args:
        report: the report.
        reference: the name of the workflow or the agent, as the command line takes it.
        runner: what runs the test: ``pytest`` or ``unittest``, which needs no further package.
    """
    cases = "\n".join(f"    {leak.case!r}," for _, leak in report.leaks)
    return (_PYTEST if runner == "pytest" else _UNITTEST).format(reference=reference, seed=report.seed, cases=cases)
