"""Which guards say of a text that it is quiet, and from where on they hold it back."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import PIIDetector, RegexFilterProcessor, Workflow
from penstock.detection.patterns.scanner import Before, Scanner, Searched
from penstock.detection.patterns.triggers import Triggers
from penstock.testing import ScriptedModel
from tests.processors.guards.invariance import streamed

PROSE = "Plain words of a letter, such as people write them, need not any search"


@pytest.mark.parametrize("guard", [PIIDetector(), RegexFilterProcessor(presets=["pii", "secrets", "urls"])])
def test_prose_is_quiet_and_held_back_from_its_last_word(guard: Any) -> None:
    """It is also quiet where numbers are too short for a finding; a finding is not."""
    assert guard.quiet(PROSE, 0, {}, final=False) == PROSE.rindex(" ") + 1
    assert guard.quiet(PROSE, 0, {}, final=True) == len(PROSE)
    assert guard.quiet("In 2019 it rained on 7 days", 0, {}, final=True) is not None
    assert guard.quiet("mail joe@example.com today", 0, {}, final=True) is None


@pytest.mark.parametrize("guard", [PIIDetector(), RegexFilterProcessor(presets=["pii", "secrets"])])
def test_a_whole_text_is_searched_once(guard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the glance has found is there for the search, behind escapes, too; a text without a finding is quiet."""
    searched: list[str] = []
    search = Scanner.search

    def noted(self: Scanner, text: str, start: int, before: Before, *, final: bool) -> Searched:
        searched.append(text)
        return search(self, text, start, before, final=final)

    monkeypatch.setattr(Scanner, "search", noted)
    plain, hiding = r"C:\new\1 and 2", r"mail joe\u0040example.com \u0041"
    assert Workflow("w").then(guard).check_sync(hiding).text != hiding
    assert guard.quiet(hiding, 0, {}, final=True) is None
    assert guard.quiet(plain, 0, {}, final=True) == len(plain)
    assert searched == [hiding, hiding, plain]


@pytest.mark.parametrize(
    "guard",
    [
        PIIDetector(ScriptedModel(["{}"])),
        PIIDetector(on_detection=lambda _: None),
    ],
)
def test_a_guard_that_must_act_on_every_text_finds_none_quiet(guard: PIIDetector) -> None:
    """A judge is asked about each sentence, and a callback hears of texts without a finding."""
    assert guard.quiet(PROSE, 0, {}, final=True) is None


def test_a_guard_that_removes_sentences_must_see_them() -> None:
    """It tells the sentences of a stream apart, so only a whole text may be quiet."""
    guard = PIIDetector(strategy="filter")
    assert guard.quiet(PROSE, 0, {}, final=False) is None
    assert guard.quiet(PROSE, 0, {}, final=True) == len(PROSE)


@pytest.mark.parametrize("guard", [PIIDetector(), RegexFilterProcessor(presets=["pii", "secrets"])])
def test_a_word_that_goes_on_is_held_without_a_search(guard: Any) -> None:
    """It is held whatever it is; one that ends is searched."""
    assert guard.quiet("mail joe@example.com", 5, {}, final=False) == 5
    assert guard.quiet("mail joe@example.com ", 5, {}, final=False) is None
    assert guard.quiet("mail joe@example.com", 5, {}, final=True) is None


@pytest.mark.parametrize("guard", [PIIDetector(), RegexFilterProcessor(presets=["pii", "secrets"])])
def test_a_long_word_is_not_searched_unless_a_key_may_begin_in_it(guard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of prose are as long as keys, and begin as none."""
    text = "documentation, internationalized by "
    assert guard.quiet("a ghp_16C7e42F292c6912E7810c838347Ae178B4b is ", 0, {}, final=False) is None
    monkeypatch.setattr(Triggers, "standing_in", None)
    assert guard.quiet(f"{text}th", 0, {}, final=False) in (len(text), text.index("by"))


def test_text_that_may_be_encoded_is_held_until_it_ends() -> None:
    """It is decoded once; what hides nothing is quiet."""
    guard = PIIDetector()
    blob = "am9lQGV4YW1wbGUuY29tLCBqb2VAZXhhbXBsZS5jb20="
    link = "[streams](streams.md#when-chunks-are-sent)."
    for text in (blob, link):
        assert guard.quiet(f"what it says: {text}", 0, {}, final=False) == len("what it says: ")
        assert guard.quiet(f"what it says: {text} ", 0, {}, final=False) is None  # it may end here: it is decoded
    assert guard.quiet(f"what it says: {blob} that", 0, {}, final=False) is None
    assert guard.quiet(f"what it says: {blob}", 0, {}, final=True) is None
    assert guard.quiet(f"what it says: {link} that", 0, {}, final=False) == len(f"what it says: {link} ")
    assert guard.quiet(f"what it says: {link}", 0, {}, final=True) == len(f"what it says: {link}")


@pytest.mark.parametrize(
    ("text", "held"),
    [("of 100 me", "of 100 me"), ("of 100 mes", "mes"), ("of 100 xab", "of 100 xab"), ("a b c … d …", "a b c … d …")],
)
def test_letters_and_codes_are_held_until_a_word_begins_that_is_neither(text: str, held: str) -> None:
    """Three letters are no code, however the word goes on, unless the first of them is an x."""
    assert PIIDetector().quiet(text, 0, {}, final=False) == len(text) - len(held)


@pytest.mark.parametrize(
    ("said", "least"),
    [
        ("write to joe@example.com today", 1),
        ("wait … for it", 0),
        ("it costs 50% of that, 👩\u200d💻", 0),
        ("½ a cup", 0),
    ],
)
async def test_a_stream_is_quiet_again_soon(said: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a finding, or an escape, is not searched; characters that read as several or none need no search."""
    guard = PIIDetector()
    scanned: list[str] = []
    scan = guard.scan

    def counted(window: Any, ctx: Any) -> Any:
        scanned.append(window.text[window.start :])
        return scan(window, ctx)

    monkeypatch.setattr(guard, "scan", counted)
    text = f"First {said}. {PROSE}. {PROSE}."
    run = Workflow("w").then(guard).start()
    async with run.process_output_stream([text[at : at + 5] for at in range(0, len(text), 5)]) as chunks:
        out = "".join([chunk.text async for chunk in chunks])
    assert "joe@" not in out
    assert out.endswith(PROSE + ".")
    assert least <= len(scanned) < (12 if least else 1)


@pytest.mark.parametrize("guard", [PIIDetector(), RegexFilterProcessor(presets=["pii"])])
@pytest.mark.parametrize("sign", ["⚠️", "👩\u200d💻", "1️⃣", "зарплата", "你好，", "5 %"])
def test_a_text_is_quiet_behind_what_is_not_seen_and_what_looks_like_another_sign(guard: Any, sign: str) -> None:
    """Emoji, letters of other scripts and percentages are no reason for a search, nor is the text behind them."""
    text = f"{sign} {PROSE} {sign} of 12 plain words"
    assert guard.quiet(text, 0, {}, final=False) is not None
    assert guard.quiet(text, text.index("of"), {}, final=False) is not None
    assert guard.quiet(f"{text} joe@example.com {PROSE}", text.index("of"), {}, final=False) is None


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("odd", ["\x1b[31m", "\u200b" * 140, "\x00", "м\u2060" * 130])
def test_what_stands_before_a_number_is_remembered_though_it_is_not_seen(size: int, odd: str) -> None:
    """A letter before it, as it is written or as it reads, decides whether it is a card; in a stream as in a text."""
    guard = Workflow("w").then(RegexFilterProcessor(presets=["pii"], strategy="redact"))
    for text in (f"a {odd}4111 1111 1111 1111. So", f"a {odd} 4111 1111 1111 1111. So", f"ab{odd}4111 1111 1111 1111"):
        left, _ = anyio.run(streamed, guard, [text[at : at + size] for at in range(0, len(text), size)])
        assert left == guard.check_sync(text, stage="process_output_step").text


@pytest.mark.parametrize("guard", [PIIDetector(), RegexFilterProcessor(presets=["pii"], strategy="redact")])
@pytest.mark.parametrize("size", [1, 40, 400])
@pytest.mark.parametrize(
    ("said", "odd", "behind"),
    [
        ("", "\u3164", "call 0294685"),  # as it is written, a letter stands before the word
        ("please call ", f"\x1b]{'x ' * 128}\x07", "555 0143 yes"),  # longer than what is looked back at
    ],
)
def test_a_cue_counts_through_what_is_not_seen(guard: Any, size: int, said: str, odd: str, behind: str) -> None:
    """A text that was quiet up to a place is read on as it reads, not as it is written."""
    workflow = Workflow("w").then(guard)
    text = said + odd + behind
    whole = workflow.check_sync(text, stage="process_output_step").text
    hidden = [odd[at : at + size] for at in range(0, len(odd), size)]
    assert whole != text
    for cut in ([text], [said, *hidden, behind], [said, *hidden, *behind]):
        assert anyio.run(streamed, workflow, cut)[0] == whole
