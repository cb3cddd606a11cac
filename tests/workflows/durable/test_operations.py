"""A request as recorded operations: no process does again what the log holds, and the log holds nothing hidden."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from penstock import Agent, InMemoryStorage, PIIDetector, Tool, processor
from penstock.engine import OutputStepContext, ToolCallContext
from penstock.testing import ScriptedModel
from penstock.workflows.agent.json_changes import changed_json
from penstock.workflows.agent.operations import begin_request, dump_stored, run_operations
from penstock.workflows.review import Reviews
from tests.workflows.durable.world import HIDDEN, SECRET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


class Log:
    """Operations that are recorded as JSON texts, in order."""

    def __init__(self, *entries: tuple[str, str]) -> None:
        self.entries = list(entries)
        self._place = 0

    async def run(self, name: str, work: Callable[[], Awaitable[dict[str, Any]]], /) -> dict[str, Any]:
        """Return what is recorded at this place, or record it."""
        if self._place == len(self.entries):
            self.entries.append((name, json.dumps(await work())))
        known, value = self.entries[self._place]
        assert known == name
        self._place += 1
        return json.loads(value)  # type: ignore[no-any-return]


class World:
    """An agent, and what was paid for."""

    def __init__(self, reviews: Reviews | None = None, *, approval: bool = False) -> None:
        self.paid: list[str] = []
        first = anyio.Event()

        async def find(order: int) -> str:
            if order == 7:
                await first.wait()  # the second call ends before the first
            first.set()
            self.paid.append(f"tool {order}")
            return f"order {order} of {SECRET}"

        @processor
        def answers(ctx: OutputStepContext) -> None:
            self.paid.append(f"judge answer {ctx.step_number}")

        @processor
        def calls(ctx: ToolCallContext) -> None:
            self.paid.append(f"judge {ctx.call_id}")

        def says(request: ModelRequest) -> dict[str, Any]:
            done = any(getattr(part, "state", "") == "result" for one in request.messages for part in one.parts)
            self.paid.append(f"model {done}")
            asked = [{"name": "find", "args": {"order": order}, "id": f"call-{order}"} for order in (7, 8)]
            return {"text": f"They are {SECRET}'s."} if done else {"tool_calls": asked[1:] if approval else asked}

        self.agent = Agent(
            ScriptedModel(says),
            tools=[Tool(find, repeatable=True, approval=approval)],
            processors=[PIIDetector(), answers, calls],
            reviews=reviews,
        )

    async def begin(self, **options: Any) -> dict[str, Any]:
        """Return the beginning of a request, through JSON."""
        begun = await begin_request(self.agent, f"I am {SECRET}. Where are they?", "run-1", **options)
        return json.loads(json.dumps(begun))  # type: ignore[no-any-return]


NAMES = ["step-0", "step-0/call-7", "step-0/call-8", "step-0/end", "step-1", "end-2"]
PAID = ["judge answer 0", "judge answer 1", "judge call-7", "judge call-8", "model False", "model True"]


async def test_a_replay_of_any_part_of_the_log_does_the_rest_only() -> None:
    """Each piece of work is paid for once over both processes; names stand in the order of the calls."""
    first, log = World(), Log()
    begun = await first.begin()
    done = await run_operations(first.agent, begun, log)
    assert (done["status"], done["text"]) == ("success", f"They are {HIDDEN}'s.")
    assert [name for name, _ in log.entries] == NAMES
    assert sorted(first.paid) == sorted([*PAID, "tool 7", "tool 8"])
    assert SECRET not in json.dumps([begun, log.entries])
    for kept in range(len(NAMES) + 1):
        second, rest = World(), Log(*log.entries[:kept])
        assert await run_operations(second.agent, begun, rest) == done, kept
        values = {"tool 7": 1, "tool 8": 2, "judge call-7": 0, "judge call-8": 0, "judge answer 0": 0, "model False": 0}
        recorded = {line for line, at in values.items() if kept > at} | (
            {"judge answer 1", "model True"} if kept > 4 else set()
        )
        assert recorded.isdisjoint(second.paid), kept
        assert [name for name, _ in rest.entries] == NAMES, kept


async def test_whole_values_that_earlier_releases_have_recorded_are_replayed() -> None:
    """A workflow may have begun before an upgrade."""
    first, log = World(), Log()
    begun = await first.begin()
    done = await run_operations(first.agent, begun, log)
    state, whole = begun, list[tuple[str, str]]()
    for name, value in log.entries:
        state = changed_json(state, json.loads(value)["changes"]) if "changes" in value else json.loads(value)
        whole.append((name, json.dumps(state)))
    second = World()
    assert await run_operations(second.agent, begun, Log(*whole)) == done
    assert second.paid == []


async def test_a_recorded_value_holds_only_what_is_new() -> None:
    """A request of n steps writes n answers, not the square of that."""

    def says(request: ModelRequest) -> dict[str, Any]:
        step = sum(one.role == "assistant" for one in request.messages)
        if step == 20:
            return {"text": "done"}
        return {"text": "x" * 1_000, "tool_calls": [{"name": "find", "args": {"order": step}, "id": f"call-{step}"}]}

    def find(order: int) -> str:
        return f"order {order}"

    agent = Agent(ScriptedModel(says), tools=[Tool(find, repeatable=True)], processors=[PIIDetector()], max_steps=30)
    log = Log()
    begun = json.loads(json.dumps(await begin_request(agent, "Hello", "run-1")))
    done = await run_operations(agent, begun, log)
    assert done["status"] == "success"
    sizes = [sum(len(value) for name, value in log.entries if name.startswith(f"step-{step}")) for step in (2, 19)]
    assert sizes[1] < 1.3 * sizes[0], sizes


async def test_chunks_are_sent_while_work_is_done() -> None:
    """A recorded operation sends nothing again."""
    seen: list[str] = []

    async def reads(chunk: Chunk) -> None:
        seen.append(chunk.text if chunk.type == "text-delta" else chunk.type)

    world, log = World(), Log()
    begun = await world.begin()
    await run_operations(world.agent, begun, log, on_chunk=reads)
    assert f"They are {HIDDEN}'s." in "".join(seen)
    assert "data-recorded" not in seen
    assert seen[-1] == "finish"
    seen.clear()
    await run_operations(World().agent, begun, Log(*log.entries), on_chunk=reads)
    assert seen == []


async def test_a_failure_is_recorded_without_the_words_of_the_provider() -> None:
    """They may quote the request."""
    agent = Agent(ScriptedModel([{"error": f"no answer for {SECRET}"}]), processors=[PIIDetector()])
    begun, log = await begin_request(agent, "Hi", "run-1"), Log()
    done = await run_operations(agent, begun, log)
    assert (done["status"], done["error"]["error"]) == ("failed", "ModelError")
    assert SECRET not in json.dumps(log.entries)


async def test_a_blocked_input_has_its_result_at_once() -> None:
    """There is nothing to record."""

    @processor("process_input")
    def refuses(ctx: Any) -> None:
        ctx.abort("no")

    begun = await begin_request(Agent(ScriptedModel(["Hi"]), processors=[refuses]), "Hi", "run-1")
    assert begun["result"]["status"] == "blocked"
    assert begun["result"]["tripwire"]["reason"] == "no"


async def test_a_call_waits_in_the_reviews_of_the_agent_and_goes_on_in_other_operations() -> None:
    """Storing it twice, as after a crash, is one waiting run."""
    store = InMemoryStorage()
    begun = await World(Reviews(store), approval=True).begin()
    await run_operations(World(Reviews(store), approval=True).agent, begun, Log())
    # The process died before the last operation was recorded.
    asked = await run_operations(World(Reviews(store), approval=True).agent, begun, Log())
    assert (asked["status"], asked["pending"]) == ("suspended", ["call-8"])
    reviews = Reviews(store)
    assert [run.run_id for run in (await reviews.runs()).items] == ["run-1"]
    await reviews.approve("run-1", "call-8", by="eve")
    stored = dump_stored(await reviews.claim("run-1"))
    second = World(reviews, approval=True)
    done = await run_operations(second.agent, stored, Log())
    assert (done["status"], second.paid.count("tool 8")) == ("success", 1)
    assert (await reviews.run("run-1")).status == "ended"


async def test_a_request_of_an_earlier_version_fails_with_the_error_of_its_agent() -> None:
    """What that version has recorded does not say which process has made it."""

    def processors(_: object) -> list[Any]:
        raise LookupError

    reviews, model = Reviews(InMemoryStorage()), ScriptedModel([])
    begun = await begin_request(Agent(model, reviews=reviews), "Hi", "run-1")
    recorded = {**begun, "body": {name: value for name, value in begun["body"].items() if name != "claim"}}
    done = await run_operations(Agent(model, reviews=reviews, processors=processors), recorded, Log())
    assert done["error"]["error"] == "LookupError"


async def test_a_decision_stays_when_a_process_that_died_suspends_a_request_again() -> None:
    """It was stored where people find it, and its operation was not recorded."""

    def refund() -> str:
        return "refunded"

    reviews, call = Reviews(InMemoryStorage()), {"tool_calls": [{"name": "refund", "args": {}, "id": "one"}]}
    tools = [Tool(refund, approval=True)]
    begun = await begin_request(Agent(ScriptedModel([]), tools=tools, reviews=reviews), "Hi", "run-1")
    for first in (True, False):
        agent = Agent(ScriptedModel([call]), tools=tools, reviews=reviews)
        assert (await run_operations(agent, begun, Log()))["status"] == "suspended"
        if first:
            await reviews.approve("run-1", by="eve")
    assert [one.decision and one.decision.by for one in (await reviews.run("run-1")).calls] == ["eve"]
