"""A call that a guard asks about is an interruption of the SDK's run, and its decision comes back."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, RunState, function_tool
from agents.testing import assistant_message, function_call

from penstock import Processor, ToolCallContext
from penstock.processors.tools import HumanReview, ToolPolicy
from penstock.workflows.adapters.openai_agents import OutputBlockedError, as_runner
from tests.workflows.adapters.openai_agents_model import CLEAN, SECRET, script

pytestmark = pytest.mark.anyio

ASKS = ToolPolicy(ask=["refund"])


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


@pytest.fixture
def anyio_backend() -> str:
    """Return the only backend that the SDK has."""
    return "asyncio"


class Shop:
    """An agent with a refund tool and its runner, as each process makes them anew."""

    def __init__(self, *processors: Any, orders: Any = (7,), again: bool = False, strict: bool = False) -> None:
        self.ran: list[int] = []
        first = [function_call("refund", {"order": order}, call_id=f"c{order}") for order in orders]
        self.model = script(*([] if again else [first]), assistant_message("Done."))
        tool = function_tool(self.refund, name_override="refund", needs_approval=strict)
        self.agent = Agent[Any](name="a", model=self.model, tools=[tool])
        self.runner = as_runner(*processors)

    def refund(self, order: int) -> str:
        """Refund an order."""
        self.ran.append(order)
        return f"order {order} is refunded"

    async def asked(self, *, streamed: bool = False) -> Any:
        """Ask, and return the state that waits, as a database holds it."""
        if streamed:
            result: Any = self.runner.run_streamed(self.agent, "Refund it")
            async for _ in result.stream_events():
                pass
        else:
            result = await self.runner.run(self.agent, "Refund it")
        assert self.ran == []
        assert [item.name for item in result.interruptions] == ["refund"] * len(result.interruptions)
        assert result.interruptions
        return result.to_state().to_json()

    async def decided(self, stored: Any, decide: Any) -> tuple[str, str]:
        """Go on with a stored state; return the answer, and what the model has read."""
        state: Any = await RunState.from_json(self.agent, stored)
        for item in state.get_interruptions():
            decide(state, item)
        result = await self.runner.run(self.agent, state)
        assert result.interruptions == []
        return result.final_output, str(self.model.calls[-1].input)


def approve(state: Any, item: Any) -> None:
    """Approve a call."""
    state.approve(item)


@pytest.mark.parametrize("asks", [ASKS, HumanReview(["tool_call"])])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("moves", [True, False])
async def test_an_approved_call_runs_once(asks: Processor, streamed: bool, moves: bool) -> None:
    """In the process that asked, or in another one."""
    shop = Shop(asks)
    stored = await shop.asked(streamed=streamed)
    resumes = Shop(asks, again=True) if moves else shop
    answer, read = await resumes.decided(stored, approve)
    assert (answer, resumes.ran) == ("Done.", [7])
    assert "order 7 is refunded" in read
    resumes.agent.model = resumes.model = script(assistant_message("Done."))
    _, read = await resumes.decided(stored, approve)
    assert resumes.ran == [7]
    assert "its approval was used before" in read


async def test_each_call_has_its_decision_and_the_reason_reaches_the_model() -> None:
    """As the guards left it."""
    shop = Shop(ASKS, CLEAN, orders=(7, 8))
    stored = await shop.asked()

    def decide(state: Any, item: Any) -> None:
        if "7" in item.arguments:
            state.approve(item)
        else:
            state.reject(item, rejection_message=f"ask {SECRET}")

    _, read = await shop.decided(stored, decide)
    assert shop.ran == [7]
    assert "ask [EMAIL]" in read
    assert SECRET not in read


class Watch(Processor):
    """Notes the calls that it judges, with how many messages it sees; blocks one from a given time on."""

    role = "guard"

    def __init__(self, blocks_at: int = 0) -> None:
        self.judged: list[tuple[object, int]] = []
        self.blocks_at = blocks_at

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        self.judged.append((ctx.arguments["order"], len(ctx.entries)))
        if len(self.judged) == self.blocks_at:
            ctx.abort("not this one")


async def test_guards_judge_before_a_person_is_asked_and_again_before_the_tool_runs() -> None:
    """With the conversation in sight."""
    watch = Watch()
    shop = Shop(watch, ASKS)
    await shop.decided(await shop.asked(), approve)
    assert watch.judged == [(7, 2), (7, 2)]
    shop = Shop(Watch(blocks_at=2), ASKS)
    stored = await shop.asked()
    with pytest.raises(OutputBlockedError):
        await shop.decided(stored, approve)
    assert shop.ran == []
    shop = Shop(Watch(blocks_at=1), ASKS)
    with pytest.raises(OutputBlockedError):
        await shop.asked()


async def test_the_approval_of_all_calls_is_none_of_this_one() -> None:
    """Nobody has seen the arguments of later calls."""
    shop = Shop(ASKS)
    stored = await shop.asked()
    shop.model = script(function_call("refund", {"order": 9}, call_id="c9"), assistant_message("Done."))
    shop.agent.model = shop.model
    _, read = await shop.decided(stored, lambda state, item: state.approve(item, always_approve=True))
    assert shop.ran == [7]
    assert "a person must approve it" in read


@pytest.mark.parametrize("asked", [True, False])
async def test_arguments_that_the_sdk_adds_ask_nobody(asked: bool) -> None:
    """A model may leave out those that have a default; only the policy asks."""
    ran: list[tuple[int, str]] = []

    def refund(order: int, why: str = "none") -> str:
        ran.append((order, why))
        return "refunded"

    model = script(function_call("refund", {"order": 7}, call_id="c7"), assistant_message("Done."))
    agent = Agent[Any](name="a", model=model, tools=[function_tool(refund, strict_mode=False)])
    runner = as_runner(ToolPolicy(ask=["refund"] if asked else ["other"]))
    result = await runner.run(agent, "Refund it")
    assert (len(result.interruptions), ran) == ((1, []) if asked else (0, [(7, "none")]))
    if asked:
        state = result.to_state()
        state.approve(result.interruptions[0])
        assert (await runner.run(agent, state)).final_output == "Done."
        assert ran == [(7, "none")]


async def test_a_tool_that_wants_approval_itself_is_asked_about_as_before() -> None:
    """Also by a runner whose guards ask about others."""
    shop = Shop(ToolPolicy(ask=["other"]), strict=True)
    answer, _ = await shop.decided(await shop.asked(), approve)
    assert (answer, shop.ran) == ("Done.", [7])
