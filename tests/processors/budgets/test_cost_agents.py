"""Budgets of money in agents: what models, judges and rounds of tools cost, one by one or all at once."""

from typing import Any

import anyio

from penstock import Agent, ModerationProcessor, RegexFilterProcessor, ResponseCache, TokenCostControl
from penstock.processors.budgets import InMemoryLedger, Price
from penstock.testing import ScriptedModel

EACH = Price(1_000_000, 1_000_000)
TOOK = {"usage": {"input_tokens": 8, "output_tokens": 2}}
ADA = {"user_id": "ada"}


def control(ledger: InMemoryLedger, max_cost: float = 1_000, **options: Any) -> TokenCostControl:
    """A budget by which each token costs 1, and each text is one."""
    defaults = {"scope": "user", "prices": {"*": EACH}, "token_counter": lambda text: len(text[:1]), "output_tokens": 2}
    return TokenCostControl(max_cost, ledger=ledger, **{**defaults, **options})


def depth() -> str:
    """How deep the water is."""
    return "nine metres"


async def test_all_that_a_request_asks_of_models_counts() -> None:
    """Two rounds of the model's, and a judge's verdicts about question, tool's result and answer."""
    ledger = InMemoryLedger()
    model = ScriptedModel([{"tool_calls": [{"name": "depth"}], **TOOK}, {"text": "Nine.", **TOOK}], name="main")
    judge = ScriptedModel([{"object": {"category_scores": [], "reason": None}, **TOOK}], repeat_last=True, name="judge")
    guard = ModerationProcessor(judge, embedded=False)
    agent = Agent(model, tools=[depth], processors=[control(ledger), guard])
    result = await agent.generate("How deep?", request_context=ADA)
    assert (result.text, len(judge.requests)) == ("Nine.", 3)
    assert ledger.breakdown("user:ada") == {"main": 20, "judge": 30}
    assert not ledger._keys["user:ada"].holds


async def test_an_answer_that_is_cut_off_costs_what_was_estimated() -> None:
    """By a guard of the stream, before the provider said what it took."""
    ledger = InMemoryLedger()
    model = ScriptedModel([{"deltas": ["The code is ", "4711", " and more"], **TOOK}], name="main")
    guard = RegexFilterProcessor(rules=[{"name": "code", "pattern": r"\d{4}"}], phase="output")
    agent = Agent(model, processors=[control(ledger, output_tokens=50), guard])
    result = await agent.generate("The code?", request_context=ADA)
    assert result.tripwire is not None
    assert ledger.total("user:ada") == 3 + 4 + 1 + 50


async def test_an_answer_from_the_cache_is_free() -> None:
    """The second request costs nothing, and sets nothing aside."""
    ledger = InMemoryLedger()
    model = ScriptedModel([{"text": "Nine.", **TOOK}], name="main")
    agent = Agent(model, processors=[control(ledger), ResponseCache()])
    for _ in range(2):
        assert (await agent.generate("How deep?", request_context=ADA)).text == "Nine."
    assert ledger.total("user:ada") == 10
    assert not ledger._keys["user:ada"].holds


async def test_a_hundred_agents_at_once_keep_to_the_budget() -> None:
    """So many answer as it pays."""
    ledger = InMemoryLedger()
    model = ScriptedModel([{"text": "Nine.", **TOOK}], repeat_last=True, name="main")
    agent = Agent(model, processors=[control(ledger, 300)])
    answered: list[str] = []

    async def ask() -> None:
        result = await agent.generate("How deep?", request_context=ADA)
        if result.tripwire is None:
            answered.append(result.text)

    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(ask)
    assert (len(answered), ledger.total("user:ada")) == (30, 300)
