"""`Plans`: the graph of a workflow, checked once, and its plan for each stage; shared by all of its runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.graph.asking import only, with_questions
from penstock.engine.graph.checks import problems
from penstock.engine.graph.nodes import Sequence, Step, resolve, steps_and_fallbacks, walk
from penstock.engine.graph.plan import PlanAsking, StreamPlan, compile_plan, enforced_steps, plan_steps, serving
from penstock.engine.processor.stages import STAGES, STREAM
from penstock.engine.values.errors import WorkflowError

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Node, Policy
    from penstock.engine.graph.plan import Block, Orders

Hold: TypeAlias = Literal["live", "step", "result"]
"""Until when the chunks of an answer are held: not at all, until its step is judged, or until the run's result is."""


class Plans:
    """The plans of one workflow, each compiled when its stage is first used, shared by all runs.

    With ``orders``, each stage is served by the nodes of its processor list only.
    """

    def __init__(self, name: str, root: Sequence, orders: Orders | None = None) -> None:
        self.name = name
        self.root = root
        self.orders = orders
        self._compiled: dict[str, Block | None] = {}
        self.shadowed = any(policy.mode == "shadow" for policy in _policies(root))
        self.warned_live = False  # whether the log has warned that answers leave before all guards have judged them

    @cached_property
    def resolved(self) -> Sequence:
        """The graph with paths, checked.

        Raises:
            WorkflowError: the graph has problems; all of them at once.
        """
        found = problems(self.root, None, self.orders)
        if found:
            raise WorkflowError(self.name, found)
        return resolve(self.root)

    @cached_property
    def release(self) -> Hold:
        """When a streamed answer may be released: ``live`` (at once) if all later guards judge its stream too."""
        streams = self._enforced(STREAM.name)
        found: Hold = "live"
        for stage in STAGES.values():
            if stage.judges is not None and any(
                step.role == "guard" and step.path not in streams for step in enforced_steps(self.stage(stage.name))
            ):
                found = stage.judges  # the last one decides: it is the latest
        return found

    @cached_property
    def late_guards(self) -> Block | None:
        """The guards of the last stage that do not judge the stream; they ask nobody here. None if there are none."""
        block, streams = self.stage("process_output_result"), self._enforced(STREAM.name)
        if block is None:
            return None
        plain = block.plain if isinstance(block, PlanAsking) else block
        return only(plain, lambda step: step.role == "guard" and step.path not in streams)

    @cached_property
    def wants_retries(self) -> int:
        """The most retries of a failed model call that a processor asks for (its ``wants_retries``); 0 if none does."""
        retrying = [self.stage(stage.name) for stage in STAGES.values() if stage.retries == "call"]
        steps = [step for block in retrying for step in plan_steps(block)]
        wanted: list[int] = [getattr(step.processor, "wants_retries", 0) for step in steps]
        return max(wanted, default=0)

    @cached_property
    def runs_beside_model(self) -> bool:
        """Whether something may run beside the model: timers or async guards in the stream, or overlapping checks."""
        overlaps = any(policy.overlap is not None for policy in _policies(self.root))
        return overlaps or self.stream.timed or self.stream.gathers

    @cached_property
    def judges_calls_late(self) -> bool:
        """Whether a processor judges tool calls, but not the stream that they come in."""
        return not self._enforced("process_tool_call") <= self._enforced(STREAM.name)

    @cached_property
    def asks(self) -> bool:
        """Whether a step may ask a person about calls of tools."""
        return any(step.processor.asks for step in steps_and_fallbacks(self.resolved))

    def _enforced(self, stage: str) -> set[str]:
        """Return the paths of the steps of a stage whose results count."""
        return {step.path for step in enforced_steps(self.stage(stage))}

    @cached_property
    def stream(self) -> StreamPlan:
        """The plan for the stream's stage."""
        return StreamPlan(self.stage(STREAM.name))

    def stage(self, name: str) -> Block | None:
        """Return the plan for a stage; None where no step has it."""
        try:
            return self._compiled[name]
        except KeyError:
            served = serving(self.resolved, STAGES[name], self.orders)
            return self._compiled.setdefault(name, with_questions(compile_plan(served, name)))


def _policies(root: Node) -> list[Policy]:
    return [node.policy for node in walk(root) if isinstance(node, (Step, Sequence))]
