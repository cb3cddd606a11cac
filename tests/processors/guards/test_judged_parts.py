"""Guards with a judge over neighbouring text parts: asked once about each stretch of text, and nothing is lost."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import (
    Chunk,
    ClassifierProcessor,
    LanguageDetector,
    Message,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    SystemPromptScrubber,
    Workflow,
)
from penstock.engine.values.messages import TextPart
from penstock.models.judges import Judgement
from penstock.processors.guards.detection import Detection
from penstock.processors.guards.verdicts import (
    InjectionVerdict,
    LanguageVerdict,
    LeakVerdict,
    ModerationVerdict,
    PIIVerdict,
)
from tests.laws import examples

NOTHING = ModerationVerdict(category_scores=[], reason="fine")


class Judge:
    """A judge that notes what it is asked about."""

    def __init__(self, answer: Callable[[str], Any], name: str = "judge") -> None:
        self.answer = answer
        self.name = name
        self.asked: list[str] = []

    async def ask(self, content: str, *, ctx: Any = None) -> Judgement[Any]:
        """Return the answer."""
        self.asked.append(content)
        return Judgement(self.answer(content), self.name)


def said(verdict: Any) -> Callable[[], Judge]:
    """Return a maker of judges that always give this verdict."""
    return lambda: Judge(lambda _: verdict)


def ignore(answers: object, about: object) -> None:
    """Do nothing about what a classifier says."""


NO_VALUES = said(PIIVerdict(findings=[]))
NO_LEAKS = said(LeakVerdict(findings=[]))
SCRUBBER = partial(SystemPromptScrubber, prompts=["Never tell anybody the secret recipe of our famous soup."])
GUARDS: dict[str, tuple[Callable[[], Judge], Callable[[Any], Any]]] = {
    "pii": (NO_VALUES, PIIDetector),
    "pii block": (NO_VALUES, partial(PIIDetector, strategy="block")),
    "pii warn": (NO_VALUES, partial(PIIDetector, strategy="warn")),
    "pii filter": (NO_VALUES, partial(PIIDetector, strategy="filter")),
    "scrubber": (NO_LEAKS, partial(SCRUBBER, phase="all")),
    "scrubber warn": (NO_LEAKS, partial(SCRUBBER, phase="all", strategy="warn")),
    "moderation": (said(NOTHING), ModerationProcessor),
    "injection": (said(InjectionVerdict(categories=[], reason="fine")), partial(PromptInjectionDetector, phase="all")),
    "language": (
        said(LanguageVerdict(iso_code="en", confidence=0.9)),
        partial(LanguageDetector, phase="all", embedded=False, min_text_length=1),
    ),
    "classifier": (said("fine"), partial(ClassifierProcessor, on_result=ignore)),
}
SHORT = ("I am here. ", "You are from the north. ", "Good night.")
LONG = tuple(
    " ".join(f"This is sentence {sentence} of text {part}, and it goes on for a while." for sentence in range(3)) + " "
    for part in range(3)
)


async def outcome_of(guard: Any, texts: Sequence[str], stage: str) -> Any:
    """Return the outcome of a guard over a message of text parts; in a stream, what leaves by block, or None."""
    run = Workflow("w").then(guard).start()
    if stage != "process_output_stream":
        role = "user" if stage == "process_input" else "assistant"
        return await getattr(run, stage)([Message(role, tuple(map(TextPart, texts)))])
    source = [
        chunk
        for number, text in enumerate(texts)
        for chunk in (
            Chunk("text-start", id=str(number)),
            *(Chunk("text-delta", text[at : at + 7], str(number)) for at in range(0, len(text), 7)),
            Chunk("text-end", id=str(number)),
        )
    ]
    async with run.process_output_stream(source) as chunks:
        out = [(chunk.id, chunk.text) async for chunk in chunks]
    assert chunks.outcome is not None
    return (
        None
        if chunks.outcome.blocked
        else ["".join(text for id, text in out if id == str(number)) for number in range(len(texts))]
    )


async def left(guard: Any, texts: Sequence[str], stage: str) -> list[str] | None:
    """Return the texts of the parts behind a guard; None if it blocks."""
    outcome = await outcome_of(guard, texts, stage)
    if stage == "process_output_stream":
        return outcome
    return None if outcome.blocked else [part.text for part in outcome.messages[0].parts]


STAGES = ("process_input", "process_output_result", "process_output_stream")
ANSWERS = STAGES[1:]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("texts", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("name", GUARDS)
async def test_parts_are_asked_about_as_often_as_one_text(name: str, texts: tuple[str, ...], stage: str) -> None:
    """A model is paid by the call: the parts are read as one, in messages and in streams."""
    make, guard = GUARDS[name]
    for count in (1, 2, 3):
        parts, one = make(), make()
        await outcome_of(guard(parts), texts[:count], stage)
        await outcome_of(guard(one), ["".join(texts[:count])], stage)

        assert len(parts.asked) == len(one.asked) > 0
        assert len(set(parts.asked)) == len(parts.asked)


@pytest.mark.parametrize("stage", STAGES)
async def test_the_scrubber_asks_once_about_two_parts(stage: str) -> None:
    """And shows both."""
    judge = NO_LEAKS()
    await outcome_of(SCRUBBER(judge, phase="all", show_prompts=False), SHORT[:2], stage)
    assert judge.asked == ["".join(SHORT[:2])]


def names(*values: str) -> Callable[[str], PIIVerdict]:
    """Return what a judge says that names these values where they stand as words, line breaks being spaces."""

    def answer(content: str) -> PIIVerdict:
        found = [value for value in values if re.search(rf"\b{value}\b".replace(" ", r"\s"), content)]
        return PIIVerdict.model_validate({"findings": [{"type": "name", "value": each, "score": 1} for each in found]})

    return answer


HIDDEN = partial(PIIDetector, detection_types=["name"], redaction_method="placeholder")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("texts", "hides"),
    [
        (["I am Joe. ", "He is Joe."], ["I am [NAME]. ", "He is [NAME]."]),
        (["I am Jo", "e."], ["I am [NAME]", "."]),
        (["I am J", "o", "e."], ["I am [NAME]", "", "."]),
        (["ask", "Joe now"], ["ask", "[NAME] now"]),
        (["ask Joe", "now"], ["ask [NAME]", "now"]),
        (["Joe, ask Joe", "now"], ["[NAME], ask [NAME]", "now"]),
        (["ask", "Joe", "Joe", "now"], ["ask", "[NAME]", "[NAME]", "now"]),
        (["ask Ann", "Lee now"], ["ask [NAME]", " now"]),
        (["ask Ann ", "Lee now"], ["ask [NAME]", " now"]),
        (["ask Ann Le", "e now"], ["ask [NAME]", " now"]),
        (["Ann, ", "", "you"], ["[NAME], ", "", "you"]),
        (["Annie is not there, ", "nor is Joey"], ["Annie is not there, ", "nor is Joey"]),
    ],
)
async def test_what_a_judge_names_is_hidden_in_parts_and_across_them(
    texts: list[str], hides: list[str], stage: str
) -> None:
    """The judge reads words that meet where a part ends as one word and as two."""
    assert await left(HIDDEN(Judge(names("Joe", "Ann", "Lee", "Ann Lee"))), texts, stage) == hides


@pytest.mark.parametrize("stage", STAGES)
async def test_a_name_in_one_part_does_not_save_its_end_in_the_next(stage: str) -> None:
    """The judge names both, and both are hidden."""
    judge = Judge(names("Ann", "Ann Lee"))
    assert await left(HIDDEN(judge), ["ask Ann ", "Lee now"], stage) == ["ask [NAME]", " now"]


@pytest.mark.parametrize("stage", STAGES)
async def test_what_a_judge_without_a_name_finds_counts(stage: str) -> None:
    """It need not be called anything."""
    assert await left(HIDDEN(Judge(names("Joe"), name="")), ["I am Joe. ", "And you?"], stage) == [
        "I am [NAME]. ",
        "And you?",
    ]


@pytest.mark.parametrize("stage", STAGES)
async def test_a_detector_still_reads_the_parts_by_themselves(stage: str) -> None:
    """Digits that go on in the next part do not save a number; nor does a border."""
    guard = partial(PIIDetector, detection_types=["ssn", "name"], redaction_method="placeholder")
    judge = Judge(names("Joe"))
    assert await left(guard(judge), ["Joe: 078-05-1120", "0 is left"], stage) == ["[NAME]: [SSN]", "0 is left"]
    assert await left(guard(judge), ["Joe: 078-05-", "1120 is his"], stage) == ["[NAME]: [SSN]", " is his"]
    assert judge.asked[-1] == "Joe: [SSN] is his"


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(["Joe", "Ann", "Lee", "J", "oe", " ", ". ", "ask", "\n", ""]), max_size=30),
    st.lists(st.integers(0, 60), max_size=3),
    st.sampled_from(["redact", "filter", "block", "warn"]),
)
async def test_parts_leave_a_stream_as_they_leave_whole(words: list[str], places: list[int], strategy: Any) -> None:
    """Wherever they meet."""
    text = "".join(words)
    cuts = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    texts = [text[low:high] for low, high in itertools.pairwise(cuts)]
    guard = partial(HIDDEN, strategy=strategy)
    whole, streamed = [await left(guard(Judge(names("Joe", "Ann Lee", "Lee"))), texts, stage) for stage in ANSWERS]
    assert (whole is None) == (streamed is None)
    assert whole is None or "".join(whole) == "".join(streamed or [])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("texts", "flagged"), [(["Who is ", "there? ", "Me."], [False]), (["I am Joe, ", "me."], [True])]
)
async def test_a_callback_is_told_of_parts_as_of_one_text(texts: list[str], flagged: list[bool], stage: str) -> None:
    """Once, whatever was found, and of nothing if something was."""
    for judge in (Judge(names("Joe")), None):
        seen: list[Detection] = []
        types = ["name"] if judge is not None else [_name_type()]
        await outcome_of(PIIDetector(judge, detection_types=types, on_detection=seen.append), texts, stage)
        assert [detection.flagged for detection in seen] == flagged


def _name_type() -> Any:
    from penstock.processors.guards.pii_search import PIIType

    return PIIType("joe", r"\bJoe\b")
