"""A streamed request to an agent, against the same by hand and in other agents: alone, and 1,000 at once.

The model gives what was made before, so nothing but what the agent itself does is in the figures. At once, each request
waits in the midst of its answer until all others have come as far.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module, metadata

from harness import FLOOR, OURS, Contest, Effort, Row, Timed, Work
from scenarios.concurrent import REQUESTS, Meeting, Weighing, all_at_once, weight
from streaming import pieces

from penstock import (
    Agent,
    Chunk,
    InputContext,
    InputStepContext,
    Message,
    MessageList,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    Processor,
    Workflow,
)
from penstock.engine import ModelRequest
from penstock.engine.graph.plan import PlanStep, plan_steps
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import RunState, StageCall
from penstock.engine.values.frozen import EMPTY

LENGTH = 50
AGAIN = 5
MANY = f"{REQUESTS:,} streamed requests at once, {LENGTH} chunks"
TITLE = f"{MANY}, 5 hooks"
FLOOR_IS = "a task each; a MessageList made, four awaits, a context made for each; a hook called for each chunk"
ALONE_IS = "the model's chunks looped over"
PEERS = {
    "pydantic-ai": ("pydantic-ai-slim", "peers.pydantic_ai_agent"),
    "LangChain": ("langchain", "peers.langchain_agent"),
    "OpenAI Agents SDK": ("openai-agents", "peers.openai_agent"),
}
"""By the name of another agent: its distribution, and the module with a request to it."""


class Hooks(Processor):
    """Five hooks that do nothing; four of them could wait."""

    async def process_input(self, _ctx: InputContext) -> None:
        """Find nothing."""

    async def process_input_step(self, _ctx: InputStepContext) -> None:
        """Find nothing."""

    def process_output_stream(self, chunk: Chunk, _ctx: OutputStreamContext) -> Chunk:
        """Give every chunk back."""
        return chunk

    async def process_output_step(self, _ctx: OutputStepContext) -> None:
        """Find nothing."""

    async def process_output_result(self, _ctx: OutputResultContext) -> None:
        """Find nothing."""


class Says:
    """A model that says what was made before, and waits in its midst until others have come as far."""

    name = "says"

    def __init__(self, meeting: Meeting | None = None) -> None:
        self._meeting = meeting
        self._chunks = [chunk.with_payload({}) for chunk in pieces(LENGTH)]

    async def stream(self, _request: ModelRequest | None) -> AsyncIterator[Chunk]:
        """Yield the answer."""
        yield Chunk("text-start", id="t")
        for number, chunk in enumerate(self._chunks):
            if self._meeting is not None and number == LENGTH // 2:
                await self._meeting.wait()
            yield chunk
        yield Chunk("text-end", id="t")
        yield Chunk("finish", payload={"reason": "stop"})


def ours(agent: Agent) -> Callable[[], Awaitable[str]]:
    """Return a request to our agent."""

    async def request() -> str:
        async with agent.stream("Hi") as stream:
            return "".join([text async for text in stream.text_stream])

    return request


def by_hand(model: Says) -> Callable[[], Awaitable[str]]:
    """Return the same request as one would write it for these hooks and this model."""
    hooks = Hooks()
    plans = Workflow("hooks").then(hooks).plans
    steps = {name: next(iter(plan_steps(plans.stage(name)))) for name in STAGES if plans.stage(name) is not None}

    async def request() -> str:
        run = RunState("by hand", {})
        calls = {name: StageCall(run, STAGES[name], EMPTY, frozenset()) for name in steps}

        def told(name: str, messages: MessageList) -> tuple[StageCall, PlanStep, Payload]:
            return calls[name], steps[name], Payload(messages)

        messages = MessageList("Hi")
        await hooks.process_input(InputContext(*told("process_input", messages)))
        await hooks.process_input_step(InputStepContext(*told("process_input_step", messages)))
        ctx = OutputStreamContext(*told("process_output_stream", messages))
        texts: list[str] = []
        async for chunk in model.stream(None):
            made = hooks.process_output_stream(chunk, ctx)
            if made.type == "text-delta":
                texts.append(made.text)
        text = "".join(texts)
        messages = messages.add([Message.assistant(text)])
        await hooks.process_output_step(OutputStepContext(*told("process_output_step", messages)))
        await hooks.process_output_result(OutputResultContext(*told("process_output_result", messages)))
        return text

    return request


def looped(model: Says) -> Callable[[], Awaitable[str]]:
    """Return a request without any agent."""

    async def request() -> str:
        return "".join([chunk.text async for chunk in model.stream(None) if chunk.type == "text-delta"])

    return request


def one_by_one(request: Callable[[], Awaitable[str]]) -> Work:
    """Return a contestant that makes one request after another."""

    async def work(times: int) -> str:
        text = ""
        for _ in range(times):
            text = await request()
        return text

    return work


def again(work: Work) -> Work:
    """Return a contestant that does it several times, so that the garbage of the earlier times counts."""

    async def repeated(times: int) -> object:
        return await work(AGAIN * times)

    return repeated


def works(meeting: Meeting) -> tuple[Work, Work]:
    """Return our way and the hand-written one, for all requests at once."""
    model = Says(meeting)
    return all_at_once(ours(Agent(model, processors=[Hooks()], release="live"))), all_at_once(by_hand(model))


def bare_works(meeting: Meeting) -> dict[str, Work]:
    """Return our way and the hand-written one without hooks, for all requests at once."""
    model = Says(meeting)
    return {FLOOR: all_at_once(looped(model)), OURS: all_at_once(ours(Agent(model)))}


def peers() -> dict[str, Work]:
    """Return other agents, where they are installed, and ours with a model of theirs."""
    texts = [chunk.text for chunk in pieces(LENGTH)]
    installed = {name: module for name, (package, module) in PEERS.items() if version(package) is not None}
    found = {name: one_by_one(import_module(module).request(texts)) for name, module in installed.items()}
    if "pydantic-ai" in found:
        model = import_module("peers.pydantic_ai_agent").model(texts)
        found["penstock with a model of pydantic-ai"] = one_by_one(ours(Agent(model)))
    return found


def version(package: str) -> str | None:
    """Return the version of a peer; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


async def contests() -> list[Contest]:
    """Return the contests in time."""
    at_once, floor = works(Meeting())
    model = Says()
    hooked = Agent(model, processors=[Hooks()], release="live")
    bare = f"a streamed request of {LENGTH} chunks"
    return [
        Contest(f"{TITLE}, each", FLOOR_IS, at_once, floor, per=REQUESTS),
        Contest(f"the same {AGAIN} times in a row, each", FLOOR_IS, again(at_once), again(floor), per=AGAIN * REQUESTS),
        Contest(f"{bare}, 5 hooks", FLOOR_IS, one_by_one(ours(hooked)), one_by_one(by_hand(model))),
        Contest(
            f"{bare}, no hooks", ALONE_IS, one_by_one(ours(Agent(model))), one_by_one(looped(model)), peers=peers()
        ),
    ]


async def weighed() -> list[Row]:
    """Return the memory that a request holds while all are alive, the smallest of three."""
    scale = Weighing()
    at_once, floor = works(scale)
    figures = {FLOOR: await weight(floor, scale), OURS: await weight(at_once, scale)}
    bare = {name: await weight(work, scale) for name, work in bare_works(scale).items()}
    return [
        Row("agent", f"{TITLE}, memory of one", FLOOR_IS, figures, None, "B"),
        Row("agent", f"{MANY}, no hooks, memory of one", ALONE_IS, bare, None, "B"),
    ]


@dataclass(frozen=True, slots=True)
class Agents(Timed):
    """The scenario: time as in the others, and memory beside it."""

    @property
    def notes(self) -> list[str]:
        """What to know about the figures."""
        found = {package: version(package) for package, _ in PEERS.values()}
        return ["Agents: " + ", ".join(f"{name} {known or 'is not installed'}" for name, known in found.items()) + "."]

    def rows(self, effort: Effort) -> list[Row]:
        """Time and weigh."""
        return [*Timed.rows(self, effort), *asyncio.run(weighed())]


SCENARIO = Agents("agent", contests)
