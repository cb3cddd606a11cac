"""Guards that score windows: detector and judge, streams as whole texts, and what is told of it."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from penstock import Message, UnicodeNormalizer, Workflow
from penstock.detection.embedded import EmbeddedScores
from penstock.detection.windows import Windows
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.text_guards.window import TextWindow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.messages import TextPart, ToolPart
from penstock.processors.guards.guard_options import set_up
from penstock.processors.guards.judging import UNLISTED, highest_scores
from penstock.processors.guards.score_action import ScoreAction
from penstock.processors.guards.score_search import ScoreSearch, WindowScores
from penstock.processors.guards.verdicts import CategoryScore
from penstock.testing import ScriptedModel, run_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Hit
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.protocols import Judged
    from penstock.processors.guards.detection import Detection
    from penstock.processors.guards.guard_options import GuardOptions


class Words:
    """Scores a text by how bad its worst word is."""

    categories = ("rude", "vile")
    thresholds: Mapping[str, float] = {"rude": 0.5, "vile": 0.5}

    def scores(self, text: str) -> Mapping[str, float]:
        return {"rude": 0.6 if "damn" in text else 0.1, "vile": 1.0 if "vile" in text else 0.0}

    def reasons(self, text: str) -> tuple[str, ...]:
        return ()


class Findings(BaseModel):
    """What the judge says."""

    categories: list[CategoryScore]
    reason: str | None = None


class MannersSearch(ScoreSearch[Findings]):
    """Scores how rude a text is."""

    def judge_scores(self, judged: Judged[Findings], text: str) -> WindowScores:
        entries = [(entry.category, entry.score) for entry in judged.verdict.categories]
        return WindowScores(highest_scores(entries, self.categories), reason=judged.verdict.reason)


class Manners(TextGuard):
    """A guard for tests."""

    windows = Windows(least=5, most=40, overlap=0)

    def __init__(
        self,
        model: Any = None,
        *,
        strategy: Literal["block", "warn", "filter"] = "block",
        scorer: Any = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        strategies, asked = ("block", "warn", "filter"), "How rude is it?"
        setup = set_up(self, model, strategy, strategies, lambda: Findings, asked, options, fact=["scores"])
        own = EmbeddedScores(scorer or Words())
        search = MannersSearch(setup, Words.categories, own, output_windows=self.windows)
        search.install(self, ScoreAction(search))
        self.scores = search.scores


def streamed(guard: TextGuard, text: str, size: int = 3) -> tuple[str, Any]:
    """Return what leaves of a stream, and the outcome."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        out = "".join(chunk.text for chunk in chunks)
    return out, chunks.outcome


def test_what_is_flagged_stops_the_run_and_says_why() -> None:
    """Categories, scores, limits and where it stands, as data; never the text."""
    outcome = run_stage(Manners(), "process_input", [Message.user("hello"), Message.user("you damn fool")])
    assert outcome.tripwire is not None
    told = outcome.tripwire.metadata
    assert dict(told["categories"]) == {"rude": 0.6}
    assert dict(told["scores"]) == {"rude": 0.6, "vile": 0.0}
    assert dict(told["threshold"]) == {"rude": 0.5}
    assert told["judge"] is None
    assert "fool" not in str(outcome.tripwire)


def test_a_message_is_left_out_whole_and_the_others_stay() -> None:
    """Unless none of the user's would be left: then there is nothing to answer."""
    guard = Manners(strategy="filter")
    kept = run_stage(guard, "process_input", [Message.user("hello"), Message.user("you damn fool")])
    assert [message.text for message in kept.messages] == ["hello"]
    assert run_stage(guard, "process_input", [Message.user("you damn fool")]).blocked


def test_a_stream_leaves_as_the_whole_answer_does() -> None:
    """Sentence by sentence, however it was cut; of a blocked one nothing leaves."""
    text = "This is fine. You damn fool! And so on. Goodbye"
    whole = run_stage(Manners(strategy="filter"), "process_output_result", [Message.assistant(text)])
    assert whole.messages[0].text == "This is fine. And so on. Goodbye"
    for size in range(1, 20):
        assert (
            streamed(Manners(strategy="filter"), text, size)[0]
            == whole.messages[0].text
            == "This is fine. And so on. Goodbye"
        )
        out, outcome = streamed(Manners(), text, size)
        assert out == "This is fine. "
        assert outcome.blocked


def test_a_guard_that_only_warns_lets_everything_pass_and_tells() -> None:
    """Facts and callbacks say what it found."""
    seen: list[Detection] = []
    guard = Manners(strategy="warn", on_detection=seen.append, id="manners")
    out, outcome = streamed(guard, "Hello there. You damn fool!")
    assert out == "Hello there. You damn fool!"
    assert outcome.facts[guard.scores] == {"rude": 0.6, "vile": 0.0}
    assert [(d.flagged, d.strategy, d.text) for d in seen] == [(False, "none", None), (True, "warn", None)]


@pytest.mark.parametrize(
    "said", ["eW91IGFyZSBhIGRhbW4gZm9vbCwgc2ly", "y o u   d a m n   f o o l", "ｄａｍｎ yo\u200bu"]
)
def test_what_is_said_behind_a_code_counts(said: str) -> None:
    """Base64, letters set apart; full-width letters are a normaliser's, or the detector's own."""
    guard = Manners(strategy="filter")
    normal = Workflow("w").then(UnicodeNormalizer(form="NFKC")).then(guard)
    kept = normal.start_sync().process_input([Message.user(said), Message.user("hi")])
    assert [message.text for message in kept.messages] == ["hi"]


async def test_the_judge_decides_what_the_detector_is_not_sure_of() -> None:
    """What that is sure of costs no call."""
    model = ScriptedModel(['{"categories": [{"category": "rude", "score": 0.2}], "reason": "mild"}'])
    workflow = Workflow("w").then(Manners(model))
    assert not (await workflow.check("you damn fool")).blocked
    assert (await workflow.check("vile thing")).blocked
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("answer", "blocked"),
    [
        ('{"categories": [{"category": "RUDE ", "score": 2}]}', True),
        ('{"categories": [{"category": "unheard of", "score": 0.9}]}', True),
        ('{"categories": [{"category": "unheard of", "score": 0.1}]}', False),
        ('{"categories": [{"category": "rude"}]}', True),
        ('{"categories": []}', False),
        ("I cannot help with that.", True),
    ],
)
async def test_a_judge_that_cannot_be_understood_lets_nothing_pass(answer: str, blocked: bool) -> None:
    """An unknown category counts; an entry that cannot be read is no acquittal."""
    outcome = await Workflow("w").then(Manners(ScriptedModel([answer] * 9), retries=0)).check("hm")
    assert outcome.blocked == blocked


async def test_a_tripwire_says_why_the_judge_gave_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    """So that whoever looks after it knows where to look; the log does, too."""
    outcome = await Workflow("w").then(Manners(ScriptedModel(["?"] * 9), retries=0)).check("hm")
    assert outcome.tripwire is not None
    told = {"failed": True, "error": "JudgeError", "judge": "scripted", "why": "unreadable"}
    assert dict(outcome.tripwire.metadata) == told
    assert "unreadable: scripted" in caplog.text


async def test_a_broken_judge_can_be_stood_in_for_by_the_detector() -> None:
    """If its owner says so."""
    for failure, blocked in (("fail", True), ("embedded", False)):
        guard = Manners(ScriptedModel(["?"] * 9), retries=0, judge_failure=failure)  # type: ignore[arg-type]
        assert (await Workflow("w").then(guard).check("hm")).blocked == blocked


async def test_a_reason_that_quotes_the_text_is_kept_back() -> None:
    """It would show what is hidden."""
    told = []
    for reason in ("It calls names.", "It says: my old secret plan."):
        answer = f'{{"categories": [{{"category": "rude", "score": 1}}], "reason": "{reason}"}}'
        outcome = await Workflow("w").then(Manners(ScriptedModel([answer]))).check("this is my old secret plan")
        assert outcome.tripwire is not None
        told.append(outcome.tripwire.metadata["reason"])
    assert told == ["It calls names.", None]


async def test_all_texts_of_a_message_part_are_judged_in_one_call() -> None:
    """Neighbouring parts are one text, empty ones aside, and so are the texts of one tool's value."""
    model = ScriptedModel(['{"categories": []}'] * 9)
    message = Message(
        "assistant",
        (
            TextPart("one"),
            TextPart(""),
            TextPart("two"),
            ToolPart("c", "t", {"to": "bob", "n": 12345678, "body": ["x", "y"]}),
        ),
    )
    await Workflow("w").then(Manners(model)).start().process_output_result([message])
    asked = [str(request.messages[-1].text) for request in model.requests]
    read = {next(line for line in text.splitlines() if not line.startswith("<")) for text in asked}
    assert read == {"one two", "to bob n body x y"}


async def test_what_a_tool_is_given_and_what_it_returns_are_judged_apart() -> None:
    """As they are in a stream, where the result comes when the call has been judged."""
    model = ScriptedModel(['{"categories": []}'] * 9)
    message = Message("assistant", (ToolPart("c", "t", {"to": "bob"}, "result", {"sent": "gladly"}),))
    await Workflow("w").then(Manners(model)).start().process_output_result([message])
    asked = [str(request.messages[-1].text) for request in model.requests]
    read = {next(line for line in text.splitlines() if not line.startswith("<")) for text in asked}
    assert read == {"to bob", "sent gladly"}


def test_callbacks_are_shown_the_text_as_it_was_judged() -> None:
    """Parts that are read as one are parted by spaces, for whoever judges and for whoever is told."""
    seen: list[Detection] = []
    guard = Manners(strategy="warn", on_detection=seen.append, include_text=True)
    run_stage(guard, "process_input", [Message("user", [TextPart("this is"), TextPart("vile")])])
    assert [(found.flagged, found.text) for found in seen] == [(True, "this is vile")]


def test_options_that_cannot_be_are_refused() -> None:
    """With what would be allowed."""
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        Manners(timeot=3)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match="how a model= is asked"):
        Manners(timeout=3)
    with pytest.raises(OptionError, match="embedded"):
        Manners(embedded=False)
    with pytest.raises(OptionError, match="model"):
        Manners("gpt")
    with pytest.raises(OptionError, match="'max_hold' is 79, but must be 80 or more"):
        type("Short", (Manners,), {"max_hold": 79})()
    assert type("Enough", (Manners,), {"max_hold": 80})().max_hold == 80
    assert highest_scores([("Rude", 0.2), ("x", 0.3)], ("rude",)) == {"rude": 0.2, UNLISTED: 0.3}


async def test_the_detector_of_a_guard_with_a_judge_works_beside_the_event_loop() -> None:
    """Many windows may be in line, and the loop has others to serve."""
    threads: set[int] = set()

    class Seen(Words):
        def scores(self, text: str) -> Mapping[str, float]:
            threads.add(threading.get_ident())
            return super().scores(text)

    guard = Manners(ScriptedModel([]), embedded=True, scorer=Seen())
    outcome = await Workflow("w").then(guard).check("vile " * 100)
    assert outcome.blocked
    assert threading.get_ident() not in threads


SENTENCES = st.text("ab rude.!?…\n\"'。 ", max_size=60)


@given(SENTENCES, SENTENCES, st.integers(0, 60), st.booleans())
def test_a_glance_skips_only_windows_that_wait_for_their_end(text: str, more: str, start: int, final: bool) -> None:
    """Whatever follows, no window ends before the position, and the search holds the text from there on, too."""
    guard, start = Manners(), min(start, len(text))
    held = guard.quiet(text, start, {}, final=final)
    for stage in ("process_input", "process_output_stream"):
        found, hold = scanned(guard, TextWindow(text, start, final=final), stage)
        assert held is None or (found, hold) == ([], held)
        if held is not None and not final:
            later, _ = scanned(guard, TextWindow(text + more, start), stage)
            assert [one.start for one in later[:1]] in ([], [held])


def scanned(guard: Manners, window: TextWindow, stage: str) -> tuple[list[Any], int]:
    """Return a guard's verdicts about a window, and from where on it holds text back."""
    ctx: Any = SimpleNamespace(stage=stage)
    search: Any = guard.search
    result: Any = search.verdicts(window, ctx)
    return list(result[0]), result[1]


@pytest.mark.parametrize("heard", [False, True])
def test_ordinary_windows_are_scored_and_are_findings_only_for_a_callback(heard: bool) -> None:
    """Their highest scores stand in the fact and in the record all the same."""
    told: list[Detection] = []
    acted: list[int] = []

    class Acts(Manners):
        def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
            acted.append(len(hits))
            return super().act(hits, ctx)

    guard = Acts(strategy="warn", on_detection=told.append if heard else None)
    run = Workflow("w").then(guard).start_sync(records=True)
    with run.process_output_stream(["Good day. ", "How are ", "you? ", "Fine."]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == "Good day. How are you? Fine."
    assert chunks.outcome is not None
    assert dict(chunks.outcome.facts[guard.scores]) == {"rude": 0.1, "vile": 0.0}
    assert [dict(record.details["scores"]) for record in run.records] == [{"rude": 0.1, "vile": 0.0}]
    assert len(told) == len(acted) == (3 if heard else 0)


def test_a_class_that_searches_in_its_own_way_is_asked_about_every_window() -> None:
    """The glance of its base class knows nothing of its search."""
    texts: list[str] = []

    class Listens(Manners):
        def scan(self, window: TextWindow, ctx: Any) -> Any:
            texts.append(window.text)
            return super().scan(window, ctx)

    streamed(Listens(), "a b")
    assert texts == ["a b", "a b"]
    assert Listens().quiet("a b", 0, {}, final=False) is None
    assert Manners().quiet("a b", 0, {}, final=False) == 0
