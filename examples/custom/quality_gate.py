"""Quality gate: reject answers that are not good enough; the model tries again."""

from collections.abc import Callable

from penstock import Agent, OutputStepContext, Processor
from penstock.testing import ScriptedModel


class QualityGate(Processor):
    """Rejects answers in which a function finds a problem.

    The model sees the problem in the next attempt only. The agent's
    ``max_processor_retries`` limits the retries. Then the request is blocked.
    """

    edits = "nothing"

    def __init__(self, wrong: Callable[[str], str | None]) -> None:
        self.wrong = wrong

    def process_output_step(self, ctx: OutputStepContext) -> None:
        if ctx.tool_calls:  # this is not the final answer
            return
        if problem := self.wrong(ctx.text):
            ctx.abort(
                problem, retry=True, metadata={"attempt": ctx.retry_count + 1}
            )


def without_source(text: str) -> str | None:
    """Return what is wrong with an answer that names no source, or None."""
    return None if "http" in text else "name a source, as a link"


if __name__ == "__main__":
    model = ScriptedModel(
        [
            "It has 195 countries.",
            "It has 193 member states: https://un.org/members",
        ]
    )
    agent = Agent(
        model, processors=[QualityGate(without_source)], max_processor_retries=2
    )
    result = agent.generate_sync("How many states are in the UN?")
    for step in result.steps:
        said = step.text or (step.tripwire and step.tripwire.reason)
        print(f"{step.finish_reason}: {said}")
    print(
        "the rejected attempt is in the result:",
        "195 countries" in str(result.messages),
    )
