"""LangChain's agent with a tool and with a history, bare and with its middleware for personal data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import PIIMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

TYPES = ("email", "credit_card", "ip", "mac_address", "url")


class Calls(BaseChatModel):
    """Calls a tool so many times in each of so many steps, and then says that it is done."""

    steps: int
    calls: int
    says: str

    @property
    def _llm_type(self) -> str:
        return "calls"

    def bind_tools(self, *_args: Any, **_kwargs: Any) -> Calls:
        """Return itself: it knows the tool."""
        return self

    def _generate(self, messages: list[Any], *_args: Any, **_kwargs: Any) -> ChatResult:
        step = sum(1 for message in messages if isinstance(message, AIMessage) and message.tool_calls)
        pages = range(step * self.calls, (step + 1) * self.calls) if step < self.steps else ()
        made = [{"name": "fetch", "args": {"page": page}, "id": f"c{page}"} for page in pages]
        said = AIMessage("" if made else self.says, tool_calls=made)
        return ChatResult(generations=[ChatGeneration(message=said)])


def guards() -> list[Any]:
    """Return a middleware for each type of personal data that it knows."""
    return [PIIMiddleware(name, apply_to_output=True, apply_to_tool_results=True) for name in TYPES]


def tool_request(
    steps: int, calls: int, says: str, fetch: Callable[[int], object], *, guarded: bool
) -> Callable[[], Awaitable[str]]:
    """Return a request in which a model calls a tool."""
    model = Calls(steps=steps, calls=calls, says=says)

    async def asked() -> str:
        agent: Any = create_agent(model, [fetch], middleware=guards() if guarded else [])
        done = await agent.ainvoke({"messages": [("user", "Read all pages")]}, {"recursion_limit": 500})
        return str(done["messages"][-1].content)

    return asked


def turn(says: str, *, guarded: bool) -> Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]:
    """Return a turn: a function of the conversation so far."""
    agent: Any = create_agent(Calls(steps=0, calls=0, says=says), middleware=[*guards()] if guarded else [])

    async def asked(conversation: Sequence[Mapping[str, str]]) -> str:
        done = await agent.ainvoke({"messages": list(conversation)})
        return str(done["messages"][-1].content)

    return asked
