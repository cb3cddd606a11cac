"""`LanguageDetector`: what it tells, what it stops, and what it has translated."""

from __future__ import annotations

import json
import logging
import threading
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from penstock import Message, OptionError, PIIDetector, RegexFilterProcessor, Workflow
from penstock.detection.language import LanguageIdentifier
from penstock.engine import MissingExtraError
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.processors.guards.language_detector import ANSWER_LANGUAGE, LANGUAGE, METADATA, LanguageDetector
from penstock.testing import ScriptedModel, ScriptedScores, run_stage
from tests.laws import examples

FRENCH = "Bonjour tout le monde, comment allez-vous aujourd'hui ?"
ENGLISH = "Hello everybody, how are you doing today?"
GERMAN = "Guten Tag zusammen, wie geht es Ihnen heute?"


def read_mark(text: str) -> dict[str, float]:
    """Return what the first word says: ``fr:0.9 …``."""
    code, _, confidence = text.split(maxsplit=1)[0].partition(":")
    return {code: float(confidence)} if confidence else {}


by_marks = partial(
    LanguageDetector, detector=ScriptedScores(read_mark, categories=["en", "fr", "xyz"]), combine="replace"
)
"""Makes a guard that goes by marks."""


def says(code: str | None, confidence: float | None, translated: str | None = None) -> str:
    """Return a judge's verdict."""
    return json.dumps({"iso_code": code, "confidence": confidence, "translated_text": translated})


def about(message: Message) -> Any:
    """Return what a message's metadata say of its language."""
    return message.metadata.get(METADATA)


DANISH_OR_NORWEGIAN = "Jeg er her i dag."
NORWEGIAN = "Kan du hjelpe meg med dette?"
CROATIAN = "Tko je uzeo mlijeko? Ne znam što se dogodilo."
SERBIAN = "Ko je uzeo mleko? Ne znam šta se dogodilo."


def test_by_default_it_notes_the_language_and_changes_no_text() -> None:
    """In the message's metadata, in the fact, and in the record."""
    outcome = run_stage(LanguageDetector(), "process_input", FRENCH)

    told = about(outcome.messages[0])
    assert outcome.text == FRENCH
    assert outcome.facts[LANGUAGE] == "fr"
    assert told["confidence"] > 0.9
    assert {name: value for name, value in told.items() if name != "confidence"} == {
        "detected_language": "French",
        "iso_code": "fr",
        "source": "embedded",
        "is_target_language": False,
        "target_languages": ("en",),
    }
    assert outcome.records[0].details["language"] == "fr"


def test_a_branch_reads_the_language() -> None:
    """The fact is there for conditions."""
    block = LanguageDetector(strategy="block", id="second")
    workflow = Workflow("w").then(LanguageDetector()).branch((lambda ctx: ctx.get(LANGUAGE) == "de", block))

    assert workflow.check_sync(GERMAN).blocked
    assert not workflow.check_sync(FRENCH).blocked


def test_the_fact_is_about_the_latest_user_message() -> None:
    """Not about what the assistant said before, or after."""
    messages = [Message.user(FRENCH), Message.user(GERMAN), Message.assistant(ENGLISH)]

    assert run_stage(LanguageDetector(), "process_input", messages).facts[LANGUAGE] == "de"
    assert run_stage(LanguageDetector(), "process_input", messages[2:]).facts[LANGUAGE] == "en"


@pytest.mark.parametrize("text", ["xyz:0.69 and more", "nothing is marked here"])
def test_what_is_unknown_is_told_as_unknown_and_passes(text: str) -> None:
    """Below the threshold, or not identified at all; nothing is made up."""
    outcome = run_stage(by_marks(strategy="block"), "process_input", text)

    assert not outcome.blocked
    assert about(outcome.messages[0]) == {
        "source": "unknown", "is_target_language": None, "target_languages": ("en",),
    }  # fmt: skip
    assert outcome.facts[LANGUAGE] == "und"


def test_the_threshold_is_reached_by_what_equals_it() -> None:
    """And 0 is allowed."""
    for threshold, blocked in ((0.5, True), (0.51, False), (0, True)):
        guard = by_marks(strategy="block", threshold=threshold)
        assert run_stage(guard, "process_input", "fr:0.5 bonjour").blocked == blocked


def test_short_texts_are_not_looked_at() -> None:
    """No metadata, no fact."""
    guard = by_marks(min_text_length=10)
    outcome = run_stage(guard, "process_input", [Message.user("fr:0.9 oui"), Message.user(" fr:0.9 ou ")])

    assert [about(message) is None for message in outcome.messages] == [False, True]
    assert run_stage(by_marks(min_text_length=0), "process_input", " ").facts == {}


def test_a_verdict_names_languages_and_no_text() -> None:
    """For people in a sentence, for programs as data."""
    outcome = run_stage(LanguageDetector(strategy="block", target_languages=["de", "en"]), "process_input", FRENCH)

    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "the text is in French (fr); allowed: de, en"
    told = outcome.tripwire.metadata
    assert set(told["categories"]) == {"fr"}
    assert dict(told["threshold"]) == {"fr": 0.7}
    assert (told["source"], told["judge"], told["target_languages"]) == ("embedded", None, ("de", "en"))
    assert "Bonjour" not in str(outcome.tripwire)
    assert outcome.facts == {} or outcome.facts.get(LANGUAGE) == "fr"


@pytest.mark.parametrize(
    ("targets", "text"),
    [(["en-US"], ENGLISH), (["German", "english"], GERMAN), (["pt-BR", "fra"], FRENCH), ("français", FRENCH)],
)
def test_targets_are_codes_tags_and_names(targets: Any, text: str) -> None:
    """By the primary subtag, in any case."""
    outcome = run_stage(LanguageDetector(strategy="block", target_languages=targets), "process_input", text)

    assert not outcome.blocked
    assert about(outcome.messages[0])["is_target_language"] is True


@pytest.mark.parametrize(
    ("targets", "text", "blocked"),
    [
        (["da"], DANISH_OR_NORWEGIAN, False), (["no"], DANISH_OR_NORWEGIAN, False),
        (["nb"], DANISH_OR_NORWEGIAN, False),
        (["da"], NORWEGIAN, True), (["no"], NORWEGIAN, False), (["hr"], SERBIAN, False), (["sr"], CROATIAN, False),
        (["en"], DANISH_OR_NORWEGIAN, True),
    ],
)  # fmt: skip
def test_a_text_that_may_be_in_a_target_language_is_let_in(targets: list[str], text: str, blocked: bool) -> None:
    """Danish where Norwegian is as probable, and no clear Norwegian; Croatian and Serbian always count as one."""
    outcome = run_stage(LanguageDetector(strategy="block", target_languages=targets), "process_input", text)

    assert outcome.blocked is blocked
    if not blocked:
        assert about(outcome.messages[0])["is_target_language"] is True


def test_languages_that_a_text_may_be_in_are_all_named() -> None:
    """In the reason, in the scores, and in the metadata; the fact holds the most probable one."""
    noted = run_stage(LanguageDetector(), "process_input", DANISH_OR_NORWEGIAN)
    found = about(noted.messages[0])

    assert (found["detected_language"], found["iso_code"]) == ("Danish or Norwegian", "da")
    assert tuple(found["rivals"]) == ("no",)
    assert noted.facts[LANGUAGE] == "da"

    tripwire = run_stage(LanguageDetector(strategy="block"), "process_input", DANISH_OR_NORWEGIAN).tripwire
    assert tripwire is not None
    assert tripwire.reason == "the text is in Danish (da) or Norwegian (no); allowed: en"
    assert set(tripwire.metadata["categories"]) == {"da", "no"}


def test_the_model_is_loaded_in_a_thread_and_not_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a judge, whose detector is awaited: the first text waits for it, and the event loop does not."""
    loading: list[threading.Thread] = []
    load = LanguageIdentifier.load

    def watched(identifier: LanguageIdentifier) -> None:
        loading.append(threading.current_thread())
        load(identifier)

    guard = LanguageDetector(ScriptedModel([]))
    monkeypatch.setattr(LanguageIdentifier, "load", watched)
    monkeypatch.setattr(LanguageIdentifier, "loaded", property(lambda _: bool(loading)))
    outcome = anyio.run(Workflow("w").then(guard).check, FRENCH)

    assert outcome.facts[LANGUAGE] == "fr"
    assert [thread is threading.main_thread() for thread in loading] == [False]


def test_a_message_of_several_languages_is_told_by_most_of_it_and_blocked_by_any() -> None:
    """Long texts are read window by window."""
    english, french = (ENGLISH + " ") * 60, (FRENCH + " ") * 30
    told = about(run_stage(LanguageDetector(), "process_input", english + french).messages[0])

    assert told["detected_language"] == "English"
    assert told["languages"] == ("en", "fr")
    assert told["is_target_language"] is False
    assert run_stage(LanguageDetector(strategy="block"), "process_input", english + french).blocked


WAY = "I would like to know where the station is, and when the next train to the city leaves. "
BANK = "Bitte überweisen Sie das Geld noch heute auf das Konto, das ich Ihnen gestern genannt habe. "


@pytest.mark.parametrize(("share", "blocked"), [(None, False), (0, True), (0.2, True), (0.3, False)])
@pytest.mark.parametrize("place", range(4))
def test_a_sentence_in_another_language_blocks_from_a_share_of_the_text(
    share: float | None, blocked: bool, place: int
) -> None:
    """Wherever it stands; without the option, only the language of most of the text counts."""
    sentences = [WAY] * 4
    sentences.insert(place, BANK)
    outcome = run_stage(LanguageDetector(strategy="block", mixed_share=share), "process_input", "".join(sentences))
    assert outcome.blocked == blocked
    if outcome.tripwire is not None:
        (span,) = outcome.tripwire.metadata["spans"]
        assert (span["start"], span["length"], span["categories"]) == (len(WAY) * place, len(BANK), ("de",))


def test_the_shares_of_languages_are_noted() -> None:
    """In the metadata and in the record."""
    outcome = run_stage(LanguageDetector(mixed_share=0), "process_input", WAY * 3 + BANK + WAY)
    shares = {
        "de": round(len(BANK) / (len(BANK) + 4 * len(WAY)), 3),
        "en": round(4 * len(WAY) / (len(BANK) + 4 * len(WAY)), 3),
    }
    told = about(outcome.messages[0])
    assert (told["detected_language"], told["languages"], told["shares"]) == ("English", ("de", "en"), shares)
    assert told["is_target_language"] is False
    assert [record.details.get("languages") for record in outcome.records] == [shares]


@pytest.mark.parametrize("text", [WAY * 5, BANK * 30, FRENCH, "Hm."])
def test_a_text_in_one_language_is_read_as_without_the_share(text: str) -> None:
    """Its details are equal."""
    plain, mixed = (run_stage(LanguageDetector(mixed_share=share), "process_input", text) for share in (None, 0))
    assert mixed.messages == plain.messages or about(mixed.messages[0]) == about(plain.messages[0])


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_a_sentence_in_another_language_is_found_in_a_stream_as_in_the_whole(size: int) -> None:
    """However it is cut; nothing of its window leaves."""
    text = WAY * 4 + BANK + WAY * 4
    guard = LanguageDetector(strategy="block", phase="output", mixed_share=0)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        said = "".join(chunk.text for chunk in chunks)
    assert chunks.outcome is not None
    assert chunks.outcome.blocked
    assert (WAY * 4).startswith(said)


def test_only_the_stretch_in_another_language_is_translated() -> None:
    """The rest stays as it is written."""
    verdict = {"iso_code": "de", "confidence": 1.0, "translated_text": "Please transfer the money today."}
    guard = LanguageDetector(ScriptedModel([{"object": verdict}]), strategy="translate", mixed_share=0)
    outcome = anyio.run(Workflow("w").then(guard).start().process_input, [Message.user(WAY + WAY + BANK + WAY)])
    assert outcome.text == (WAY + WAY + "Please transfer the money today. " + WAY)


def test_text_parts_of_a_message_are_one_text_and_other_parts_are_left_alone() -> None:
    """Unless they are asked for."""
    message = Message("assistant", (TextPart("Guten "), ReasoningPart(FRENCH), TextPart("Tag zusammen, ihr Lieben")))
    guard = LanguageDetector(strategy="block", target_languages=["de"])

    assert not run_stage(guard, "process_input", [message]).blocked
    wide = LanguageDetector(strategy="block", target_languages=["de"], parts=["text", "reasoning"])
    assert run_stage(wide, "process_input", [message]).blocked


def test_tools_are_read_where_asked_for() -> None:
    """Numbers and keys among them say nothing that stops a run."""
    part = ToolPart("c", "t", {"body": FRENCH, "n": 123456789, "when": None})
    guard = LanguageDetector(strategy="block", parts=["tool"], phase="output")

    assert run_stage(guard, "process_output_step", [Message("assistant", (part,))]).blocked
    number = ToolPart("c", "t", {"n": 123456789})
    assert not run_stage(guard, "process_output_step", [Message("assistant", (number,))]).blocked


def test_only_the_last_message_is_looked_at_where_that_is_asked() -> None:
    """Earlier ones pass unread."""
    messages = [Message.user(FRENCH), Message.user(ENGLISH)]
    outcome = run_stage(LanguageDetector(strategy="block", last_message_only=True), "process_input", messages)

    assert not outcome.blocked
    assert [about(message) is None for message in outcome.messages] == [True, False]


def test_a_warning_is_logged_and_the_text_passes(caplog: pytest.LogCaptureFixture) -> None:
    """With the language, without the text."""
    with caplog.at_level(logging.WARNING, "penstock"):
        outcome = run_stage(LanguageDetector(strategy="warn"), "process_input", FRENCH)

    assert not outcome.blocked
    assert about(outcome.messages[0])["iso_code"] == "fr"
    assert "fr" in caplog.text
    assert "Bonjour" not in caplog.text


@pytest.mark.parametrize(("details", "lines"), [(False, 1), (True, 2)])
def test_details_are_logged_where_asked_for(caplog: pytest.LogCaptureFixture, *, details: bool, lines: int) -> None:
    """Texts in target languages get a line, too."""
    with caplog.at_level(logging.INFO, "penstock"):
        guard = LanguageDetector(include_detection_details=details)
        run_stage(guard, "process_input", [Message.user(FRENCH), Message.user(ENGLISH)])

    assert len([record for record in caplog.records if record.name == "penstock"]) == lines


async def test_the_judge_is_asked_only_in_doubt() -> None:
    """What a detector knows costs no call; what the judge says is told as the judge's."""
    model = ScriptedModel([says("la", 0.9)])
    workflow = Workflow("w").then(by_marks(model))
    sure, doubtful = (await workflow.check("fr:0.9 bonjour")), (await workflow.check("fr:0.2 salve amice"))

    assert (about(sure.messages[0])["source"], about(doubtful.messages[0])["source"]) == ("detector", "judge")
    assert about(doubtful.messages[0])["detected_language"] == "Latin"
    assert len(model.requests) == 1


@pytest.mark.parametrize("answer", ["{}", "I cannot tell.", '{"iso_code": "fr", "confidence": "very"}'])
async def test_a_judge_that_gives_no_verdict_stops_what_it_guards(answer: str) -> None:
    """Where it only notes, the text passes, and nothing is claimed about it."""
    for strategy, blocked in (("block", True), ("translate", True), ("detect", False), ("warn", False)):
        model = ScriptedModel([answer] * 9)
        guard = LanguageDetector(model, embedded=False, retries=0, strategy=strategy)  # type: ignore[arg-type]
        outcome = await Workflow("w").then(guard).check(FRENCH)
        assert outcome.blocked == blocked
        assert outcome.records[-1].status == "failed"
        assert blocked or about(outcome.messages[0]) is None


@pytest.mark.parametrize(
    ("said", "known"), [("en-US", "en-US"), ("French", "fr"), ("secret plan", None), (None, None), ("x" * 40, None)]
)
async def test_what_a_judge_calls_a_language_must_be_one(said: str | None, known: str | None) -> None:
    """Anything else may be the text."""
    guard = LanguageDetector(ScriptedModel([says(said, 0.9)]), embedded=False)
    outcome = await Workflow("w").then(guard).check("here is a secret plan")

    assert about(outcome.messages[0]).get("iso_code") == known
    assert known is not None or "secret" not in str(about(outcome.messages[0]))


async def test_translation_replaces_part_by_part_and_keeps_every_other_part() -> None:
    """Ids, tools, and the white space around a part stay."""
    model = ScriptedModel(
        lambda request: says("fr", 0.9, "my friends" if "mes chers" in str(request.messages) else "Hello everybody")
    )
    tool = ToolPart("c", "t", {"q": FRENCH})
    parts = (TextPart("Bonjour tout le monde,\n"), tool, TextPart(" mes chers amis de Paris"))
    outcome = (
        await Workflow("w")
        .then(LanguageDetector(model, strategy="translate"))
        .start()
        .process_input([Message("user", parts, id="u", metadata={"keep": 1})])
    )

    message = outcome.messages[0]
    assert message.parts == (TextPart("Hello everybody\n"), tool, TextPart(" my friends"))
    assert (message.id, message.metadata["keep"]) == ("u", 1)
    told = about(message)
    assert told["translation"]["original_language"] == "French"
    assert told["translation"]["target_language"] == "English"
    assert told["original_content"] == "Bonjour tout le monde,\n  mes chers amis de Paris"


async def test_what_was_translated_is_not_taken_for_the_original() -> None:
    """A later stage reads the translation; fact and metadata still say what the user wrote in."""
    guard = LanguageDetector(ScriptedModel([says("fr", 0.9, ENGLISH)]), strategy="translate", history=True)
    run = Workflow("w").then(guard).start()
    first = await run.process_input([Message.user(FRENCH)])
    second = await run.process_input_step(first.messages)

    assert second.messages == first.messages
    assert second.text == ENGLISH
    assert about(second.messages[0])["original_content"] == FRENCH
    assert second.facts[LANGUAGE] == "fr"


async def test_a_judge_alone_tells_and_translates_in_one_call() -> None:
    """And the original is kept only where it may be."""
    model = ScriptedModel([says("fr", None, "Hello everybody")])
    guard = LanguageDetector(model, strategy="translate", embedded=False, preserve_original=False)
    outcome = await Workflow("w").then(guard).check(FRENCH)

    assert outcome.text == "Hello everybody"
    assert len(model.requests) == 1
    told = about(outcome.messages[0])
    assert "original_content" not in told
    assert "confidence" not in told
    assert "Bonjour" not in str(outcome.messages)


@pytest.mark.parametrize("translated", [None, "", "  "])
async def test_what_a_judge_does_not_translate_stays(translated: str | None) -> None:
    """With what was found out, and without a claim that it was translated."""
    guard = LanguageDetector(ScriptedModel([says("fr", 0.9, translated)]), strategy="translate", embedded=False)
    outcome = await Workflow("w").then(guard).check(FRENCH)

    assert outcome.text == FRENCH
    assert "translation" not in about(outcome.messages[0])


async def test_what_is_in_a_target_language_costs_no_translation() -> None:
    """Any of several; the first is what others are translated into."""
    model = ScriptedModel([says("fr", 0.9, "Hallo zusammen")])
    guard = LanguageDetector(model, strategy="translate", target_languages=["German", "en"])
    outcome = await Workflow("w").then(guard).start().process_input([Message.user(ENGLISH), Message.user(FRENCH)])

    assert [message.text for message in outcome.messages] == [ENGLISH, "Hallo zusammen"]
    assert about(outcome.messages[1])["translation"]["target_language"] == "German"
    assert "German" in str(model.requests[0].messages[0].text)


def marked(*sentences: str) -> str:
    """Return sentences that are long enough to be windows, each with its language in front."""
    return "".join(f"{sentence} {'la ' * 40}end. " for sentence in sentences)


@settings(max_examples=examples(30), deadline=None)
@given(cuts=st.lists(st.integers(0, 420), max_size=8))
def test_a_stream_is_judged_as_the_whole_answer_is(cuts: list[int]) -> None:
    """However it was cut; of a window that is blocked nothing leaves."""
    text = marked("en:0.9", "en:0.8", "fr:0.9")
    ends = [*sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[low:high] for low, high in zip([0, *ends], ends, strict=False)]
    guard = by_marks(strategy="block", phase="output")
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        out = "".join(chunk.text for chunk in chunks)

    assert chunks.outcome.blocked
    assert marked("en:0.9", "en:0.8").startswith(out)
    assert "fr" not in out


async def test_a_stream_is_translated_window_by_window() -> None:
    """What is in the target language flows on as it is."""
    model = ScriptedModel([says("fr", 0.9, "And this was French.")])
    guard = by_marks(model, strategy="translate", phase="output")
    run = Workflow("w").then(guard).start()
    async with run.process_output_stream([marked("en:0.9"), marked("fr:0.9")]) as chunks:
        out = "".join([chunk.text async for chunk in chunks])

    assert out == marked("en:0.9") + "And this was French. "
    assert chunks.outcome.facts[ANSWER_LANGUAGE] == "fr"


def test_one_that_only_tells_holds_no_stream_back() -> None:
    """Each piece is out before the next is read."""
    seen: list[str] = []

    def source() -> Any:
        yield "Bonjour tout "
        assert seen == ["Bonjour tout "]
        yield "le monde, comment allez-vous ?"

    guard = LanguageDetector(phase="all")
    with Workflow("w").then(guard).start_sync().process_output_stream(source()) as chunks:
        seen.extend(chunk.text for chunk in chunks)
    assert chunks.outcome.facts[ANSWER_LANGUAGE] == "fr"


def test_two_of_them_do_not_mind_each_other() -> None:
    """One tells, the other blocks."""
    workflow = Workflow("w").then(LanguageDetector()).then(LanguageDetector(strategy="block", target_languages=["de"]))

    assert workflow.check_sync(FRENCH).blocked
    assert not workflow.check_sync(GERMAN).blocked


def test_detectors_of_other_target_languages_put_their_scores_in_facts_of_their_own() -> None:
    """Without an id, too."""
    one, other = LanguageDetector(), LanguageDetector(target_languages=["de", "fr"])

    assert one.scores.name == "language-detector.scores[detect, input, en]"
    assert other.scores.name == "language-detector.scores[detect, input, de, fr]"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"target_languages": ["Klingon language"]}, "target_languages"),
        ({"target_languages": [3]}, "target_languages"),
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"strategy": "filter"}, "strategy"),
        ({"strategy": "translate"}, "model"),
        ({"strategy": "translate", "model": ScriptedModel([]), "target_languages": []}, "target_languages"),
        ({"min_text_length": -1}, "min_text_length"),
        ({"min_text_length": 1.5}, "min_text_length"),
        ({"preserve_original": "yes"}, "preserve_original"),
        ({"include_detection_details": 1}, "include_detection_details"),
        ({"languages": ["xx"]}, "languages"),
        ({"mixed_share": 1.5}, "mixed_share"),
        ({"mixed_share": 0.1, "embedded": False, "model": ScriptedModel([])}, "mixed_share"),
        ({"languages": ["en", "de"], "embedded": False, "model": ScriptedModel([])}, "languages"),
        ({"embedded": False}, "embedded"),
        ({"model": "gpt"}, "model"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], named: str) -> None:
    """By name, when it is built."""
    with pytest.raises(OptionError, match=named):
        LanguageDetector(**options)


def test_without_the_extra_a_judge_alone_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded detector says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingExtraError, match="language"):
        LanguageDetector()
    assert LanguageDetector(ScriptedModel([]), embedded=False).strategy == "detect"


def test_it_shows_the_options_that_were_given() -> None:
    """And no others."""
    assert repr(LanguageDetector(strategy="block", target_languages=["de"])) == (
        "LanguageDetector(target_languages=('de',), strategy='block')"
    )


TRANSLATED = {
    "object": {"iso_code": "fr", "confidence": 0.99, "translated_text": "Write to joe@example.com, it is late."}
}


@pytest.mark.parametrize(
    "guards",
    [
        lambda done: done.then(PIIDetector(redaction_method="placeholder")),
        lambda done: done.then(RegexFilterProcessor(presets=["pii"], strategy="redact")),
        lambda done: done.parallel(
            PIIDetector(redaction_method="placeholder", id="one"), PIIDetector(redaction_method="placeholder", id="two")
        ),
        lambda done: done.then(PIIDetector(strategy="warn")).then(PIIDetector(redaction_method="placeholder")),
    ],
    ids=["personal data", "rules", "in parallel", "behind one that warns"],
)
async def test_an_original_that_a_later_guard_would_edit_is_dropped(guards: Any) -> None:
    """What Penstock itself put beside a text stops no run, and nothing that was hidden stays in it."""
    done = Workflow("w").then(LanguageDetector(ScriptedModel([TRANSLATED]), strategy="translate", embedded=False))
    outcome = await guards(done).check("Ecrivez a joe@example.com, il est tard.")
    assert not outcome.blocked
    assert "joe@" not in repr(outcome.messages)
    details = outcome.messages[0].metadata["language_detection"]
    assert "original_content" not in details
    assert details["translation"]["original_language"] == "French"


async def test_an_original_in_which_nothing_is_found_stays() -> None:
    """Beside its translation, and it is not translated again."""
    model = ScriptedModel([{"object": {**TRANSLATED["object"], "translated_text": "It is late here."}}])
    done = Workflow("w").then(LanguageDetector(model, strategy="translate", embedded=False)).then(PIIDetector())
    outcome = await done.check("Il est tard ici.")
    assert outcome.messages[0].metadata["language_detection"]["original_content"] == "Il est tard ici."
    assert len(model.requests) == 1
