"""An agent whose conversations move between models: repaired histories, chosen models, prepared steps."""

import json
from typing import Any

from penstock import Agent, Message, ModelSelectionProcessor, ProviderHistoryCompat, TextPart, ToolPart
from penstock.engine import ReasoningPart
from penstock.processors.routing import ModelChoice
from penstock.testing import ScriptedModel

REFUSED = {"error": {"status": 400, "message": "messages.1.tool_use.id: String should match pattern 'x'"}}


def said(model: ScriptedModel, place: int = -1) -> list[str]:
    """Return what a model was sent: roles, and the parts' ids or texts."""

    def word(part: Any) -> str:
        return part.call_id if isinstance(part, ToolPart) else getattr(part, "text", part.type)

    return [f"{one.role[0]}:{' '.join(map(word, one.parts))}" for one in model.requests[place].messages]


async def test_a_history_that_was_refused_is_repaired_and_sent_again() -> None:
    """Reasoning goes before the first call, ids when they are refused; the answer is the second call's."""
    model = ScriptedModel([REFUSED, "Fine."], name="anthropic:claude-opus-4-5")
    foreign = ReasoningPart("t", {"openai": {"itemId": "rs_1"}})
    call = ToolPart("a.1", "look", state="result", result=1)
    history = [Message.user("a"), Message.assistant([foreign, call, TextPart("b")]), Message.user("c")]
    result = await Agent(model, processors=[ProviderHistoryCompat()]).generate(history)
    assert result.text == "Fine."
    assert said(model, 0) == ["u:a", "a:a.1 b", "u:c"]
    assert said(model)[1].startswith("a:a_1_")


async def test_a_request_is_answered_by_the_model_that_was_chosen() -> None:
    """And the judge's tokens are counted beside the agent's."""
    small, large = (ScriptedModel([f"I am {name}."], name=f"acme/{name}") for name in ("small", "large"))
    judge = ScriptedModel([json.dumps({"choice": "acme/large"})])
    choices = [ModelChoice(small, "easy"), ModelChoice(large, "hard")]
    agent = Agent(small, processors=[ModelSelectionProcessor(model=judge, choices=choices)])
    assert (await agent.generate("Prove it.")).text == "I am large."
    assert not small.requests


async def test_a_prepared_step_may_go_to_another_model() -> None:
    """A callback is given the step's context, and returns what is other."""
    plain, other = ScriptedModel(["no"]), ScriptedModel(["yes"])
    result = await Agent(plain, prepare_step=lambda ctx: {"model": other}).generate("hi")
    assert result.text == "yes"


async def test_a_prompt_does_not_end_on_an_answer_where_that_is_refused() -> None:
    """The agent sees to it by itself; other models go on with their words."""
    begun = [Message.user("a"), Message.assistant("b")]
    gemini, other = ScriptedModel(["c"], name="google/gemini-3-pro"), ScriptedModel(["c"], name="openai/gpt-5")
    for model in (gemini, other):
        await Agent(model).generate(begun)
    assert said(gemini) == [*said(other), "u:Continue."]
