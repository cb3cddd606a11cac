"""`GuardReporter`: what a guard says about its findings, to whom, and what it must never show."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from penstock import Message, PIIDetector, TextGuard, Workflow
from penstock.engine import Key
from penstock.engine.processor.context import AnyContext
from penstock.engine.text_guards.reporting import GuardReporter, by_place, field_of, listed_place
from penstock.engine.text_guards.window import Hit
from penstock.engine.values.edits import Edit
from penstock.engine.values.messages import ImagePart

COUNTS: Key[Mapping[str, int]] = Key("numbers")


class Numbers(TextGuard):
    """A guard as a newcomer writes one: find, hold and act."""

    id = "numbers"

    def __init__(self, strategy: str = "redact", *, shows_text: bool = False, **callbacks: Any) -> None:
        self.reporter = GuardReporter(strategy, callbacks, shows_text=shows_text)
        self.provides = (COUNTS,)

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        return [Edit(*found.span(), "#", "redact") for found in re.finditer(r"\d+", text)]

    def hold(self, text: str, start: int) -> int:
        return max(start, len(text.rstrip("0123456789")))

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        found = [(hit.window, item) for hit in hits for item in hit.found]
        self.reporter.count(ctx, COUNTS, {"number": len(found)})
        for window, item in found:
            self.reporter.call(ctx, "on_found", (field_of(next(iter(by_place(window, [item])))), item.start))
        if self.reporter.strategy == "block":
            places = [listed_place(window, item.start) for window, item in found]
            self.reporter.block(ctx, ["number"] * len(found), {"spans": places}, "too many; ")
        if self.reporter.strategy == "warn":
            self.reporter.warn(ctx, ["number"] * len(found))
            return [()] * len(hits)
        return super().act(hits, ctx)


def test_counts_add_up_in_the_fact_and_in_the_record() -> None:
    """Over the stages of a run in the fact; of one call in the record."""
    run = Workflow("w").then(Numbers()).start_sync()
    first = run.process_input("1 and 2")
    assert first.text == "# and #"
    assert first.facts[COUNTS] == {"number": 2}
    second = run.process_output_result([Message.assistant("3")])
    assert second.facts[COUNTS] == {"number": 3}
    assert Workflow("w").then(Numbers()).check_sync("1").records[0].details["found"] == {"number": 1}


def test_a_stream_leaves_as_the_whole_text_does_and_counts_its_sum() -> None:
    """However it is cut."""
    with Workflow("w").then(Numbers()).start_sync().process_output_stream(["12", "3 a", " 4", "5"]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == "# a #"
    assert chunks.outcome.facts[COUNTS] == {"number": 2}


def test_a_verdict_names_each_thing_once_and_says_where_it_stands() -> None:
    """With the strategy, and why."""
    tripwire = Workflow("w").then(Numbers("block")).check_sync("a 1 2").tripwire
    assert tripwire is not None
    assert tripwire.reason == "too many; the text holds what may not pass: number"
    assert tripwire.metadata["strategy"] == "block"
    assert [span["start"] for span in tripwire.metadata["spans"]] == [2, 4]


def test_a_warning_names_each_thing_once(caplog: pytest.LogCaptureFixture) -> None:
    """And the text passes."""
    with caplog.at_level(logging.WARNING, "penstock"):
        assert Workflow("w").then(Numbers("warn")).check_sync("1 2").text == "1 2"
    assert caplog.messages == ["numbers: found in process_input: number"]


@pytest.mark.parametrize("shows_text", [False, True])
def test_an_error_in_a_callback_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture, shows_text: bool
) -> None:
    """Without its traceback where the callback was given text, for that would show it."""

    def broken(report: object) -> None:
        raise ValueError(report)

    guard = Numbers(shows_text=shows_text, on_found=broken)
    assert guard.reporter.is_heard()
    assert Workflow("w").then(guard).check_sync("a 1").text == "a #"
    [record] = caplog.records
    assert record.getMessage() == "numbers: on_found raised ValueError"
    assert bool(record.exc_info) is not shows_text


@pytest.mark.parametrize(
    ("message", "named", "cure"),
    [
        (
            Message.user("Hi", metadata={"user": {"mail": "a@b.com"}}),
            "metadata.user.mail",
            "leave it out of the message",
        ),
        (Message.user("Hi", metadata={"u 1": ["a@b.com"]}), "metadata.….0", "leave it out of the message"),
        (Message.user("Hi", metadata={"a@b.com": 1}), "metadata.…", "leave it out of the message"),
        (
            Message("user", (ImagePart(url="https://x.org/?mail=a@b.com", media_type="image/png"),)),
            "url",
            "take 'image' out of parts=",
        ),
    ],
)
def test_a_finding_that_cannot_be_edited_names_the_key_and_the_option(message: Message, named: str, cure: str) -> None:
    """But no key that may itself say something."""
    outcome = Workflow("w").then(PIIDetector(unscanned="allow")).check_sync([message])
    assert outcome.tripwire is not None
    assert f"({named}) cannot be edited, only blocked; to let it pass, {cure}" in outcome.tripwire.reason
    assert "a@b" not in outcome.tripwire.reason
