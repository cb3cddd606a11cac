"""A request that waits for a person goes on in another process: once, where it stood; nothing hidden is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from penstock import Agent, InMemoryStorage, Memory, ModerationProcessor, PIIDetector, Processor, Tool, processor
from penstock.engine import InputContext, OutputResultContext, TextGuard, ToolCallContext, ToolResultContext
from penstock.engine.values.errors import ModelError, ReviewError, UsageError
from penstock.engine.values.frozen import thaw
from penstock.processors.guards import Restore
from penstock.processors.memory import vaults_of
from penstock.processors.tools import HumanReview, ToolPolicy
from penstock.testing import ScriptedModel
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.review import Reviews
from tests.clock import SetClock
from tests.workflows.review.made import CALLS, SECRET, Shop, agent, stored_text

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.stored import StoredRun

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


async def test_another_process_goes_on_and_the_tool_runs_once() -> None:
    """The first step is not asked again, and what was hidden is not in the store."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate(f"Refund order 7, I am {SECRET}")
    assert asked.status == "suspended"
    assert SECRET not in await stored_text(store, asked.run_id)

    later = agent(store, ["It is refunded."], shop)
    done = await later.resume(asked.run_id, decisions={"call-1": True}, by="eve")
    assert (done.status, done.text, done.run_id) == ("success", "I will refund it.It is refunded.", asked.run_id)
    assert [order for order, _ in shop.refunded] == [7]
    assert [entry.usage.output_tokens for entry in done.spent if entry.usage] != []
    assert len(done.spent) == len(done.steps) == 2
    assert SECRET not in json.dumps([message.text for message in done.messages])
    model = later.model
    assert isinstance(model, ScriptedModel)
    assert len(model.requests) == 1, "the first step is not asked again"


async def test_a_refusal_reaches_the_model_with_its_reason() -> None:
    """The tool does not run."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    later = agent(store, ["I may not."], shop)
    done = await later.resume(asked.run_id, decisions={"call-1": "too late for this order"})
    assert done.text.endswith("I may not.")
    assert shop.refunded == []
    assert "too late for this order" in str(done.steps[0].tool_calls[0].error)


async def test_of_many_that_go_on_at_once_one_does() -> None:
    """Afterwards, nobody can go on with it any more."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id, by="eve")
    ended: list[str] = []

    async def go_on() -> None:
        try:
            ended.append((await agent(store, ["Done."], shop).resume(asked.run_id)).status)
        except ReviewError as error:
            ended.append(error.problem)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(go_on)
    assert ended.count("success") == 1
    assert len(shop.refunded) == 1
    with pytest.raises(ReviewError, match="it has ended"):
        await agent(store, ["Done."], shop).resume(asked.run_id)


async def test_a_run_without_a_decision_does_not_go_on() -> None:
    """Nor does one that is not there, or that the agent does not store."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    with pytest.raises(ReviewError, match="nobody has decided about call-1"):
        await agent(store, ["Done."], shop).resume(asked.run_id)
    with pytest.raises(ReviewError, match="there is no suspended run"):
        await agent(store, ["Done."], shop).resume("other")
    with pytest.raises(UsageError, match="reviews="):
        Agent(ScriptedModel([])).resume_stream(asked.run_id)


async def test_time_that_is_over_is_no_refusal() -> None:
    """Nobody can decide any more, and the model is told that nobody has."""
    clock = SetClock()
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, expires_in=60, clock=clock)
    asked = await agent(reviews, [CALLS], shop).generate("Refund order 7")
    clock.move(61)
    with pytest.raises(ReviewError, match="its time is over"):
        await reviews.approve(asked.run_id)
    done = await agent(reviews, ["Nobody answered."], shop).resume(asked.run_id)
    assert shop.refunded == []
    assert "that is no refusal" in str(done.steps[0].tool_calls[0].error)


async def test_an_approval_dies_when_the_agent_has_changed() -> None:
    """By default the run is refused; with ``judge again`` the new processors judge it, and a person is asked again."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    changed: Any = {"processors": [PIIDetector(), ModerationProcessor()]}
    with pytest.raises(ReviewError, match="other processors or tools"):
        await agent(store, ["Done."], shop, **changed).resume(asked.run_id)
    assert (await Reviews(store).run(asked.run_id)).status == "waiting", "it can still go on with the old ones"

    again = await agent(Reviews(store, on_change="judge again"), ["Done."], shop, **changed).resume(asked.run_id)
    assert (again.status, shop.refunded) == ("suspended", [])
    assert (await Reviews(store).run(asked.run_id)).undecided


class Limit(Processor[Any]):
    """Refuses long texts."""

    def __init__(self, most: int) -> None:
        self.most = most

    def process_input(self, ctx: InputContext) -> None:
        """Refuse a long text."""
        if len(ctx.text) > self.most:
            ctx.abort("it is too long")


async def test_a_processor_that_is_changed_after_it_was_made_changes_the_agent() -> None:
    """The same agent has stored a request before, and has made its fingerprint."""
    store, shop, limit = InMemoryStorage(), Shop(), Limit(100)
    made = agent(store, [CALLS, "Done."], shop, processors=[limit])
    asked = await made.generate("Refund order 7")
    limit.most = 50
    with pytest.raises(ReviewError, match="other processors"):
        await made.resume(asked.run_id, decisions={"call-1": True})
    limit.most = 100
    assert (await made.resume(asked.run_id)).status == "success"

    host = Host(HostSupport("tests"), [limit])
    before, limit.most = host.policy, 50
    assert host.policy != before


async def test_a_changed_agent_judges_the_conversation_again() -> None:
    """Its verdict ends the run, and no tool runs."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)

    @processor("process_input")
    def stops(ctx: Value) -> None:
        ctx.abort("no refunds any more")

    made = agent(Reviews(store, on_change="judge again"), ["Done."], shop, processors=[PIIDetector(), stops])
    done = await made.resume(asked.run_id)
    assert (done.blocked, shop.refunded) == (True, [])
    assert (await Reviews(store).run(asked.run_id)).status == "ended"


async def test_other_arguments_are_judged_before_they_run() -> None:
    """A person can change them, but not past the guards."""
    store, shop = InMemoryStorage(), Shop()

    @processor("process_tool_call")
    def small(ctx: ToolCallContext) -> None:
        if ctx.arguments["order"] > 100:
            ctx.abort("no such order")

    made: Any = {"processors": [PIIDetector(), small]}
    asked = await agent(store, [CALLS], shop, **made).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id, arguments={"order": 8})
    assert (await agent(store, ["Done."], shop, **made).resume(asked.run_id)).status == "success"
    asked = await agent(store, [CALLS], shop, **made).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id, arguments={"order": 800})
    assert (await agent(store, ["Done."], shop, **made).resume(asked.run_id)).blocked
    assert [order for order, _ in shop.refunded] == [8]


async def test_a_result_of_the_application_is_judged() -> None:
    """It passes `process_tool_result`, as that of a tool does."""
    store, shop = InMemoryStorage(), Shop()
    seen: list[Value] = []

    @processor("process_tool_result")
    def note(ctx: ToolResultContext) -> None:
        seen.append(ctx.result)

    tool = Tool.external("look_up", {"type": "object", "properties": {}})
    made: Any = {"processors": [PIIDetector(), note]}
    calls = {"tool_calls": [{"name": "look_up", "args": {}}]}
    asked = await agent(store, [calls], shop, tool, **made).generate("Look it up")
    done = await agent(store, ["Found."], shop, tool, **made).resume(asked.run_id, results={"call-1": {"mail": SECRET}})
    assert done.text == "Found."
    assert len(seen) == 1
    assert SECRET not in json.dumps(str(done.steps[0].tool_calls))


async def test_a_failure_leaves_the_run_where_it_stood() -> None:
    """The tool has run: the next attempt asks the model only."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    with pytest.raises(ModelError):
        await agent(store, [{"error": {"status": 400, "message": "down"}}], shop).resume(
            asked.run_id, decisions={"call-1": True}
        )
    done = await agent(store, ["Done."], shop).resume(asked.run_id)
    assert (done.status, len(shop.refunded)) == ("success", 1)


async def test_a_reader_that_leaves_leaves_the_run_to_others() -> None:
    """The run waits again where it stood."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    async with agent(store, ["Done."], shop).resume_stream(asked.run_id) as stream:
        async for _ in stream:
            break
    done = await agent(store, ["Done."], shop).resume(asked.run_id)
    assert (done.status, len(shop.refunded)) == ("success", 1)


@pytest.mark.parametrize("repeatable", [False, True])
async def test_a_tool_that_was_running_when_its_process_ended(*, repeatable: bool) -> None:
    """It runs again only if it may; else the model is told that its effect is unknown."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop, repeatable=repeatable).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    killed = await store.run(asked.run_id)
    assert killed is not None
    over = datetime.now(UTC) - timedelta(seconds=1)
    begun = {**killed.body, "begun": ["call-1"]}
    await store.save_run(replace(killed, status="running", due_at=over, body=begun))
    done = await agent(store, ["Done."], shop, repeatable=repeatable).resume(asked.run_id)
    assert len(shop.refunded) == (1 if repeatable else 0)
    error = done.steps[0].tool_calls[0].error
    assert (error is None) if repeatable else ("unknown" in str(error))


async def test_a_tool_that_had_begun_stays_so_when_two_processes_end() -> None:
    """The one that took the run over ends, too, before it has told the model: the next one runs no tool either."""

    class Ends(InMemoryStorage):
        """Ends its process when the result of the call is to be stored."""

        saves = 0

        async def save_run(self, run: StoredRun) -> StoredRun:
            self.saves += 1
            if self.saves == 6:
                raise KeyboardInterrupt
            return await super().save_run(run)

    store, shop = Ends(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7", run_id="r")
    await Reviews(store).approve("r")
    store.saves = 2

    async def over(*, begun: bool) -> None:
        killed = await store.run("r")
        assert killed is not None
        body = {**killed.body, "begun": ["call-1"]} if begun else killed.body
        due = datetime.now(UTC) - timedelta(seconds=1)
        await store.save_run(replace(killed, status="running", due_at=due, body=body))

    await over(begun=True)
    with pytest.raises(KeyboardInterrupt):
        await agent(store, ["Done."], shop).resume("r")
    await over(begun=False)
    done = await agent(store, ["Done."], shop).resume("r")
    assert (asked.status, done.status, shop.refunded) == ("suspended", "success", [])


async def test_counts_of_a_tool_policy_outlive_the_process() -> None:
    """A limit of calls counts those before the suspension."""
    store, shop = InMemoryStorage(), Shop()
    made: Any = {"processors": [ToolPolicy(limits={"refund": 1}, strategy="refuse")]}
    asked = await agent(store, [CALLS], shop, **made).generate("Refund order 7")
    second = {"tool_calls": [{"name": "refund", "args": {"order": 8}}]}
    again = await agent(store, [second, "Done."], shop, **made).resume(asked.run_id, decisions={"call-1": True})
    assert [order for order, _ in shop.refunded] == [7]
    assert again.status == "success", "the second call is over the limit, so nobody is asked about it"


async def test_memory_holds_each_message_once() -> None:
    """And a thread that is deleted takes its suspended runs along."""
    storage, shop = InMemoryStorage(), Shop()
    made: Any = {"memory": Memory(storage)}
    asked = await agent(storage, [CALLS], shop, **made).generate("Refund order 7", thread_id="t", resource_id="ann")
    await agent(storage, ["Done."], shop, **made).resume(asked.run_id, decisions={"call-1": True})
    page = await storage.messages("t")
    assert [row.message.role for row in page.items][::-1] == ["user", "assistant", "assistant"]
    assert len({row.message.id for row in page.items}) == 3
    await storage.delete_thread("t")
    assert await storage.run(asked.run_id) is None


async def test_a_verdict_at_the_end_takes_everything_back() -> None:
    """What was answered before the suspension, too; the store keeps the decisions only."""
    store, shop = InMemoryStorage(), Shop()

    @processor("process_output_result")
    def stops(ctx: OutputResultContext) -> None:
        if "Done" in ctx.text:
            ctx.abort("not this")

    made: Any = {"processors": [PIIDetector(), stops]}
    asked = await agent(store, [CALLS], shop, **made).generate("Refund order 7")
    done = await agent(store, ["Done."], shop, **made).resume(asked.run_id, decisions={"call-1": True})
    assert (done.blocked, done.text, done.response.messages) == (True, "", ())
    kept = await store.run(asked.run_id)
    assert kept is not None
    assert (kept.status, "run" in kept.body) == ("ended", False)


async def test_who_may_decide_is_asked() -> None:
    """And nothing is decided twice."""
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=lambda run, by: by == f"boss of {run.agent}")
    asked = await agent(reviews, [CALLS], shop).generate("Refund order 7")
    with pytest.raises(ReviewError, match="may not decide"):
        await reviews.approve(asked.run_id, by="eve")
    seen = await reviews.approve(asked.run_id, by="boss of agent")
    assert seen.calls[0].decision is not None
    with pytest.raises(ReviewError, match="decided about already by boss of agent"):
        await reviews.reject(asked.run_id, "call-1", by="boss of agent")


async def test_an_approval_that_comes_with_messages_is_the_same_one() -> None:
    """Of a client that sends it and a process that goes on with the stored run, one runs the tool."""
    store, shop = InMemoryStorage(), Shop()
    where: Any = {"thread_id": "t", "resource_id": "ann"}
    asked = await agent(store, [CALLS], shop).generate("Refund order 7", **where)
    await Reviews(store).approve(asked.run_id)

    async def send() -> None:
        await agent(store, ["Done."], shop).generate(asked.approve("call-1"), **where)

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        group.start_soon(send)
        group.start_soon(agent(store, ["Done."], shop).resume, asked.run_id)
    assert len(shop.refunded) == 1
    assert [run.run_id for run in (await Reviews(store).runs(status=None)).items].count(asked.run_id) == 1


async def test_an_agent_without_reviews_stores_nothing() -> None:
    """Its caller has the conversation."""
    shop = Shop()
    asked = await Agent(ScriptedModel([CALLS]), tools=[Tool(shop.refund, approval=True)]).generate("Refund order 7")
    assert [call.call_id for call in asked.pending] == ["call-1"]


async def test_a_human_review_of_calls_waits_in_the_store() -> None:
    """One of the answer waits, too; an agent that stores nothing blocks it."""
    store, shop = InMemoryStorage(), Shop()
    made: Any = {"processors": [HumanReview(["tool_call"], tools=["look_up"])]}

    def look_up() -> str:
        """Look it up."""
        return "found"

    calls: Any = {"tool_calls": [{"name": "look_up", "args": {}}]}
    asked = await agent(store, [calls], shop, Tool(look_up), **made).generate("Look it up")
    assert (asked.status, asked.pending[0].name) == ("suspended", "look_up")
    done = await agent(store, ["Done."], shop, Tool(look_up), **made).resume(asked.run_id, decisions={"call-1": True})
    assert (done.status, done.steps[0].tool_calls[0].result) == ("success", "found")
    at_end: Any = {"processors": [HumanReview(["output"])]}
    asked = await agent(store, ["Done."], shop, **at_end).generate("Refund order 7")
    assert (asked.status, asked.text, asked.questions[0].shown["text"]) == ("suspended", "", "Done.")
    done = await agent(store, [], shop, **at_end).resume(asked.run_id, decisions={asked.questions[0].id: True})
    assert (done.status, done.text) == ("success", "Done.")
    blocked = await Agent(ScriptedModel(["Done."]), **at_end).generate("Refund order 7")
    assert blocked.tripwire is not None
    assert blocked.tripwire.metadata["suspended"] is True


async def test_a_question_about_the_input_waits_in_the_store() -> None:
    """The steps that are finished do not run again, the guards judge an edited text, and a rejection blocks."""
    store, shop = InMemoryStorage(), Shop()
    judged: list[str] = []

    @processor("process_input")
    def count(ctx: InputContext) -> None:
        judged.append(ctx.text)

    made: Any = {"processors": [count, HumanReview(["input"], reviewers=["finance"]), PIIDetector()]}
    asked = await agent(store, [], shop, **made).generate(f"A refund for {SECRET}")
    assert (asked.status, asked.text, len(asked.questions)) == ("suspended", "", 1)
    (waiting,) = (await Reviews(store).runs()).items
    assert (waiting.question, waiting.calls[0].kind) == ("A refund for a*n@*******.com", "question")
    assert SECRET not in await stored_text(store, asked.run_id)
    with pytest.raises(ReviewError, match="does not fit the schema"):
        await Reviews(store).answer(asked.run_id, waiting.calls[0].call_id, {"decision": "perhaps"})
    await Reviews(store).approve(asked.run_id, by="eve")
    done = await agent(store, ["Done."], shop, **made).resume(asked.run_id)
    assert (done.status, done.text, judged) == ("success", "Done.", [f"A refund for {SECRET}"])

    asked = await agent(store, [], shop, **made).generate("A refund, please")
    text = {"decision": "approve", "text": f"A refund for {SECRET}, but small"}
    (question,) = asked.questions
    later = agent(store, ["Done."], shop, **made)
    done = await later.resume(asked.run_id, results={question.id: text})
    assert isinstance(later.model, ScriptedModel)
    assert later.model.requests[0].messages[-1].text == "A refund for a*n@*******.com, but small"

    asked = await agent(store, [], shop, **made).generate("A refund, please")
    rejected = await agent(store, ["Done."], shop, **made).resume(
        asked.run_id, decisions={asked.questions[0].id: "not today"}
    )
    assert rejected.tripwire is not None
    assert (await Reviews(store).run(asked.run_id)).status == "ended"


async def test_a_question_that_nobody_answers_blocks_its_request() -> None:
    """The verdict says that nobody answered; nobody is said to have refused."""
    clock = SetClock()
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, clock=clock)
    made: Any = {"processors": [HumanReview(["input"], expires_in=60)]}
    asked = await agent(reviews, [], shop, **made).generate("A refund, please")
    clock.move(61)
    done = await agent(reviews, ["Done."], shop, **made).resume(asked.run_id)
    assert done.tripwire is not None
    assert (done.tripwire.metadata["expired"], done.tripwire.stage) == (True, "process_input")


async def test_a_guard_in_front_does_not_store_the_texts_that_it_has_judged() -> None:
    """A model's answer that a later guard redacts stands in the state of an earlier one."""
    store, shop = InMemoryStorage(), Shop()

    class Remembers(TextGuard):
        """Keeps the texts that it has read, as guards may."""

        def find(self, text: str, ctx: AnyContext, *, final: bool) -> tuple[()]:
            """Keep the text."""
            del final
            ctx.state.setdefault("read", []).append(text)
            return ()

    calls: Any = {**CALLS, "text": f"I will tell {SECRET}."}
    made: Any = {"processors": [Remembers(), PIIDetector()]}
    asked = await agent(store, [calls], shop, **made).generate(f"Refund order 7 for {SECRET}")
    assert asked.status == "suspended"
    assert SECRET not in await stored_text(store, asked.run_id)
    guard: Any = Remembers()
    assert guard.dump_state({"read": [SECRET]}) is None


async def test_runs_that_ended_are_pruned_with_all_that_belongs_to_them() -> None:
    """Those that wait stay."""
    clock = SetClock()
    store, shop = InMemoryStorage(clock=clock), Shop()
    reviews = Reviews(store, clock=clock)
    ended = await agent(reviews, [CALLS], shop).generate("Refund order 7", thread_id="t")
    waits = await agent(reviews, [CALLS], shop).generate("Refund order 7", thread_id="u")
    await agent(reviews, ["Done."], shop).resume(ended.run_id, decisions={"call-1": True})
    assert await reviews.prune(60) == 0
    clock.move(61)
    assert await reviews.prune(60) == 1
    rows = (await store.runs()).items
    assert {row.id for row in rows} >= {waits.run_id}
    assert len(rows) == 2, "the run that waits, and the note about its call"


async def test_an_answer_that_the_end_has_yet_to_judge_is_not_stored() -> None:
    """Not for a moment, while the request goes on: the guards at the end read it before."""

    class Watched(InMemoryStorage):
        """Keeps every body that was stored."""

        bodies: list[str]

        async def save_run(self, run: StoredRun) -> StoredRun:
            self.bodies.append(json.dumps(thaw(dict(run.body))))
            return await super().save_run(run)

    @processor("process_output_result", edits="spans")
    def hides(ctx: OutputResultContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace("password", "[HIDDEN]"), ctx.messages)

    store, shop = Watched(), Shop()
    store.bodies = []
    made: Any = {"processors": [hides]}

    def note(text: str) -> str:
        """Note a text."""
        return text

    later: Any = {"text": "The password is here.", "tool_calls": [{"id": "n", "name": "note", "args": {"text": "x"}}]}
    asked = await agent(store, [CALLS], shop, Tool(note), **made).generate("Refund order 7")
    done = await agent(store, [later, "Done."], shop, Tool(note), **made).resume(
        asked.run_id, decisions={"call-1": True}
    )
    assert (done.status, len(shop.refunded)) == ("success", 1)
    assert "[HIDDEN]" in done.text
    assert not any("password" in body for body in store.bodies)
    assert any('"begun": ["n"]' in body and "[HIDDEN]" in body for body in store.bodies)


async def test_earlier_decisions_stay_in_the_record() -> None:
    """A run that is suspended twice ends with both, and with the time that it had before."""
    store, shop = InMemoryStorage(), Shop()
    again: Any = {"tool_calls": [{"id": "call-2", "name": "refund", "args": {"order": 8}}]}
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    twice = await agent(store, [again], shop).resume(asked.run_id, decisions={"call-1": True}, by="eve")
    assert twice.status == "suspended"
    before = await Reviews(store).run(asked.run_id)
    await Reviews(store).approve(asked.run_id, by="bob")
    with pytest.raises(ModelError):
        await agent(store, [{"error": {"status": 400, "message": "down"}}], shop).resume(asked.run_id)
    assert (await Reviews(store).run(asked.run_id)).due_at == before.due_at
    await agent(store, ["Done."], shop).resume(asked.run_id)
    kept = await store.run(asked.run_id)
    assert kept is not None
    assert [one["decision"]["by"] for one in kept.body["earlier"]] == ["eve"]
    assert kept.body["decisions"]["call-2"]["by"] == "bob"
    assert len(kept.body["notes"]) == 2
    assert [order for order, _ in shop.refunded] == [7, 8]


async def test_values_that_were_put_back_are_stored_as_tokens() -> None:
    """The process that hid them puts them back for the tool and the client; another one knows the tokens only."""

    def made() -> Any:
        return {"processors": [PIIDetector(redaction_method="token"), Restore()]}

    note: Any = {"name": "refund", "args": {"order": 7, "note": "[EMAIL_1]"}}
    calls: Any = {"text": "I mail [EMAIL_1].", "tool_calls": [note]}
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [calls], shop, **made()).generate(f"I am {SECRET}")
    assert asked.pending[0].arguments == {"order": 7, "note": SECRET}
    assert SECRET not in await stored_text(store, asked.run_id)
    done = await agent(store, ["Mailed [EMAIL_1]."], shop, **made()).resume(asked.run_id, decisions={"call-1": True})
    assert (done.text, shop.refunded) == (f"I mail {SECRET}.Mailed {SECRET}.", [(7, SECRET)])
    assert SECRET not in await stored_text(store, asked.run_id)
    deleted = await agent(store, [calls], shop, **made()).generate(f"I am {SECRET}")
    await Reviews(store).delete(deleted.run_id)
    assert (vaults_of(store).get(asked.run_id), vaults_of(store).get(deleted.run_id)) == (None, None)

    asked = await agent(store, [calls], shop, **made()).generate(f"I am {SECRET}")
    vaults_of(store).forget(asked.run_id)  # as in another process
    done = await agent(store, ["Done."], shop, **made()).resume(asked.run_id, decisions={"call-1": True})
    assert (done.status, shop.refunded[1]) == ("success", (7, "[EMAIL_1]"))


async def test_pages_of_ended_runs_are_full_whatever_is_noted_beside_them() -> None:
    """Notes about calls are no runs; the newest run is first if asked."""
    store = InMemoryStorage()
    ids = []
    for _ in range(5):
        asked = await agent(store, [CALLS], Shop()).generate("Refund order 7")
        await Reviews(store).reject(asked.run_id)
        await agent(store, ["Done."], Shop()).resume(asked.run_id)
        ids.append(asked.run_id)
    reviews, after, seen = Reviews(store), None, []
    while True:
        page = await reviews.runs(status="ended", limit=2, after=after, newest_first=True)
        assert len(page.items) == 2 or page.following is None
        seen += [run.run_id for run in page.items]
        if (after := page.following) is None:
            break
    assert seen == ids[::-1]
