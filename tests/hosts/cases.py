"""The cases of the suite: what holds in every framework. A case gets a driver, and whether the answer is streamed.

A case raises `AssertionError` if the promise does not hold. Cases in `LEAKS` are also run without guards, where they
must fail: they prove that the suite sees what leaks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from pydantic import BaseModel

from penstock import (
    Edit,
    InputContext,
    InputStepContext,
    OutputResultContext,
    OutputStepContext,
    PIIDetector,
    Processor,
    ToolCallContext,
    ToolResultContext,
    Workflow,
    processor,
)
from penstock.engine import Answer, Retry
from penstock.engine.values.errors import ModelError
from penstock.processors.text import RegexFilterProcessor
from tests.hosts.contract import Call, Driver, Job, Says, Seen

Case = Callable[[Driver, bool], Awaitable[None]]

CASES: dict[str, Case] = {}
LEAKS: set[str] = set()
"""The cases in which the framework alone leaks."""

MAIL, PIECES = "ada@example.com", ("Write to ada@ex", "ample", ".com, please.")
HIDES = PIIDetector(redaction_method="placeholder")
BLOCKS = PIIDetector(strategy="block")


def case(name: str, *, leaks: bool = False) -> Callable[[Case], Case]:
    """Add a case to the suite."""

    def added(function: Case) -> Case:
        CASES[name] = function
        if leaks:
            LEAKS.add(name)
        return function

    return added


def all_asked(seen: Seen) -> str:
    """Return all that the model was asked."""
    return "\n".join(text for request in seen.asked for text in request)


def has_word(word: str, text: str) -> bool:
    """Return whether a text has a word; ids in it, which are hexadecimal, may have its letters."""
    return re.search(rf"\b{word}\b", text) is not None


@case("input blocked")
async def input_blocked(driver: Driver, streamed: bool) -> None:
    """The model is not called; the verdict reaches the user."""
    seen = await driver.run(Job([Says("never")], f"I am {MAIL}", [BLOCKS], streamed=streamed))
    assert seen.asked == []
    assert seen.tripwire is not None
    assert seen.tripwire.processor_id == "pii-detector"
    assert "never" not in seen.everything


@case("input redacted", leaks=True)
async def input_redacted(driver: Driver, streamed: bool) -> None:
    """Neither the model nor the history gets it."""
    seen = await driver.run(Job([Says("Hello")], f"I am {MAIL}", [HIDES], streamed=streamed))
    assert seen.output == "Hello"
    assert MAIL not in all_asked(seen)
    assert "I am [EMAIL]" in all_asked(seen)
    assert MAIL not in seen.everything


@case("secret split over chunks", leaks=True)
async def secret_split(driver: Driver, streamed: bool) -> None:
    """The stream, the result and the history agree, and are clean."""
    seen = await driver.run(Job([Says(pieces=PIECES)], "Whom?", [HIDES], streamed=streamed))
    assert seen.error is None, seen.error
    assert seen.output == "Write to [EMAIL], please."
    if streamed:
        assert "".join(seen.shown) == seen.output
    assert seen.output in seen.history
    assert "ada@" not in seen.everything


@case("blocked in mid-stream", leaks=True)
async def blocked_in_stream(driver: Driver, streamed: bool) -> None:
    """What was clean may be out; what was not never is."""
    seen = await driver.run(Job([Says(pieces=PIECES)], "Whom?", [BLOCKS], streamed=streamed))
    assert seen.tripwire is not None
    assert not has_word("ada", seen.everything)
    assert "please" not in seen.everything


class NoBad(Processor):
    """Rejects answers that say bad, and asks for others."""

    role = "guard"

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Judge the answer."""
        if "bad" in ctx.text:
            ctx.abort("it says so", retry=True, metadata={"count": ctx.retry_count})


@case("retry with feedback")
async def retried(driver: Driver, streamed: bool) -> None:
    """The reason reaches the model; the rejected answer is nowhere."""
    seen = await driver.run(Job([Says("a bad one"), Says("a fine one")], "Go", [NoBad()], streamed=streamed))
    assert seen.output == "a fine one"
    assert "it says so" in "\n".join(seen.asked[1])
    assert "a bad one" not in "\n".join(seen.asked[1])
    assert not has_word("bad", seen.everything)
    assert "it says so" not in "\n".join(seen.history)


@case("retries used up")
async def retries_used_up(driver: Driver, streamed: bool) -> None:
    """The end of the budget is a verdict."""
    script = [Says("bad 1"), Says("bad 2"), Says("bad 3"), Says("fine")]
    options = {"max_processor_retries": 2}
    seen = await driver.run(Job(script, "Go", [NoBad()], options, streamed=streamed))
    assert len(seen.asked) == 3
    assert seen.tripwire is not None
    assert seen.tripwire.metadata["count"] == 2
    assert not has_word("bad", seen.everything)


class Lookups:
    """A tool that notes what it was asked."""

    def __init__(self, says: str = "it is bob@example.com") -> None:
        self.asked: list[str] = []
        self.says = says

    @property
    def tool(self) -> Callable[[str], str]:
        """The tool."""

        def lookup(query: str) -> str:
            """Look something up."""
            self.asked.append(query)
            return self.says

        return lookup


@case("tool call and result", leaks=True)
async def tools_guarded(driver: Driver, streamed: bool) -> None:
    """Neither the tool nor the model gets what is hidden."""
    tool = Lookups()
    script = [Says(calls=[Call("lookup", {"query": f"who is {MAIL}"})]), Says("done")]
    seen = await driver.run(Job(script, "Go", [HIDES], streamed=streamed, tools=[tool.tool]))
    assert seen.output == "done"
    assert tool.asked == ["who is [EMAIL]"]
    assert "it is [EMAIL]" in "\n".join(seen.asked[1])
    assert "@example.com" not in all_asked(seen) + seen.everything


@case("parallel tool calls", leaks=True)
async def parallel_tools(driver: Driver, streamed: bool) -> None:
    """Each call is guarded, and gets its own result."""
    tool = Lookups()
    calls = [Call("lookup", {"query": f"one {MAIL}"}, "c1"), Call("lookup", {"query": f"two {MAIL}"}, "c2")]
    script = [Says(calls=calls), Says("done")]
    seen = await driver.run(Job(script, "Go", [HIDES], streamed=streamed, tools=[tool.tool]))
    assert seen.output == "done"
    assert sorted(tool.asked) == ["one [EMAIL]", "two [EMAIL]"]
    assert "@example.com" not in all_asked(seen) + seen.everything


@case("blocked tool call")
async def tool_call_blocked(driver: Driver, streamed: bool) -> None:
    """No tool of the step runs, also not one that stands before it."""
    tool = Lookups()
    calls = [Call("lookup", {"query": "fine"}, "c1"), Call("lookup", {"query": MAIL}, "c2")]

    @processor("process_tool_call", role="guard")
    def no_mail(ctx: ToolCallContext) -> None:
        if MAIL in str(ctx.arguments):
            ctx.abort("no mail")

    seen = await driver.run(Job([Says(calls=calls), Says("x")], "Go", [no_mail], streamed=streamed, tools=[tool.tool]))
    assert tool.asked == []
    assert seen.tripwire is not None
    assert len(seen.asked) == 1


@case("answer in the tool's place")
async def tool_answered(driver: Driver, streamed: bool) -> None:
    """The tool does not run, and the model reads the answer."""
    tool = Lookups()

    @processor("process_tool_call")
    def deny(ctx: ToolCallContext) -> Answer:
        return Answer("not allowed")

    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("done")]
    seen = await driver.run(Job(script, "Go", [deny], streamed=streamed, tools=[tool.tool]))
    assert tool.asked == []
    assert seen.output == "done"
    assert "not allowed" in "\n".join(seen.asked[1])


@case("blocked tool result")
async def tool_result_blocked(driver: Driver, streamed: bool) -> None:
    """The model does not read it, and the history does not hold it."""
    tool = Lookups()

    @processor("process_tool_result", role="guard")
    def no_mail(ctx: ToolResultContext) -> None:
        if "@" in str(ctx.result):
            ctx.abort("no mail")

    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("done")]
    seen = await driver.run(Job(script, "Go", [no_mail], streamed=streamed, tools=[tool.tool]))
    assert tool.asked == ["x"]
    assert seen.tripwire is not None
    assert len(seen.asked) == 1
    assert "@example.com" not in seen.everything


@case("error of the model repeated")
async def error_repeated(driver: Driver, streamed: bool) -> None:
    """An error processor asks for another call."""

    @processor("process_api_error")
    def again(ctx: object) -> Retry:
        return Retry()

    script = [Says(fails=ModelError("scripted", "overloaded", status=503)), Says("done")]
    seen = await driver.run(Job(script, "Go", [again], streamed=streamed))
    assert seen.output == "done"
    assert len(seen.asked) == 2


@case("error of the model raised")
async def error_raised(driver: Driver, streamed: bool) -> None:
    """Without one, the framework's user gets the model's own error."""
    failure = RuntimeError("the line is down")
    seen = await driver.run(Job([Says(fails=failure)], "Go", [HIDES], streamed=streamed))
    assert seen.tripwire is None
    errors = [seen.error]
    while errors[-1] is not None:
        errors.append(errors[-1].__cause__ or errors[-1].__context__)
    assert failure in errors, seen.error


class Counts(Processor):
    """Counts the stages it was called in, in its state."""

    role = "observer"

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def process_input(self, ctx: InputContext) -> None:
        """Note it."""
        self._note(ctx.state, "input")

    def process_input_step(self, ctx: InputStepContext) -> None:
        """Note it."""
        self._note(ctx.state, "step")

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Note it."""
        self._note(ctx.state, "answer")

    def process_output_result(self, ctx: OutputResultContext) -> None:
        """Note it."""
        self._note(ctx.state, "result")
        self.seen.append(list(ctx.state["stages"]))

    @staticmethod
    def _note(state: dict[str, list[str]], stage: str) -> None:
        state.setdefault("stages", []).append(stage)


@case("state kept")
async def state_kept(driver: Driver, streamed: bool) -> None:
    """One state for all stages of a request, and a new one for the next."""
    counts, tool = Counts(), Lookups("42")
    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("done")]
    for _ in range(2):
        seen = await driver.run(Job(script, "Go", [counts], streamed=streamed, tools=[tool.tool]))
        assert seen.output == "done"
    assert counts.seen == [["input", "step", "answer", "step", "answer", "result"]] * 2


@case("concurrent requests")
async def concurrent(driver: Driver, streamed: bool) -> None:
    """Each request has its own state and its own verdict."""
    counts = Counts()

    async def one(text: str) -> Seen:
        return await driver.run(Job([Says(f"to {text}")], text, [counts, BLOCKS], streamed=streamed))

    first, second, third = await asyncio.gather(one("me"), one(MAIL), one("you"))
    assert (first.output, third.output) == ("to me", "to you")
    assert second.tripwire is not None
    assert first.tripwire is None
    assert counts.seen == [["input", "step", "answer", "result"]] * 2


@case("shadow")
async def shadow(driver: Driver, streamed: bool) -> None:
    """It is recorded, and changes nothing."""
    recorded: list[tuple[str, bool]] = []

    class Records:
        def on_record(self, record: object) -> None:
            recorded.append((record.status, record.shadow))  # type: ignore[attr-defined]

    guards = [Workflow("w").then(BLOCKS, mode="shadow")]
    job = Job([Says("Hello")], f"I am {MAIL}", guards, {"observers": [Records()]}, streamed=streamed)
    seen = await driver.run(job)
    assert seen.output == "Hello"
    assert seen.tripwire is None
    assert ("tripped", True) in recorded


@case("check beside the model")
async def overlap(driver: Driver, streamed: bool) -> None:
    """The answer is held until the verdict."""
    begun = asyncio.Event()

    @processor("process_input", edits="nothing", role="guard")
    async def slow(ctx: InputContext) -> None:
        await begun.wait()
        ctx.abort("late")

    async def gate() -> None:
        begun.set()
        await asyncio.sleep(0)

    guards = [Workflow("w").then(slow, overlap="model")]
    seen = await driver.run(Job([Says(pieces=["a secret", " end"])], "Go", guards, streamed=streamed, gate=gate))
    assert begun.is_set()
    assert seen.tripwire is not None
    assert "secret" not in seen.everything


@case("cancelled")
async def cancelled(driver: Driver, streamed: bool) -> None:
    """The task ends at once, and the run counts as not completed."""
    waiting, ended = asyncio.Event(), []

    class Ends(Processor):
        role = "observer"

        def process_input(self, ctx: InputContext) -> None:
            ctx.on_end(lambda end: ended.append(end.completed))

    async def gate() -> None:
        waiting.set()
        await asyncio.Event().wait()

    job = Job([Says(pieces=["one ", "two"])], "Go", [Ends()], streamed=streamed, gate=gate)
    task = asyncio.ensure_future(driver.run(job))
    await asyncio.wait_for(waiting.wait(), 10)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.done()
    for _ in range(20):
        await asyncio.sleep(0)
    assert ended == [False]


@case("guard that breaks")
async def guard_breaks(driver: Driver, streamed: bool) -> None:
    """It fails closed."""

    class Broken(PIIDetector):
        def scan(self, window: object, ctx: object) -> object:  # type: ignore[override]
            raise ValueError("broken")

    seen = await driver.run(Job([Says("never")], "Go", [Broken()], streamed=streamed))
    assert seen.error is not None
    assert seen.output is None
    assert "never" not in seen.everything


class Person(BaseModel):
    """A person."""

    name: str
    mail: str


@case("structured output", leaks=True)
async def structured(driver: Driver, streamed: bool) -> None:
    """The object is guarded as text is."""
    script = [Says('{"name": "Ada", "mail": "ada@example.com"}')]
    seen = await driver.run(Job(script, "Who?", [HIDES], streamed=streamed, output_type=Person))
    assert seen.error is None, seen.error
    assert seen.output == Person(name="Ada", mail="[EMAIL]")
    assert MAIL not in seen.everything


@case("several turns", leaks=True)
async def turns(driver: Driver, streamed: bool) -> None:
    """The framework's memory holds what the guards left, and goes on with it."""
    first = await driver.run(Job([Says(f"Hello {MAIL}")], f"I am {MAIL}", [HIDES], streamed=streamed))
    job = Job([Says("Yes")], "Do you know me?", [HIDES], streamed=streamed, earlier=first.memory)
    second = await driver.run(job)
    assert second.output == "Yes"
    said = "\n".join(second.asked[0])
    assert "I am [EMAIL]" in said
    assert "Hello [EMAIL]" in said
    assert MAIL not in first.everything + second.everything + all_asked(first) + all_asked(second)


@case("history read again")
async def history_read(driver: Driver, streamed: bool) -> None:
    """What somebody put into the history without us is read before the model gets it."""
    first = await driver.run(Job([Says(f"Hello {MAIL}")], f"I am {MAIL}", streamed=streamed))
    job = Job([Says("Yes")], "Do you know me?", [HIDES], streamed=streamed, earlier=first.memory)
    second = await driver.run(job)
    assert second.output == "Yes"
    assert MAIL not in all_asked(second)


@case("edits of a later stage", leaks=True)
async def late_edits(driver: Driver, streamed: bool) -> None:
    """A guard that judges the result only: the stream is held for it."""

    class Late(Processor):
        role, edits = "guard", "spans"

        def process_output_result(self, ctx: OutputResultContext) -> object:
            places = {
                place: [Edit(text.index("ada"), text.index("ada") + 3, "###", "redact")]
                for place, text in ctx.message_list.texts(ctx.messages)
                if "ada" in text
            }
            return ctx.message_list.edit_text(places) if places else None

    seen = await driver.run(Job([Says(pieces=PIECES)], "Whom?", [Late()], streamed=streamed))
    assert seen.output == "Write to ###@example.com, please."
    if streamed:
        assert "".join(seen.shown) == seen.output
    assert not has_word("ada", seen.everything)


@case("workflow of several guards")
async def several(driver: Driver, streamed: bool) -> None:
    """A graph, as it stands."""
    words = RegexFilterProcessor([{"name": "word", "pattern": "please", "replacement": "now"}], strategy="redact")
    seen = await driver.run(
        Job([Says(pieces=PIECES)], "Whom?", [Workflow("w").parallel(HIDES, words)], streamed=streamed)
    )
    assert seen.output == "Write to [EMAIL], now."
    if streamed:
        assert "".join(seen.shown) == seen.output
