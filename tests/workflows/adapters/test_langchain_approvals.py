"""A call that a guard asks about is an interrupt of LangGraph, and its answer comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from penstock import BlockedError, InMemoryStorage, PIIDetector, Processor, ToolCallContext
from penstock.processors.tools import HumanReview, ToolPolicy
from penstock.workflows.adapters.langchain import as_agent, as_middleware
from penstock.workflows.review import Reviews

HIDES = PIIDetector(redaction_method="placeholder")
ASKS = ToolPolicy(ask=["refund"])
THREAD: Any = {"configurable": {"thread_id": "1"}}
ONE: Any = [{"name": "refund", "args": {"order": 7}, "id": "c1"}]
TWO: Any = [*ONE, {"name": "refund", "args": {"order": 8}, "id": "c2"}]


class Model(FakeMessagesListChatModel):
    """A model that takes tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return itself."""
        return self


class Shop:
    """An agent with a refund tool, as each process makes it anew over one store."""

    def __init__(
        self,
        *processors: Any,
        calls: Any = ONE,
        store: Any = None,
        guarded: bool = False,
        before: Any = (),
        reviews: Any = None,
    ):
        self.ran: list[Any] = []
        self.model = Model(responses=[AIMessage("", tool_calls=calls), AIMessage("Done.")])
        self.store = InMemorySaver() if store is None else store
        self.fails = 0
        self.asks_itself = False

        @tool
        def refund(order: int, to: str = "") -> str:
            """Refund an order."""
            if self.asks_itself:
                interrupt("Really?")
            if self.fails:
                self.fails -= 1
                raise ValueError("down")
            self.ran.append((order, to) if to else order)
            return f"order {order} is refunded"

        guard = as_middleware(*processors, reviews=reviews)
        self.agent: Any = create_agent(self.model, [refund], middleware=[*before, guard], checkpointer=self.store)
        if guarded:
            self.agent = as_agent(self.agent, guard)

    def run(self, given: Any, *, waits: bool = True) -> Any:
        """Run the agent, and return the state."""
        return asyncio.run(self.agent.ainvoke(given, THREAD)) if waits else self.agent.invoke(given, THREAD)

    def ask(self, **options: Any) -> Any:
        """Ask, and return what a person is asked."""
        state = self.run({"messages": [("user", "Refund order 7")]}, **options)
        assert self.ran == []
        return state["__interrupt__"][0].value

    def decide(self, *decisions: Any, **options: Any) -> list[str]:
        """Go on with decisions, and return the texts of the results, and of the answer."""
        state = self.run(Command(resume={"decisions": list(decisions)}), **options)
        assert "__interrupt__" not in state
        return [one.text for one in state["messages"] if isinstance(one, ToolMessage) or one is state["messages"][-1]]


def other(shop: Shop, *processors: Any, **options: Any) -> Shop:
    """Return the same agent in another process."""
    made = Shop(*processors, store=shop.store, **options)
    made.model.i = 1
    return made


@pytest.mark.parametrize("asks", [ASKS, HumanReview(["tool_call"])])
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("moves", [True, False])
def test_an_approved_call_runs_once(asks: Processor, waits: bool, guarded: bool, moves: bool) -> None:
    """In the form of LangChain's own middleware; with and without ``await``; in this process, or another."""
    shop = Shop(asks, guarded=guarded)
    said = shop.ask(waits=waits)
    assert [(one["name"], one["args"]) for one in said["action_requests"]] == [("refund", {"order": 7})]
    assert said["review_configs"] == [
        {"action_name": "refund", "allowed_decisions": ["approve", "edit", "reject", "respond"]}
    ]
    resumes = other(shop, asks, guarded=guarded) if moves else shop
    assert resumes.decide({"type": "approve"}, waits=waits) == ["order 7 is refunded", "Done."]
    assert resumes.ran == [7]


def test_each_call_of_an_answer_has_its_decision() -> None:
    """They are asked about at once."""
    shop = Shop(ASKS, HIDES, calls=TWO)
    assert len(shop.ask()["action_requests"]) == 2
    first, second, _ = shop.decide({"type": "approve"}, {"type": "reject", "message": "ask bob@example.com"})
    assert (first, shop.ran) == ("order 7 is refunded", [7])
    assert second == "The call was not run: a person rejected it: ask [EMAIL]"


def test_a_person_answers_in_the_tools_place() -> None:
    """As guards leave it."""
    shop = Shop(ASKS, HIDES)
    shop.ask()
    assert shop.decide({"type": "respond", "message": "bob@example.com did it"})[0] == "[EMAIL] did it"
    assert shop.ran == []


def edit(**arguments: Any) -> Any:
    """Return the decision that edits a call."""
    return {"type": "edit", "edited_action": {"name": "refund", "args": arguments}}


def test_edited_arguments_are_judged_and_the_model_is_told() -> None:
    """If a guard changes them, they are not what was approved."""
    shop = Shop(ASKS, HIDES)
    shop.ask()
    told = shop.decide(edit(order=8))[0]
    assert shop.ran == [8]
    assert told.endswith('It ran with: {"order": 8}\n\norder 8 is refunded')
    changed = Shop(ASKS, HIDES)
    changed.ask()
    assert "a guard changed its arguments" in changed.decide(edit(order=8, to="bob@example.com"))[0]
    assert changed.ran == []


class Limit(Processor):
    """Blocks refunds of an order."""

    role = "guard"

    def __init__(self, order: int) -> None:
        self.order = order
        self.judged: list[object] = []

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        self.judged.append(ctx.arguments["order"])
        if ctx.arguments["order"] == self.order:
            ctx.abort("not this one")


def test_guards_judge_once_before_a_person_is_asked_and_once_before_the_tool_runs() -> None:
    """Though LangGraph runs an interrupted node from its start."""
    limit = Limit(9)
    shop = Shop(limit, ASKS)
    shop.ask()
    assert limit.judged == [7]
    shop.decide({"type": "approve"})
    assert limit.judged == [7, 7]
    edited = Shop(limit, ASKS)
    edited.ask()
    with pytest.raises(BlockedError):
        edited.decide(edit(order=9))
    assert edited.ran == []
    with pytest.raises(BlockedError):
        Shop(ASKS, Limit(7)).ask()


def test_an_approval_is_of_these_arguments_and_this_policy() -> None:
    """A state that somebody has edited meanwhile, and other guards, were not shown."""
    shop = Shop(ASKS)
    shop.ask()
    said = shop.agent.get_state(THREAD).values["messages"][-1]
    shop.agent.update_state(
        THREAD,
        {"messages": [said.model_copy(update={"tool_calls": [{**ONE[0], "args": {"order": 70}}]})]},
        as_node="model",
    )
    state = shop.run(None)
    assert "__interrupt__" in state
    assert "given for other arguments" in shop.decide({"type": "approve"})[0]
    assert shop.ran == []
    shop = Shop(ASKS)
    shop.ask()
    changed = other(shop, ToolPolicy(ask=["refund"], limits={"refund": 3}))
    assert "given for other arguments" in changed.decide({"type": "approve"})[0]
    assert changed.ran == []


def test_an_approval_is_not_used_again_from_an_older_checkpoint() -> None:
    """LangGraph can run a graph from any of them."""
    shop = Shop(ASKS)
    shop.ask()
    shop.decide({"type": "approve"})
    before = next(one for one in shop.agent.get_state_history(THREAD) if one.next == ("tools",))
    shop.agent.invoke(None, before.config)
    assert shop.ran == [7]


def test_a_tool_that_fails_is_repeated_under_its_approval() -> None:
    """By other middleware, within the run."""
    shop = Shop(ASKS, before=[ToolRetryMiddleware(max_retries=1, initial_delay=0)])
    shop.fails = 1
    shop.ask()
    assert shop.decide({"type": "approve"})[0] == "order 7 is refunded"
    assert shop.ran == [7]


def test_an_approved_tool_may_ask_by_itself() -> None:
    """LangGraph runs it again, under the same approval."""
    shop = Shop(ASKS)
    shop.asks_itself = True
    shop.ask()
    state = shop.run(Command(resume={"decisions": [{"type": "approve"}]}))
    assert state["__interrupt__"][0].value == "Really?"
    shop.run(Command(resume="yes"))
    assert shop.ran == [7]


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [{"type": "approve"}, {"type": "approve"}],
        [{"type": "yes"}],
        [{"type": "edit", "edited_action": {}}],
        [{"type": "edit", "edited_action": {"name": "delete", "args": {}}}],
    ],
)
def test_decisions_that_do_not_fit_are_errors_and_can_be_made_again(bad: Any) -> None:
    """The tool does not run."""
    shop = Shop(ASKS)
    shop.ask()
    with pytest.raises(ValidationError):
        shop.decide(*bad)
    assert shop.ran == []
    assert shop.decide({"type": "approve"})[0] == "order 7 is refunded"


def test_the_guards_of_an_approved_call_see_the_conversation() -> None:
    """As they did before, though another request goes on."""
    seen: list[int] = []

    class See(Processor):
        role = "guard"

        def process_tool_call(self, ctx: ToolCallContext) -> None:
            seen.append(len(ctx.entries))

    shop = Shop(ASKS, See())
    shop.run({"messages": [("user", "Hi"), AIMessage("Hello"), ("user", "Refund order 7")]})
    shop.decide({"type": "approve"})
    assert seen == [4, 4]


def test_without_questions_the_graph_is_as_it_was() -> None:
    """No node is added."""
    agent: Any = create_agent(Model(responses=[AIMessage("Hi")]), middleware=[as_middleware(HIDES)])
    assert not [name for name in agent.nodes if "after_model" in name]


def test_an_approved_tool_may_ask_by_itself_over_processes() -> None:
    """Its stored approval counts again, once."""
    reviews = InMemoryStorage()
    shop = Shop(ASKS, reviews=reviews)
    shop.asks_itself = True
    shop.ask()
    state = shop.run(Command(resume={"decisions": [{"type": "approve"}]}))
    assert state["__interrupt__"][0].value == "Really?"
    resumes = other(shop, ASKS, reviews=reviews)
    resumes.asks_itself = True
    resumes.run(Command(resume="yes"))
    assert resumes.ran == [7]
    assert asyncio.run(Reviews(reviews).runs()).items == ()
