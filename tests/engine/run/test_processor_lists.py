"""What stands in an agent's arrays runs at the stages that they serve."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import InputContext, Key, OptionError, OutputResultContext, Processor, Workflow, WorkflowError, processor
from penstock.engine.run.run import Run
from penstock.engine.workflow import plans_of_lists

pytestmark = pytest.mark.anyio


class Both(Processor[dict[str, Any]]):
    """Notes at both ends of a run who was called."""

    def __init__(self, log: list[str], id: str | None = None) -> None:
        self.log = log
        if id is not None:
            self.id = id

    def process_input(self, ctx: InputContext) -> None:
        ctx.state["seen"] = ctx.step_path

    def process_output_result(self, ctx: OutputResultContext) -> None:
        self.log.append(f"{ctx.step_path} saw {ctx.state.get('seen')}")


@processor
def reads(ctx: InputContext) -> None:
    """Look at the input."""


async def both_ends(run: Run) -> None:
    """Run the first and the last stage."""
    await run.process_input("hi")
    await run.process_output_result()


async def test_an_item_in_two_arrays_is_one_step_with_one_state() -> None:
    """Two items of one kind are two; each array has its own order."""
    log: list[str] = []
    one, other = Both(log), Both(log)
    await both_ends(Run(plans_of_lists("agent", {"input": [one, other], "output": [other, one]})))
    assert log == ["both#2 saw both#2", "both saw both"]


async def test_an_array_serves_its_own_stages_only() -> None:
    """What stands among the output's is not asked about the input."""
    log: list[str] = []
    await both_ends(Run(plans_of_lists("agent", {"output": [Workflow("w").then(Both(log))]})))
    assert log == ["w/both saw None"]


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"output": [reads]}, r"output_processors.*process_input.*input_processors="),
        ({"input": [reads, reads]}, r"each item once"),
        ({"input": ["reads"]}, r"input_processors\[0\]"),
        ({"error": [Workflow("w").then(reads)]}, r"error_processors.*process_api_error"),
    ],
)
def test_what_cannot_be_meant_is_refused(arrays: Any, told: str) -> None:
    """Before anything runs, and the error says where it stands and what would do."""
    with pytest.raises(OptionError, match=told):
        plans_of_lists("agent", arrays)


def test_equal_ids_that_somebody_set_are_refused_across_arrays() -> None:
    """They would share a name in everything that is told of them."""
    with pytest.raises(WorkflowError, match="'mine'"):
        plans_of_lists("agent", {"input": [Both([], "mine")], "output": [Both([], "mine")]})


def test_facts_flow_along_each_array() -> None:
    """What one in the wrong order requires is not there in time."""
    word: Key[str] = Key("word")

    @processor(provides=[word])
    def puts(ctx: InputContext) -> None:
        ctx.put(word, "x")

    @processor(requires=[word])
    def needs(ctx: InputContext) -> None:
        assert ctx.get(word)

    plans_of_lists("agent", {"input": [puts, needs]})
    with pytest.raises(WorkflowError, match="requires the fact 'word'"):
        plans_of_lists("agent", {"input": [needs, puts]})
