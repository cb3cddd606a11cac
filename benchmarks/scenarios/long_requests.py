"""A request of many rounds of tools, against short requests with as many rounds; and the memory of an open stream.

The ratio says what a round costs more because there were others before it. The tool and the model do nothing, so that
only the agent is timed; peers make the long request.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module

from harness import FLOOR, OURS, Contest, Effort, Row, Timed, Work
from scenarios.agent import version

from penstock import Agent, Chunk
from penstock.engine import ModelRequest

ROUNDS = 192
SHORT = 16
SAYS = "Done."
PEERS = {
    "LangChain": ("langchain", "peers.langchain_tools"),
    "pydantic-ai": ("pydantic-ai-slim", "peers.pydantic_ai_tools"),
}
OPEN = 50
PIECES = 1_000
PIECE = "five "


def fetch(page: int) -> str:
    """Fetch a page."""
    return f"page {page}"


class Rounds:
    """A model that calls the tool once in each of so many rounds, and then says that it is done."""

    name = "rounds"

    def __init__(self, rounds: int) -> None:
        self._calls = iter(range(rounds))

    async def stream(self, _request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield a call, or the answer."""
        page = next(self._calls, None)
        if page is None:
            yield Chunk("text-delta", SAYS, id="t")
            yield Chunk("finish", payload={"reason": "stop"})
            return
        call = {"call_id": f"c{page}", "name": "fetch", "arguments": {"page": page}}
        yield Chunk("tool-call", id=f"c{page}", payload=call)
        yield Chunk("finish", payload={"reason": "tool-calls"})


def asked(rounds: int) -> Callable[[], Awaitable[str]]:
    """Return a request to our agent."""

    async def request() -> str:
        return (await Agent(Rounds(rounds), tools=[fetch], max_steps=rounds + 1).generate("Read all pages")).text

    return request


def repeated(request: Callable[[], Awaitable[str]], count: int = 1) -> Work:
    """Return a contestant that makes so many requests."""

    async def work(times: int) -> str:
        said = ""
        for _ in range(times * count):
            said = await request()
        return said

    return work


def peers() -> dict[str, Work]:
    """Return the same request to other agents, where they are installed."""
    found: dict[str, Work] = {}
    for name, (package, module) in PEERS.items():
        if version(package) is not None:
            options = {"guarded": False} if name == "LangChain" else {}
            found[name] = repeated(import_module(module).tool_request(ROUNDS, 1, SAYS, fetch, **options))
    return found


async def contests() -> list[Contest]:
    """Return the contest in time."""
    floor = f"a round of {ROUNDS // SHORT} requests of {SHORT}"
    short = repeated(asked(SHORT), ROUNDS // SHORT)
    title = f"a round of tools in a request of {ROUNDS}"
    return [Contest(title, floor, repeated(asked(ROUNDS)), short, 1.3, peers(), ROUNDS)]


class Waits:
    """A model that sends a text in pieces, and waits before its end."""

    name = "waits"

    def __init__(self) -> None:
        self.sent = 0
        self.all_sent, self.may_end = asyncio.Event(), asyncio.Event()

    async def stream(self, _request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the text."""
        for _ in range(PIECES):
            yield Chunk("text-delta", "".join(PIECE), id="t")
        self.sent += 1
        if self.sent == OPEN:
            self.all_sent.set()
        await self.may_end.wait()
        yield Chunk("finish", payload={"reason": "stop"})


async def held() -> float:
    """Return how many bytes an open stream of our agent holds."""
    model = Waits()
    agent = Agent(model)

    async def read() -> None:
        async with agent.stream("Hi") as stream:
            async for _ in stream.text_stream:
                pass

    await Agent(Rounds(0)).generate("Hi")  # what is loaded once does not count
    gc.collect()
    tracemalloc.start()
    try:
        tasks = [asyncio.create_task(read()) for _ in range(OPEN)]
        await model.all_sent.wait()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] / OPEN
    finally:
        tracemalloc.stop()
    model.may_end.set()
    await asyncio.gather(*tasks)
    return size


@dataclass(frozen=True, slots=True)
class LongRequests(Timed):
    """The scenario: time as in the others, and memory beside it."""

    def rows(self, effort: Effort) -> list[Row]:
        """Time and weigh."""
        title = f"an open stream of an agent, {PIECES * len(PIECE):,} characters in {PIECES:,} pieces, memory"
        figures = {FLOOR: float(PIECES * len(PIECE)), OURS: asyncio.run(held())}
        memory = Row(self.name, title, "a byte a character", figures, 8.0, "B")
        return [*Timed.rows(self, effort), memory]


SCENARIO = LongRequests("long_requests", contests)
