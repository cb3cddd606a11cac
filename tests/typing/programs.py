"""Programs as users write them, which must type-check as they stand: `make lint` runs mypy and pyright, both strict."""

from collections.abc import Awaitable, Callable
from typing import assert_type

from penstock import (
    Answer,
    APIErrorContext,
    ClassifierProcessor,
    Edit,
    InMemoryStorage,
    InputContext,
    InputStepContext,
    Key,
    LanguageDetector,
    LLMRequestContext,
    Message,
    MessageList,
    Outcome,
    OutputStepContext,
    Processor,
    Retry,
    Run,
    SQLiteStorage,
    ToolCallContext,
    ToolResultContext,
    Tripwire,
    Workflow,
    member,
    processor,
)
from penstock.engine import Conflict, ModelOutcome, Overrides, TextEdits, View, pick
from penstock.engine.values.protocols import RunStore, Storage, VectorStore
from penstock.processors.guards import Classification

LANGUAGE = Key[str]("language")
SCORE = Key[float]("score")


class Counter:
    """The state of one request."""

    calls: int = 0


class Guard(Processor[Counter]):
    """A guard with a typed state, sync and async hooks, and claims."""

    edits = "spans"
    on_error = "block"
    provides = (LANGUAGE, SCORE)

    def __init__(self, limit: int = 3) -> None:
        self.limit = limit

    def new_state(self) -> Counter:
        """Return a fresh counter."""
        return Counter()

    def process_input(self, ctx: InputContext[Counter]) -> MessageList | None:
        """Count, put facts, redact or abort."""
        assert_type(ctx.state, Counter)
        ctx.state.calls += 1
        ctx.put(LANGUAGE, "en")
        assert_type(ctx.get(LANGUAGE), str | None)
        assert_type(ctx.get(SCORE, 0.0), float)
        if ctx.state.calls > self.limit:
            ctx.abort("too many calls", retry=True, metadata={"calls": ctx.state.calls})
        found = {place: [Edit(0, 1, "*", "redact")] for place, text in ctx.message_list.texts(ctx.messages) if text}
        return ctx.message_list.edit_text(found) if found else None

    async def process_output_step(self, ctx: OutputStepContext[Counter]) -> None:
        """Look at an answer."""
        if ctx.finish_reason == "length":
            ctx.abort("cut off")

    def process_api_error(self, ctx: APIErrorContext[Counter]) -> Retry | None:
        """Ask for another call."""
        return Retry(after=1.0) if isinstance(ctx.error, TimeoutError) else None

    def process_tool_result(self, ctx: ToolResultContext[Counter]) -> TextEdits:
        """Hide the first character of a text."""
        return TextEdits({("result", "text"): [Edit(0, 1, "*", "redact")]})


@processor
async def settings(ctx: InputStepContext) -> Overrides:
    """Override the settings of a step."""
    return Overrides(model="small", model_settings={"temperature": 0}, messages=list(ctx.messages))


@processor("process_llm_request", id="cache", edits="anything", requires=[LANGUAGE])
def cache(ctx: LLMRequestContext) -> Answer | None:
    """Answer from a cache."""
    return Answer([Message.assistant("again")]) if ctx.text == "again?" else None


@processor
def arguments(ctx: ToolCallContext) -> dict[str, object]:
    """Change a tool's arguments."""
    return {**ctx.arguments, "safe": True}


def is_long(ctx: View) -> bool:
    """Tell whether there is much to check."""
    return len(ctx.text) > 1_000 and ctx.get(LANGUAGE) == "en"


async def is_rude(ctx: View) -> bool:
    """Tell it later."""
    return "!" in ctx.text


def larger(conflict: Conflict) -> object:
    """Settle a conflict."""
    return max(conflict.values.values())


def shouts(text: str) -> bool:
    """Answer about a text."""
    return text.isupper()


async def count(text: str) -> int:
    """Answer about a text, as an async function."""
    return len(text)


def decide(answer: bool, about: Classification[bool]) -> None:
    """Filter by the answer."""
    assert_type(about.result, bool)
    if answer:
        about.filter()


async def note(answer: int, about: Classification[int]) -> None:
    """Note the answer, as an async function."""
    assert_type(about.result + answer, int)


assert_type(ClassifierProcessor(shouts, decide), ClassifierProcessor[bool])
assert_type(ClassifierProcessor(count, note), ClassifierProcessor[int])
GUARDS = Workflow("guards").then(LanguageDetector(strategy="block", target_languages=["de"], phase="all"))

WORKFLOW = (
    Workflow("guard")
    .then(Guard(), timeout=2.0, on_error=Guard(5))
    .then(settings, id="step", mode="shadow")
    .parallel(Guard(), Workflow("inner").then(cache), merge=pick("guard"))
    .parallel(Guard(), Guard(), merge=larger)
    .branch((is_long, Guard()), (is_rude, cache), otherwise=arguments, match="all", merge="first")
    .dag(member(Guard(), id="a"), member(cache, after={"a": is_long}), merge="last")
)


async def use() -> str:
    """Check a text, and run a request."""
    outcome = await WORKFLOW.check("hi", stage="process_input", request_context={"user": 1})
    assert_type(outcome, Outcome)
    assert_type(outcome.fact(SCORE), float | None)
    assert_type(outcome.tripwire, Tripwire | None)
    if outcome.tripwire is not None:
        return outcome.tripwire.reason
    run = WORKFLOW.start(records=True)
    assert_type(run, Run)
    async with run:
        await run.process_input([Message.user("hi"), Message.system("rules")])
        answer = await run.call_model(model)
        assert_type(answer, ModelOutcome[str])
        await run.process_output_step(answer.unwrap(), finish_reason="stop")
    return outcome.unwrap().text


async def model() -> str:
    """Answer."""
    return "hello"


def in_sync_form() -> bool:
    """Check a text without an event loop."""
    return WORKFLOW.check_sync("hi").blocked


CALL: Callable[[], Awaitable[str]] = use
STORES: list[Storage] = [SQLiteStorage("memory.db"), InMemoryStorage()]
VECTORS: list[VectorStore] = [SQLiteStorage("memory.db"), InMemoryStorage()]
RUNS: list[RunStore] = [SQLiteStorage("memory.db"), InMemoryStorage()]
