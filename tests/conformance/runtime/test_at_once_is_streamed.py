"""That a request ends the same whether its answers come at once or in pieces, and what a client is left with then."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from penstock import Chunk, Edit, Processor, TextGuard, Workflow
from tests.conformance.runtime.driver import HONEST, Hooks, Talk, chain, conversation
from tests.conformance.runtime.turns import Mode
from tests.laws import seeds

STAGES = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_step",
    "process_tool_call",
    "process_tool_result",
    "process_output_result",
)
MODES: tuple[Mode, ...] = ("generate", "stream")


class Words(TextGuard):
    """Hides a word, or stops at it."""

    def __init__(self, id: str, word: str, *, stops: bool, again: bool) -> None:
        self.id = id
        self.word, self.stops, self.again = word, stops, again
        self.reach = len(word)

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Find the word."""
        del final
        start = text.find(self.word)
        while start >= 0:
            if self.stops:
                ctx.abort("a word", retry=self.again)
            yield Edit(start, start + len(self.word), "#", "redact")
            start = text.find(self.word, start + len(self.word))


def hook(rng: random.Random, id: str) -> Hooks:
    """Return a processor that does something at one stage."""
    stage, act = rng.choice(STAGES), rng.choice(["abort", "retry", "rewrite", "nothing"])

    def called(ctx: Any) -> Any:
        if act in ("abort", "retry") and "ab" in ctx.text:
            ctx.abort("ab", retry=act == "retry")
        if act == "rewrite" and stage in ("process_output_step", "process_output_result"):
            return ctx.message_list.map_text(lambda text: text.replace("c", "Q"), ctx.messages)
        return None

    return Hooks(id, **{stage: called})


def words(rng: random.Random, id: str, *, again: bool) -> Words:
    """Return a guard over text."""
    word = "".join(rng.choices("abc", k=rng.randint(1, 3)))
    return Words(id, word, stops=rng.random() < 0.3, again=again)


def graph(rng: random.Random) -> Workflow:
    """Return a workflow of one to four places; some of them hold guards beside each other.

    All guards want the same of a retry: which of two finds its word first depends on when the text comes.
    """
    again = rng.random() < 0.5
    items: list[Processor[Any] | Workflow] = []
    for place in "PQRS"[: rng.randint(1, 4)]:
        kind = rng.choice(["words", "hook", "beside"])
        if kind == "beside":
            pair = (words(rng, place + "1", again=again), words(rng, place + "2", again=again))
            items.append(Workflow(place).parallel(*pair, merge="first"))
        else:
            items.append(words(rng, place, again=again) if kind == "words" else hook(rng, place))
    return chain(*items)


def script(rng: random.Random) -> list[dict[str, Any]]:
    """Return a model's turns, some with a call to a tool."""
    turns: list[dict[str, Any]] = []
    for number in range(rng.randint(1, 3)):
        text = "".join(rng.choices("abcd ", k=rng.randint(0, 14)))
        size = rng.randint(1, 4)
        turn: dict[str, Any] = {"deltas": [text[at : at + size] for at in range(0, len(text), size)]}
        if rng.random() < 0.5:
            turn["tool_calls"] = [{"id": f"c{number}", "name": "lookup", "args": {"q": rng.choice(["ab", "x"])}}]
        turns.append(turn)
    return [*turns, {"text": "end"}]


def left_with(sent: list[Chunk]) -> str:
    """Return the text that a client is left with, which takes back what it is told to."""
    out: list[tuple[str, str]] = []
    step = 0
    for chunk in sent:
        if chunk.type == "step-start":
            step = len(out)
        elif chunk.type == "text-delta":
            out.append((chunk.id, chunk.text))
        elif chunk.type == "retract":
            out[step:] = [piece for piece in out[step:] if piece[0] not in chunk.payload["blocks"]]
    return "".join(text for _, text in out)


@pytest.mark.parametrize("seed", seeds(range(150)))
async def test_a_request_ends_the_same_at_once_and_streamed(seed: int) -> None:
    """Random graphs and scripts: one verdict or one text, one history; the client is left with that text."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    workflow, turns = graph(rng), script(rng)
    ends: list[Any] = []
    for mode in MODES:
        talk = Talk(HONEST.start(workflow, max_processor_retries=1), turns, mode=mode)
        await talk.play(conversation("Hi"))
        assert talk.error is None
        blocked = talk.tripwire is not None
        assert [chunk.type for chunk in talk.sent].count("tripwire") == int(blocked)
        ended = talk.ended()
        if not blocked:
            assert left_with(talk.sent) == ended["text"]
        ends.append((blocked, ended["text"], ended["finishReason"], talk.messages, len(talk.calls)))
    assert ends[0] == ends[1]
