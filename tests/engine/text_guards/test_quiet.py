"""A guard that says at a glance that a text holds nothing is not asked to search it, and finds the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import anyio.lowlevel
import pytest
from hypothesis import given, strategies as st

from penstock import (
    Edit,
    Message,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    RegexFilterProcessor,
    SystemPromptScrubber,
    TextPart,
    Workflow,
)
from penstock.engine.text_guards.components import Search
from penstock.engine.text_guards.text_guard import TextGuard

NUMBER = re.compile(r"(?<=no )\d{3}")


class Numbers(TextGuard):
    """Hides numbers of three digits behind *no*; it looks only at texts that hold a digit or end like a cue."""

    id = "numbers"
    reach = 4
    lookback = 3

    def __init__(self, *, glances: bool) -> None:
        self.may_glance = glances
        self.searched: list[str] = []

    def quiet(self, text: str, start: int, notes: Mapping[str, Any], *, final: bool) -> int | None:
        """Tell that texts without digits hold nothing."""
        return len(text) if self.may_glance and re.search(r"\d", text[start:]) is None else None

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find the numbers."""
        self.searched.append(text)
        return [Edit(found.start(), found.end(), "#", "redact") for found in NUMBER.finditer(text)]


def test_what_is_quiet_is_not_searched() -> None:
    """Whole texts and streams are searched only where the guard asks for it."""
    guard = Numbers(glances=True)
    workflow = Workflow("w").then(guard)
    assert workflow.check_sync("no number in here").text == "no number in here"
    assert guard.searched == []
    assert workflow.check_sync("no 123 in here").text == "no # in here"
    assert guard.searched == ["no 123 in here"]


class Word(TextGuard):
    """Hides a word; every text without the whole word is quiet."""

    id = "word"
    reach = 6

    def __init__(self) -> None:
        self.asked: list[str] = []

    def quiet(self, text: str, start: int, notes: Mapping[str, Any], *, final: bool) -> int | None:
        """Look for the word."""
        self.asked.append(text)
        return None if "secret" in text else len(text)

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Find the word."""
        return [Edit(found.start(), found.end(), "#", "redact") for found in re.finditer("secret", text)]


def test_parts_that_are_quiet_by_themselves_are_read_together() -> None:
    """What stands across two parts of a message is found; the parts of different messages are lone texts."""
    guard = Word()
    workflow = Workflow("w").then(guard)
    together = workflow.check_sync(Message.user([TextPart("a sec"), TextPart("ret here")]))
    assert [part.text for part in together.messages[0].parts if isinstance(part, TextPart)] == ["a #", " here"]
    apart = workflow.check_sync([Message.user("a sec"), Message.user("ret here")])
    assert [message.text for message in apart.messages] == ["a sec", "ret here"]


@pytest.mark.parametrize("text", ["nothing", "a secret"])
def test_a_lone_text_is_asked_for_once(text: str) -> None:
    """Whether it is quiet or not."""
    guard = Word()
    Workflow("w").then(guard).check_sync(text)
    assert guard.asked == [text]


def test_a_search_of_its_own_has_no_glance_of_another() -> None:
    """A subclass that searches for something else is asked about every text."""

    class Words(Numbers):
        def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
            return [Edit(at, at + 4, "#", "redact") for at in range(len(text)) if text.startswith("blue", at)]

    assert Workflow("w").then(Words(glances=True)).check_sync("all is blue").text == "all is #"


def test_a_search_from_a_mixin_has_no_glance_of_another() -> None:
    """A mixin may search before the guard that it is mixed into, which is then asked about every text."""

    class Stops:
        def scan(self, window: Any, ctx: Any) -> Any:
            if "blue" in window.text:
                ctx.abort("blue")
            return super().scan(window, ctx)  # type: ignore[misc] # of the guard that it is mixed into

    class Both(Stops, PIIDetector):
        pass

    class Below(Both):
        pass

    for guard in (Both(), Below()):
        workflow = Workflow("w").then(guard)
        assert workflow.start_sync().process_input("all is blue").blocked
        with workflow.start_sync().process_output_stream(["all is ", "bl", "ue "]) as chunks:
            assert "bl" not in "".join(chunk.text for chunk in chunks)
        assert chunks.outcome is not None
        assert chunks.outcome.blocked


def test_a_judgement_of_its_own_has_no_glance_of_another() -> None:
    """A subclass that judges whole texts by itself is asked about every text."""

    class Stops(RegexFilterProcessor):
        async def judged(self, ctx: Any, texts: Any) -> Any:
            if any("blue" in text.text for text in texts):
                ctx.abort("blue")
            return await super().judged(ctx, texts)

    assert Workflow("w").then(Stops(presets=["pii"])).check_sync("all is blue").blocked


@pytest.mark.parametrize(
    "text", ["nothing", "a secret", Message.user([TextPart("a sec"), TextPart("ret here")]), Message.user("")]
)
async def test_a_guard_that_waits_glances_at_whole_texts_like_one_that_does_not(text: Any) -> None:
    """It finds the same, and is asked whether a text is quiet as often."""

    class Waits(Word):
        async def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:  # type: ignore[override]
            await anyio.lowlevel.checkpoint()
            return super().find(text, ctx, final=final)

        def quiet(self, text: str, start: int, notes: Mapping[str, Any], *, final: bool) -> int | None:
            return super().quiet(text, start, notes, final=final)

    plain, waits = Word(), Waits()
    found = [await Workflow("w").then(guard).check(text) for guard in (plain, waits)]
    assert found[0].text == found[1].text
    assert plain.asked == waits.asked


@pytest.mark.parametrize(
    "guard", [PIIDetector, ModerationProcessor, PromptInjectionDetector, SystemPromptScrubber, RegexFilterProcessor]
)
def test_built_in_guards_have_a_glance(guard: type[TextGuard]) -> None:
    """None of them lost it."""
    assert guard.quiet is TextGuard.quiet
    made = guard(presets=["pii"]) if guard is RegexFilterProcessor else guard()
    assert type(made.search).quiet is not Search.quiet


@given(st.lists(st.text("no 12", min_size=1, max_size=5), min_size=1, max_size=12))
def test_a_glance_changes_nothing(pieces: list[str]) -> None:
    """However a stream is cut, the text that leaves is that of the same guard without glances, and of the whole."""
    left: list[str] = []
    for glances in (True, False):
        workflow = Workflow("w").then(Numbers(glances=glances))
        with workflow.start_sync().process_output_stream(pieces) as chunks:
            left.append("".join(chunk.text for chunk in chunks))
        left.append(workflow.check_sync("".join(pieces)).text)
    assert len(set(left)) == 1, left
