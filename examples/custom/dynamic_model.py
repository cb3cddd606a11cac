"""Dynamic model: a small model calls the tools, a large one writes the answer."""

from penstock import Agent, InputStepContext, Processor
from penstock.engine import Overrides
from penstock.engine.values.protocols import Model
from penstock.testing import ScriptedModel


class DynamicModel(Processor):
    """Switches to another model as soon as tools have returned results.

    That model calls no tools.
    """

    role = "transform"

    def __init__(self, then: Model | str) -> None:
        self.then = then

    def process_input_step(self, ctx: InputStepContext) -> Overrides | None:
        if not any(step.tool_results for step in ctx.steps or ()):
            return None
        return Overrides(
            model=self.then, tool_choice="none", model_settings={"temperature": 0.2}
        )


def population(city: str) -> int:
    """Return how many people live in a city."""
    return {"Lima": 10_092_000}.get(city, 0)


if __name__ == "__main__":
    small = ScriptedModel(
        [{"tool_calls": [{"name": "population", "args": {"city": "Lima"}}]}],
        name="small",
    )
    large = ScriptedModel(["Ten million people live in Lima."], name="large")
    result = Agent(
        small, tools=[population], processors=[DynamicModel(large)]
    ).generate_sync("How big is Lima?")
    for step in result.steps:
        print(
            f"{step.model}: {step.text or [call.name for call in step.tool_calls]}"
        )
    print("the large one was offered:", large.requests[0].tools)
