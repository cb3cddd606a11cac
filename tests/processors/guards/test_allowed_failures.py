"""Guards with ``on_error="allow"``: a failure on a text loses that text, and nothing that was found elsewhere."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from penstock import (
    BlockedError,
    ClassifierProcessor,
    Edit,
    LanguageDetector,
    Message,
    ModerationProcessor,
    PenstockError,
    PIIDetector,
    PromptInjectionDetector,
    TextGuard,
    Workflow,
)
from penstock.engine.values.tripwire import Tripwire
from penstock.testing import ScriptedModel, ScriptedScores, ScriptedSpans

if TYPE_CHECKING:
    from collections.abc import Callable

BAD, DOWN = "A BAD text of joe@example.com.", "The UNANSWERABLE words."
HATE = {"category_scores": [{"category": "hate", "score": 0.9}], "reason": "r"}
ATTACK = {"categories": [{"type": "injection", "score": 0.9}], "reason": "r"}


def judge(flagged: dict[str, Any]) -> ScriptedModel:
    """Return a model that flags a bad text, and fails on one."""

    def answer(request: Any) -> dict[str, Any]:
        text = request.messages[-1].text
        if "UNANSWERABLE" in text:
            return {"error": {"status": 400, "message": "no"}}
        clean: dict[str, Any] = {key: [] if isinstance(value, list) else None for key, value in flagged.items()}
        return {"object": flagged if "BAD" in text else clean}

    return ScriptedModel(answer)


def scored(category: str) -> ScriptedScores:
    """Return a detector that flags a bad text, and fails on one."""

    def scores(text: str) -> dict[str, float]:
        if "UNANSWERABLE" in text:
            raise ValueError("no")
        return {category: 0.9 if "BAD" in text else 0.0}

    return ScriptedScores(scores, categories=[category])


def spans(text: str) -> list[Any]:
    """Return the spans of such a detector."""
    if "UNANSWERABLE" in text:
        raise ValueError("no")
    return [(*found.span(), "name", 0.9) for found in re.finditer("BAD", text)]


class Breaks(TextGuard):
    """A guard of the user's own that breaks on one text."""

    id = "breaks"
    reach = 20

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Break, or hide the bad."""
        if "UNANSWERABLE" in text:
            raise ValueError("no")
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("BAD", text)]


class BreaksLater(Breaks):
    """The same, behind a checkpoint."""

    async def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Wait a turn."""
        await anyio.lowlevel.checkpoint()
        return super().find(text, ctx, final=final)


class ActsBadly(Breaks):
    """Breaks while it acts."""

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Find both words."""
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("BAD|UNANSWERABLE", text)]

    def act(self, hits: Any, ctx: Any) -> Any:
        """Break at one of them."""
        if any("UNANSWERABLE" in hit.window.text for hit in hits):
            raise ValueError("no")
        return super().act(hits, ctx)


def classified(answers: Any, result: Any) -> None:
    """Filter out what is bad."""
    if answers["bad"]:
        result.filter()


GUARDS: dict[str, Callable[[], Any]] = {
    "moderation, block": lambda: ModerationProcessor(judge(HATE), strategy="block", embedded=False, retries=0),
    "moderation, filter": lambda: ModerationProcessor(judge(HATE), strategy="filter", embedded=False, retries=0),
    "moderation, own detector": lambda: ModerationProcessor(
        strategy="filter", detector=scored("hate"), combine="replace"
    ),
    "injection, block": lambda: PromptInjectionDetector(judge(ATTACK), strategy="block", embedded=False, retries=0),
    "injection, rewrite": lambda: PromptInjectionDetector(
        judge({**ATTACK, "rewritten_content": None}), strategy="rewrite", embedded=False, retries=0
    ),
    "injection, own detector": lambda: PromptInjectionDetector(detector=scored("injection"), combine="replace"),
    "personal data, by patterns": lambda: PIIDetector(judge({"findings": []}), retries=0),
    "personal data, by a model": lambda: PIIDetector(
        judge({"findings": [{"type": "name", "value": "BAD", "score": 0.9}]}), strategy="block", retries=0
    ),
    "personal data, own detector": lambda: PIIDetector(
        detection_types=["name", "email"], detector=ScriptedSpans(spans, types=["name"])
    ),
    "a guard of the user's": Breaks,
    "an async one": BreaksLater,
    "one that breaks later": ActsBadly,
    "classifier": lambda: ClassifierProcessor({"bad": "Is it bad?"}, classified, model=judge({"bad": True})),
}


@pytest.mark.parametrize("order", [(BAD, DOWN), (DOWN, BAD), (DOWN, BAD, DOWN)], ids=str)
@pytest.mark.parametrize("policy", [{}, {"timeout": 20}, {"retries": 1}], ids=str)
@pytest.mark.parametrize("name", GUARDS)
async def test_what_is_found_in_other_messages_stays_found(name: str, policy: Any, order: tuple[str, ...]) -> None:
    """In any order of the messages, under any policy that allows the failure."""
    workflow = Workflow("w").then(GUARDS[name](), on_error="allow", **policy)
    outcome = await workflow.check([Message.user(text) for text in order])
    said = [message.text for message in outcome.messages]
    assert outcome.blocked or (DOWN in said and BAD not in said)
    assert not any(BAD in text for text in said)


STREAMED = [name for name in GUARDS if "patterns" not in name and "injection" not in name and "async" not in name]
"""Without an async guard of the user's, whose window may hold all of the text that has come meanwhile."""


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("size", [7, 1_000])
async def test_a_sentence_of_a_stream_that_fails_loses_itself_alone(name: str, size: int) -> None:
    """What follows it in the block is read."""
    guard = GUARDS[name]()
    text = f"{DOWN} {'And so on, with many words of no weight. ' * 40}{BAD}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    workflow = Workflow("w").then(guard, on_error="allow")
    async with workflow.start() as run, run.process_output_stream(pieces) as chunks:
        left = "".join([chunk.text async for chunk in chunks])
    assert BAD not in left
    assert DOWN in left or (chunks.outcome is not None and chunks.outcome.blocked)


class HoldsTooMuch(Breaks):
    """Holds back all that follows a word, and so more than it may."""

    reach = None
    max_hold = 200

    def hold(self, text: str, start: int) -> int:
        """Hold back from the word on."""
        return text.find("UNANSWERABLE", start) if "UNANSWERABLE" in text[start:] else max(start, len(text) - 20)

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Hide the bad."""
        return [Edit(*found.span(), "*", "redact") for found in re.finditer("BAD", text)]


@pytest.mark.parametrize("size", [1, 7, 150, 1_000])
@pytest.mark.parametrize("first", ["", "BAD, and "])
def test_what_a_guard_holds_back_too_long_is_lost_alone(size: int, first: str) -> None:
    """What stands before it and behind it in the block is read; a guard that may not fail stops the stream."""
    text = f"{first}The UNANSWERABLE words. {'And so on, with many words of no weight. ' * 40}A BAD text."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    workflow = Workflow("w").then(HoldsTooMuch(), on_error="allow")
    with workflow.start_sync().process_output_stream(pieces) as chunks:
        left = "".join(chunk.text for chunk in chunks)
    assert left == text.replace("BAD", "*")
    with Workflow("w").then(HoldsTooMuch()).start_sync().process_output_stream(pieces) as chunks:
        list(chunks)
    assert chunks.outcome is not None
    assert chunks.outcome.blocked


class Hangs(Breaks):
    """Waits without end on one text."""

    async def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Wait, or hide the bad."""
        if "UNANSWERABLE" in text:
            await anyio.sleep_forever()
        return super().find(text, ctx, final=final)


class HangingSpans(ScriptedSpans):
    """A detector that never answers about one text."""

    async def find(self, texts: Any) -> Any:
        """Wait, or answer."""
        if any("UNANSWERABLE" in text for text in texts):
            await anyio.sleep_forever()
        return super().find(texts)


def hanging(flagged: dict[str, Any]) -> ScriptedModel:
    """Return a model that flags a bad text, and never answers about one."""

    async def answer(request: Any) -> dict[str, Any]:
        text = request.messages[-1].text
        if "UNANSWERABLE" in text:
            await anyio.sleep_forever()
        clean: dict[str, Any] = {key: [] if isinstance(value, list) else None for key, value in flagged.items()}
        return {"object": flagged if "BAD" in text else clean}

    return ScriptedModel(answer)


NAMED = {"findings": [{"type": "name", "value": "BAD", "score": 0.9}]}
HANGING: dict[str, Callable[[], Any]] = {
    "a guard of the user's": Hangs,
    "moderation": lambda: ModerationProcessor(hanging(HATE), strategy="filter", embedded=False, retries=0),
    "injection": lambda: PromptInjectionDetector(hanging(ATTACK), strategy="filter", embedded=False, retries=0),
    "personal data, by a model": lambda: PIIDetector(hanging(NAMED), retries=0),
    "personal data, own detector": lambda: PIIDetector(
        detection_types=["name", "email"], detector=HangingSpans(spans, types=["name"])
    ),
    "classifier": lambda: ClassifierProcessor({"bad": "Is it bad?"}, classified, model=hanging({"bad": True})),
}


async def test_what_is_found_before_the_time_is_up_stays_found() -> None:
    """A text without an answer in time fails alone, also where it is one of several windows of a stream."""
    cases = [*itertools.product(HANGING, [(BAD, DOWN), (DOWN, BAD)])]
    wrong: list[str] = []

    async def hang(name: str, order: tuple[str, ...]) -> None:
        workflow = Workflow("w").then(HANGING[name](), on_error="allow", timeout=2)
        outcome = await workflow.check([Message.user(text) for text in order])
        said = [message.text for message in outcome.messages]
        is_whole = name == "personal data, own detector"  # it is asked about all texts at once
        passed = [DOWN not in said, not is_whole and any(BAD in text for text in said)]
        passed.append("personal" in name and any("joe@" in text for text in said))
        if any(passed) or [record.status for record in outcome.records] != ["failed"]:
            wrong.append(f"{name}, {order}: {said}, {[record.status for record in outcome.records]}")

    async with anyio.create_task_group() as group:  # they wait, so they wait together
        for case in cases:
            group.start_soon(hang, *case)
    assert wrong == []


async def test_patterns_count_in_a_text_on_which_the_time_is_up() -> None:
    """What was found without the model stays found."""
    guard = PIIDetector(hanging(NAMED), redaction_method="placeholder", retries=0)
    text = f"{DOWN} Write to joe@example.com."
    workflow = Workflow("w").then(guard, on_error="allow", timeout=2)
    assert (await workflow.check(text)).text == f"{DOWN} Write to [EMAIL]."
    async with workflow.start() as run, run.process_output_stream([text]) as chunks:
        assert "".join([chunk.text async for chunk in chunks]) == f"{DOWN} Write to [EMAIL]."


@pytest.mark.parametrize("policy", ["block", "raise"])
async def test_the_time_of_other_policies_ends_all(policy: Any) -> None:
    """Nothing passes."""
    workflow = Workflow("w").then(Hangs(), on_error=policy, timeout=0.1)
    with pytest.raises(PenstockError, match=r"failed|no result within"):
        (await workflow.check([Message.user(BAD), Message.user(DOWN)])).unwrap()


async def test_patterns_count_in_a_text_on_which_the_model_fails() -> None:
    """What was found without the model stays found."""
    guard = PIIDetector(judge({"findings": []}), redaction_method="placeholder", retries=0)
    text = f"{DOWN} Write to joe@example.com."
    outcome = await Workflow("w").then(guard, on_error="allow").check(text)
    assert outcome.text == f"{DOWN} Write to [EMAIL]."
    assert [record.status for record in outcome.records] == ["failed"]


async def test_a_finding_that_nobody_could_confirm_stays_found() -> None:
    """The detector that was to confirm it failed."""
    detector = ScriptedSpans(spans, types=["email"])
    guard = PIIDetector(detector=detector, combine="confirm", redaction_method="placeholder")
    outcome = (
        await Workflow("w")
        .then(guard, on_error="allow")
        .check([Message.user(f"{DOWN} joe@example.com"), Message.user("joe@example.com")])
    )
    assert [message.text for message in outcome.messages] == [f"{DOWN} [EMAIL]", "joe@example.com"]


@pytest.mark.parametrize("policy", ["block", "raise"])
async def test_other_policies_still_fail_as_a_whole(policy: Any) -> None:
    """Nothing passes."""
    workflow = Workflow("w").then(GUARDS["moderation, filter"](), on_error=policy)
    with pytest.raises(PenstockError, match="failed"):
        (await workflow.check([Message.user(DOWN), Message.user(BAD)])).unwrap()


async def test_a_failure_is_tried_again_before_a_text_passes() -> None:
    """Retries come first."""
    calls = itertools.count()

    class Flaky(Breaks):
        def find(self, text: str, ctx: Any, *, final: bool) -> Any:
            if next(calls) == 0:
                raise ValueError("once")
            return super().find(text, ctx, final=final)

    outcome = await Workflow("w").then(Flaky(), on_error="allow", retries=1).check("A BAD text.")
    assert outcome.text == "A * text."


async def test_a_verdict_from_within_is_no_failure() -> None:
    """A guard may run another workflow, and raise its verdict."""

    class Nested(TextGuard):
        id = "nested"

        def find(self, text: str, ctx: Any, *, final: bool) -> Any:
            raise BlockedError(Tripwire("no", "inner", "process_input"))

    outcome = await Workflow("w").then(Nested(), on_error="allow").check("A BAD text.")
    assert outcome.blocked


def test_the_language_of_other_texts_counts() -> None:
    """A detector that fails on one text leaves the verdict about another."""

    def language(text: str) -> dict[str, float]:
        if "UNANSWERABLE" in text:
            raise ValueError("no")
        return {"fr": 0.99}

    guard = LanguageDetector(
        strategy="block", detector=ScriptedScores(language, categories=["fr"]), combine="replace", embedded=True
    )
    outcome = (
        Workflow("w").then(guard, on_error="allow").check_sync([Message.user(DOWN), Message.user("Il est tard ici.")])
    )
    assert outcome.blocked


async def test_a_window_that_nobody_judged_is_not_reported() -> None:
    """No callback says that nothing was found in it."""
    told: list[Any] = []
    guard = ModerationProcessor(judge(HATE), strategy="warn", embedded=False, retries=0, on_detection=told.append)
    await Workflow("w").then(guard, on_error="allow").check([Message.user(DOWN), Message.user("Fine words.")])
    assert [(one.message_id, one.flagged) for one in told] == [(told[0].message_id, False)]
