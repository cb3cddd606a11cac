"""Chunking invariance: what leaves a stream is what the whole text becomes, in any graph, in any chunks.

Run it with `python -m tests.engine.streams.invariance N [FIRST]`.

A case is a graph of toy guards, an answer (texts, reasoning, calls, data …) and the ways to cut its texts into chunks.
What it must become is what `process_output_step` makes of the same answer in one piece.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from penstock import Chunk, Message, OutputStreamContext, Processor, TextGuard, TextPart, Workflow, member
from penstock.engine import Part
from penstock.engine.text_guards import window as spans
from tests.engine.streams.toys import (
    AsyncToy,
    Rule,
    TextToy,
    Toy,
    every_cut,
    ill_formed,
    message_of,
    others_of,
    recut,
    sizes_of,
)

LETTERS = "aab#x -"
APART = ("ab", "aab", "ba", "x a", "b-")
"""Words that do not overlap with themselves: what is written beside one does not cover it."""
WORDS = ("a", "ab", "aab", "ba", "aa", "x a", "b-", "abab")
BLOCKED = ("#", "#a", "b#", "x#x")
SPOKEN = ("*", "[X]", "ab", "a", "·····")


class Watcher(Processor):
    """Sees every chunk, and changes nothing."""

    role = "observer"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> None:
        """Look at it."""


class Giver(Processor):
    """Gives every chunk back."""

    edits = "nothing"

    async def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Return it."""
        return chunk


class Broken(TextGuard):
    """Fails over every text: at once, or where one ends."""

    on_error = "raise"

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Fail."""
        if final or self.at_once:
            raise RuntimeError("it is broken")


class Dice:
    r"""Rolls graphs and answers; with ``blocks=False`` the same graphs hide what would block, as ``\0``."""

    def __init__(self, seed: int, *, blocks: bool = True) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - dice, no secrets
        self.blocks = blocks
        self.made = 0
        self.calls: list[str] = []

    def rule(self) -> Rule:
        """Roll what is looked for."""
        roll = self.dice
        behind, ahead = roll.choice(("", "", "x", "#", "-x")), roll.choice(("", "", "", "b", "x-"))
        if roll.random() < 0.12:
            rule = Rule(roll.choice(BLOCKED), "block", "*", "", ahead)
            return rule if self.blocks else replace_act(rule)
        act = roll.choice(("redact", "redact", "redact", "replace", "delete", "before", "after"))
        word = roll.choice(APART if act in ("before", "after") else WORDS)
        behind = "" if word[-1] in behind else behind  # nothing is looked at across what was found
        return Rule(word, act, roll.choice(SPOKEN), behind, ahead)

    def toy(self) -> Toy:
        """Roll a guard."""
        roll, rule = self.dice, self.rule()
        need = bool(rule.behind) + (len(rule.word) if rule.act == "after" else 0)
        kind = roll.choice((Toy, Toy, AsyncToy, TextToy))
        toy = kind(
            rule,
            bounded=roll.random() < 0.8,
            lookback=roll.choice((need, need + 1, 64)),
            min_hold=roll.choice((0, 0, 0, 1, 5)),
        )
        self.made += 1
        toy.id = f"t{self.made}"
        return toy

    def graph(self, depth: int = 2) -> Workflow:
        """Roll a graph."""
        self.made += 1
        made = Workflow(f"w{self.made}")
        for _ in range(self.dice.choice((1, 1, 1, 2))):
            made = self._extended(made, depth)
        return made

    def _extended(self, made: Workflow, depth: int) -> Workflow:
        roll = self.dice.random()
        if depth == 0 or roll < 0.35:
            return self._step(made)
        if roll < 0.65:
            return made.parallel(*[self._item(depth) for _ in range(self.dice.choice((2, 2, 3, 1)))])
        if roll < 0.75:
            arms = [(self._condition(), self._item(depth)) for _ in range(2)]
            rest = self._item(depth) if self.dice.random() < 0.5 else None
            return made.branch(*arms, otherwise=rest, match=self.dice.choice(("first", "all")))
        if roll < 0.9:
            return made.dag(*self._members(depth))
        return made.then(self.graph(depth - 1), **self._policy(limited=False))

    def _item(self, depth: int) -> Any:
        roll = self.dice.random()
        if roll < 0.1:
            self.made += 1
            beside = self.dice.choice((Watcher, Giver))()
            beside.id = f"t{self.made}"
            return beside
        return self.toy() if roll < 0.6 else self.graph(depth - 1)

    def _members(self, depth: int) -> list[Any]:
        self.made += 1
        roll, own = self.dice, self.made
        made: list[Any] = []
        for index in range(roll.choice((2, 3, 4))):
            after: dict[str, Any] = {
                f"{own}m{before}": roll.choice((None, None, self._condition()))
                for before in range(index)
                if roll.random() < 0.5
            }
            made.append(member(self._item(depth), id=f"{own}m{index}", after=after))
        return made

    def _step(self, made: Workflow) -> Workflow:
        toy = self.toy()
        if self.dice.random() < 0.05:
            broken = Broken(at_once=self.dice.random() < 0.5)
            broken.id = f"b{self.made}"
            return made.then(broken, on_error=toy)
        if isinstance(toy, AsyncToy):
            return made.then(toy, **self._policy(limited=True))
        return made.then(toy, offload="thread") if self.dice.random() < 0.03 else made.then(toy, **self._policy())

    def _policy(self, *, limited: bool = False) -> dict[str, Any]:
        roll = self.dice.random()
        if roll < 0.1:
            return {"mode": "shadow"}
        if roll < 0.2:
            return {"on_error": self.toy()}
        return {"timeout": 60.0} if limited and roll < 0.5 else {}

    def _condition(self) -> Any:
        return self.dice.choice((_yes, _yes, _no))

    def text(self, most: int = 24) -> str:
        """Roll a text."""
        return "".join(self.dice.choice(LETTERS) for _ in range(self.dice.randrange(most)))

    def answer(self) -> list[Chunk]:
        """Roll an answer, its texts in one piece each."""
        made: list[Chunk] = []
        for number in range(self.dice.choice((1, 1, 2, 3, 5))):
            made.extend(self._block(str(number)))
        if self.dice.random() < 0.5:
            made.append(Chunk("step-finish", payload={"reason": "stop"}))
        return made

    def _block(self, id: str) -> list[Chunk]:
        roll = self.dice.random()
        if roll < 0.5:
            return [Chunk("text-start", id=id), Chunk("text-delta", self.text(), id), Chunk("text-end", id=id)]
        if roll < 0.65:
            return [Chunk("text-delta", self.text(), id)]
        if roll < 0.72:
            both = Chunk("text-delta", self.text(), id), Chunk("reasoning-delta", self.text(), id)
            return [Chunk("text-start", id=id), *both, Chunk("text-delta", self.text(), id), Chunk("text-end", id=id)]
        if roll < 0.8:
            start, end = Chunk("reasoning-start", id=id), Chunk("reasoning-end", id=id)
            return [start, Chunk("reasoning-delta", self.text(), id), end]
        return [self._other(id)]

    def _other(self, id: str) -> Chunk:
        name = self.dice.choice(("tool-call", "source", "data-x", "response-metadata", "step-start", "tool-result"))
        if name == "tool-call":
            self.calls.append(id)
            arguments = {"q": self.text(), "p": [self.text(4) for _ in range(self.dice.randrange(4))]}
            return Chunk(name, id=id, payload={"call_id": id, "name": "find", "arguments": arguments})
        if name == "tool-result":
            call = self.dice.choice((id, *self.calls))
            return Chunk(name, id=call, payload={"call_id": call, "result": self.text()})
        if name == "source":
            return Chunk(name, payload={"id": id, "url": None, "title": self.text()})
        return Chunk(name, id=id, payload={"data": {"n": 1}} if name == "data-x" else {})

    def cut(self, answer: Sequence[Chunk]) -> list[tuple[int, ...]]:
        """Roll the ways to cut texts: whole, character by character, in two, and at random."""
        size = max([len(chunk.text) for chunk in answer], default=0)
        cuts = list(every_cut(size))
        cuts = [*cuts[:2], *self.dice.sample(cuts[2:], k=min(2, len(cuts) - 2))]
        cuts.extend(tuple(self.dice.randrange(1, 6) for _ in range(4)) for _ in range(2))
        return cuts


def _yes(ctx: Any) -> bool:
    return True


def _no(ctx: Any) -> bool:
    return False


def replace_act(rule: Rule) -> Rule:
    """The rule, hiding what would block."""
    return rule._replace(act="redact", text="\0")


@dataclass
class Case:
    """A graph, and an answer."""

    workflow: Workflow
    unblocked: Workflow
    answer: list[Chunk]
    cuts: list[tuple[int, ...]]
    trim: int

    async def wrong(self) -> str:
        """What is wrong; empty if all is well."""
        whole = await whole_run(self.workflow, self.answer)
        bare = await whole_run(self.unblocked, self.answer) if whole is None else None
        for cut in self.cuts:
            ends = await streamed(self.workflow, list(recut(self.answer, sizes_of(cut))))
            told = differs(ends, whole, bare, self.answer)
            if told:
                return f"{told} (cut {cut})"
        return ""


async def whole_run(workflow: Workflow, answer: Sequence[Chunk]) -> list[Part] | None:
    """The parts that the answer in one piece becomes; None if it is blocked."""
    message = replace(message_of(answer), id="the-answer")
    if workflow.plans.stage("process_output_step") is None:
        return told_parts(message)
    outcome = await workflow.check([message], stage="process_output_step", records=False)
    return None if outcome.blocked else told_parts(outcome.message_list.get("the-answer"))


async def streamed(workflow: Workflow, source: list[Chunk]) -> tuple[list[Chunk], bool, list[Part]]:
    """What leaves the stream, whether it was blocked, and the parts of what left."""
    out: list[Chunk] = []
    async with workflow.start() as run, run.process_output_stream(source, release="live") as chunks:
        out.extend([chunk async for chunk in chunks])
    assert chunks.outcome is not None
    return out, chunks.outcome.blocked, told_parts(message_of(out))


def told_parts(message: Message | None) -> list[Part]:
    """The parts of a message that say something."""
    parts = () if message is None else message.parts
    return [part for part in parts if getattr(part, "text", None) != ""]


def differs(
    ends: tuple[list[Chunk], bool, list[Part]], whole: list[Part] | None, bare: list[Part] | None, answer: list[Chunk]
) -> str:
    """How a stream's end differs from what the whole answer becomes."""
    out, blocked, parts = ends
    if blocked != (whole is None):
        return f"stream {'blocked' if blocked else 'passed'}, whole {'blocked' if whole is None else 'passed'}"
    if blocked:
        if [chunk.type for chunk in out].count("tripwire") != 1 or out[-1].type != "tripwire":
            return "no tripwire at the end"
        plain = all(chunk.type != "reasoning-delta" for chunk in answer)
        if bare is not None and plain and not _flat(bare).split("\0")[0].startswith(_flat(parts)):
            return f"leaked {_flat(parts)!r} of {_flat(bare)!r}"
        return ""
    types = [chunk.type for chunk in answer]
    amid = types.count("reasoning-start") != types.count("reasoning-delta")
    if runs_of(parts, loose=amid) != runs_of(whole or [], loose=amid):
        return f"stream {parts}\n    whole  {whole}"
    if others_of(out) != others_of(answer):
        return f"others {others_of(out)} instead of {others_of(answer)}"
    return ill_formed(out)


def runs_of(parts: list[Part], *, loose: bool) -> list[Any]:
    """Parts, neighbouring texts as one: of what several edits write where two texts meet, either may be given it.

    Where thoughts come amid a text (``loose``), a text that begins with what is taken away begins behind them.
    """
    made: list[Any] = []
    if loose:
        return sorted(map(repr, parts))
    for part in parts:
        if isinstance(part, TextPart) and made and isinstance(made[-1], str):
            made[-1] += part.text
        else:
            made.append(part.text if isinstance(part, TextPart) else part)
    return made


def _flat(parts: list[Part]) -> str:
    return "".join(getattr(part, "text", "") or "" for part in parts)


def make(seed: int) -> Case:
    """Roll a case."""
    dice, same = Dice(seed), Dice(seed, blocks=False)
    workflow, unblocked = dice.graph(), same.graph()
    answer = dice.answer()
    return Case(workflow, unblocked, answer, dice.cut(answer), dice.dice.choice((0, 2, 512)))


@contextlib.contextmanager
def trimmed(size: int) -> Iterator[None]:
    """Forget what is no longer looked back at in pieces of that size."""
    before = spans._TRIM
    spans._TRIM = size
    try:
        yield
    finally:
        spans._TRIM = before


async def failing(seeds: Iterable[int]) -> list[tuple[int, str]]:
    """Run a case for each seed; return what is wrong."""
    found: list[tuple[int, str]] = []
    for seed in seeds:
        case = make(seed)
        try:
            with trimmed(case.trim), anyio.fail_after(60):
                told = await case.wrong()
        except Exception as error:  # noqa: BLE001 - it is told
            told = f"{type(error).__name__}: {error}"
        if told:
            found.append((seed, told))
    return found


def main() -> None:
    """Run as many cases as asked for (10,000), and say what is wrong."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    started = time.perf_counter()
    found = anyio.run(failing, range(first, first + count))
    print(f"{count} cases, {len(found)} wrong, {time.perf_counter() - started:.0f} s")  # noqa: T201
    for seed, told in found[:20]:
        print(seed, told)  # noqa: T201
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
