"""`ClassifierProcessor`: questions, answers, and what is made of them by its user's code."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from penstock import Judge, Message, OptionError, Workflow
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.processors.guards.classifier import Classification, ClassifierProcessor
from penstock.processors.guards.question import Question
from penstock.testing import ScriptedModel, run_stage


class Topic(BaseModel):
    """What a text is about."""

    topic: Literal["billing", "other"]
    urgent: bool


def rude(text: str) -> bool:
    """Answer whether a text is rude."""
    return "damn" in text


def take_away(answer: bool, told: Classification[bool]) -> None:
    """Filter what is rude."""
    if answer:
        told.filter()


def stop(answer: bool, told: Classification[bool]) -> None:
    """Abort for what is rude."""
    if answer:
        told.abort("no rude words", metadata={"kind": "rude"})


async def wait_and_take_away(answer: bool, told: Classification[bool]) -> None:
    """Filter what is rude, as an async function."""
    take_away(answer, told)


async def slowly(text: str) -> bool:
    """Answer whether a text is rude, as an async function."""
    return rude(text)


def test_code_decides_message_by_message() -> None:
    """With the answers, where they come from, and the text."""
    seen: list[Any] = []

    def on_result(answer: int, told: Classification[int]) -> None:
        seen.append((answer, told.phase, told.stage, told.message_id, told.text, told.result == answer))

    guard = ClassifierProcessor(len, on_result, id="length")
    outcome = run_stage(guard, "process_input", [Message.user("first", id="1"), Message.user("other one", id="2")])

    assert seen == [
        (5, "input", "process_input", "1", "first", True),
        (9, "input", "process_input", "2", "other one", True),
    ]
    assert outcome.facts[guard.answers] == 9


def test_a_message_is_left_out_where_code_says_so() -> None:
    """And the run stops if nothing is left of what was asked."""
    guard = ClassifierProcessor(rude, take_away)
    kept = run_stage(guard, "process_input", [Message.user("damn you"), Message.user("hello")])

    assert [message.text for message in kept.messages] == ["hello"]
    assert run_stage(guard, "process_input", [Message.user("damn you")]).blocked


def test_a_verdict_is_the_codes_own() -> None:
    """Its reason and its metadata, in every stage."""
    for stage, role in (("process_input", "user"), ("process_output_result", "assistant")):
        outcome = run_stage(ClassifierProcessor(rude, stop), stage, [Message(role, "damn you")])  # type: ignore[arg-type]
        assert outcome.tripwire is not None
        assert (outcome.tripwire.reason, outcome.tripwire.metadata["kind"]) == ("no rude words", "rude")


@pytest.mark.parametrize("classifier", [rude, slowly])
@pytest.mark.parametrize("on_result", [take_away, wait_and_take_away])
async def test_functions_may_wait(classifier: Any, on_result: Any) -> None:
    """Both, either or neither; streams too."""
    run = Workflow("w").then(ClassifierProcessor(classifier, on_result)).start()
    text = "This is a sentence that is long enough. This one says damn and is long enough too. Bye."
    outcome = await run.process_input([Message.user("damn"), Message.user("hello")])
    assert [message.text for message in outcome.messages] == ["hello"]
    async with run.process_output_stream([text[:50], text[50:]]) as chunks:
        out = "".join([chunk.text async for chunk in chunks])
    assert out == "This is a sentence that is long enough. Bye."


def test_a_stream_is_what_the_whole_answer_is() -> None:
    """However it is cut: the same windows are asked about, in order."""
    text = "This is a sentence that is long enough. This one says damn and is long enough too. And a third one, bye."
    seen: list[list[str]] = []

    def noted(answer: bool, told: Classification[bool]) -> None:
        seen[-1].append(told.text)
        take_away(answer, told)

    guard = ClassifierProcessor(rude, noted)
    seen.append([])
    whole = run_stage(guard, "process_output_result", [Message.assistant(text)]).messages[0].text
    for size in range(1, 60, 7):
        seen.append([])
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
            assert "".join(chunk.text for chunk in chunks) == whole
    assert "damn" not in whole
    assert all(texts == seen[0] for texts in seen)
    assert len(seen[0]) == 3


@pytest.mark.parametrize("waits", [False, True])
async def test_what_left_a_stream_is_not_asked_about_again(waits: bool) -> None:
    """When the whole answer is judged, code is called with the answers that are there."""
    text = "This is a sentence that is long enough. And this is another one, as long."
    seen: list[str] = []
    phases: list[str] = []

    def answer(window: str) -> int:
        seen.append(window)
        return len(window)

    async def answer_later(window: str) -> int:
        return answer(window)

    guard = ClassifierProcessor(answer_later if waits else answer, lambda _, about: phases.append(about.phase))
    run = Workflow("w").then(guard).start()
    async with run.process_output_stream([text]) as chunks:
        assert "".join([chunk.text async for chunk in chunks]) == text
    await run.process_output_step([Message.assistant(text)])

    assert len(seen) == 2
    assert phases == ["stream", "stream", "output", "output"]


def test_what_is_aborted_does_not_leave_a_stream() -> None:
    """What was decided before may."""
    text = "This is a sentence that is long enough. This one says damn and is long enough too."
    with Workflow("w").then(ClassifierProcessor(rude, stop)).start_sync().process_output_stream(list(text)) as chunks:
        out = "".join(chunk.text for chunk in chunks)

    assert chunks.outcome.blocked
    assert out == "This is a sentence that is long enough. "


def test_a_window_is_shown_with_what_stood_before_it() -> None:
    """As many windows' length as are asked for; what is told of, and filtered, is the window."""
    seen: list[str] = []

    def answer(text: str) -> str:
        seen.append(text)
        return text

    told: list[str] = []
    guard = ClassifierProcessor(answer, lambda _, about: told.append(about.text), chunk_window=1)
    text = "This is a sentence that is long enough. And this is another one, as long."
    run_stage(guard, "process_output_result", [Message.assistant(text)])

    assert seen == ["This is a sentence that is long enough.", text]
    assert told == ["This is a sentence that is long enough.", "And this is another one, as long."]


def test_text_parts_of_a_message_are_one_text() -> None:
    """Blank ones are not asked about; other parts are texts of their own, where they are looked at."""
    seen: list[str] = []
    guard = ClassifierProcessor(seen.append, lambda *_: None, parts=["text"])
    message = Message("user", (TextPart("one"), ReasoningPart("hm"), TextPart("two")))
    run_stage(guard, "process_input", [message, Message.user(" \n")])
    run_stage(ClassifierProcessor(seen.append, lambda *_: None, parts=["reasoning"]), "process_input", [message])

    assert seen == ["one two", "hm"]


def test_tools_are_read_and_a_number_is_filtered_as_a_whole() -> None:
    """Arguments and results."""
    guard = ClassifierProcessor(lambda text: "1234567" in text, take_away, parts=["tool"])
    said = Message("assistant", (ToolPart("c", "t", {"note": "1234567 is it", "other": "fine"}),))
    assert "1234567" not in str(run_stage(guard, "process_output_step", [said]).messages)
    number = Message("assistant", (ToolPart("c", "t", {"n": 12345678}),))
    (part,) = run_stage(guard, "process_output_step", [number]).messages[0].parts
    assert part.arguments == {"n": None}


def test_long_texts_are_shown_to_a_limit() -> None:
    """The rest passes unread; 0 shows nothing."""
    seen: list[str] = []
    for most in (4, 0):
        run_stage(ClassifierProcessor(seen.append, lambda *_: None, max_input_length=most), "process_input", "abcdef")
    assert seen == ["abcd", ""]


def test_only_the_last_message_is_looked_at_where_that_is_asked() -> None:
    """Earlier ones pass unread."""
    seen: list[str] = []
    guard = ClassifierProcessor(seen.append, lambda *_: None, last_message_only=True)
    run_stage(guard, "process_input", [Message.user("one"), Message.user("two")])
    assert seen == ["two"]


async def test_a_model_answers_in_the_form_of_a_type() -> None:
    """Validated, and in the order of the texts."""
    model = ScriptedModel(
        lambda request: json.dumps({"topic": "billing", "urgent": "now" in str(request.messages[-1].text)})
    )
    seen: list[Topic] = []
    guard = ClassifierProcessor(Topic, lambda answers, _: seen.append(answers), model=model)
    await Workflow("w").then(guard).start().process_input([Message.user("pay now"), Message.user("pay later")])

    assert seen == [Topic(topic="billing", urgent=True), Topic(topic="billing", urgent=False)]


async def test_a_model_answers_questions_by_name() -> None:
    """Of four kinds; a text alone is a question of yes or no."""
    questions = {
        "spam": "Is it an advertisement?",
        "topic": Question("What is it about?", "choice", ("billing", "other")),
        "anger": Question("How angry is it?", "score"),
        "mood": Question("How is its mood?", "shares", ("good mood", "bad mood")),
    }
    answers = {"spam": True, "topic": "billing", "anger": "90%", "mood": {"good mood": 0.2, "bad mood": 0.8}}
    model = ScriptedModel([json.dumps(answers)])
    seen: list[Any] = []
    guard: ClassifierProcessor[Any] = ClassifierProcessor(questions, lambda found, _: seen.append(found), model=model)
    await Workflow("w").then(guard).check("hello")

    assert seen == [{**answers, "anger": 0.9}]
    schema = str(model.requests[0].response_format)
    assert "Is it an advertisement?" in schema
    assert "bad mood" in schema


async def test_a_judge_answers_too() -> None:
    """One that is shared, for example."""
    judge = Judge(ScriptedModel(['{"topic": "other", "urgent": false}']), Topic, "What is it about?")
    seen: list[Topic] = []
    guard: ClassifierProcessor[Topic] = ClassifierProcessor(judge, lambda answers, _: seen.append(answers))
    await Workflow("w").then(guard).check("hello")
    assert seen[0].topic == "other"


@pytest.mark.parametrize("answer", ["no idea", '{"topic": "weather", "urgent": true}', "{}"])
async def test_a_model_without_answers_lets_nothing_pass(answer: str) -> None:
    """Nor does it call anybody with what is none."""
    seen: list[Any] = []
    guard = ClassifierProcessor(Topic, lambda *given: seen.append(given), model=ScriptedModel([answer] * 9), retries=0)
    outcome = await Workflow("w").then(guard).check("hello")

    assert outcome.blocked
    assert not seen
    allowing = await Workflow("w").then(guard, on_error="allow").check("hello")
    assert not allowing.blocked


def breaks_at_boom(text: str) -> str:
    """Return the text, except for one."""
    if "boom" in text:
        raise ValueError(text)
    return text


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("broken", ["classifier", "on_result"])
async def test_where_a_failure_may_pass_only_the_failing_text_does(broken: str, asynchronous: bool) -> None:
    """Whole and streamed; the texts before and behind it are decided, and the record says that the step failed."""

    def decide(answer: str, told: Any) -> None:
        if broken == "on_result":
            breaks_at_boom(answer)
        if "damn" in answer:
            told.filter()

    async def later(answer: str, told: Any) -> None:
        decide(answer, told)

    classify = breaks_at_boom if broken == "classifier" else str.strip
    guard = ClassifierProcessor(classify, later if asynchronous else decide)
    workflow = Workflow("w").then(guard, on_error="allow", timeout=9 if asynchronous else None)
    texts = ["damn the first of all.", "boom", "damn the last of all."]
    outcome = await workflow.check([Message.user(text) for text in texts])
    assert [message.text for message in outcome.messages] == ["boom"]
    assert [record.status for record in outcome.records] == ["failed"]

    answer = "".join(f"{text} It is a sentence that is long enough.\n" for text in texts)
    whole = await workflow.check([Message.assistant(answer)], stage="process_output_step")
    async with workflow.start().process_output_stream([*answer]) as chunks:
        assert "".join([chunk.text async for chunk in chunks]) == whole.text
    assert whole.text.startswith("boom")
    assert "damn" not in whole.text


def test_what_raises_lets_nothing_pass_and_quotes_nothing() -> None:
    """Neither the classifier nor the code that decides."""

    def broken(*_: object) -> None:
        raise ValueError("my secret plan")

    for guard in (ClassifierProcessor(broken, take_away), ClassifierProcessor(rude, broken)):
        outcome = run_stage(guard, "process_input", "my secret plan")
        assert outcome.blocked
        assert "secret" not in str(outcome.tripwire)


async def answered_late() -> None:
    """Do nothing, as an async function."""


def test_what_is_to_be_awaited_must_say_so() -> None:
    """A lambda around an async function would be forgotten."""
    for guard in (
        ClassifierProcessor(lambda _: answered_late(), lambda *_: None),
        ClassifierProcessor(rude, lambda *_: answered_late()),
    ):
        assert run_stage(guard, "process_input", "hello").blocked


def test_callbacks_are_told_of_each_text() -> None:
    """What was filtered counts as a violation."""
    seen: list[Any] = []
    guard = ClassifierProcessor(
        rude, take_away, on_detection=lambda found: seen.append(found.flagged), on_violation=seen.append
    )
    run_stage(guard, "process_input", [Message.user("hello"), Message.user("damn you")])
    assert seen[:2] == [False, True]
    assert (seen[2].strategy, seen[2].text) == ("filter", None)


@pytest.mark.parametrize(
    ("given", "options", "named"),
    [
        (rude, {"on_result": 3}, "on_result"),
        (3, {}, "classifier"),
        ({}, {"model": ScriptedModel([])}, "classifier"),
        ({"not a name": "Is it?"}, {"model": ScriptedModel([])}, "classifier"),
        ({"ok": ""}, {"model": ScriptedModel([])}, "text"),
        (Topic, {}, "model"),
        ({"ok": "Is it?"}, {}, "model"),
        (rude, {"model": ScriptedModel([])}, "model"),
        (Topic, {"model": "gpt"}, "model"),
        (rude, {"chunk_window": -1}, "chunk_window"),
        (rude, {"chunk_window": 1.5}, "chunk_window"),
        (rude, {"max_input_length": -1}, "max_input_length"),
        (rude, {"max_input_length": True}, "max_input_length"),
        (rude, {"embedded": True}, "embedded"),
        (rude, {"judge_failure": "fail"}, "judge_failure"),
        (rude, {"timeout": 3}, "timeout"),
        (rude, {"phase": "never"}, "phase"),
    ],
)
def test_options_that_cannot_be_are_refused(given: Any, options: dict[str, Any], named: str) -> None:
    """By name, when it is built."""
    with pytest.raises(OptionError, match=named):
        ClassifierProcessor(given, **{"on_result": take_away, **options})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"text": ""}, "text"),
        ({"text": "Is it?", "kind": "maybe"}, "kind"),
        ({"text": "Is it?", "options": ("a", "b")}, "options"),
        ({"text": "Which?", "kind": "choice", "options": ("a",)}, "options"),
        ({"text": "Which?", "kind": "shares"}, "options"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(options: dict[str, Any], named: str) -> None:
    """By name, when they are written."""
    with pytest.raises(OptionError, match=named):
        Question(**options)
