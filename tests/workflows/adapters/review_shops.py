"""Agents with a refund tool in frameworks that wait for people, made anew in each process over one store of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import agents
import pydantic_ai
from agents.testing import assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from penstock.processors.tools import ToolPolicy
from penstock.workflows.adapters.langchain import as_middleware
from penstock.workflows.adapters.openai_agents import as_runner
from penstock.workflows.adapters.pydantic_ai import as_capability
from tests.workflows.adapters.openai_agents_model import script

if TYPE_CHECKING:
    from collections.abc import Sequence

ASKS = ToolPolicy(ask=["refund"])


class _Model(FakeMessagesListChatModel):
    """A model that takes tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return itself."""
        return self


class _Shop:
    """A shop whose agent refunds orders, and asks before.

    Args:
        reviews: the store.
        others: more guards.
        asks: the guard that asks about refunds.
        orders: the orders that the model refunds, in one answer.
        question: what the user says.
        about: the description of the tool.
        to: to whom the model refunds.
        held: what the framework holds of a run that waits, in another process.

    Attributes:
        edits: whether the framework takes other arguments.
        ran: the orders that were refunded.
    """

    edits = True

    def __init__(
        self,
        reviews: Any,
        *others: Any,
        asks: Any = ASKS,
        orders: Sequence[int] = (7,),
        question: str = "Refund it",
        about: str = "Refund an order.",
        to: str = "",
        held: Any = None,
    ) -> None:
        self.ran: list[Any] = []
        self._question, self._about, self._held = question, about, held
        self._calls = {f"c{order}": {"order": order, "to": to} if to else {"order": order} for order in orders}
        self._open([*others, asks], reviews)

    def _open(self, guards: list[Any], reviews: Any) -> None:
        """Make the agent of the framework."""
        raise NotImplementedError

    def _refund(self, order: int, to: str) -> str:
        self.ran.append((order, to) if to else order)
        return f"order {order} is refunded"


class LangChainShop(_Shop):
    """In LangChain; ``held`` is the checkpointer."""

    def _open(self, guards: list[Any], reviews: Any) -> None:
        calls: Any = [{"name": "refund", "args": args, "id": id} for id, args in self._calls.items()]
        model = _Model(responses=[AIMessage("I refund.", tool_calls=calls), AIMessage("Done.")])
        model.i = 0 if self._held is None else 1
        self._held = self._held or InMemorySaver()
        self._thread: Any = {"configurable": {"thread_id": "t1"}}

        @langchain_tool(description=self._about)
        def refund(order: int, to: str = "") -> str:
            return self._refund(order, to)

        self.guard = as_middleware(*guards, reviews=reviews)
        self.agent: Any = create_agent(model, [refund], middleware=[self.guard], checkpointer=self._held)

    async def ask(self) -> Any:
        """Begin a run that waits."""
        await self.agent.ainvoke({"messages": [("user", self._question)]}, self._thread)
        return self._held

    async def stored(self) -> list[str] | None:
        """Go on with the decisions of the store."""
        state = await self.agent.aget_state(self._thread)
        command = await self.guard.stored_decisions(state.interrupts)
        return None if command is None else await self._resumed(command)

    async def own(self, approves: bool, arguments: Any = None) -> list[str]:
        """Go on in LangChain's own way."""
        state = await self.agent.aget_state(self._thread)
        one: Any = {"type": "approve" if approves else "reject"}
        if arguments is not None:
            one = {"type": "edit", "edited_action": {"name": "refund", "args": arguments}}
        asked = state.interrupts[0].value["action_requests"]
        return await self._resumed(Command(resume={"decisions": [one for _ in asked]}))

    async def _resumed(self, command: Any) -> list[str]:
        state = await self.agent.ainvoke(command, self._thread)
        assert "__interrupt__" not in state
        return [one.text for one in state["messages"] if isinstance(one, ToolMessage)]


class PydanticShop(_Shop):
    """In pydantic-ai; ``held`` is the JSON of the messages."""

    def _open(self, guards: list[Any], reviews: Any) -> None:
        self._read: list[str] = []

        def refund(order: int, to: str = "") -> str:
            return self._refund(order, to)

        self.guard = as_capability(*guards, reviews=reviews)
        self.agent: Any = pydantic_ai.Agent(
            FunctionModel(self._answer),
            output_type=[str, pydantic_ai.DeferredToolRequests],
            capabilities=[self.guard],
            tools=[pydantic_ai.Tool(refund, description=self._about)],
        )

    def _answer(self, messages: Any, info: Any) -> ModelResponse:
        self._read = [str(part.content) for part in messages[-1].parts if part.part_kind == "tool-return"]
        if self._read:
            return ModelResponse([TextPart("Done.")])
        calls = [ToolCallPart("refund", args, id) for id, args in self._calls.items()]
        return ModelResponse([TextPart("I refund."), *calls])

    async def ask(self) -> Any:
        """Begin a run that waits."""
        self._held = (await self.agent.run(self._question)).all_messages_json()
        return self._held

    async def stored(self) -> list[str] | None:
        """Go on with the decisions of the store."""
        results = await self.guard.stored_decisions(ModelMessagesTypeAdapter.validate_json(self._held))
        return None if results is None else await self._resumed(results)

    async def own(self, approves: bool, arguments: Any = None) -> list[str]:
        """Go on in pydantic-ai's own way."""
        made = pydantic_ai.ToolApproved(override_args=arguments) if approves else pydantic_ai.ToolDenied()
        return await self._resumed(pydantic_ai.DeferredToolResults(approvals=dict.fromkeys(self._calls, made)))

    async def _resumed(self, results: Any) -> list[str]:
        history = ModelMessagesTypeAdapter.validate_json(self._held)
        await self.agent.run(message_history=history, deferred_tool_results=results)
        return self._read


class OpenAIShop(_Shop):
    """In the OpenAI Agents SDK; ``held`` is the JSON of the state."""

    edits = False

    def _open(self, guards: list[Any], reviews: Any) -> None:
        def refund(order: int, to: str = "") -> str:
            return self._refund(order, to)

        calls = [function_call("refund", args, call_id=id) for id, args in self._calls.items()]
        first = [] if self._held else [[assistant_message("I refund."), *calls]]
        self.model = script(*first, assistant_message("Done."))
        tool = agents.function_tool(refund, description_override=self._about, strict_mode=False)
        self.agent = agents.Agent[Any](name="a", model=self.model, tools=[tool])
        self.runner = as_runner(*guards, reviews=reviews)

    async def ask(self) -> Any:
        """Begin a run that waits."""
        result = await self.runner.run(self.agent, self._question)
        self._held = result.to_state().to_json()
        return self._held

    async def stored(self) -> list[str] | None:
        """Go on with the decisions of the store."""
        state: Any = await agents.RunState.from_json(self.agent, self._held)
        return await self._resumed(state) if await self.runner.decide(state) else None

    async def own(self, approves: bool, arguments: Any = None) -> list[str]:
        """Go on in the SDK's own way."""
        assert arguments is None
        state: Any = await agents.RunState.from_json(self.agent, self._held)
        for item in state.get_interruptions():
            (state.approve if approves else state.reject)(item)
        return await self._resumed(state)

    async def _resumed(self, state: Any) -> list[str]:
        await self.runner.run(self.agent, state)
        given = cast("list[Any]", self.model.calls[-1].input)
        return [one["output"] for one in given if one.get("type") == "function_call_output"]


SHOPS: dict[str, Any] = {"langchain": LangChainShop, "pydantic-ai": PydanticShop, "openai-agents": OpenAIShop}
