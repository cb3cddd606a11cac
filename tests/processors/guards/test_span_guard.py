"""Guards that find stretches: detector and judge, streams as whole texts, and what is told of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Unpack

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from penstock import Chunk, Message, OptionError, PIIDetector, SystemPromptScrubber, Workflow
from penstock.detection.spans import Span
from penstock.detection.windows import Windows
from penstock.engine.text_guards.text_guard import MAX_HOLD, TextGuard
from penstock.engine.values.messages import ImagePart, TextPart, ToolPart
from penstock.models.judges import Judgement
from penstock.processors.guards.guard_options import set_up
from penstock.processors.guards.span_action import SpanAction
from penstock.processors.guards.span_findings import JudgedValue, SpanFinding, hide_spans
from penstock.processors.guards.span_search import SpanSearch
from penstock.testing import ScriptedModel, run_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Judged
    from penstock.processors.guards.detection import Detection
    from penstock.processors.guards.guard_options import GuardOptions


class Item(BaseModel):
    """A value."""

    type: str
    value: str | None
    score: float = 1.0


class Items(BaseModel):
    """What the judge says."""

    items: list[Item]


class DigitSearch(SpanSearch[Items]):
    """Finds numbers; a judge finds names."""

    def find_spans(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        found = [Span(*match.span(), "number") for match in re.finditer(r"\d+", window.text)]
        tail = re.search(r"\d*\Z", window.text)
        assert tail
        return [span for span in found if span.start >= start], len(window.text) if window.final else max(
            tail.start(), start
        )

    def judge_view(self, text: str, ctx: AnyContext) -> str:
        return hide_spans(text, [Span(*match.span(), "number") for match in re.finditer(r"\d+", text)])

    def judged_values(self, judged: Judged[Items]) -> Iterable[JudgedValue]:
        return [JudgedValue(item.type, item.value, item.score) for item in judged.verdict.items]


class DigitAction(SpanAction):
    """Names what was found."""

    def replacements(self, found: Sequence[tuple[str, SpanFinding]], ctx: AnyContext) -> Sequence[str]:
        return [f"[{item.type}]" for _, item in found]


class Digits(TextGuard):
    """Finds numbers; a judge finds names."""

    windows = Windows(least=5, most=40, overlap=10)

    def __init__(self, model: Any = None, *, strategy: str = "redact", **options: Unpack[GuardOptions]) -> None:
        strategies, asked = ("redact", "block", "warn", "filter"), "Which names are there?"
        setup = set_up(self, model, strategy, strategies, lambda: Items, asked, options, fact=["found"])
        search = DigitSearch(setup, self.windows)
        search.install(self, DigitAction(search))


def streamed(guard: TextGuard, text: str, size: int = 3) -> tuple[str, Any]:
    """Return what leaves of a stream, and the outcome."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        out = "".join(chunk.text for chunk in chunks)
    return out, chunks.outcome


def test_what_is_found_is_hidden_in_place_and_all_else_stays() -> None:
    """In every part that carries text."""
    parts = (TextPart("call 123 or"), ImagePart(url="https://x/y"), ToolPart("c", "t", {"to": "45", "n": "no"}))
    outcome = run_stage(Digits(unscanned="allow"), "process_output_result", [Message("assistant", parts)])
    assert outcome.messages[0].parts == (
        TextPart("call [number] or"),
        ImagePart(url="https://x/y"),
        ToolPart("c", "t", {"to": "[number]", "n": "no"}),
    )
    assert next(iter(outcome.facts.values())) == {"number": 2}


@pytest.mark.parametrize(("numbers", "left"), [("null", None), ("text", "[number]")])
def test_a_number_in_a_value_is_replaced_as_a_whole(numbers: Any, left: Any) -> None:
    """By null, or by a string."""
    part = ToolPart("c", "t", {"n": 4532015112830366})
    outcome = run_stage(Digits(numbers=numbers), "process_output_result", [Message("assistant", (part,))])
    assert outcome.messages[0].parts[0].arguments == {"n": left}


def test_a_verdict_says_where_and_what_and_not_the_text() -> None:
    """As data."""
    outcome = run_stage(Digits(strategy="block"), "process_input", [Message.user("call 123 now", id="m")])
    assert outcome.tripwire is not None
    told = outcome.tripwire.metadata
    assert dict(told["counts"]) == {"number": 1}
    assert dict(told["spans"][0]) == {
        "message_id": "m",
        "part": 0,
        "field": "text",
        "start": 5,
        "length": 3,
        "type": "number",
        "score": 1.0,
    }
    assert "123" not in str(outcome.tripwire)


TEXTS = st.text(st.sampled_from("a1 .!\n"), max_size=60)


@settings(deadline=None)
@given(TEXTS, st.integers(1, 9), st.sampled_from(["redact", "filter", "block", "warn"]))
def test_a_stream_leaves_as_the_whole_answer_does(text: str, size: int, strategy: str) -> None:
    """However it was cut; of what is blocked nothing leaves."""
    whole = run_stage(Digits(strategy=strategy), "process_output_result", [Message.assistant(text)])
    out, outcome = streamed(Digits(strategy=strategy), text, size)
    assert outcome.blocked == whole.blocked
    if whole.blocked:
        assert not re.search(r"\d", out)
        assert text.startswith(out)
    else:
        assert out == "".join(message.text for message in whole.messages)


class TwoPaces(DigitSearch):
    """Finds numbers, and capitals in a second search, which can decide each character at once."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[int] = []

    def find_encoded_spans(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        self.asked.append(window.base + start)
        found = [Span(*match.span(), "capital") for match in re.finditer("[A-Z]", window.text)]
        return [span for span in found if span.start >= start], len(window.text)


class Paced(Digits):
    """A guard with two searches."""

    def __init__(self, **options: Unpack[GuardOptions]) -> None:
        setup = set_up(self, None, "redact", ("redact",), lambda: Items, "", options, fact=["found"])
        search = TwoPaces(setup, self.windows)
        search.install(self, DigitAction(search))


def test_a_search_that_is_ahead_waits_for_the_one_that_holds_the_text() -> None:
    """Nothing could leave sooner if it read on. What it finds is the same."""
    guard, text = Paced(), "aB" + "7" * 400 + "Cd"
    assert streamed(guard, text, 2)[0] == "a[capital][number][capital]d"
    search = guard.search
    assert isinstance(search, TwoPaces)
    assert len(search.asked) < 5  # of 202 pieces
    assert search.asked == sorted(search.asked)


@settings(deadline=None)
@given(text=st.text("A7b ", max_size=60), size=st.integers(1, 9))
def test_searches_of_two_paces_find_in_a_stream_what_they_find_in_the_whole(text: str, size: int) -> None:
    """Whoever holds the text, and however it is cut."""
    whole = run_stage(Paced(), "process_output_result", [Message("assistant", (TextPart(text),))]).text
    assert streamed(Paced(), text, size)[0] == whole


def test_a_sentence_with_a_finding_is_filtered_out() -> None:
    """In an answer; of what goes to the model the message is."""
    assert streamed(Digits(strategy="filter"), "Hello you. Call 123 now. Goodbye.")[0] == "Hello you. Goodbye."
    kept = run_stage(Digits(strategy="filter"), "process_input", [Message.user("a"), Message.user("Hi. 1")])
    assert [message.text for message in kept.messages] == ["a"]


def answers(*items: tuple[str, str | None]) -> ScriptedModel:
    """Return a model that names values."""
    return ScriptedModel([Items(items=[Item(type=type, value=value) for type, value in items]).model_dump_json()] * 9)


async def test_the_judge_sees_hidden_text_and_its_values_are_searched_for() -> None:
    """All places of each, in any spelling; what it says of positions would not matter."""
    model = answers(("name", "mary  ann"), ("name", "[number]"), ("name", "[NUMBER]"))
    outcome = await Workflow("w").then(Digits(model)).check("Mary Ann, 123, MARY ANN, not Maryann")
    assert outcome.text == "[name], [number], [name], not Maryann"
    assert "123" not in str([message.text for request in model.requests for message in request.messages])  # no times


async def test_a_judge_is_asked_about_keys_too() -> None:
    """Somebody's name may be one."""
    part = ToolPart("c", "t", {"Joe": "x"})
    run = Workflow("w").then(Digits(Names())).start()
    outcome = await run.process_output_result([Message("assistant", (part,))])
    assert outcome.messages[0].parts == (ToolPart("c", "t", {"[name]": "x"}),)


@pytest.mark.parametrize(("strategy", "blocked"), [("redact", True), ("filter", True), ("warn", False)])
async def test_an_entry_that_cannot_be_read_may_be_a_value_that_is_not_hidden(strategy: str, blocked: bool) -> None:
    """What hides or filters has failed then, though another entry was readable."""
    answer = '{"items": [{"type": "name", "value": "Joe"}, {"value": "Ann"}]}'
    guard = Digits(ScriptedModel([answer] * 9), strategy=strategy, retries=0)
    messages = [Message.user("Joe and Ann"), Message.user("Joe and Ann")]
    assert (await Workflow("w").then(guard).start().process_input(messages)).blocked == blocked


@pytest.mark.parametrize("value", ["Joe", None, ""])
async def test_what_the_judge_names_and_nobody_can_find_stops_the_run(value: str | None) -> None:
    """It cannot be hidden; a message can still be left out."""
    model = answers(("name", value))
    outcome = await Workflow("w").then(Digits(model)).check("hello there")
    assert outcome.tripwire is not None
    assert "cannot be hidden" in outcome.tripwire.reason
    messages = [Message.user("hello there"), Message.user("12")]
    run = Workflow("w").then(Digits(answers(), strategy="filter")).start()
    assert [message.text for message in (await run.process_input(messages)).messages] == ["hello there"]


class Names:
    """A judge of one's own, who knows Joe."""

    async def ask(self, content: str, *, ctx: Any = None) -> Judgement[Items]:
        """Return Joe if he is there."""
        items = [Item(type="name", value="Joe")] if "Joe" in content else []
        return Judgement(Items(items=items), "names")


async def test_a_judged_stream_leaves_sentence_by_sentence() -> None:
    """As the whole text does."""
    text = "I am Joe. You are 7, Ann. Joe says bye"
    run = Workflow("w").then(Digits(Names())).start()
    whole = await run.process_output_result([Message.assistant(text)])
    assert whole.messages[0].text == "I am [name]. You are [number], Ann. [name] says bye"
    for size in range(1, 12):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        async with Workflow("w").then(Digits(Names())).start().process_output_stream(pieces) as chunks:
            assert "".join([chunk.text async for chunk in chunks]) == whole.messages[0].text


def test_a_guard_may_hold_what_it_declares_if_it_needs_no_more() -> None:
    """Two windows, three where sentences are filtered out; undeclared, it may hold as much as it needs."""
    declared = type("Declared", (Digits,), {"max_hold": 100})
    assert declared().max_hold == 100
    with pytest.raises(OptionError, match="Declared: option 'max_hold' is 100, but must be 120 or more"):
        declared(strategy="filter")
    with pytest.raises(OptionError, match="must be 80 or more"):
        type("Short", (Digits,), {"max_hold": 79})()
    assert Digits().max_hold == MAX_HOLD
    assert Digits(strategy="filter").max_hold == MAX_HOLD + 40
    assert type("Long", (Digits,), {"windows": Windows(least=5, most=3000)})().max_hold == 6000
    assert SystemPromptScrubber().max_hold == 8192
    with pytest.raises(OptionError, match="must be 8192 or more"):
        type("Prompts", (SystemPromptScrubber,), {"max_hold": 8191})()


def test_callbacks_are_told_of_every_text() -> None:
    """Whether something was found or not; the text only where that was asked for."""
    seen: list[Detection] = []
    guard = Digits(on_detection=seen.append, include_text=True)
    run_stage(guard, "process_input", [Message.user("a 1 b 22"), Message.user("none")])
    assert [(d.flagged, d.strategy, d.text, d.spans) for d in seen] == [
        (True, "redact", "a 1 b 22", (Span(2, 3, "number"), Span(6, 8, "number"))),
        (False, "none", "none", ()),
    ]
    seen.clear()
    streamed(guard, "hello")
    assert [d.flagged for d in seen] == [False]


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_lies_across_two_texts_is_hidden_though_a_part_of_it_is_found_within_one(streamed: bool) -> None:
    """The word in capitals is found in the first text; it must not save the prompt around it."""
    prompt = "The secret recipe of ACME needs two onions, three carrots and a pinch of salt"
    workflow = Workflow("w").then(SystemPromptScrubber(prompts=[prompt], custom_patterns=["[A-Z]{4}"]))
    texts = ("Well: The secret recipe of ACME needs ", "two onions, three carrots and a pinch of salt.")
    if streamed:
        source = [Chunk("text-delta", text, str(number)) for number, text in enumerate(texts)]
        async with workflow.start().process_output_stream(source) as chunks:
            out = "".join([chunk.text async for chunk in chunks])
    else:
        message = Message("assistant", tuple(TextPart(text) for text in texts))
        outcome = await workflow.start().process_output_result([message])
        out = "".join(part.text for part in outcome.messages[0].parts if isinstance(part, TextPart))

    assert out == f"Well: {'*' * len(prompt)}."


@pytest.mark.parametrize("strategy", ["redact", "filter", "block"])
async def test_letters_set_apart_without_an_end_are_not_held_for_too_long(strategy: Any) -> None:
    """Invisible letters between them, ten thousand in a row: no guard gives up, and nothing is lost."""
    text = "a\u200d" * 5_000
    source = [text[at : at + 50] for at in range(0, len(text), 50)]
    async with Workflow("w").then(PIIDetector(strategy=strategy)).start().process_output_stream(source) as chunks:
        assert "".join([chunk.text async for chunk in chunks]) == text
