"""`AnswerCalls`: the calls of tools in an answer, judged before any of them leaves, and asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
from penstock.workflows.gateway.blocks import frozen_arguments
from penstock.workflows.gateway.reviewing import AskedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.run.run import Run
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.gateway.answer import PatchedAnswer
    from penstock.workflows.review.waiting import CallDecision


class AnswerCalls:
    """The calls of tools in one answer, between the provider and the client.

    Args:
        run: the run of the request.
        answer: the answer.
        may_ask: whether somebody can be asked; if not, a call that is asked about is refused.

    Attributes:
        refused: whether the answer may not leave for one of its calls.
        verdict: the verdict that stopped it; None if there is none, or if a processor answered in the place of a tool.
    """

    def __init__(self, run: Run, answer: PatchedAnswer, *, may_ask: bool) -> None:
        self.refused = False
        self.verdict: Tripwire | None = None
        self._run = run
        self._answer = answer
        self._may_ask = may_ask

    async def judge(self) -> list[AskedCall]:
        """Judge the calls of tools before any of them leaves; return those that a guard asks about.

        One that a guard answers is refused, and one that it asks about if nobody can be asked.
        """
        asked: list[AskedCall] = []
        for call in self._answer.calls:
            outcome = await self._run.process_tool_call(call.tool, frozen_arguments(call), call_id=call.id)
            if outcome.blocked:
                self._refuse(outcome.tripwire)
                return []
            if outcome.answered and not (outcome.asks and self._may_ask):
                self._refuse()
                return []
            call.back = outcome.arguments
            if outcome.asks:
                asked.append(AskedCall(call, outcome.arguments))
        return asked

    async def approve(self, asked: Sequence[AskedCall], decisions: Sequence[CallDecision]) -> None:
        """Let calls pass that an operator has approved; arguments of theirs are judged before.

        Args:
            asked: the calls that a guard asks about.
            decisions: the approvals, in order.
        """
        for one, made in zip(asked, decisions, strict=True):
            if made.arguments is None:
                continue
            block = one.block
            outcome = await self._run.process_tool_call(block.tool, thaw(made.arguments), call_id=block.id)
            if outcome.blocked or (outcome.answered and not outcome.asks):
                self._refuse(outcome.tripwire)
                return
            block.back = outcome.arguments

    def _refuse(self, verdict: Tripwire | None = None) -> None:
        self.refused, self.verdict = True, verdict
