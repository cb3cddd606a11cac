"""A world in which a request waits for a person at any stage: an agent as several processes make it, and its counts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from penstock import Agent, InMemoryStorage, Memory, PIIDetector, Processor, Tool
from penstock.engine import TextGuard
from penstock.engine.values.edits import Edit
from penstock.engine.values.frozen import thaw
from penstock.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import RunStore, Storage
    from penstock.engine.values.stored import StoredRun
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.agent.stream import AgentStream
    from penstock.workflows.review import Reviews

SECRET = "ann@example.com"
"""Hidden by a guard at every stage."""

LATE = "swordfish"
"""Hidden by a guard at the end of a request only."""

ANSWERS: tuple[Value, ...] = (
    {"text": f"I look for {SECRET}, {LATE}.", "tool_calls": [{"name": "look_up", "args": {"who": SECRET}}]},
    f"It is {SECRET}, {LATE}.",
)
STAGES = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_step",
    "process_tool_call",
    "process_tool_result",
    "process_output_result",
)


def asker(stage: str, **claims: Value) -> Processor[Any]:
    """Return a step that asks a person at a stage, and shows the text that it sees."""

    def hook(self: Processor[Any], ctx: AnyContext) -> None:
        del self
        if ctx.suspend("Is this allowed?", show={"text": ctx.text}) != "yes":
            ctx.abort("a person said no")

    made = {
        "id": "asker",
        "asks": True,
        "role": "guard",
        "edits": "nothing",
        "on_error": "block",
        stage: hook,
        **claims,
    }
    asks: Processor[Any] = type("Asker", (Processor,), made)()
    return asks


class Late(TextGuard):
    """Hides a word at the end of a request."""

    stages = ("process_output_result",)
    edits = "spans"

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        """Find the word."""
        del ctx, final
        return [Edit(one.start(), one.end(), "[HIDDEN]") for one in re.finditer(LATE, text)]


class World:
    """Everything outside of the processes: answers of the model that are left, and what was paid for."""

    def __init__(self, answers: Iterable[Value] = ANSWERS) -> None:
        self.answers = list(answers)
        self.paid: list[tuple[str, str]] = []

    def pay(self, kind: str, details: str) -> None:
        """Note a call of the model (``model``), of the tool (``tool``), or of the judge at a stage."""
        self.paid.append((kind, details))

    def judged_stages(self) -> tuple[str, ...]:
        """Return the stages at which the judge reads."""
        return STAGES

    def script(self) -> Value:
        """Return the answers of the model."""
        return list(self.answers)

    def look_up(self, who: str) -> str:
        """Look somebody up."""
        self.pay("tool", who)
        return f"{who} is {SECRET}, {LATE}"

    def judge(self) -> Processor[Any]:
        """Return a guard that is paid for: it reads each stage, and changes nothing."""

        def hook(stage: str) -> Value:
            def judge(_self: Value, ctx: AnyContext) -> None:
                states = [part.state for one in ctx.messages for part in one.parts if part.type == "tool"]
                self.pay(stage, ctx.text + (f" {states}" if stage == "process_output_result" else ""))

            return judge

        claims = {"id": "judge", "role": "guard", "edits": "nothing", "on_error": "block"}
        made = {**claims, **{stage: hook(stage) for stage in self.judged_stages()}}
        judge: Processor[Any] = type("Judge", (Processor,), made)()
        return judge

    def model(self, script: Value, kind: str = "model") -> ScriptedModel:
        """Return a model that is paid for; ``kind``: as in `pay`."""
        model = ScriptedModel(script)
        stream = model.stream

        def paid(request: Value) -> Value:
            self.pay(kind, request.messages[-1].text)
            del self.answers[:1]
            return stream(request)

        model.stream = paid  # type: ignore[method-assign]
        return model

    def agent(self, store: RunStore | Reviews | None, *steps: Value, **options: Value) -> Agent:
        """Return the agent as one process makes it."""
        model = self.model(self.script())
        given: dict[str, Any] = {
            "processors": [self.judge(), PIIDetector(), *steps],
            "tools": [Tool(self.look_up)],
            **options,
        }
        return Agent(model, reviews=store, **given)


class WatchedStore(InMemoryStorage):
    """A store that keeps every body that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[str] = []

    async def save_run(self, run: StoredRun) -> StoredRun:
        self.bodies.append(json.dumps(thaw(dict(run.body)), ensure_ascii=False))
        return await super().save_run(run)


def memory(store: Storage) -> Memory:
    """Return a memory in the same store."""
    return Memory(store)


class Passage:
    """A request that went through several processes.

    Attributes:
        results: the result in each process.
        left: the text that had left to the client after each of them.
        chunks: the chunks that left.
    """

    def __init__(self) -> None:
        self.results: list[AgentResult] = []
        self.left: list[str] = []
        self.chunks: list[Chunk] = []

    async def read(self, stream: AgentStream) -> None:
        """Read the stream of one process."""
        async with stream:
            self.chunks += [chunk async for chunk in stream]
            self.results.append(await stream.result)
        self.left.append("".join([chunk.text for chunk in self.chunks if chunk.type == "text-delta"]))


async def go_through(
    world: World, store: WatchedStore, *steps: Value, say: Value = "yes", first: Value = "yes", **options: Value
) -> Passage:
    """Send a request, and answer its questions, each in another process.

    Args:
        world: what is outside of the processes.
        store: where the request and its messages are stored.
        steps: processors behind the usual ones.
        say: the answer to all questions but the first.
        first: the answer to the first.
        options: options of the agent.
    """
    where: Any = {"thread_id": "t", "resource_id": "ann"}
    made: Any = {"memory": memory(store), **options}
    went = Passage()
    await went.read(world.agent(store, *steps, **made).stream(f"Who is {SECRET}?", **where))
    while went.results[-1].status == "suspended" and len(went.results) < 20:
        said = {one.id: first if len(went.results) == 1 else say for one in went.results[-1].questions}
        again = world.agent(store, *steps, **made)
        await went.read(again.resume_stream(went.results[-1].run_id, results=said))
    return went
