"""Model calls driven by hand, one a run, and requests to agents: what the tests of the cache share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio

from penstock import Agent, Chunk, Message, ResponseCache, Workflow
from penstock.engine import ModelRequest
from penstock.engine.values.answer_builder import Assembly
from penstock.testing import ScriptedModel

SAID = (Chunk("text-delta", "hi", "t"), Chunk("finish", payload={"reason": "stop"}))
HELLO = ModelRequest((Message.user("hello"),))


class Named:
    """A model that is never asked: a name, and what else tells it apart."""

    def __init__(self, name: str = "test/model", identity: Any = None) -> None:
        self.name = name
        self.identity = identity


async def hit(
    cache: ResponseCache,
    request: ModelRequest = HELLO,
    *,
    model: Any = "test/model",
    step: int = 0,
    said: Sequence[Chunk] = SAID,
    **context: Any,
) -> tuple[Chunk, ...]:
    """Make one model call in a run of its own, in which the model says what is given; return what spared it, if any."""
    run = Workflow("w").then(cache).start(request_context=context)
    async with run:
        for _ in range(step + 1):
            await run.process_input_step()
        outcome = await run.process_llm_request(request.messages, request=request, model=model)
        if outcome.answer is not None:
            answer: tuple[Chunk, ...] = outcome.answer
            return answer
        answered = Assembly()
        for chunk in said:
            answered.add(chunk)
        message = [answered.message] if answered.message.parts else None
        sent = replace(request, messages=outcome.messages)
        await run.process_llm_response(message, chunks=said, request=sent, model=model)
    return ()


class Shared:
    """A cache whose keys and values can be looked at; it may hang or break."""

    def __init__(self, **broken: str) -> None:
        self.kept: dict[str, str] = {}
        self.ttls: dict[str, float | None] = {}
        self.broken = broken

    async def get(self, key: str) -> str | None:
        """Return what is kept."""
        await self._fail("get")
        return self.kept.get(key)

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep it."""
        await self._fail("set")
        self.kept[key], self.ttls[key] = value, ttl

    async def _fail(self, what: str) -> None:
        if self.broken.get(what) == "raise":
            raise OSError("secret place")
        if self.broken.get(what) == "hang":
            await anyio.sleep_forever()

    @property
    def answers(self) -> list[str]:
        """The keys under which answers are kept."""
        return [key for key, value in self.kept.items() if key.startswith("penstock:response:") and value]


class Gate(ScriptedModel):
    """A model that answers when it is let to, and tells when it is asked."""

    def __init__(self, say: Callable[[int], Any] = lambda number: f"answer {number}") -> None:
        super().__init__(self._answer)
        self.opened = anyio.Event()
        self.asked = anyio.Event()
        self._say = say

    async def _answer(self, _request: ModelRequest) -> Any:
        number = len(self.requests)
        self.asked.set()
        await self.opened.wait()
        return self._say(number)


async def streamed(agent: Agent, text: str, **options: Any) -> AsyncIterator[Chunk]:
    """Yield the chunks of a streamed request."""
    async with agent.stream(text, **options) as stream:
        async for chunk in stream.full_stream:
            yield chunk
