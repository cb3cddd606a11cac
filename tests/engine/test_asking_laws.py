"""The laws of suspended stages, on random trees: they end as if every person had answered at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import HealthCheck, given, settings, strategies as st

from penstock import Workflow, member
from penstock.engine.tasks import run_without_loop
from tests.engine.asking import SECRET, Asks, Hides, Log, Scripted, Watches, waiting
from tests.laws import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine import MessageList, Outcome, View

EXAMPLES = settings(max_examples=examples(120), suppress_health_check=list(HealthCheck))


class Marks(Scripted):
    """A transform that writes its id behind the text."""

    role = "transform"
    edits = "spans"

    def act(self, ctx: Any) -> MessageList:
        """Write."""
        return _marked(ctx, self.id)


class MarksAsTold(Asks):
    """Writes its id behind the text, once a person has said yes."""

    edits = "spans"

    def act(self, ctx: Any) -> MessageList:
        """Ask."""
        ctx.suspend("may I?", show={"text": ctx.text}, schema={"const": "yes"})
        return _marked(ctx, self.id)


class MarksAtOnce(MarksAsTold):
    """The same, without a question."""

    asks = False

    def act(self, ctx: Any) -> MessageList:
        """Write."""
        return _marked(ctx, self.id)


class Covers(Hides):
    """Hides the secret, and trips on the word ``forbidden``."""

    edits = "spans"

    def act(self, ctx: Any) -> MessageList | None:
        """Look."""
        if "forbidden" in ctx.text:
            ctx.abort("forbidden")
        return ctx.message_list.map_text(lambda text: text.replace(SECRET, "[X]")) if SECRET in ctx.text else None


def _marked(ctx: Any, mark: str) -> MessageList:
    return ctx.message_list.map_text(lambda text: f"{text}<{mark}>")


class Item(NamedTuple):
    """A node of a random tree: its kind, the nodes in it, and a number that chooses its condition, edges and policy."""

    kind: str
    inside: tuple[Item, ...]
    number: int


STEPS = ["ask", "ask", "mark", "cover", "watch"]
GROUPS = ["nested", "parallel", "first", "all", "dag"]
numbers = st.integers(0, 11)
leaves = st.builds(Item, st.sampled_from(STEPS), st.just(()), numbers)


def groups(inner: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    """Make a node with others in it."""
    return st.builds(Item, st.sampled_from(GROUPS), st.lists(inner, min_size=1, max_size=3).map(tuple), numbers)


trees = st.lists(st.recursive(leaves, groups, max_leaves=6), min_size=1, max_size=4)


class Builder:
    """Builds the workflow of a tree; ``asks``: with questions."""

    def __init__(self, *, asks: bool, waits: bool) -> None:
        self.log = Log()
        self.roles: dict[str, str] = {}
        self._asks = asks
        self._waits = waits
        self._before: list[str] = []  # the ids of steps that every path has passed
        self._groups = 0

    def workflow(self, items: list[Item]) -> Workflow:
        """Return the workflow of nodes one after another."""
        made = Workflow("w")
        for item in items:
            known = [*self.roles]
            made = self._add(made, item)
            self._before = [*self.roles] if item.kind in (*STEPS, "nested") else known
        return made

    def _add(self, made: Workflow, item: Item) -> Workflow:
        if item.kind in ("nested", *STEPS):
            return made.then(self._item(item), retries=item.number % 2)
        if item.kind == "parallel":
            return made.parallel(*[self._item(one) for one in item.inside])
        if item.kind == "dag":
            self._groups += 1
            ids = [f"d{self._groups}m{index}" for index in range(len(item.inside))]
            members = [
                member(self._item(one), id=ids[index], after=self._edges(item.number, ids[:index]))
                for index, one in enumerate(item.inside)
            ]
            return made.dag(*members)
        arms = [(self._condition(item.number + index), self._item(one)) for index, one in enumerate(item.inside)]
        last = arms.pop()[1] if len(arms) > 1 and item.number % 2 else None
        return made.branch(*arms, otherwise=last, match="first" if item.kind == "first" else "all")

    def _edges(self, number: int, above: list[str]) -> dict[str, Any]:
        sources = [(place, source) for place, source in enumerate(above) if number >> place & 1]
        return {source: self._condition(number + place) if number % 3 else None for place, source in sources}

    def _item(self, item: Item) -> Scripted | Workflow:
        if item.kind in STEPS:
            return self._step(item.kind)
        self._groups += 1
        inner = Workflow(f"n{self._groups}")
        if item.kind != "nested":
            return self._add(inner, item)
        for one in item.inside:
            inner = self._add(inner, one)
        return inner

    def _step(self, kind: str) -> Scripted:
        path = f"s{len(self.roles)}"
        kinds: dict[str, type[Scripted]] = {
            "ask": MarksAsTold if self._asks else MarksAtOnce,
            "mark": Marks,
            "cover": Covers,
            "watch": Watches,
        }
        self.roles[path] = kind
        step = kinds[kind](path, self.log)
        return waiting(step) if self._waits else step

    def _condition(self, number: int) -> Callable[[View], bool]:
        """Return a condition that is constant, or asks for the mark of a step that every path has passed."""
        if number % 3 < 2 or not self._before:
            return lambda _: number % 3 == 0
        mark = f"<{self._before[number % len(self._before)]}>"
        return lambda ctx: mark in ctx.text


class End(NamedTuple):
    """How a tree has ended."""

    outcome: Outcome
    builder: Builder


async def at_once(tree: list[Item], text: str, *, waits: bool) -> End:
    """Run a tree without questions."""
    builder = Builder(asks=False, waits=waits)
    return End(await builder.workflow(tree).start().process_input(text), builder)


async def with_questions(tree: list[Item], text: str, seed: int, *, waits: bool) -> End:
    """Run a tree, and answer some of its questions after the other, in the same run or in another."""
    chance = random.Random(seed)  # noqa: S311 - which questions are answered first
    builder = Builder(asks=True, waits=waits)
    workflow = builder.workflow(tree)
    run = workflow.start(may_suspend=True)
    outcome = await run.process_input(text)
    answers: dict[str, str] = {}
    asked: set[str] = set()
    while outcome.suspended:
        for question in outcome.questions:
            assert question.shown == {"text": outcome.text}  # the guarded text, wherever its guards stand
            assert question.step not in outcome.finished
        asked |= {question.id for question in outcome.questions}
        some = [one.id for one in outcome.questions if chance.random() < 0.6] or [outcome.questions[0].id]
        answers |= dict.fromkeys(some, "yes")
        if chance.random() < 0.5:
            run = workflow.start(may_suspend=True)
            run.message_list = outcome.message_list
        outcome = await run.resume_stage("process_input", answers, outcome.finished, fresh=outcome.fresh)
    assert outcome.blocked or answers.keys() == asked
    return End(outcome, builder)


def marks(text: str) -> Counter[str]:
    """Return how often each step has written its id."""
    return Counter(part.partition(">")[0] for part in text.split("<")[1:])


def assert_ended_alike(one: End, other: End) -> None:
    """Compare the end of a run with questions with that of one without."""
    once = [path for path in one.builder.log if one.builder.roles[path] in ("ask", "mark", "watch")]
    assert len(once) == len(set(once))
    if other.outcome.blocked:
        assert one.outcome.blocked
        return
    if one.outcome.blocked:  # a guard behind a step that waits has judged what it would not have reached
        assert "forbidden" in other.outcome.text
        return
    assert marks(one.outcome.text) == marks(other.outcome.text)
    assert sorted(once) == sorted(path for path in other.builder.log if other.builder.roles[path] != "cover")
    assert {*other.builder.log} <= {*one.builder.log}
    assert SECRET in other.outcome.text or SECRET not in one.outcome.text


async def check(tree: list[Item], text: str, seed: int, *, waits: bool) -> None:
    """Both end alike."""
    one, other = await with_questions(tree, text, seed, waits=waits), await at_once(tree, text, waits=waits)
    assert_ended_alike(one, other)


texts = st.sampled_from([f"say {SECRET}", "hello", f"a forbidden {SECRET}"])


@EXAMPLES
@given(trees, texts, st.integers(0, 999))
def test_sync_trees_end_as_if_all_had_answered_at_once(tree: list[Item], text: str, seed: int) -> None:
    """Without an event loop: nothing finished runs again, nothing blocked passes, nothing hidden is shown."""
    run_without_loop(check(tree, text, seed, waits=False), "a law")


def test_async_trees_end_as_if_all_had_answered_at_once() -> None:
    """On asyncio, with steps that let others run."""
    with asyncio.Runner() as runner:

        @EXAMPLES
        @given(trees, texts, st.integers(0, 999))
        def agree(tree: list[Item], text: str, seed: int) -> None:
            runner.run(check(tree, text, seed, waits=True))

        agree()
