"""What the scenarios of streams share: sources, hooks, guards, prose; our way and the hand-written one through them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from harness import Work

from penstock import (
    Chunk,
    Context,
    Edit,
    MessageList,
    OutputStreamContext,
    Processor,
    RegexFilterProcessor,
    TextGuard,
    Workflow,
)
from penstock.engine.graph.plan import plan_steps
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import RunState, StageCall
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.presets import safety

DOCS = Path(__file__).parents[1] / "docs"
MESSAGES = Path(__file__).parents[1] / "examples" / "data" / "messages.jsonl"
CHUNKS = 10_000
PRESETS = ("pii", "secrets", "urls")
STAGE = "process_output_stream"

Hook = tuple[Callable[[Chunk, OutputStreamContext], Chunk | None], OutputStreamContext]
"""A hook and the context it is called with."""


class Keeps(Processor):
    """Gives every chunk back."""

    def process_output_stream(self, chunk: Chunk, _ctx: OutputStreamContext) -> Chunk:
        """Do nothing."""
        return chunk


class KeepsAsync(Processor):
    """Gives every chunk back, and could wait."""

    async def process_output_stream(self, chunk: Chunk, _ctx: OutputStreamContext) -> Chunk:
        """Do nothing."""
        return chunk


class Swaps(Processor):
    """Swaps upper and lower case, word by word: an even number of them gives the text again."""

    def process_output_stream(self, chunk: Chunk, _ctx: OutputStreamContext) -> Chunk:
        """Swap."""
        return chunk.with_text(" ".join([word.swapcase() for word in chunk.text.split(" ")]))


class SwapsText(Swaps):
    """The same, declared as edits of text."""

    edits = "spans"


class FindsNothing(TextGuard):
    """A guard that looks for one word, which no text has, and holds seven characters for it."""

    reach = 8

    def find(self, text: str, ctx: Context, *, final: bool) -> Iterable[Edit]:
        """Find the word."""
        del ctx, final
        at = text.find("Bluebird")
        return () if at < 0 else (Edit(at, at + 8, "[X]", "redact"),)


def guard_of(presets: Sequence[str]) -> RegexFilterProcessor:
    """Return a regex filter that redacts."""
    return RegexFilterProcessor(presets=presets, strategy="redact")


def row_of(kind: Callable[[], Processor], count: int) -> Workflow:
    """Return so many of a kind, one after another."""
    workflow = Workflow("row")
    for _ in range(count):
        workflow = workflow.then(kind())
    return workflow


@lru_cache(maxsize=1)
def prose(size: int = 100_000) -> str:
    """Return about so many characters of real messages, those in which the presets find nothing, over and over."""
    guard = Workflow("guard").then(RegexFilterProcessor(presets=PRESETS))
    texts = [json.loads(line)["text"] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    text = "\n\n".join(text for text in texts if not guard.check_sync(text, records=False).blocked) + "\n\n"
    return text * (size // len(text))


@lru_cache(maxsize=1)
def english() -> str:
    """Return English prose: the paragraphs of the documentation in which no guard of `safety()` finds anything."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))]
    paragraphs = [part.replace("\n", " ") for text in texts for part in text.split("\n\n") if part[:1].isalpha()]
    guard = safety(personal="block", harm="block")
    clean = [part for part in paragraphs if not guard.check_sync(part, stage="process_output_step").blocked]
    return "\n\n".join(clean)


def cut(text: str, size: int) -> list[Chunk]:
    """Return the text in chunks of so many characters."""
    return [Chunk("text-delta", text[at : at + size]) for at in range(0, len(text), size)]


def pieces(count: int = CHUNKS, size: int = 5, text: str = "") -> list[Chunk]:
    """Return so many chunks of a text, by default of real messages."""
    text = text or prose()
    return cut((text * (count * size // len(text) + 1))[: count * size], size)


async def source(chunks: Sequence[Chunk]) -> AsyncIterator[Chunk]:
    """Yield chunks, as from a provider."""
    for chunk in chunks:
        yield chunk


def through(workflow: Workflow, chunks: Sequence[Chunk]) -> Work:
    """Return a contestant that sends chunks through a workflow's stream, a run each time; it gives the text."""

    async def ours(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts = []
            run = workflow.start(records=False)
            async with run.process_output_stream(source(chunks)) as leaving:
                async for chunk in leaving:
                    texts.append(chunk.text)
        return "".join(texts)

    return ours


def hooks_of(workflow: Workflow) -> list[Hook]:
    """Return the hooks of a row, each with a context made for it."""
    call = StageCall(RunState("by hand", {}), STAGES[STAGE], EMPTY, frozenset())
    payload = Payload(MessageList("Hello"))
    steps = plan_steps(workflow.plans.stage(STAGE))
    return [(getattr(step.processor, STAGE), OutputStreamContext(call, step, payload)) for step in steps]


async def called(hooks: Sequence[Hook], chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
    """Yield what hooks make of chunks, by hand; None drops."""
    async for chunk in chunks:
        for hook, ctx in hooks:
            made = hook(chunk, ctx)
            if made is None:
                break
            chunk = made  # noqa: PLW2901
        else:
            yield chunk


def by_hand(workflow: Workflow, chunks: Sequence[Chunk]) -> Work:
    """Return a contestant that calls the hooks of a row in a loop, each with a context made before."""
    hooks = hooks_of(workflow)

    async def floor(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts = []
            async for chunk in called(hooks, source(chunks)):
                texts.append(chunk.text)
        return "".join(texts)

    return floor
