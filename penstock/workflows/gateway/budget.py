"""`Budget`: the budget of a route, as an exchange needs it: its verdicts, and the tokens that no provider reported."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.engine.values.model import Usage
from penstock.models.tokens.counters import counting
from penstock.models.tokens.message_costs import compact, prices
from penstock.processors.budgets.call_estimates import CallEstimator
from penstock.processors.budgets.token_cost_control import window_end

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.tripwire import Tripwire
    from penstock.formats.wire import Value
    from penstock.processors.budgets.token_cost_control import TokenCostControl
    from penstock.workflows.gateway.answer import PatchedAnswer
    from penstock.workflows.gateway.prompt import Prompt

_UNPRICED = frozenset({"UsageError", "UnrecordedCostError"})


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a route.

    Attributes:
        control: the step that keeps it.
        route: the name of the route.
        estimator: counts tokens as the step does.
    """

    control: TokenCostControl
    route: str
    estimator: CallEstimator

    @classmethod
    def of(cls, control: TokenCostControl, route: str) -> Budget:
        """Return the budget that a step keeps for a route."""
        counter = counting("budget", None, "o200k_base")
        return cls(control, route, CallEstimator(counter, prices(counter, "chat"), 0))

    def blocks(self, verdict: Tripwire) -> bool:
        """Return whether a verdict is one of the budget."""
        return verdict.processor_id == self.control.id

    def failure(self, verdict: Tripwire) -> str:
        """Return for the operator why the budget could not do its work; empty if it is merely spent."""
        facts: Mapping[str, Value] = verdict.metadata
        if facts.get("failed") is not True:
            return ""
        error = str(facts.get("error", ""))
        cure = (
            "a model of this route has no list price, or its usage could not be priced: write input_price: and "
            "output_price: under budget: in the gateway file"
            if error in _UNPRICED
            else "check its ledger"
        )
        return f"the budget of the route {self.route} failed with {error} ({verdict.reason}); {cure}"

    def retry_after(self, verdict: Tripwire, now: datetime | None = None) -> int | None:
        """Return the seconds until the window begins anew; None if that is unknown, or would not help."""
        facts: Mapping[str, Value] = verdict.metadata
        call: Mapping[str, Value] = facts.get("next_call", {})
        if call.get("estimated_cost", 0) > facts.get("max_cost", 0):
            return None
        now = datetime.now(UTC) if now is None else now
        end = window_end(self.control.window, now)
        return None if end is None else max(1, int((end - now).total_seconds()) + 1)

    def usage(self, prompt: Prompt, answer: PatchedAnswer, texts: Sequence[str]) -> tuple[int, int]:
        """Return the tokens of prompt and answer, counted where the provider did not report them.

        Args:
            prompt: the request.
            answer: the answer; one that was cut has reported no more than a beginning.
            texts: the texts of the answer, as far as they came.
        """
        told = answer.usage
        if told is not None and answer.finish_reason != "other":
            return told
        counted = self.estimator.counting.count("".join(texts))
        if told is None:
            return self.estimator.of_prompt(prompt.messages, prompt.tools), counted
        return told[0], max(told[1], counted)


def text_of(chunk: Chunk) -> str:
    """Return the text of a chunk that a model wrote: of a text, of reasoning, or of a call."""
    if chunk.type == "tool-call":
        return f"{chunk.payload['name']}{compact(chunk.payload['arguments'])}"
    return chunk.text


def as_usage(tokens: tuple[int, int] | None) -> Usage | None:
    """Return tokens as a usage."""
    return None if tokens is None else Usage(*tokens)
