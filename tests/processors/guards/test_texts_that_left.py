"""Streams of guards that remove sentences, or hide findings, behind text that has left: a step before, or a thought."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest

from penstock import Chunk, Message, PIIDetector, Workflow
from penstock.detection.spans import Span
from penstock.engine.values.messages import ReasoningPart, TextPart
from penstock.models.judges import Judgement
from penstock.processors.guards.verdicts import PIIEntry, PIIVerdict
from penstock.testing import ScriptedSpans
from penstock.testing.attack import Case, find_leak
from tests.laws import seeds

KEY = "glpat-Zk3v9XyQw7LmN2pRt5Ab"
SECRETS = (KEY, "ann.berg@example.org", "4111 1111 1111 1111")
PLAIN = (
    "The soup is warm. ",
    "We went to the park in the afternoon, and it rained a little. ",
    "Well. ",
    "A long line of words without any end that goes on and on ",
    "def f(x):\n    return x\n",
    "Yes, that is how it is done by everybody here.\n",
)
HIDING = ("filter", "redact", "block")


def spoken(kind: str, id: str, pieces: list[str]) -> list[Chunk]:
    """A text with its start and end."""
    return [
        Chunk(f"{kind}-start", id=id),
        *(Chunk(f"{kind}-delta", piece, id) for piece in pieces),
        Chunk(f"{kind}-end", id=id),
    ]


class ThoughtDice:
    """Rolls two thoughts, and ways to cut them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - dice, no secrets

    def said(self, *secrets: str) -> str:
        """Roll a text, with some of the secrets in it."""
        most = self.dice.choice((1, 3, 40))
        return "".join(
            f"{self.dice.choice(secrets)} " if secrets and self.dice.random() < 0.15 else self.dice.choice(PLAIN)
            for _ in range(self.dice.randint(1, most))
        )

    def stream(self, thoughts: tuple[str, str]) -> list[Chunk]:
        """Roll a stream with a text between the thoughts."""
        first, second = (self._pieces(thought) for thought in thoughts)
        between = spoken("text", "m", ["Hm."])
        return [*spoken("reasoning", "a", first), *between, *spoken("reasoning", "b", second)]

    def _pieces(self, text: str) -> list[str]:
        most = self.dice.choice((3, 20, 200, 5000))
        cuts = [0]
        while cuts[-1] < len(text):
            cuts.append(min(cuts[-1] + self.dice.randint(1, most), len(text)))
        return [text[low:high] for low, high in pairwise(cuts)]


async def thoughts_of(strategy: str, source: list[Chunk], made: Callable[..., PIIDetector] = PIIDetector) -> list[str]:
    """The thoughts that leave; nothing may stop the run."""
    workflow = Workflow("w").then(made(strategy=strategy))
    async with workflow.start().process_output_stream(source) as chunks:
        out = [chunk async for chunk in chunks]
    assert not [chunk for chunk in out if chunk.type in ("tripwire", "error")]
    return ["".join(chunk.text for chunk in out if chunk.type == "reasoning-delta" and chunk.id == id) for id in "ab"]


@pytest.mark.parametrize("cut", [8, 12, 18, 24])
@pytest.mark.parametrize(
    ("channel", "seam"),
    [("answer_live", "steps"), ("reasoning_live", "steps"), ("reasoning_live", "blocks"), ("reasoning", "blocks")],
)
@pytest.mark.parametrize("strategy", HIDING)
def test_no_secret_leaves_that_is_cut_across_steps_or_thoughts(
    strategy: str, channel: str, seam: str, cut: int
) -> None:
    """Its beginning has left when its end comes."""
    workflow = Workflow("w").then(PIIDetector(strategy=strategy))  # type: ignore[arg-type]
    pieces = (f"Use the token {KEY[:cut]}", f"{KEY[cut:]} for it.")

    assert find_leak(workflow, Case(channel, pieces, (KEY,), seam=seam)) is None


@pytest.mark.parametrize("seam", ["steps", "thoughts"])
@pytest.mark.parametrize(
    "value",
    ["4111 1111 1111 1111", "5555555555554444", "123-45-6789", "DE89 3704 0044 0532 0130 00", "AKIAXFQ6AV6DG3OIB72L"],
)
async def test_a_mask_shows_no_end_of_a_value_whose_beginning_has_left(value: str, seam: str) -> None:
    """Both together would be the whole value: a card's first twelve digits, and the last four that a mask keeps."""
    cut = len(value) - 4
    pieces = (f"The card or SSN or IBAN is {value[:cut]}", f"{value[cut:]} it is.")
    guard = Workflow("w").then(PIIDetector())
    if seam == "thoughts":
        source = [*spoken("reasoning", "a", [pieces[0]]), *spoken("text", "m", ["Hm."])]
        first, second = await thoughts_of("redact", [*source, *spoken("reasoning", "b", [pieces[1]])])
    else:
        run = guard.start()
        texts: list[str] = []
        for piece in pieces:
            async with run.process_output_stream([piece]) as chunks:
                texts.append("".join([chunk.text async for chunk in chunks]))
            await run.process_output_step([chunks.message])
        first, second = texts

    assert first.endswith(value[:cut])
    assert second == "******** it is."


@pytest.mark.parametrize("between", [[], [Chunk("text-delta", "Hm.", "m")]], ids=["nothing", "a text"])
@pytest.mark.parametrize("cut", [8, 12, 18])
@pytest.mark.parametrize("strategy", HIDING)
async def test_no_secret_leaves_across_thoughts_that_end_together(
    strategy: Any, cut: int, between: list[Chunk]
) -> None:
    """A block that has not ended when the next one begins is joined with it, too, as LangChain's blocks are."""
    begun = [Chunk("reasoning-start", id="a"), Chunk("reasoning-delta", f"Use the token {KEY[:cut]}", "a")]
    second = [Chunk("reasoning-start", id="b"), Chunk("reasoning-delta", f"{KEY[cut:]} for it.", "b")]
    source = [*begun, *between, *second, Chunk("reasoning-end", id="a"), Chunk("reasoning-end", id="b")]
    async with Workflow("w").then(PIIDetector(strategy=strategy)).start().process_output_stream(source) as chunks:
        out = [chunk async for chunk in chunks]

    assert KEY not in "".join(chunk.text for chunk in out if chunk.type == "reasoning-delta")
    assert chunks.outcome is not None
    assert chunks.outcome.blocked is (strategy == "block")


NAME = "Johannes Mayerhofer"


class NameJudge:
    """A judge that knows one name."""

    async def ask(self, content: str, *, ctx: Any = None) -> Judgement[PIIVerdict]:
        """Name it where it stands."""
        del ctx
        found = [PIIEntry(type="name", value=NAME, score=1.0)] if NAME in content else []
        return Judgement(PIIVerdict(findings=found), "judge")


class NoNames:
    """A detector that finds nothing."""

    types = ("name",)

    def find(self, texts: Sequence[str]) -> list[list[Span]]:
        """Find nothing."""
        return [[] for _ in texts]


ASKING: dict[str, tuple[Callable[..., PIIDetector], str]] = {
    "a judge, what patterns find": (partial(PIIDetector, NameJudge()), KEY),
    "a judge, what it finds": (partial(PIIDetector, NameJudge()), NAME),
    "a detector, what patterns find": (partial(PIIDetector, detector=NoNames()), KEY),
    "a detector, what it finds": (partial(PIIDetector, detector=ScriptedSpans({NAME: "name"})), NAME),
    "a detector that confirms": (
        partial(PIIDetector, detector=ScriptedSpans({KEY: "api-key"}), combine="confirm"),
        KEY,
    ),
    "a detector in place of patterns": (
        partial(PIIDetector, detector=ScriptedSpans({KEY: "api-key"}), combine="replace"),
        KEY,
    ),
    "a judge and a detector": (partial(PIIDetector, NameJudge(), detector=NoNames()), NAME),
}


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("strategy", HIDING)
@pytest.mark.parametrize(
    ("channel", "seam"),
    [
        ("answer_live", "steps"),
        ("answer", "steps"),
        ("reasoning_live", "steps"),
        ("reasoning_live", "blocks"),
        ("reasoning", "blocks"),
    ],
)
def test_whoever_is_asked_no_secret_leaves_that_is_cut(strategy: str, channel: str, seam: str, asking: str) -> None:
    """What patterns find, a judge, or a detector of one's own, in whatever way they are combined."""
    made, secret = ASKING[asking]
    workflow = Workflow("w").then(made(strategy=strategy))
    for cut in (8, 12):
        pieces = (f"Use the token {secret[:cut]}", f"{secret[cut:]} for it.")

        assert find_leak(workflow, Case(channel, pieces, (secret,), seam=seam)) is None


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("strategy", ["filter", "redact"])
async def test_whoever_is_asked_all_cuts_of_a_stream_leave_the_same(strategy: str, asking: str) -> None:
    """Only what is found goes: a secret across two thoughts, or its sentences."""
    made, secret = ASKING[asking]
    for number in range(5):
        rolled = ThoughtDice(number)
        at = rolled.dice.randint(2, len(secret) - 2)
        thoughts = (f"{rolled.said().rstrip()} {secret[:at]}", f"{secret[at:]} {rolled.said()}")
        left = [await thoughts_of(strategy, rolled.stream(thoughts), made) for _ in range(3)]

        assert left[0] == left[1] == left[2], number
        assert secret not in "".join(left[0]), number
        assert left[0][0].startswith(thoughts[0][:20].rpartition(". ")[0]), number


@pytest.mark.parametrize("at", range(690, 860, 10))
async def test_a_judge_reads_all_of_a_long_text_behind_another(at: int) -> None:
    """Also where what stands before cannot matter any more: a name there was read by nobody."""
    said = (PLAIN[1] * 20)[:at] + f" {NAME} and so on. " + PLAIN[1] * 3
    second = [said[low : low + 20] for low in range(0, len(said), 20)]
    stalled = Stalled([*spoken("reasoning", "a", ["Hm, well. "]), *spoken("text", "m", ["Hm."])], second)
    workflow = Workflow("w").then(PIIDetector(NameJudge()))
    async with workflow.start().process_output_stream(stalled) as chunks:
        left = "".join([chunk.text async for chunk in chunks if chunk.id == "b"])

    assert left == said.replace(NAME, "J*****************r")


class Stalled:
    """A stream that makes a pause before each piece of its last thought, so that each is judged by itself."""

    def __init__(self, first: list[Chunk], pieces: list[str]) -> None:
        self.first, self.last = first, spoken("reasoning", "b", pieces)

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        """Yield the chunks."""
        for chunk in self.first:
            yield chunk
        for chunk in self.last:
            await anyio.wait_all_tasks_blocked()
            yield chunk


@pytest.mark.parametrize("numbers", seeds([range(low, low + 10) for low in range(0, 80, 10)]))
@pytest.mark.parametrize("strategy", ["filter", "redact"])
async def test_a_secret_across_thoughts_is_removed_however_the_stream_is_cut(strategy: str, numbers: range) -> None:
    """No cut stops the run, and all leave the same."""
    for number in numbers:
        rolled = ThoughtDice(number)
        secret = rolled.dice.choice(SECRETS[:2])
        at = rolled.dice.randint(2, len(secret) - 2)
        thoughts = (f"{rolled.said().rstrip()} {secret[:at]}", f"{secret[at:]} {rolled.said()}")
        left = [await thoughts_of(strategy, rolled.stream(thoughts)) for _ in range(3)]

        assert left[0] == left[1] == left[2], number
        assert secret not in "".join(left[0]), number


@pytest.mark.parametrize("numbers", seeds([range(low, low + 10) for low in range(0, 80, 10)]))
async def test_sentences_of_a_thought_are_removed_from_a_stream_as_from_the_whole(numbers: range) -> None:
    """A thought's sentences begin with it, whatever was thought before; plain ones stay."""
    for number in numbers:
        rolled = ThoughtDice(number)
        secrets = SECRETS if rolled.dice.random() < 0.6 else ()
        thoughts = (rolled.said(*secrets), rolled.said(*secrets))
        left = await thoughts_of("filter", rolled.stream(thoughts))
        message = Message.assistant([ReasoningPart(thoughts[0]), TextPart("Hm."), ReasoningPart(thoughts[1])])
        whole = await Workflow("w").then(PIIDetector(strategy="filter")).start().process_output_result([message])
        kept = [part.text for part in whole.messages[0].parts if isinstance(part, ReasoningPart)]

        assert [text for text in left if text] == [text for text in kept if text], number
        assert secrets or left == list(thoughts), number
