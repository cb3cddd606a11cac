"""The recorded scenarios against our agent, key by key, over three models; and that the comparison itself can fail."""

from __future__ import annotations

import pytest

from tests.conformance.runtime.carriers import CARRIERS, Carrier
from tests.conformance.runtime.driver import World
from tests.conformance.runtime.frame import ORACLE, SCENARIOS, Better, Same, judge, treatments
from tests.conformance.runtime.sabotage import BlockAll, DropAll, ErrAll, PassAll
from tests.conformance.runtime.scenarios import SCENARIO_MODULES


@pytest.mark.parametrize(
    "carrier", [next(iter(CARRIERS)), *(pytest.param(one, marks=pytest.mark.rest) for one in [*CARRIERS][1:])]
)
@pytest.mark.parametrize("file", sorted(SCENARIOS))
async def test_the_agent_does_what_was_recorded_or_better(file: str, carrier: Carrier) -> None:
    """Every key of what was observed is the same, or better by its rule; over HTTP and in pydantic-ai too."""
    findings = await judge(SCENARIOS[file], World(carrier))
    wrong = [
        f"{one.path} [{one.rule or 'same'}]\n  expected {one.expected}\n  got      {one.ours}"
        for one in findings
        if not one.passed
    ]
    assert not wrong, "\n".join(wrong)


def test_every_recorded_file_is_played() -> None:
    """No file lies here that nothing looks at."""
    assert {path.name.split("-")[0] for path in ORACLE.glob("*.json")} == set(SCENARIOS)
    assert SCENARIO_MODULES


@pytest.mark.parametrize("saboteur", [PassAll, BlockAll, DropAll, ErrAll])
@pytest.mark.parametrize("file", sorted(SCENARIOS))
@pytest.mark.rest
async def test_sabotage_turns_every_scenario_red(file: str, saboteur: type[World]) -> None:
    """An engine that passes all, blocks all, drops all or breaks always is found out in every file."""
    findings = await judge(SCENARIOS[file], saboteur())
    assert [one for one in findings if not one.passed]


@pytest.mark.parametrize("file", sorted(SCENARIOS))
def test_echoing_the_reference_is_no_better(file: str) -> None:
    """A rule expects something else than what the reference did, wherever it counts."""
    one = SCENARIOS[file]
    recorded = one.recorded()
    for path, how, theirs in treatments(recorded["observed"], one.keys):
        if isinstance(how, Better):
            assert how.rule(recorded["given"], path, theirs) != theirs, (how.rule.__name__, path)


@pytest.mark.parametrize("file", sorted(SCENARIOS))
def test_every_scenario_counts_something(file: str) -> None:
    """No file is only neutral, or only put off."""
    one = SCENARIOS[file]
    treated = treatments(one.recorded()["observed"], one.keys)
    assert any(isinstance(how, (Same, Better)) for _, how, _ in treated)
