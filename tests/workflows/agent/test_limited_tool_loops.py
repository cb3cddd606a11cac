"""`ToolCallFilter` and `TokenLimiterProcessor` in an agent: the limiter counts what the filter leaves."""

import pytest

from penstock import Agent, Message, TextPart, TokenLimiterProcessor, ToolCallFilter, ToolPart
from penstock.testing import ScriptedModel


def searched(id: str, text: str) -> Message:
    """Return an answer with a search whose result is long."""
    return Message.assistant([ToolPart(id, "search", {"q": id}, "result", "word " * 400), TextPart(text)])


@pytest.mark.parametrize("scope", ["prompt", "history"])
async def test_what_the_filter_removes_uses_up_no_budget(scope: str) -> None:
    """The two in a row, as on the reference's page."""
    history = [
        Message.user("My name is Ann."),
        searched("c1", "Noted, Ann."),
        Message.user("I live in Bern."),
        searched("c2", "Noted."),
        Message.user("What is my name?"),
    ]
    model = ScriptedModel(["Ann."])
    agent = Agent(model, processors=[ToolCallFilter(scope=scope), TokenLimiterProcessor(300)])  # type: ignore[arg-type]
    assert (await agent.generate(history)).text == "Ann."
    expected = ["My name is Ann.", "Noted, Ann.", "I live in Bern.", "Noted.", "What is my name?"]
    assert [message.text for message in model.requests[0].messages] == expected


async def test_a_tool_loop_over_the_limit_goes_on_without_its_oldest_exchanges() -> None:
    """The history keeps them."""

    def find(q: str) -> str:
        """Find something."""
        return "word " * 300

    calls = [{"tool_calls": [{"id": f"c{at}", "name": "find", "args": {"q": "x"}}]} for at in range(5)]
    model = ScriptedModel([*calls, "done"])
    agent = Agent(model, tools=[find], processors=[TokenLimiterProcessor(800)])
    result = await agent.generate("Research", max_steps=10)
    assert result.text == "done"
    sent = [
        [part.call_id for m in asked.messages for part in m.parts if isinstance(part, ToolPart)]
        for asked in model.requests
    ]
    assert sent == [[], ["c0"], ["c0", "c1"], ["c1", "c2"], ["c2", "c3"], ["c3", "c4"]]
    assert sum(isinstance(part, ToolPart) for message in result.messages for part in message.parts) == 5
