"""A stream of prose through the built-in guards, alone and as `safety()`, in chunks of 1, 5, 40 and 400 characters.

By hand the same detectors are called once on each complete sentence, and no piece leaves before that: what a guard
costs beyond is what it takes to hold less, and to find what stands across sentences, parts and codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from harness import Contest, Timed, Work
from scenarios.safety import finds_personal_data, is_harmful
from streaming import english, guard_of, pieces, source

from penstock import (
    Chunk,
    Message,
    ModerationProcessor,
    PIIDetector,
    SystemPromptScrubber,
    Workflow,
)
from penstock.detection.leaks.prompt_index import PromptIndex
from penstock.processors.text.regex_filter import PatternSearch
from penstock.workflows.presets import safety

SIZES = (1, 5, 40, 400)
COUNT = 2_000
PROMPT = (
    "You are Ada, a patient assistant of a small bank in the north. Answer in the language of the customer, never name "
    "other banks, and send everybody who asks for a loan of more than ten thousand to the branch in Harbour Street."
)
FLOOR_IS = "the same detectors, once on each complete sentence"
_END = re.compile(r"[.!?\n\u3002\u0964](?:\s|(?<=[\u3002\u0964]))")

Finds = Callable[[str], object]

shown = PromptIndex([PROMPT]).find
_filter = guard_of(("pii",))
_patterns = cast("PatternSearch", _filter.search)


def finds_all(text: str) -> object:
    """Call the detectors of `safety()` that read answers."""
    return finds_personal_data(text) or is_harmful(text) or shown(text)


GUARDS: dict[str, tuple[Callable[[], Workflow], Finds]] = {
    "safety()": (safety, finds_all),
    "PIIDetector": (lambda: Workflow("w").then(PIIDetector()), finds_personal_data),
    "SystemPromptScrubber": (lambda: Workflow("w").then(SystemPromptScrubber()), shown),
    "ModerationProcessor, warn": (lambda: Workflow("w").then(ModerationProcessor(strategy="warn")), is_harmful),
    "RegexFilterProcessor, pii": (
        lambda: Workflow("w").then(_filter),
        cast("PatternSearch", _filter.search).finder.find,
    ),
}


async def contests() -> list[Contest]:
    """Return a contest for each guard and size."""
    return [_contest(name, size) for name in GUARDS for size in SIZES]


def _contest(name: str, size: int) -> Contest:
    build, finds = GUARDS[name]
    chunks = pieces(COUNT, size, english())
    ours, floor = answered(build(), chunks), by_sentences(finds, chunks)
    return Contest(f"stream, a chunk of {size} of English prose through {name}", FLOOR_IS, ours, floor, per=COUNT)


def answered(workflow: Workflow, chunks: Sequence[Chunk]) -> Work:
    """Return a contestant that sends chunks through a run that has a system prompt; it gives the text."""

    async def ours(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts = []
            run = workflow.start(records=False)
            await run.process_input([Message.system(PROMPT), Message.user("What do you offer?")])
            async with run.process_output_stream(source(chunks)) as leaving:
                async for chunk in leaving:
                    texts.append(chunk.text)
        return "".join(texts)

    return ours


def by_sentences(finds: Finds, chunks: Sequence[Chunk]) -> Work:
    """Return the hand-written way."""

    async def floor(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            texts, held = [], ""
            async for chunk in source(chunks):
                held += chunk.text
                while (end := _END.search(held)) is not None:
                    sentence, held = held[: end.end()], held[end.end() :]
                    finds(sentence)
                    texts.append(chunk.with_text(sentence).text)
            finds(held)
            texts.append(held)
        return "".join(texts)

    return floor


SCENARIO = Timed("stream_built_in", contests)
