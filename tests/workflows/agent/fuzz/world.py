"""A random world for an agent: its model, tools and processors, and what they saw. It knows no law.

Each piece that a model or a tool says is a mark of its own, such as ``<t3.1>``: text 1 of the answer 3. What happens
is a matter of the seed alone, so that two requests in two worlds of one seed see the same.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from penstock import Agent, Chunk, ModelError, Processor, Tool, Workflow
from penstock.engine.processor.state import RunEnd
from penstock.engine.values.model import ModelRequest
from penstock.testing import CountingIds
from tests.workflows.agent.fuzz.acts import ACTS, act

STAGES = tuple(ACTS)
RELEASES = ("auto", "auto", "live", "step", "result")
MODES = ("none", "none", "leave", "cancel", "cancel-waiting", "task", "pull", "field")
PIECES = ("text-delta", "reasoning-delta")

Piece: TypeAlias = Chunk | str
"""A chunk of an answer, or what the model does between two: ``wait``, ``error``, ``broken``."""


@dataclass
class World:
    """What there is for one request, and what happened in it.

    Attributes:
        seed: from which all of it follows.
        dice: for what is decided before the request.
        turns: how many answers were begun, by the model or in its place.
        prompts: what the model was asked, by the answer's number.
        attempt: the number of the attempt at hand.
        attempts: the attempts at which answers were begun, by their numbers.
        gone: the marks that a processor took out of what it judged, by where it did so.
        dropped: the marks in chunks of calls and results that a processor dropped; the history keeps them.
        tools_run: the calls for which a tool began.
        running: how many tools run.
        streaming: how many answers the model is giving.
        ends: what was told at the end.
        waits: how often something has waited.
        stuck_at: the wait that lasts until it is cancelled; 0: none.
        reached: is set when it is reached.
        stopped: whether a final verdict was given.
        counts: how often each decision was taken.
        problems: what was seen to be wrong on the way.
    """

    seed: int
    dice: random.Random = field(init=False)
    turns: int = 0
    prompts: dict[int, ModelRequest] = field(default_factory=dict[int, ModelRequest])
    gone: dict[str, str] = field(default_factory=dict[str, str])
    dropped: set[str] = field(default_factory=set[str])
    tools_run: list[str] = field(default_factory=list[str])
    running: int = 0
    streaming: int = 0
    ends: list[RunEnd] = field(default_factory=list[RunEnd])
    attempt: int = 0
    attempts: dict[int, int] = field(default_factory=dict[int, int])
    waits: int = 0
    stuck_at: int = 0
    stopped: bool = False
    counts: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[str] = field(default_factory=list[str])
    reached: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - dice, no secrets

    def decide(self, *what: object) -> random.Random:
        """Return the dice for one decision; the next time of the same they are others."""
        key = "/".join(str(part) for part in what)
        self.counts[key] = self.counts.get(key, 0) + 1
        return random.Random(f"{self.seed}/{key}/{self.counts[key]}")  # noqa: S311 - see above

    async def pause(self) -> None:
        """Wait a little; at the wait at which the request is given up, for ever."""
        self.waits += 1
        if self.waits == self.stuck_at:
            self.reached.set()
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()

    def take(self) -> int:
        """Return the number of the answer that begins."""
        self.turns += 1
        self.attempts[self.turns - 1] = self.attempt
        return self.turns - 1


# The model


class RandomModel:
    """Answers at random."""

    name = "random"

    def __init__(self, world: World) -> None:
        self.world = world

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield an answer."""
        world = self.world
        world.streaming += 1
        try:
            turn = world.take()
            world.prompts[turn] = request
            for piece in answer(world, turn, tuple(spec.name for spec in request.tools)):
                if isinstance(piece, Chunk):
                    yield piece
                else:
                    await self._odd(piece)
        finally:
            world.streaming -= 1

    async def _odd(self, what: str) -> None:
        if what == "wait":
            await self.world.pause()
        elif what == "broken":
            raise RuntimeError("the model broke")
        else:
            raise ModelError(self.name, "it failed", status=500, retryable=True)


def answer(world: World, turn: int, tools: tuple[str, ...]) -> list[Piece]:
    """Return the pieces of an answer."""
    dice = world.decide("answer", turn)
    made: list[Piece] = ["wait"] if dice.random() < 0.4 else []
    if dice.random() < 0.12:
        return [*made, dice.choice(["error", "error", "broken"])]
    if dice.random() < 0.3:
        made += _block("reasoning", "r", turn, dice)
    made += _block("text", "t", turn, dice)
    calls = dice.randrange(3) if tools and dice.random() < 0.6 else 0
    for index in range(calls):
        payload = {
            "call_id": f"c{turn}.{index}",
            "name": dice.choice(tools),
            "arguments": {"word": f"<c{turn}.{index}>"},
        }
        made.append(Chunk("tool-call", id=f"c{turn}.{index}", payload=payload))
    if dice.random() < 0.12:
        return [*made[: dice.randrange(len(made) + 1)], "error"]
    reason = "tool-calls" if calls else dice.choice(["stop", "stop", "length", "content-filter"])
    end: list[Piece] = [] if dice.random() < 0.1 else [Chunk("finish", payload={"reason": reason})]
    return [*made, *end]


def _block(kind: str, letter: str, turn: int, dice: random.Random) -> list[Piece]:
    """Return a text between its ends, with waits."""
    id = f"{letter}{turn}"
    made: list[Piece] = [Chunk(f"{kind}-start", id=id)]
    for index in range(dice.randrange(4)):
        made.append(Chunk(f"{kind}-delta", f"<{letter}{turn}.{index}>", id))
        made += ["wait"] if dice.random() < 0.2 else []
    return [*made, Chunk(f"{kind}-end", id=id)]


# The tools


def tools(world: World) -> list[Tool]:
    """Return tools that answer, wait, and fail."""

    def named(name: str, work: Callable[[str], Awaitable[str]], **options: Any) -> Tool:
        async def run(word: str) -> str:
            if world.stopped:
                world.problems.append("a tool ran after a verdict")
            world.tools_run.append(word)
            world.running += 1
            try:
                return await work(word)
            finally:
                world.running -= 1

        return Tool(run, name=name, **options)

    async def answers(word: str) -> str:
        return f"<o{word[2:-1]}>"

    async def waits(word: str) -> str:
        await world.pause()
        await world.pause()
        return f"<o{word[2:-1]}>"

    async def fails(word: str) -> str:
        await world.pause()
        raise ValueError(word)

    return [
        named("answers", answers),
        named("waits", waits),
        named("alone", waits, concurrent=False),
        named("fails", fails),
        Tool.external("external", {"type": "object", "properties": {"word": {"type": "string"}}}),
    ]


# The processors


class RandomProcessor(Processor[dict[str, Any]]):
    """Has some stages, and does at each call what the dice say."""


def _hook(world: World, name: str, stage: str, *, wary: bool, waits: bool) -> Callable[..., Any]:
    """Return a hook; ``wary``: it does something odd now and then."""

    def done(ctx: Any, chunk: Chunk | None) -> Any:
        if world.stopped:
            world.problems.append(f"{stage} ran after a verdict")
        if stage == "process_input":
            ctx.on_end(world.ends.append)
        if ctx.state.setdefault("seed", world.seed) != world.seed:
            world.problems.append("state of another request")
        return act(world, stage, world.decide(name, stage), ctx, chunk, wary=wary)

    def plain(_self: object, *given: Any) -> Any:
        return done(given[-1], given[0] if len(given) > 1 else None)

    async def waiting(_self: object, *given: Any) -> Any:
        if world.decide(name, stage, "wait").random() < 0.5:
            await world.pause()
        return done(given[-1], given[0] if len(given) > 1 else None)

    return waiting if waits else plain


def processors(world: World) -> list[Any]:
    """Return what stands in the agent's ``processors``."""
    dice, made = world.dice, list[Any]([_spy(world)])
    for number in range(dice.randrange(5)):
        name = f"p{number}"
        stages = [stage for stage in STAGES if dice.random() < 0.3] or [dice.choice(STAGES)]
        wary = dice.random() < 0.75
        hooks: Mapping[str, Any] = {
            stage: _hook(world, name, stage, wary=wary, waits=dice.random() < 0.5) for stage in stages
        }
        kind = type(f"Random{number}", (RandomProcessor,), {**hooks, "id": name})
        one = kind()
        one.on_error = dice.choice(["block", "raise", "allow"])
        made.append(Workflow(f"w{number}").then(one) if dice.random() < 0.2 else one)
    if dice.random() < 0.2:
        made.append(_beside(world, dice))
    return made


def _spy(world: World) -> Processor[Any]:
    """Return what notes which attempt is at hand."""

    def process_input_step(_self: object, ctx: Any) -> None:
        world.attempt = len(ctx.steps)

    return type(
        "Spy", (RandomProcessor,), {"process_input_step": process_input_step, "id": "spy", "edits": "nothing"}
    )()


def _beside(world: World, dice: random.Random) -> Workflow:
    """Return a check that runs beside the model, or in its shadow."""

    async def process_input(_self: object, ctx: Any) -> None:
        await (anyio.lowlevel.checkpoint() if shadow else world.pause())  # a run gives its shadows time
        if world.decide("beside").random() < 0.25:
            ctx.abort("beside")

    shadow = dice.random() < 0.4
    kind = type("Beside", (RandomProcessor,), {"process_input": process_input, "id": "beside", "edits": "nothing"})
    one = kind()
    return Workflow("b").then(one, mode="shadow") if shadow else Workflow("b").then(one, overlap="model")


# The agent


@dataclass
class Case:
    """A request that is to be made.

    Attributes:
        world: where.
        agent: who is asked.
        release: when an answer's chunks may leave.
        mode: how the request is given up, if it is.
        at: after how many chunks, or at which wait.
    """

    world: World
    agent: Agent
    release: str
    mode: str
    at: int


def case(seed: int) -> Case:
    """Return the request of a seed."""
    world = World(seed)
    dice = world.dice
    release, mode, at = dice.choice(RELEASES), dice.choice(MODES), dice.randrange(1, 9)
    if mode in ("cancel-waiting", "task", "pull", "field"):
        world.stuck_at = at
    retries, errors = dice.choice([None, 0, 1, 2]), dice.choice([None, 0, 1, 3])
    steps = dice.randrange(1, 5)
    given = processors(world)
    agent = Agent(
        RandomModel(world),
        tools=tools(world) if dice.random() < 0.7 else [],
        processors=given,
        max_processor_retries=retries,
        max_error_retries=errors,
        max_steps=steps,
        release=release,  # type: ignore[arg-type]
        ids=CountingIds(),
    )
    return Case(world, agent, release, mode, at)
