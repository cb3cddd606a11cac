"""Guards in streams against guards over whole answers, on real texts cut everywhere.

``python -m tests.processors.guards.invariance [TEXTS [FIRST [NAME]]]`` runs every guard with every strategy over
that many texts of ../shared/data (its development half), each cut in two at every place, in characters, and at random;
and over as many `coded_text`s, uncut, in characters and at random.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from penstock import Message, Workflow
from penstock.engine.text_guards.text_guard import TextGuard
from tests.detection.coded_texts import coded_text

DATA = Path(__file__).parents[4] / "shared" / "data"
PROMPT = (
    "You are a helpful assistant of the ACME company. Never tell anybody the secret recipe of our famous soup, and "
    "answer every question about the weather in London with a short poem about rain."
)
LONGEST = 400  # characters of a text; every place of it is a cut


@dataclass(frozen=True)
class Case:
    """A guard, and what to call it."""

    name: str
    make: Callable[[], TextGuard]


@dataclass(frozen=True)
class Difference:
    """A text that leaves a stream otherwise than it leaves whole."""

    case: str
    text: str
    pieces: tuple[str, ...]
    whole: object
    streamed: object


async def whole(workflow: Workflow, text: str) -> tuple[str, bool, int | None]:
    """Return what a whole answer becomes, whether it is blocked, and where the first thing found begins, if told."""
    outcome = await workflow.start().process_output_result([Message.assistant(text)])
    spans: Sequence[Any] = outcome.tripwire.metadata.get("spans", ()) if outcome.tripwire else ()
    first = min((int(span["start"]) for span in spans), default=None)
    return "".join(message.text for message in outcome.messages), outcome.blocked, first


async def streamed(workflow: Workflow, pieces: Sequence[str]) -> tuple[str, bool]:
    """Return what leaves of a stream, and whether it is blocked."""
    async with workflow.start().process_output_stream(pieces) as chunks:
        out = "".join([chunk.text async for chunk in chunks])
    return out, chunks.outcome.blocked


def cuts(text: str, every: bool, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield ways to cut a text: not at all, in two at every place (or at some), in characters, at random."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    places = range(1, len(text)) if every else drawn.sample(range(1, len(text)), min(8, len(text) - 1))
    yield (text,)
    for at in places:
        yield text[:at], text[at:]
    yield tuple(text)
    for most in (3, 12, 40):
        pieces: list[str] = []
        at = 0
        while at < len(text):
            size = drawn.randint(1, most)
            pieces.append(text[at : at + size])
            at += size
        yield tuple(pieces)


async def differences(case: Case, texts: Sequence[str], *, every: bool) -> list[Difference]:
    """Return the texts that differ, the first way of cutting each."""
    workflow = Workflow("w").then(case.make())
    found: list[Difference] = []
    for number, text in enumerate(texts):
        if not text:
            continue
        kept, blocked, first = await whole(workflow, text)
        for pieces in cuts(text, every, number):
            out, stopped = await streamed(workflow, pieces)
            right = out == kept if not blocked else text.startswith(out) and (first is None or len(out) <= first)
            if stopped != blocked or not right:
                found.append(Difference(case.name, text, pieces, (kept, blocked, first), (out, stopped)))
                break
    return found


def texts_of_data(number: int, first: int = 0, longest: int = LONGEST) -> list[str]:
    """Return texts of all data sets, in turns, cut short."""
    found: list[list[str]] = []
    for path in sorted(DATA.glob("*/dev.jsonl")):
        with path.open(encoding="utf-8") as lines:
            found.append([str(json.loads(line)["text"])[:longest] for line in lines])
    mixed: list[str] = []
    drawn = random.Random(7)  # noqa: S311 - dice, no secrets
    shuffled = [drawn.sample(texts, len(texts)) for texts in found]
    for turn in range(max(map(len, shuffled), default=0)):
        mixed += [texts[turn] for texts in shuffled if turn < len(texts)]
    return [planted(text, at) for at, text in enumerate(mixed[first : first + number], first)]


def planted(text: str, number: int) -> str:
    """Return a text with something put into it that guards look for: part of a prompt, codes, letters set apart."""
    drawn = random.Random(number)  # noqa: S311 - dice, no secrets
    words = PROMPT.split()
    begin = drawn.randint(0, len(words) - 14)
    excerpt = " ".join(words[begin : begin + drawn.randint(6, 14)])
    private = f"mail jo{number}@example.com or pay 4111 1111 1111 1111 {text[:20]}"
    plants = ("", excerpt, base64.b64encode(private.encode()).decode(), " ".join(private[:30]), excerpt.upper(), "")
    plants = (*plants, coded_text(number))
    at = drawn.randint(0, len(text))
    return f"{text[:at]} {plants[number % len(plants)]} {text[at:]}"


def main(arguments: Sequence[str]) -> int:
    """Print what differs; return 1 if something does."""
    from tests.processors.guards.cases import CASES

    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    only = arguments[2] if len(arguments) > 2 else ""
    number, first = (*map(int, arguments[:2]), *(100, 0)[len(arguments) :])
    texts = texts_of_data(number, first)
    coded = [coded_text(at) for at in range(first, first + number)]
    if not texts:
        sys.exit(f"there are no texts to judge in {DATA}")
    wrong = 0
    for case in CASES:
        if only and only not in case.name:
            continue
        found = [
            *anyio.run(partial(differences, case, texts, every=True)),
            *anyio.run(partial(differences, case, coded, every=False)),
        ]
        wrong += len(found)
        print(f"{case.name}: {len(texts)} texts, {len(coded)} in codes, {len(found)} differ", flush=True)  # noqa: T201 - a command
        for one in found[:3]:
            print(f"  {one.text!r}\n  {one.pieces!r}\n  whole {one.whole!r}\n  stream {one.streamed!r}")  # noqa: T201 - a command
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
