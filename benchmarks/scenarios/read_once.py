"""The tool-heavy agent, and the history that is sent again: with `safety()`, bare, and in other agents.

The guards of the tool-heavy agent are made anew for each request, so that no result was seen before. A conversation is
the same each time but for its last message, as a client sends it turn by turn.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from itertools import count
from typing import Any

from harness import Contest, Timed, Work
from scenarios.agent import one_by_one, version

from penstock import Agent, Chunk
from penstock.engine import ModelRequest
from penstock.workflows.presets import safety

STEPS, CALLS, SIZE = 10, 3, 20_000
MESSAGES = 200
DONE = "All of it was read."
SENTENCES = (
    "The parcel was handed over at the front desk.",
    "Our team will look at it again on Monday.",
    "The customer asked for a later date.",
    "The invoice has been paid in full.",
    "Nothing else is open for this order.",
    "The colour was changed to green on request.",
    "Please see the second page of the form.",
)
WORDS = ("green", "blue", "small", "parcel", "order", "desk", "gift")
PEERS = {
    "LangChain": ("langchain", "peers.langchain_tools"),
    "pydantic-ai": ("pydantic-ai-slim", "peers.pydantic_ai_tools"),
}


def result(seed: int) -> dict[str, Any]:
    """Return a tool's result of 20 kB: records with a few fields each."""
    dice = random.Random(seed)  # noqa: S311 - dice
    rows: list[dict[str, Any]] = []
    size = 0
    while size < SIZE:
        row = {
            "id": dice.randrange(10**5),
            "status": dice.choice(("open", "closed", "pending")),
            "title": f"{' '.join(dice.choices(WORDS, k=3))} {dice.randrange(1_000)}",
            "notes": " ".join(dice.choices(SENTENCES, k=3)),
            "amount": round(dice.random() * 1_000, 2),
            "tags": dice.sample(WORDS, 3),
            "done": dice.random() < 0.5,
        }
        rows.append(row)
        size += len(json.dumps(row))
    return {"rows": rows, "total": len(rows)}


RESULTS = [result(seed) for seed in range(STEPS * CALLS)]
_DICE = random.Random(1)  # noqa: S311 - dice
HISTORY = [
    {"role": "assistant" if number % 2 else "user", "content": " ".join(_DICE.choices(SENTENCES, k=5))}
    for number in range(MESSAGES)
]


def fetch(page: int) -> object:
    """Return a page."""
    return RESULTS[page]


class Calls:
    """A model that calls the tool in each of its steps, and then says that it is done."""

    name = "calls"

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the calls of a step, or the answer."""
        step = sum(message.role == "assistant" for message in request.messages) if self._steps else 0
        if step < self._steps:
            for page in range(step * CALLS, (step + 1) * CALLS):
                call = {"call_id": f"c{page}", "name": "fetch", "arguments": {"page": page}}
                yield Chunk("tool-call", id=f"c{page}", payload=call)
            yield Chunk("finish", payload={"reason": "tool-calls"})
            return
        yield Chunk("text-start", id="t")
        yield Chunk("text-delta", DONE, "t")
        yield Chunk("text-end", id="t")
        yield Chunk("finish", payload={"reason": "stop"})


def tool_heavy(*, guarded: bool) -> Callable[[], Awaitable[str]]:
    """Return a request to an agent that was made for it."""

    async def request() -> str:
        processors = [safety()] if guarded else []
        agent = Agent(Calls(STEPS), tools=[fetch], max_steps=STEPS + 2, processors=processors)
        async with agent.stream("Read all pages") as stream:
            return "".join([text async for text in stream.text_stream])

    return request


def turn(*, guarded: bool) -> Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]:
    """Return a turn of an agent that serves them all."""
    agent = Agent(Calls(0), processors=[safety()] if guarded else [])

    async def asked(conversation: Sequence[Mapping[str, str]]) -> str:
        return (await agent.generate([*conversation])).text

    return asked


def turns(asked: Callable[[Sequence[Mapping[str, str]]], Awaitable[str]]) -> Work:
    """Return a contestant that makes one turn after another: the same history, and a new message."""
    numbers = count()

    async def request() -> str:
        return await asked([*HISTORY, {"role": "user", "content": f"And what about number {next(numbers)}?"}])

    return one_by_one(request)


def peers() -> tuple[dict[str, Work], dict[str, Work]]:
    """Return the other agents that are installed: with the tool, and with the history."""
    tools: dict[str, Work] = {}
    histories: dict[str, Work] = {}
    for name, (package, module) in PEERS.items():
        if version(package) is None:
            continue
        made = import_module(module)
        kinds: dict[str, dict[str, bool]] = {name: {}}
        if name == "LangChain":
            kinds = {"LangChain": {"guarded": False}, "LangChain, 5 × PIIMiddleware": {"guarded": True}}
        for label, given in kinds.items():
            tools[label] = one_by_one(made.tool_request(STEPS, CALLS, DONE, fetch, **given))
            histories[label] = turns(made.turn(DONE, **given))
    return tools, histories


async def contests() -> list[Contest]:
    """Return the contests."""
    tools, histories = peers()
    bare = "the same agent without guards"
    heavy = f"an agent with safety(), {STEPS} steps × {CALLS} results of {SIZE // 1_000} kB, none seen before"
    again = f"a turn with safety(), {MESSAGES} earlier messages sent again"
    return [
        Contest(heavy, bare, one_by_one(tool_heavy(guarded=True)), one_by_one(tool_heavy(guarded=False)), 14, tools),
        Contest(again, bare, turns(turn(guarded=True)), turns(turn(guarded=False)), 1.6, histories),
    ]


SCENARIO = Timed("read_once", contests)
