"""LangChain: agents of `create_agent` with a scripted chat model, and LangGraph's memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ConfigDict

from penstock.workflows.adapters.langchain import as_middleware
from tests.hosts.contract import Call, Job, Says, Seen, strings

NAME = "LangChain"
PACKAGE = "langchain"
LACKS: dict[str, str] = {}


class Scripted(BaseChatModel):
    """A chat model that answers by the script."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    job: Any
    seen: Any
    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Take the tools."""
        return self

    def _ask(self, messages: list[BaseMessage]) -> Says:
        self.seen.asked.append(strings([message.model_dump() for message in messages]))
        said: Says = next(self.script)
        if said.fails is not None:
            raise said.fails
        if self.job.output_type is not None and not said.calls:
            return Says(calls=[Call(self.job.output_type.__name__, eval(said.whole), "o1")])  # noqa: S307 - our own
        return said

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._result(self._ask(messages))

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        said = self._ask(messages)
        if self.job.gate is not None:
            await self.job.gate()
        return self._result(said)

    def _result(self, said: Says) -> ChatResult:
        if said.breaks is not None:
            raise said.breaks
        thoughts = {"reasoning_content": "".join(said.reasoning)} if said.reasoning else {}
        calls: Any = [{"name": call.name, "args": dict(call.arguments), "id": call.id} for call in said.calls]
        return ChatResult(
            generations=[ChatGeneration(message=AIMessage(said.whole, tool_calls=calls, additional_kwargs=thoughts))]
        )

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        yield from self._pieces(self._ask(messages))

    async def _astream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        said = self._ask(messages)
        manager = kwargs.get("run_manager")
        pieces = list(self._pieces(said))
        for number, piece in enumerate(pieces):
            if self.job.gate is not None and number == len(pieces) - 1:
                await self.job.gate()
            if manager is not None:
                await manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece
        if said.breaks is not None:
            raise said.breaks

    def _pieces(self, said: Says) -> Iterator[ChatGenerationChunk]:
        for thought in said.reasoning:
            told = AIMessageChunk(content="", additional_kwargs={"reasoning_content": thought})
            yield ChatGenerationChunk(message=told)
        for text in said.streamed:
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        for number, call in enumerate(said.calls):
            text = str(dict(call.arguments)).replace("'", '"')
            for name, id, args in ((call.name, call.id, text[:3]), (None, None, text[3:])):
                made = tool_call_chunk(name=name, args=args, id=id, index=number)
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[made]))


async def run(job: Job) -> Seen:
    """Run one request."""
    seen = Seen()
    saver, thread = job.earlier or (InMemorySaver(), str(uuid4()))
    seen.memory = (saver, thread)
    agent: Any = create_agent(
        Scripted(job=job, seen=seen, script=iter(job.script)),
        list(job.tools),
        middleware=[as_middleware(*job.guards, **job.options)] if job.guards else [],
        response_format=None if job.output_type is None else ToolStrategy(job.output_type, handle_errors=False),
        checkpointer=saver,
    )
    config: Any = {"configurable": {"thread_id": thread}}
    asked = {"messages": [{"role": "user", "content": job.text}]}
    try:
        if job.streamed:
            async for message, _ in agent.astream(asked, config, stream_mode="messages"):
                if isinstance(message, AIMessageChunk) and message.text:
                    seen.shown.append(message.text)
                seen.events += strings(message.model_dump(exclude={"content"}))
            state = agent.get_state(config).values
        else:
            state = await agent.ainvoke(asked, config)
        seen.output = state["messages"][-1].text if job.output_type is None else state["structured_response"]
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error, seen.tripwire = error, getattr(error, "tripwire", None)
    kept = agent.get_state(config).values.get("messages", [])
    seen.history = strings([message.model_dump() for message in kept])
    return seen
