"""Quality gate: an answer that is not good enough is asked for again, with the reason why."""

from collections.abc import Callable

from penstock import Agent, OutputStepContext, Processor
from penstock.testing import ScriptedModel


class QualityGate(Processor):
    """Rejects answers that a function has something against. The model is told what, for the next attempt only.

    How often is the agent's ``max_processor_retries``; when that is used up, the rejection is the result.
    """

    edits = "nothing"

    def __init__(self, wrong: Callable[[str], str | None]) -> None:
        self.wrong = wrong

    def process_output_step(self, ctx: OutputStepContext) -> None:
        if ctx.tool_calls:  # it has not answered yet
            return
        if problem := self.wrong(ctx.text):
            ctx.abort(problem, retry=True, metadata={"attempt": ctx.retry_count + 1})


def without_source(text: str) -> str | None:
    """Tell what is wrong with an answer that names no source."""
    return None if "http" in text else "name a source, as a link"


if __name__ == "__main__":
    model = ScriptedModel(["It has 195 countries.", "It has 193 member states: https://un.org/members"])
    agent = Agent(model, processors=[QualityGate(without_source)], max_processor_retries=2)
    result = agent.generate_sync("How many states are in the UN?")
    for step in result.steps:
        print(f"{step.finish_reason}: {step.text or (step.tripwire and step.tripwire.reason)}")
    print("the rejected attempt is in the result:", "195" in str(result.messages))
