"""`PIIDetector`: what it hides and how, types of one's own, judges that err, and streams."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Message, PIIDetector, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.messages import ImagePart, TextPart, ToolPart
from penstock.engine.values.model import ModelRequest
from penstock.processors.guards import VAULT, PIIType
from penstock.processors.guards.detection import Detection
from penstock.testing import ScriptedModel, Turn, run_stage
from tests.laws import examples

MAIL = "mail john.doe@example.com now"
SECRETS = ("john.doe@example.com", "4111 1111 1111 1111", "123-45-6789", "GB82 WEST 1234 5698 7654 32")
TEXT = f"I am at {SECRETS[0]}. My card is {SECRETS[1]}, my SSN {SECRETS[2]}! Pay to {SECRETS[3]}, please."


def checked(text: str, *arguments: Any, **options: Any) -> Any:
    """Return the outcome of a guard over a user's message."""
    return Workflow("w").then(PIIDetector(*arguments, **options)).check_sync(text)


async def judged(text: str, *answers: Any, **options: Any) -> Any:
    """Return the outcome of a guard with a model that gives those answers."""
    model = ScriptedModel([one if isinstance(one, (str, Turn)) else json.dumps(one) for one in answers])
    return await Workflow("w").then(PIIDetector(model, retries=0, **options)).check(text)


def found(*entries: tuple[str, str | None, float]) -> dict[str, Any]:
    """Return a verdict."""
    return {"findings": [{"type": type, "value": value, "score": score} for type, value, score in entries]}


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({}, "mail j******e@*******.com now"),
        ({"preserve_format": False}, "mail ******** now"),
        ({"redaction_method": "placeholder"}, "mail [EMAIL] now"),
        ({"redaction_method": "remove"}, "mail  now"),
        ({"redaction_method": "token"}, "mail [EMAIL_1] now"),
        ({"redaction_method": {"email": "placeholder"}}, "mail [EMAIL] now"),
        ({"redaction_method": {"phone": "mask", "*": "remove"}}, "mail  now"),
        ({"redaction_method": "hash", "hash_key": "k", "hash_length": 8}, "mail [HASH:8e775560] now"),
        ({"detection_types": ["phone"]}, MAIL),
    ],
)
def test_what_is_found_is_hidden_as_asked(options: dict[str, Any], hidden: str) -> None:
    """By one method, or by type."""
    assert checked(MAIL, **options).text == hidden


def test_hashes_are_the_same_in_one_process_and_tell_nothing_outside() -> None:
    """Without a key of one's own it is the process's."""
    one, two = (checked(MAIL, redaction_method="hash").text for _ in range(2))
    assert one == two
    assert len(one) == len("mail [HASH:0123456789abcdef] now")


@pytest.mark.parametrize("strategy", ["redact", "block", "filter", "warn"])
def test_nothing_that_is_told_quotes_what_was_found(strategy: str, caplog: pytest.LogCaptureFixture) -> None:
    """Not the verdict, the records, the log or the facts."""
    caplog.set_level(logging.DEBUG)
    outcome = checked(TEXT, strategy=strategy, redaction_method="token")
    told = f"{outcome.tripwire!r} {outcome.records!r} {outcome.facts!r} {caplog.text}"
    assert not [secret for secret in SECRETS if secret in told]
    assert outcome.blocked == (strategy in ("block", "filter"))
    if strategy == "redact":
        assert len(outcome.fact(VAULT)) == len(SECRETS)


def test_a_verdict_counts_what_was_found_if_asked() -> None:
    """In its sentence; as data it always does."""
    outcome = checked(TEXT, strategy="block", include_detections=True)
    assert outcome.tripwire.reason.startswith("4 found; ")
    assert dict(outcome.tripwire.metadata["counts"]) == {"email": 1, "credit-card": 1, "ssn": 1, "iban": 1}


def test_parts_and_tools_are_rewritten_in_place() -> None:
    """Pictures stay; an argument's name explains its value."""
    parts = (TextPart(MAIL), ImagePart(url="https://x/y"), ToolPart("c", "t", {"phone": "329 7730", "n": [MAIL]}))
    guard = PIIDetector(redaction_method="placeholder", unscanned="allow")
    outcome = run_stage(guard, "process_output_result", [Message("assistant", parts)])
    assert outcome.messages[0].parts == (
        TextPart("mail [EMAIL] now"),
        ImagePart(url="https://x/y"),
        ToolPart("c", "t", {"phone": "[PHONE]", "n": ("mail [EMAIL] now",)}),
    )


def test_equal_values_have_equal_tokens_over_all_stages() -> None:
    """The vault is the run's."""
    run = Workflow("w").then(PIIDetector(redaction_method="token")).start_sync()
    assert run.process_input([Message.user(MAIL)]).text == "mail [EMAIL_1] now"
    said = "amy@x.io knows john.doe@example.com"
    assert run.process_output_result([Message.assistant(said)]).text == "[EMAIL_2] knows [EMAIL_1]"


def test_a_token_that_stands_in_the_conversation_is_not_given_out() -> None:
    """It stands for something else, or for nothing."""
    assert checked("[EMAIL_3] is not a@b.io", redaction_method="token").text == "[EMAIL_3] is not [EMAIL_4]"


def test_types_of_ones_own_have_patterns_and_validators() -> None:
    """In streams, too."""
    own = PIIType("passport", r"\b[A-Z]{2}\d{7}\b", validator=lambda value: value != "AB0000000")
    guard = PIIDetector(detection_types=[own, "email"], redaction_method="placeholder")
    text = "AB1234567, AB0000000, a@b.io"
    assert run_stage(guard, "process_input", text).text == "[PASSPORT], AB0000000, [EMAIL]"
    with Workflow("w").then(guard).start_sync().process_output_stream(["AB12", "34567", " ok"]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == "[PASSPORT] ok"


def test_a_pattern_of_ones_own_that_takes_too_long_blocks() -> None:
    """It has failed."""
    own = PIIType("slow", r"(a+)+(b|c)\1+$", timeout=0.01)
    assert checked("a" * 5000 + "!", detection_types=[own]).blocked


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"detection_types": ["name"]}, "model="),
        ({"detection_types": ["passport"]}, "model="),
        ({"detection_types": [PIIType("x")]}, "model="),
        ({"detection_types": []}, "detection_types"),
        ({"detection_types": ["email", "email"]}, "detection_types"),
        ({"detection_types": [PIIType("email", "x")]}, "built in"),
        ({"detection_types": [PIIType("x", "(")]}, "pattern"),
        ({"detection_types": 5}, "detection_types"),
        ({"strategy": "rewrite"}, "strategy"),
        ({"redaction_method": "star"}, "redaction_method"),
        ({"redaction_method": {"name": "mask"}}, "redaction_method"),
        ({"threshold": 2}, "threshold"),
        ({"hash_length": 2}, "hash_length"),
        ({"hash_key": b""}, "hash_key"),
        ({"buffer_size": 10}, "buffer_size"),
        ({"preserve_format": 1}, "preserve_format"),
        ({"embedded": False}, "option 'embedded'"),
        ({"model": ScriptedModel}, "not its class"),
    ],
)
def test_options_are_refused_at_once(options: dict[str, Any], named: str) -> None:
    """With what is allowed."""
    with pytest.raises(OptionError, match=named):
        PIIDetector(**options)


def test_a_key_of_hashes_is_never_shown() -> None:
    """Not where it is refused, nor where the guard is."""
    with pytest.raises(OptionError) as refused:
        PIIDetector(hash_key=123456)  # type: ignore[arg-type]
    assert "123456" not in str(refused.value)
    assert "sesame" not in repr(PIIDetector(hash_key="sesame"))


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("types", "did you mean 'detection_types'"),
        ("treshold", "did you mean 'threshold'"),
        ("error_strategy", "did you mean on_error"),
        ("on_error", r"\.then\(guard, on_error=…\)"),
        ("colour", "there are model, detection_types"),
    ],
)
def test_an_option_that_there_is_not_is_refused_with_the_cure(name: str, cure: str) -> None:
    """The guard's own, those of all guards, and those of the place where it stands."""
    wrong: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=cure):
        PIIDetector(**wrong)


async def test_a_model_finds_names_and_every_place_of_them() -> None:
    """It is shown what patterns found as hidden, and where it says that a value stands is not asked."""
    model = ScriptedModel([json.dumps(found(("name", "John Doe", 0.9)))])
    text = "John Doe writes from a@b.io. Yours, john doe"
    guard = PIIDetector(model, redaction_method="placeholder")
    outcome = await Workflow("w").then(guard).check(text)
    assert outcome.text == "[NAME] writes from [EMAIL]. Yours, [NAME]"
    assert "a@b.io" not in repr(model.requests)


async def test_a_model_is_not_asked_about_what_has_a_pattern() -> None:
    """It costs nothing."""
    model = ScriptedModel([])
    outcome = await Workflow("w").then(PIIDetector(model, detection_types=["email", "phone"])).check(MAIL)
    assert outcome.text == "mail j******e@*******.com now"
    assert not model.requests


async def test_what_the_model_is_not_sure_of_passes() -> None:
    """Below the threshold."""
    assert (await judged("I am Bob", found(("name", "Bob", 0.59)))).text == "I am Bob"


async def test_a_type_that_was_not_asked_for_is_hidden_all_the_same() -> None:
    """Under a name that says so."""
    outcome = await judged("My blood is 0+", found(("blood", "0+", 0.9)), redaction_method="placeholder")
    assert outcome.text == "My blood is [UNLISTED]"


@pytest.mark.parametrize(
    "answer",
    [
        found(("name", None, 0.9)),
        found(("name", "Somebody Else", 0.9)),
        found(("name", "", 0.9)),
        {"findings": [{"type": "name"}]},
        {"findings": "none"},
        "I cannot help with that.",
        Turn(error="overloaded"),
    ],
    ids=["no value", "not in the text", "empty", "half an entry", "no list", "no verdict", "no answer"],
)
async def test_what_cannot_be_hidden_stops_the_run(answer: Any) -> None:
    """Nothing is taken for nothing found."""
    outcome = await judged("I am Bob", answer)
    assert outcome.blocked
    assert "Bob" not in repr(outcome.tripwire)
    assert "Somebody" not in repr(outcome.tripwire)


async def test_an_echo_in_the_answer_is_not_used() -> None:
    """Only values are, and they are searched for."""
    answer = {**found(("name", "Bob", 0.9)), "redacted_content": "I am Bob"}
    assert (await judged("I am Bob", answer, redaction_method="remove")).text == "I am "


async def test_names_of_what_is_hidden_already_are_no_findings() -> None:
    """The model reports the placeholder it was shown."""
    outcome = await judged(MAIL, found(("email", "[EMAIL]", 0.9)))
    assert outcome.text == "mail j******e@*******.com now"


def test_filter_takes_the_sentence_out_of_an_answer() -> None:
    """And the message out of what goes to the model."""
    said = "Hello. My address is a@b.io, so do write to me. Goodbye to everybody."
    with Workflow("w").then(PIIDetector(strategy="filter")).start_sync().process_output_stream([said]) as chunks:
        out = "".join(chunk.text for chunk in chunks)
    assert "@" not in out
    assert out.endswith("Goodbye to everybody.")
    kept = Message.user("hi", id="a")
    outcome = run_stage(PIIDetector(strategy="filter"), "process_input", [Message.user("a@b.io", id="b"), kept])
    assert [message.id for message in outcome.messages] == ["a"]


def test_callbacks_are_told_what_was_found() -> None:
    """Types, places and scores."""
    seen: list[Detection] = []
    checked(MAIL, on_detection=seen.append)
    assert [(one.categories, one.flagged, one.text) for one in seen] == [(("email",), True, None)]


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(st.sampled_from([*SECRETS, " ", ". ", "and", "call 329 7730", "x", "1"]), min_size=1, max_size=6),
    st.data(),
    st.sampled_from(["redact", "block", "filter", "warn"]),
)
def test_a_stream_leaves_as_the_whole_answer_does(parts: list[str], data: st.DataObject, strategy: Any) -> None:
    """However it is cut; of what is blocked nothing leaves."""
    text = "".join(parts)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=5)))
    pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True) if low < high]
    workflow = Workflow("w").then(PIIDetector(strategy=strategy, redaction_method="placeholder"))
    whole = workflow.start_sync().process_output_result([Message.assistant(text)])
    with workflow.start_sync().process_output_stream(pieces) as chunks:
        out = "".join(chunk.text for chunk in chunks)
    assert chunks.outcome is not None
    assert chunks.outcome.blocked == whole.blocked
    if whole.tripwire is not None:
        assert text.startswith(out)
        assert len(out) <= whole.tripwire.metadata["spans"][0]["start"]
    else:
        assert out == "".join(message.text for message in whole.messages)


TOLD = "Nobody whom I know lives around here any more. I was told by John Doe himself. And that is all there is to say."


def knows(request: ModelRequest) -> str:
    """Say that John Doe is a name, wherever he stands in what is asked."""
    there = "John Doe" in str(request.messages[-1].text)
    return json.dumps(found(*([("name", "John Doe", 0.9)] if there else [])))


@pytest.mark.parametrize("strategy", ["redact", "filter", "warn", "block"])
async def test_what_a_model_finds_leaves_no_stream(strategy: Any) -> None:
    """Text waits for it sentence by sentence; what leaves is what the whole would have become."""
    guard = PIIDetector(ScriptedModel(knows), strategy=strategy, redaction_method="placeholder")
    workflow = Workflow("w").then(guard)
    whole = await workflow.start().process_output_result([Message.assistant(TOLD)])
    for size in (1, 7, 50):
        pieces = [TOLD[at : at + size] for at in range(0, len(TOLD), size)]
        async with workflow.start() as run, run.process_output_stream(pieces) as chunks:
            out = "".join([chunk.text async for chunk in chunks])
        if strategy == "block":
            assert whole.blocked
            assert out == "Nobody whom I know lives around here any more. "
        else:
            assert out == "".join(message.text for message in whole.messages)
            assert ("John" in out) == (strategy == "warn")


async def test_nothing_leaves_a_stream_that_a_model_did_not_judge() -> None:
    """It fails at the second sentence: the first is out, the rest is not."""
    model = ScriptedModel([json.dumps(found()), Turn(error="overloaded")])
    workflow = Workflow("w").then(PIIDetector(model, retries=0))
    async with workflow.start() as run, run.process_output_stream([TOLD]) as chunks:
        out = "".join([chunk.text async for chunk in chunks])
    assert chunks.outcome is not None
    assert chunks.outcome.blocked
    assert "John" not in out


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("mail me at jo@example.com", "thanks", ("mail me at [EMAIL]", "thanks")),
        ("call +49 30 1234567", "8 people come", ("call [PHONE]", "8 people come")),
        ("card 4111 1111 11", "11 1111 ok", ("card [CREDIT-CARD]", " ok")),
    ],
)
def test_a_value_ends_where_its_part_does_unless_it_only_is_one_across_parts(
    first: str, second: str, left: tuple[str, str]
) -> None:
    """The next part's words are no part of an address that is whole."""
    message = Message("user", (TextPart(first), TextPart(second)))
    outcome = run_stage(PIIDetector(redaction_method="placeholder"), "process_input", [message])
    assert tuple(part.text for part in outcome.messages[0].parts) == left


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("https://example.com/a?to=jo@other.org", "https://example.com/a?to=[EMAIL]"),
        ("https://docs.example.com/x. a@example.com", "https://docs.example.com/x. a@example.com"),
        ("https://EXAMPLE.com:8080/x, www.example.com, example.com/x", None),
        ("https://ann@example.com/x", None),
        ("https://example.com@other.org/ https://other.org/?example.com", "[URL] [URL]"),
        ("example.com.other.org notexample.com a@notexample.com", "[URL] [URL] [EMAIL]"),
        ("name=Jo&to=jo%40other.org&cc=jo%40example.com", "name=Jo&to=[EMAIL]&cc=jo%40example.com"),
    ],
)
def test_links_and_addresses_of_allowed_domains_pass(given: str, left: str | None) -> None:
    """And of those below them; not what else stands in them, nor what only looks like them."""
    options: Any = {"detection_types": ["url", "email"], "allow": ["Example.com"], "redaction_method": "placeholder"}
    assert checked(given, **options).text == (left or given)


@pytest.mark.parametrize("wrong", [[""], 3, [None], ["/(/"], ["uuids"]])
def test_what_is_allowed_are_texts_patterns_and_functions(wrong: Any) -> None:
    """A text that is nearly the name of a kind is a mistake."""
    with pytest.raises(OptionError, match="allow"):
        PIIDetector(allow=wrong)


def test_links_and_uuids_stay_unless_they_are_asked_for() -> None:
    """Most are the application's own."""
    text = "See https://app.example.com/x and 123e4567-e89b-12d3-a456-426614174000."
    assert checked(text).text == text
    found = checked(text, detection_types=["url", "uuid"], redaction_method="placeholder").text
    assert found == "See [URL] and [UUID]."


def test_of_a_plain_value_in_a_code_the_form_stays() -> None:
    """Only what is written in codes is hidden whole."""
    assert checked("name=Jo&to=jon@other.org&city=Rome%20x").text == "name=Jo&to=j*n@*****.org&city=Rome%20x"
    assert checked("name=Jo&to=jon%40other.org&city=Rome%20x").text == "name=Jo&to=********&city=Rome%20x"


BY_TYPE = {"credit-card": "block", "url": "warn"}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("see https://example.com/?to=jo@example.org now", "see https://example.com/?to=[EMAIL] now"),
        ("see https://example.com/x now", "see https://example.com/x now"),
        ("jo@example.org pays with 4111 1111 1111 1111.", None),
        ("name=Jo&card=4111%201111%201111%201111&to=jo%40example.org", None),
        ("see www.example.com/?to=jo%40example.org now", "see www.example.com/?to=[EMAIL] now"),
    ],
)
async def test_each_type_may_have_a_strategy_of_its_own(said: str, left: str | None) -> None:
    """None hides another: an address in a link that may pass is hidden; whole and streamed."""
    types = ["email", "url", "credit-card"]
    guard = PIIDetector(detection_types=types, strategy=BY_TYPE, redaction_method="placeholder")
    workflow = Workflow("w").then(guard)
    outcome = workflow.check_sync([Message.assistant(said)], stage="process_output_step")
    async with workflow.start().process_output_stream([*said]) as chunks:
        streamed = "".join([chunk.text async for chunk in chunks])
    assert chunks.outcome is not None
    assert outcome.blocked == chunks.outcome.blocked == (left is None)
    assert left is None or outcome.text == streamed == left
    assert left is not None or "4111" not in streamed


@pytest.mark.parametrize("wrong", [{"phon": "block"}, {"phone": "filter"}, {"phone": None}, "hide"])
def test_a_strategy_by_type_names_both(wrong: Any) -> None:
    """A type that is not looked for would never be met, and a sentence cannot go for one type alone."""
    with pytest.raises(OptionError, match="strategy"):
        PIIDetector(strategy=wrong)


@pytest.mark.parametrize(
    ("strategy", "edits", "role"),
    [
        ({"*": "warn"}, "nothing", "observer"),
        ({"email": "block", "*": "warn"}, "nothing", "guard"),
        ({}, "spans", "guard"),
    ],
)
def test_what_the_detector_may_do_follows_from_all_its_strategies(strategy: Any, edits: str, role: str) -> None:
    """One that only warns is an observer."""
    guard = PIIDetector(strategy=strategy)
    assert (guard.edits, guard.role) == (edits, role)


@pytest.mark.parametrize("encode", [lambda raw: base64.b64encode(raw).decode(), bytes.hex], ids=["base64", "hex"])
async def test_a_key_in_a_code_is_hidden_to_its_end(encode: Any) -> None:
    """However many slices of the code it fills; whole and streamed alike."""
    lines = "\n".join(base64.b64encode(bytes(range(at, at + 48))).decode() for at in range(50))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"
    text = f"here {encode(key.encode())} it is"
    workflow = Workflow("w").then(PIIDetector(redaction_method="remove"))
    outcome = workflow.check_sync([Message.assistant(text)], stage="process_output_step")
    async with workflow.start().process_output_stream([text[at : at + 90] for at in range(0, len(text), 90)]) as chunks:
        streamed = "".join([chunk.text async for chunk in chunks])
    assert outcome.text == streamed
    assert outcome.text.startswith("here ")
    assert outcome.text.endswith(" it is")
    assert len(outcome.text) < 20


def test_the_record_says_which_evidence_counted() -> None:
    """By type, without any text of the values."""
    outcome = Workflow("w").then(PIIDetector()).check_sync("card: 4222222222222, mail ada@example.com", records=True)
    assert outcome.records[0].details["evidence"] == {"credit-card": ("label card",), "email": ("word mail",)}
