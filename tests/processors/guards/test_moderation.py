"""`ModerationProcessor`: what it stops, filters and warns of, by its own detector and by a model."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from penstock import Message, ModerationProcessor, OptionError, Outcome, Workflow
from penstock.detection.embedded import EmbeddedScores
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.models.judges import Judgement
from penstock.processors.guards.moderation import CATEGORIES
from penstock.processors.guards.verdicts import ModerationVerdict
from penstock.testing import ScriptedModel, ScriptedScores, run_stage
from tests.laws import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.processors.guards.detection import Detection

SENTENCE = "This sentence is long enough to be a window of its own. "
BAD = "And this is the one that a judge would rather not see here. "


class Marks:
    """An embedded detector that reads scores off marks: ``#hate``."""

    categories = ("hate", "sexual")
    thresholds: Mapping[str, float] = {"hate": 0.5, "sexual": 0.5}

    def scores(self, text: str) -> Mapping[str, float]:
        return {name: 0.9 if f"#{name}" in text else 0.1 for name in self.categories}

    def reasons(self, text: str) -> tuple[str, ...]:
        return ()


def marked(**options: Any) -> ModerationProcessor:
    """Return a guard whose embedded detector reads marks."""
    guard = ModerationProcessor(**options)
    search: Any = guard.search
    search.own = EmbeddedScores(Marks())
    return guard


def says(*scores: tuple[str, Any], reason: str | None = None) -> str:
    """Return a judge's verdict."""
    entries = [{"category": name, "score": score} for name, score in scores]
    return json.dumps({"category_scores": entries, "reason": reason})


def judged(*answers: str, **options: Any) -> ModerationProcessor:
    """Return a guard that asks a scripted judge alone."""
    model = ScriptedModel([{"text": answer} for answer in answers], repeat_last=True)
    return ModerationProcessor(model, **{"embedded": False, "retries": 0, **options})


def asked(guard: ModerationProcessor, *texts: str) -> Outcome:
    """Return the outcome of the input stage on a loop, which a judge needs."""
    return anyio.run(Workflow("w").then(guard).start().process_input, [Message.user(text) for text in texts])


def streamed(guard: ModerationProcessor, pieces: list[str]) -> tuple[str, Any]:
    """Return what leaves of a stream, and the outcome."""

    async def main() -> tuple[str, Any]:
        async with Workflow("w").then(guard).start() as run, run.process_output_stream(pieces) as chunks:
            out = "".join([chunk.text async for chunk in chunks])
        return out, chunks.outcome

    return anyio.run(main)


def test_without_a_model_it_warns_and_tells(caplog: pytest.LogCaptureFixture) -> None:
    """The text passes; the log names the category and quotes nothing; the scores are a fact."""
    guard = marked()
    with caplog.at_level(logging.WARNING, "penstock"):
        outcome = run_stage(guard, "process_input", "so much #hate")

    assert (guard.strategy, guard.role) == ("warn", "observer")
    assert not outcome.blocked
    assert outcome.facts[guard.scores] == {"hate": 0.9, "sexual": 0.1}
    assert "hate" in caplog.text
    assert "so much" not in caplog.text


def test_with_a_model_it_blocks_and_says_why() -> None:
    """The reason has the categories over the limit and the judge's; the metadata have the rest, and no text."""
    guard = judged(says(("hate", 0.9), ("violence", 0.2), reason="It demeans a group."))
    outcome = asked(guard, "a text that is not quoted")
    assert outcome.tripwire is not None

    assert guard.strategy == "block"
    assert outcome.tripwire.reason == "the text was flagged: hate (It demeans a group.)"
    assert outcome.tripwire.metadata["categories"] == {"hate": 0.9}
    assert outcome.tripwire.metadata["scores"] == {"hate": 0.9, "violence": 0.2}
    assert outcome.tripwire.metadata["threshold"] == {"hate": 0.5}
    assert outcome.tripwire.metadata["judge"] == "scripted"
    assert "quoted" not in repr(outcome.tripwire)


def test_scores_are_told_on_request() -> None:
    """All of them, in the order in which the judge gave them."""
    guard = judged(says(("violence", 0.2), ("hate", 0.9)), include_scores=True)
    outcome = asked(guard, "text")
    assert outcome.tripwire is not None

    assert outcome.tripwire.reason == "the text was flagged: hate; scores: violence 0.2, hate 0.9"


def test_each_category_may_have_its_own_limit() -> None:
    """The others keep the default."""
    guard = judged(says(("hate", 0.6), ("sexual", 0.6)), threshold={"hate": 0.8})
    outcome = asked(guard, "text")
    assert outcome.tripwire is not None

    assert outcome.tripwire.metadata["categories"] == {"sexual": 0.6}
    assert not asked(judged(says(("hate", 0.7)), threshold={"hate": 0.8}), "text").blocked


def test_a_limit_of_nought_flags_whatever_is_named() -> None:
    """Nothing is, if the judge names nothing."""
    assert asked(judged(says(("hate", 0)), threshold=0), "text").blocked
    assert not asked(judged(says(), threshold=0), "text").blocked


def test_categories_of_ones_own_are_judged_by_a_model() -> None:
    """They are what it is offered, in the question and in the form."""
    guard = judged(says(("spam", 0.8)), categories=["spam", "scam"])
    outcome = asked(guard, "text")
    judge: Any = guard.search.setup.judge
    request = judge.model.requests[0]

    assert outcome.blocked
    assert request.response_format.schema["$defs"]["ScoredCategory"]["properties"]["category"]["enum"] == (
        "spam",
        "scam",
    )
    assert all(name in request.messages[0].text for name in ("spam", "scam"))
    assert "harassment" not in request.messages[0].text


def test_a_category_that_the_judge_made_up_counts() -> None:
    """As unlisted: it found something."""
    outcome = asked(judged(says(("spam", 0.9))), "text")
    assert outcome.tripwire is not None

    assert outcome.tripwire.metadata["categories"] == {"unlisted": 0.9}


@pytest.mark.parametrize(
    "answer",
    [
        "no verdict at all",
        "{}",
        json.dumps({"category_scores": [{"category": "hate", "score": "high"}], "reason": None}),
        json.dumps({"category_scores": "none", "reason": None}),
    ],
)
def test_what_is_no_verdict_blocks(answer: str) -> None:
    """With every strategy, warnings too if the step says so; nothing that was unread counts as clean."""
    for strategy in ("block", "filter"):
        outcome = asked(judged(answer, strategy=strategy), "text")
        assert outcome.tripwire is not None

        assert outcome.tripwire.metadata["failed"]


def test_a_missing_reason_voids_no_verdict() -> None:
    """The scores are what matters."""
    answer = json.dumps({"category_scores": [{"category": "hate", "score": 0.9}]})

    assert asked(judged(answer), "text").blocked


def test_a_reason_that_quotes_is_not_told() -> None:
    """It would show what is to be hidden."""
    answer = says(("hate", 0.9), reason="It says: one two three four five")
    outcome = asked(judged(answer), "one two three four five")
    assert outcome.tripwire is not None

    assert outcome.tripwire.reason == "the text was flagged: hate"
    assert outcome.tripwire.metadata["reason"] is None


def test_a_filter_leaves_messages_out() -> None:
    """And stops if nothing of the user's is left."""
    messages = [Message.user("so much #hate"), Message.user("a question")]

    assert run_stage(marked(strategy="filter"), "process_input", messages).text == "a question"
    assert run_stage(marked(strategy="filter"), "process_input", messages[:1]).blocked


def test_the_last_message_alone_can_be_judged() -> None:
    """The others pass unread."""
    messages = [Message.user("so much #hate"), Message.user("a question")]

    assert not run_stage(marked(strategy="block", last_message_only=True), "process_input", messages).blocked


def test_everything_that_carries_text_is_judged() -> None:
    """Reasoning, and what tools are given and bring, too."""
    call = ToolPart(call_id="1", name="search", state="call", arguments={"query": "#sexual"})
    brought = ToolPart(call_id="1", name="search", state="result", result={"page": ["#hate"]})
    guard = marked(strategy="block")

    assert run_stage(guard, "process_output_result", [Message.assistant([ReasoningPart("#hate")])]).blocked
    assert run_stage(guard, "process_output_step", [Message.assistant([TextPart("well"), call])]).blocked
    assert run_stage(guard, "process_input", [Message.assistant([brought])]).blocked


def test_an_answer_is_judged_before_it_leaves() -> None:
    """Up to the window that is flagged it may have left; of that, nothing has."""
    guard = judged(says(), says(("hate", 0.9)))
    out, outcome = streamed(guard, [SENTENCE, BAD, SENTENCE])
    judge: Any = guard.search.setup.judge

    assert outcome.blocked
    assert SENTENCE.startswith(out)
    assert SENTENCE + BAD in judge.model.requests[1].messages[-1].text


def test_a_sentence_is_filtered_out_of_an_answer() -> None:
    """What stands before and behind it stays."""
    out, outcome = streamed(judged(says(), says(("hate", 0.9)), says(), strategy="filter"), [SENTENCE, BAD, SENTENCE])

    assert not outcome.blocked
    assert out == SENTENCE * 2


def test_more_of_an_answer_can_be_shown() -> None:
    """The text before a window, as many windows' length of it."""
    guard = judged(says(), chunk_window=1)
    streamed(guard, [SENTENCE * 12])
    judge: Any = guard.search.setup.judge

    assert judge.model.requests[-1].messages[-1].text.count(SENTENCE.strip()) == 11


@settings(max_examples=examples(60), deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["#hate. ", "plain words ", "and more of them. ", "a\n", "#sexual ", SENTENCE]), max_size=14
    ),
    size=st.integers(1, 40),
    strategy=st.sampled_from(["block", "warn", "filter"]),
)
def test_a_stream_is_judged_as_the_whole_is(words: list[str], size: int, strategy: str) -> None:
    """However it is cut into chunks."""
    text = "".join(words)
    guard = marked(strategy=strategy)
    whole = run_stage(guard, "process_output_result", [Message.assistant(text)]) if text else None
    with (
        Workflow("w")
        .then(guard)
        .start_sync()
        .process_output_stream([text[at : at + size] for at in range(0, len(text), size)]) as chunks
    ):
        out = "".join(chunk.text for chunk in chunks)
    if whole is None:
        assert out == ""
    elif whole.blocked:
        assert chunks.outcome is not None
        assert chunks.outcome.blocked
        assert "#hate" not in out
        assert "#sexual" not in out
    else:
        assert out == whole.text


def test_callbacks_are_told_of_what_was_judged() -> None:
    """All texts; and once more what was flagged."""
    seen: list[Detection] = []
    flagged: list[Detection] = []
    guard = marked(on_detection=seen.append, on_violation=flagged.append)
    run_stage(guard, "process_input", [Message.user("fine"), Message.user("#hate")])

    assert [one.categories for one in seen] == [(), ("hate",)]
    assert [one.strategy for one in flagged] == ["warn"]
    assert flagged[0].text is None


def test_two_in_one_workflow_do_different_things() -> None:
    """One warns of hate, one blocks what is sexual; each has its facts."""
    first, second = marked(categories=["hate"]), marked(categories=["sexual"], strategy="block")
    workflow = Workflow("w").then(first).then(second)

    assert not workflow.check_sync("#hate").blocked
    assert workflow.check_sync("#sexual").blocked
    assert first.scores != second.scores


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"categories": ["hate/threatening"]}, "categories"),
        ({"categories": []}, "categories"),
        ({"categories": 3}, "categories"),
        ({"threshold": 2}, "threshold"),
        ({"threshold": {"spam": 0.5}}, "threshold"),
        ({"strategy": "redact"}, "strategy"),
        ({"include_scores": "yes"}, "include_scores"),
        ({"chunk_window": -1}, "chunk_window"),
        ({"chunk_window": True}, "chunk_window"),
        ({"embedded": False}, "embedded"),
        ({"model": "gpt"}, "model"),
        ({"instructions": "Judge!"}, "instructions"),
    ],
)
def test_what_is_not_allowed_is_refused(options: dict[str, Any], named: str) -> None:
    """When it is built, by name."""
    with pytest.raises(OptionError, match=named):
        ModerationProcessor(**options)


def test_an_option_that_is_none_is_refused() -> None:
    """With the name that is near."""
    wrong: dict[str, Any] = {"judge_failures": "embedded"}
    with pytest.raises(TypeError, match="judge_failure"):
        ModerationProcessor(**wrong)


def test_all_of_the_reference_s_categories_are_asked_about() -> None:
    """Eleven of them, each with what it means."""
    assert len(CATEGORIES) == 11
    assert ModerationProcessor(ScriptedModel([])).categories == tuple(CATEGORIES)


def scored(*names: str) -> ModerationVerdict:
    """Return a verdict that flags some categories."""
    entries = [{"category": name, "score": 0.9} for name in names]
    return ModerationVerdict.model_validate({"category_scores": entries, "reason": None})


class ByWord:
    """A judge that flags the categories whose names stand in the text."""

    async def ask(self, content: str, *, ctx: Any = None) -> Judgement[ModerationVerdict]:
        """Return the verdict."""
        return Judgement(scored(*(name for name in ("hate", "violence", "sexual") if name in content)), "judge")


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("hate", None),
        ("violence and hate", None),
        ("violence", ""),
        ("violence and sexual", ""),
        ("sexual", "sexual"),
        ("peace", "peace"),
    ],
)
async def test_each_category_may_have_a_strategy_of_its_own(said: str, left: str | None) -> None:
    """The strictest of those that are flagged counts; whole and streamed."""
    guard = ModerationProcessor(ByWord(), strategy={"hate": "block", "violence": "filter", "*": "warn"})
    workflow = Workflow("w").then(guard)
    outcome = await workflow.check([Message.assistant(said)], stage="process_output_step")
    async with workflow.start().process_output_stream([*said]) as chunks:
        streamed = "".join([chunk.text async for chunk in chunks])
    assert chunks.outcome is not None
    assert outcome.blocked == chunks.outcome.blocked == (left is None)
    assert streamed == (left or "")
    assert left is None or outcome.text == left


@pytest.mark.parametrize(
    ("strategy", "edits", "role"),
    [
        ({"hate": "warn", "*": "warn"}, "nothing", "observer"),
        ({"hate": "block", "*": "warn"}, "nothing", "guard"),
        ({"hate": "filter"}, "spans", "guard"),
    ],
)
def test_what_a_guard_may_do_follows_from_all_its_strategies(strategy: Any, edits: str, role: str) -> None:
    """One that only warns is an observer."""
    guard = ModerationProcessor(ByWord(), strategy=strategy)
    assert (guard.edits, guard.role) == (edits, role)


@pytest.mark.parametrize("wrong", [{"hat": "block"}, {"hate": "redact"}, {"hate": None}])
def test_a_strategy_by_category_names_both(wrong: Any) -> None:
    """A category that is not looked for would never be met."""
    with pytest.raises(OptionError, match="strategy"):
        ModerationProcessor(ByWord(), strategy=wrong)


GERMAN = "Ich mag den Garten hinter dem Haus, weil dort im Sommer die Rosen blühen und niemand uns stört."


def test_a_record_names_other_languages() -> None:
    """The embedded detector knows English alone; a fact has the languages."""
    guard = ModerationProcessor()
    outcome = Workflow("w").then(guard).check_sync(GERMAN, records=True)
    assert not outcome.blocked
    assert outcome.records[0].details["unjudged"] == ("de",)
    assert outcome.facts[guard.unjudged] == ("de",)
    plain = Workflow("w").then(guard).check_sync("I like the garden behind the house.", records=True)
    assert "unjudged" not in plain.records[0].details


def test_scores_of_other_languages_count() -> None:
    """The record says that they say little, but a category that reaches its limit is flagged."""
    guard = marked(strategy="block")
    outcome = Workflow("w").then(guard).check_sync(f"{GERMAN} #hate", records=True)
    assert outcome.tripwire is not None
    assert "hate" in outcome.tripwire.reason
    assert outcome.records[0].details["unjudged"] == ("de",)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.sampled_from([GERMAN, SENTENCE, BAD, "这里的花园很安静,邻居们常常坐在树下。"]), max_size=12),
    st.integers(1, 400),
)
def test_a_stream_names_the_same_languages_in_every_cut(sentences: list[str], size: int) -> None:
    """They are told of windows, which do not depend on the cuts."""
    guard, text = ModerationProcessor(), " ".join(sentences)
    workflow = Workflow("w").then(guard)
    named: list[object] = []
    for step in (size, len(text) + 1):
        pieces = (text[at : at + step] for at in range(0, len(text), step))
        with workflow.start_sync().process_output_stream(pieces) as chunks:
            assert "".join(chunk.text for chunk in chunks) == text
        assert chunks.outcome is not None
        named.append(chunks.outcome.facts.get(guard.unjudged))
    assert named[0] == named[1]


def test_languages_are_looked_for_in_windows_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each, up to the first window in another language, however small the pieces of a stream are."""
    read: list[str] = []

    def foreign(text: str) -> str | None:
        read.append(text)
        return "de" if text.startswith("Ich") else None

    monkeypatch.setattr("penstock.processors.guards.moderation.foreign_language", foreign)
    text = SENTENCE * 8 + f"{GERMAN} " * 8
    with Workflow("w").then(ModerationProcessor()).start_sync().process_output_stream([*text]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == text
    assert text.startswith("".join(read))
    assert [part.startswith("Ich") for part in read] == [False, False, True]


def test_other_languages_can_be_blocked() -> None:
    """With an option, also by a guard that only warns."""
    workflow = Workflow("w").then(ModerationProcessor(other_languages="block"))
    outcome = workflow.check_sync(GERMAN)
    assert outcome.tripwire is not None
    assert "not English (de)" in outcome.tripwire.reason
    assert not workflow.check_sync("I like the garden behind the house.").blocked


@pytest.mark.parametrize(
    "options", [{"other_languages": "allow"}, {"detector": ScriptedScores({}, categories=["hate"])}]
)
def test_other_languages_are_left_to_detectors_that_know_them(options: dict[str, Any]) -> None:
    """Nothing is noted with a detector of one's own, or if that is not wanted."""
    outcome = Workflow("w").then(ModerationProcessor(**options)).check_sync(GERMAN, records=True)
    assert "unjudged" not in outcome.records[0].details
