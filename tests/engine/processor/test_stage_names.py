"""Every place that spells the name of a stage, compared with the stage table."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import get_args

import pytest

import penstock.engine
from penstock import Context, Run, TextGuard
from penstock.engine import SyncRun
from penstock.engine.processor.stages import STAGES, StageName

ROOT = Path(__file__).parents[3]


def test_every_stage_has_its_name_for_type_checkers() -> None:
    """In the order of a run."""
    assert get_args(StageName) == tuple(STAGES)


def test_every_stage_has_a_public_context_of_its_own() -> None:
    """Which knows the stage's name; no other class is a context."""
    contexts = [stage.context for stage in STAGES.values()]
    assert [context.stage for context in contexts] == list(STAGES)
    assert set(Context.__subclasses__()) >= set(contexts)
    for house in (penstock, penstock.engine):
        assert all(getattr(house, context.__name__) is context for context in contexts)


def test_every_stage_has_a_method_of_a_run() -> None:
    """In sync form it takes the same arguments; ``last``, ``held`` and ``sync`` of a stream are for hosts."""
    for name in STAGES:
        ours = [one for one in inspect.signature(getattr(Run, name)).parameters if one not in {"last", "held", "sync"}]
        sync = list(inspect.signature(getattr(SyncRun, name)).parameters)
        positional = [one for one in ours if one in sync]
        assert positional == [one for one in sync if one in ours]
        assert set(ours) - set(sync) <= {"steps", "settings", "info"}
        assert set(sync) - set(ours) <= {"details", "info"}


def test_every_stage_that_guards_read_has_a_hook_of_all_guards() -> None:
    """They can also read the whole conversation before each model call, when asked to; that is no default."""
    hooks = {name for name in STAGES if hasattr(TextGuard, name)}
    assert hooks == {name for name, stage in STAGES.items() if stage.guarded} | {"process_input_step"}


def test_every_value_of_a_stage_can_be_changed_and_read() -> None:
    """Steps may change the field that the stage is about, and its context shows it under the same name."""
    for stage in STAGES.values():
        if stage.value:
            assert stage.value in stage.fields
            assert hasattr(stage.context, stage.value)


def test_the_agent_calls_every_stage() -> None:
    """It calls them by the name of their method; those that judge an answer, all together."""
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "penstock/workflows/agent").glob("*.py"))
    called = {name for name in STAGES if f"run.{name}(" in sources}
    assert "run.judge_step(" in sources
    assert [name for name, stage in STAGES.items() if name not in called and stage.judges != "step"] == []


@pytest.mark.parametrize("page", ["processors", "runs", "coming-from-mastra"])
def test_every_stage_stands_in_the_tables_of_the_documentation(page: str) -> None:
    """Its name stands in a row, as a name or as a call."""
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [name for name in STAGES if not any(f"`{name}`" in row or f"`{name}(" in row for row in rows)] == []
