"""Every place that spells the name of a stage, compared with the stage table."""

from __future__ import annotations

import inspect
from typing import get_args

import penstock.engine
from penstock import Context, Run
from penstock.engine import SyncRun
from penstock.engine.processor.stages import STAGES, StageName


def test_every_stage_has_its_name_for_type_checkers() -> None:
    """In the order of a run."""
    assert get_args(StageName) == tuple(STAGES)


def test_every_stage_has_a_public_context_of_its_own() -> None:
    """Which knows the stage's name; no other class is a context."""
    contexts = [stage.context for stage in STAGES.values()]
    assert [context.stage for context in contexts] == list(STAGES)
    assert set(Context.__subclasses__()) >= set(contexts)
    assert all(getattr(penstock.engine, context.__name__) is context for context in contexts)


def test_every_stage_has_a_method_of_a_run() -> None:
    """In sync form it takes the same arguments; ``last`` and ``sync`` of a stream are for hosts."""
    for name in STAGES:
        ours = [one for one in inspect.signature(getattr(Run, name)).parameters if one not in {"last", "sync"}]
        sync = list(inspect.signature(getattr(SyncRun, name)).parameters)
        positional = [one for one in ours if one in sync]
        assert positional == [one for one in sync if one in ours]
        assert set(ours) - set(sync) <= {"steps", "settings", "info"}
        assert set(sync) - set(ours) <= {"details", "info"}
