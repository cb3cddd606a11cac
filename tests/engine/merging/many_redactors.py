"""Redactors in parallel: in no order, delay or position may one lose what another hides.

Run it with `python -m tests.engine.merging.many_redactors`.

A case is a text of which each character is unique, several redactors, each of which hides some stretches of it, placed
beside each other in some graph, and the order in which they finish. Since characters are unique, one can see in the
result whether any that a redactor hid is still there.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import anyio

from penstock import Edit, Message, MessageList, Processor, TextPart, ToolPart, Workflow, member
from penstock.engine import StepFailedError, TextEdits
from penstock.engine.values.texts import KeyText, leaves

ALPHABET = "".join(chr(0x4E00 + index) for index in range(400))
"""Characters that no replacement text has."""
MARKS = ("", "*", "[X]", "[REDACTED]", "••••••••••••")
STAGES = ("process_input", "process_output_result", "process_tool_result", "process_input_step")


@dataclass
class Turns:
    """Who may finish when: each redactor waits for those that go before it."""

    order: tuple[int, ...]
    done: list[anyio.Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the events."""
        self.done = [anyio.Event() for _ in self.order]

    async def take(self, index: int) -> None:
        """Wait for one's turn."""
        place = self.order.index(index)
        if place:
            await self.done[self.order[place - 1]].wait()


class Redactor(Processor):
    """Hides the characters it is told, as stretches, in one of the ways a redactor may go about it."""

    def __init__(self, index: int, hidden: frozenset[str], mark: str, *, way: str, waits: bool) -> None:
        self.id = f"r{index}"
        self.index = index
        self.hidden = hidden
        self.mark = mark
        self.way = way
        self.waits = waits
        self.edits = "spans" if way != "filled" else "anything"
        if waits:
            for stage in STAGES:
                setattr(self, stage, self._wait)
        else:
            for stage in STAGES:
                setattr(self, stage, self._hide)

    async def _wait(self, ctx: Any) -> Any:
        turns: Turns = ctx.request_context["turns"]
        await turns.take(self.index)
        try:
            return self._hide(ctx)
        finally:
            turns.done[self.index].set()

    def _hide(self, ctx: Any) -> Any:
        if ctx.stage == "process_tool_result":
            found = {path: self.spans(text) for path, text in leaves(ctx.result, ("result",))}
            found = {path: edits for path, edits in found.items() if edits}
            return TextEdits(found) if found else None
        messages: MessageList = ctx.message_list
        edits = {place: made for place, text in messages.texts(ctx.messages) if (made := self.spans(text))}
        if not edits:
            return None
        if self.way == "twice":  # one call after the other, the second in positions after the first
            for place, made in sorted(edits.items(), key=lambda item: isinstance(item[0].path[-1], KeyText)):
                whole = isinstance(place.path[-1], KeyText)  # an edited key moves its place
                for some in [made] if whole else [[edit] for edit in reversed(made)]:
                    messages = messages.edit_text({place: some})
            return messages
        return messages.edit_text(edits)

    def spans(self, text: str) -> list[Edit]:
        """The stretches of a text that are to be hidden."""
        made: list[Edit] = []
        start = None
        for index, char in enumerate([*text, None]):
            if char in self.hidden:
                start = index if start is None else start
            elif start is not None:
                made.append(Edit(start, index, self.mark, "redact"))
                start = None
        return made


@dataclass
class Case:
    """One graph of redactors, what it runs on, and who finishes when."""

    graph: str
    redactors: list[Redactor]
    content: Any
    stage: str
    order: tuple[int, ...]

    @property
    def workflow(self) -> Workflow:
        """The redactors, placed."""
        return _GRAPHS[self.graph](self.redactors)

    @property
    def hidden(self) -> frozenset[str]:
        """Every character that some redactor hides."""
        return frozenset().union(*(redactor.hidden for redactor in self.redactors))


def _parallel(steps: list[Redactor]) -> Workflow:
    return Workflow("w").parallel(*steps)


def _branch(steps: list[Redactor]) -> Workflow:
    return Workflow("w").branch(*[(lambda _: True, step) for step in steps], match="all")


def _dag(steps: list[Redactor]) -> Workflow:
    return Workflow("w").dag(*[member(step) for step in steps])


def _diamond(steps: list[Redactor]) -> Workflow:
    first, *middle, last = steps
    return Workflow("w").dag(
        member(first),
        *[member(step, after=first.id) for step in middle],
        member(last, after=[step.id for step in middle] or first.id),
    )


def _chains(steps: list[Redactor]) -> Workflow:
    half = len(steps) // 2
    chains = [Workflow(f"c{n}") for n in range(2)]
    for index, step in enumerate(steps):
        chains[index >= half] = chains[index >= half].then(step)
    return Workflow("w").parallel(*[chain for chain in chains if chain.root.nodes])


def _nested(steps: list[Redactor]) -> Workflow:
    first, *rest = steps
    return Workflow("w").parallel(first, Workflow("inner").parallel(*rest) if rest else first)


_GRAPHS = {
    "parallel": _parallel,
    "branch": _branch,
    "dag": _dag,
    "diamond": _diamond,
    "chains": _chains,
    "nested": _nested,
}
_IN_TURN = {"diamond", "chains"}
"""Graphs in which some redactors wait for others anyway: there they finish as they come."""


def make(dice: random.Random) -> Case:
    """Roll a case."""
    graph = dice.choice(list(_GRAPHS))
    count = dice.choice((2, 2, 2, 3, 4))
    size = dice.randrange(1, 40)
    chars = list(ALPHABET[:size])
    redactors = []
    for index in range(count):
        hidden = frozenset(itertools.chain(*[_stretch(dice, chars) for _ in range(dice.randrange(1, 4))]))
        way = dice.choice(("once", "twice"))
        waits = graph not in _IN_TURN and dice.random() < 0.7
        redactors.append(Redactor(index, hidden, dice.choice(MARKS), way=way, waits=waits))
    stage = dice.choice(STAGES)
    order = list(range(count))
    dice.shuffle(order)
    order = [index for index in order if redactors[index].waits]
    for index, redactor in enumerate(r for r in redactors if r.waits):
        redactor.index = index
    turns = tuple(sorted(range(len(order)), key=lambda index: order[index]))
    return Case(graph, redactors, _content(dice, "".join(chars), stage), stage, turns)


def _stretch(dice: random.Random, chars: list[str]) -> list[str]:
    start = dice.randrange(len(chars))
    return chars[start : start + dice.randrange(1, 9)]


def _content(dice: random.Random, text: str, stage: str) -> Any:
    """The text, whole or cut into parts, messages, or the strings and keys of a tool's result."""
    cuts = sorted(dice.sample(range(len(text) + 1), k=min(len(text) + 1, dice.randrange(0, 4))))
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
    if stage == "process_tool_result":
        return {"rows": pieces[1:], pieces[0] or "key": pieces[0]} if dice.random() < 0.3 else {"rows": pieces}
    role = "assistant" if stage == "process_output_result" else "user"
    shape = dice.choice(("text", "parts", "messages", "tool"))
    if shape == "messages":
        return [Message(role, piece) for piece in pieces]
    if shape == "tool":
        result = {"rows": pieces[1:], pieces[0] or "key": 1}
        return [Message(role, [TextPart("intro"), ToolPart("c", "find", {}, "result", result)])]
    return [Message(role, [TextPart(piece) for piece in pieces] if shape == "parts" else text)]


async def leaked(case: Case) -> str:
    """The characters that should be hidden and are not; empty if all is well, or if the case was refused."""
    context = {"turns": Turns(case.order)}
    with anyio.fail_after(60):
        outcome = await case.workflow.check(case.content, stage=case.stage, request_context=context, records=True)
    if outcome.blocked:
        return f"blocked: {outcome.tripwire}"  # two redactors never disagree
    out = repr(outcome.result) if case.stage == "process_tool_result" else repr(outcome.messages) + outcome.text
    lost = frozenset(out) & case.hidden
    kept = frozenset(repr(case.content)) & frozenset(ALPHABET) - case.hidden
    told = frozenset(repr(outcome.records)) & case.hidden
    return (
        "".join(lost) + ("" if not told else f" in records: {told}") + ("" if kept <= frozenset(out) else " too much")
    )


async def run(seeds: range) -> list[tuple[int, str]]:
    """Run a case for each seed; return those that leak."""
    found = []
    for seed in seeds:
        case = make(random.Random(seed))  # noqa: S311 - dice, no secrets
        try:
            told = await leaked(case)
        except StepFailedError as error:
            told = str(error)
        if told:
            found.append((seed, f"{case.graph} {case.stage}: {told}"))
    return found


def main() -> None:
    """Run as many cases as asked for (100,000), and say what leaked."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    started = time.perf_counter()
    found = asyncio.run(run(range(first, first + count)))
    print(f"{count} cases, {len(found)} leaks, {time.perf_counter() - started:.0f} s")  # noqa: T201
    for seed, told in found[:20]:
        print(seed, told)  # noqa: T201
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
