"""Six own rules on a short text, and on the pieces of a stream: in one guard, in a guard each, and in `re` by hand.

Each text is new, since guards remember texts in which they found nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from harness import Contest, Timed, Work
from peers.stream_guards import RULES
from streaming import CHUNKS, pieces, through

from penstock import Chunk, PIIDetector, RegexFilterProcessor, Workflow

SIX: Mapping[str, str] = {
    **RULES,
    "ip": r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
    "ssn": r"\b\d{3}-\d{2}-\d{4}\b",
    "ticket": r"\bTICKET-\d{4,6}\b",
}
CLEAN = (
    "Dear Ms Smith, thank you for your order of last week. Please write back to our office before Friday; parcel {} "
    "was sent with the usual service and will reach you on the third of May."
)
HITS = (
    "Dear Ms Smith, thank you for your order. Please write to ann.smith@example.com or call 555-123-4567 before "
    "Friday; parcel {} was sent with TICKET-12345 and comes on the third of May."
)
LETTERS = 300  # more than the stream is long
COMPILED = {name: re.compile(pattern) for name, pattern in SIX.items()}


def one_guard() -> Workflow:
    """Return a guard with all rules."""
    rules = [{"name": name, "pattern": pattern, "replacement": f"[{name}]"} for name, pattern in SIX.items()]
    return Workflow("one").then(RegexFilterProcessor(rules=rules, strategy="redact"))


def guard_each() -> Workflow:
    """Return a guard for each rule, one after another."""
    workflow = Workflow("each")
    for name, pattern in SIX.items():
        rule = {"name": name, "pattern": pattern, "replacement": f"[{name}]"}
        workflow = workflow.then(RegexFilterProcessor(rules=[rule], strategy="redact", id=name))
    return workflow


def checked(workflow: Workflow, texts: Iterator[str]) -> Work:
    """Return a contestant that checks whole texts."""

    async def work(times: int) -> bool:
        text = ""
        for _ in range(times):
            text = workflow.check_sync(next(texts), records=False).text or ""
        return "@" in text

    return work


def by_hand(texts: Iterator[str]) -> Work:
    """Return a contestant that replaces what each pattern matches, one after another."""

    async def work(times: int) -> bool:
        text = ""
        for _ in range(times):
            text = next(texts)
            for name, pattern in COMPILED.items():
                text = pattern.sub(f"[{name}]", text)
        return "@" in text

    return work


def numbered(text: str) -> Iterator[str]:
    """Yield the text again and again, each time with another number in it."""
    return (text.format(number) for number in itertools.count())


async def contests() -> list[Contest]:
    """Return the contests."""
    guards = {"one guard": one_guard(), "a guard each": guard_each()}
    floor = "six substitutions by `re`"
    whole = [
        Contest(
            f"a text of 190 characters, {what}, six own rules in {how}",
            floor,
            checked(guard, numbered(text)),
            by_hand(numbered(text)),
            None,
        )
        for what, text in (("clean", CLEAN), ("three matches", HITS))
        for how, guard in guards.items()
    ]
    chunks: Sequence[Chunk] = pieces(text=" ".join(itertools.islice(numbered(CLEAN), LETTERS)))
    detector = through(Workflow("pii").then(PIIDetector()), chunks)
    streamed = [
        Contest(
            f"a piece of a stream, six own rules in {how}",
            "`PIIDetector`",
            through(guard, chunks),
            detector,
            1.0,
            per=CHUNKS,
        )
        for how, guard in guards.items()
    ]
    return [*whole, *streamed]


SCENARIO = Timed("own_rules", contests)
