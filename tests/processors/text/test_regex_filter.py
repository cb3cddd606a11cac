"""`RegexFilterProcessor` as a step: where it looks, what it does, what it tells, what its failure means."""

import json
import logging

import pytest

from penstock import Message, OptionError, TextPart, ToolPart, Workflow
from penstock.engine import DataPart, FilePart, ReasoningPart, SourcePart, UnknownPart
from penstock.processors.text import PatternMatch, RegexFilterProcessor, RegexRule, UnicodeNormalizer, Violation

MAIL = "a@b.io"
KEY = "sk-" + "ant-api03-ABCdef123456789xyz"  # in two pieces, so that no scanner takes it for a real one


def flow(*rules: object, **options: object) -> Workflow:
    """Return a workflow of one filter; it redacts unless told otherwise."""
    return Workflow("w").then(RegexFilterProcessor(rules, **{"strategy": "redact", **options}))


def pii(**options: object) -> Workflow:
    """Return a workflow of one filter with the preset ``pii``."""
    return flow(presets=["pii"], **options)


# Strategies


def test_a_match_is_redacted_in_place() -> None:
    """As spans of kind redact, so that redactors in parallel merge."""
    outcome = pii().check_sync(f"x {MAIL} y {MAIL}")
    assert outcome.text == "x [EMAIL] y [EMAIL]"
    assert [(e.start, e.end, e.kind) for _, e in outcome.records[0].edits] == [(2, 8, "redact"), (11, 17, "redact")]


def test_a_match_blocks_with_a_structured_verdict_that_quotes_nothing() -> None:
    """The reason names each rule once; the matched text is nowhere."""
    outcome = pii(strategy="block").check_sync(f"{MAIL} and 123-45-6789 and {MAIL}")
    tripwire = outcome.tripwire
    assert outcome.text == ""
    assert tripwire.reason.endswith("email, ssn")
    assert not tripwire.retry
    assert tripwire.metadata["counts"] == {"email": 2, "ssn": 1}
    first = tripwire.metadata["matches"][0]
    assert {name: first[name] for name in ("rule", "index", "length", "match", "part", "field")} == {
        "rule": "email",
        "index": 0,
        "length": 6,
        "match": "[hidden]",
        "part": 0,
        "field": "text",
    }
    told = f"{tripwire} {outcome.records} {outcome!r}"
    assert MAIL not in told
    assert "123-45" not in told


def test_a_warning_changes_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Log, record, fact and callback; the reference wrote to the console only."""
    seen: list[Violation] = []
    guard = RegexFilterProcessor(presets=["pii"], strategy="warn", on_violation=seen.append)
    with caplog.at_level(logging.WARNING, logger="penstock"):
        outcome = Workflow("w").then(guard).check_sync(f"{MAIL}!")
    assert outcome.text == f"{MAIL}!"
    assert outcome.fact(guard.findings) == {"email": 1}
    assert outcome.records[0].details == {"matches": {"email": 1}}
    assert [violation.strategy for violation in seen] == ["warn"]
    assert "email" in caplog.text
    assert MAIL not in caplog.text


@pytest.mark.parametrize(
    ("strategy", "claims"),
    [
        ("redact", ("spans", "guard", "block")),
        ("block", ("nothing", "guard", "block")),
        ("warn", ("nothing", "observer", "allow")),
    ],
)
def test_the_strategy_decides_what_it_declares(strategy: str, claims: tuple[str, ...]) -> None:
    """One that blocks edits nothing, so it may run beside the model."""
    guard = RegexFilterProcessor(presets=["pii"], strategy=strategy)
    assert (guard.edits, guard.role, guard.on_error) == claims


def test_counts_add_up_over_the_stages_of_a_run() -> None:
    """The fact is of the run, the record of the stage; a message is read once."""
    guard = RegexFilterProcessor(presets=["pii"], strategy="redact")
    workflow = Workflow("w").then(guard)
    run = workflow.start_sync(records=True)
    run.process_input([Message.user(MAIL)])
    run.process_output_step([Message.assistant(MAIL)])
    assert run.facts[guard.findings] == {"email": 2}
    assert [record.details for record in run.records] == [{"matches": {"email": 1}}] * 2


def test_redactors_in_parallel_lose_nothing() -> None:
    """Each finds its own; a link that holds an address is one redaction, the link's."""
    presets = ("pii", "secrets", "urls")
    workflow = Workflow("w").parallel(*(RegexFilterProcessor(presets=[name], strategy="redact") for name in presets))
    outcome = workflow.check_sync(f"{MAIL} {KEY} https://x.io/?q={MAIL}")
    assert outcome.text == "[EMAIL] [API_KEY] [URL]"


# Where it looks


def test_every_kind_of_part_is_read() -> None:
    """Text, reasoning, tools' arguments, results and errors, sources, file names: the reference read text only."""
    parts = [
        TextPart(MAIL),
        ReasoningPart(MAIL),
        ToolPart("c", "t", {"to": [MAIL], MAIL: 1}, "result", {"from": MAIL}),
        ToolPart("d", "t", {}, "error", error=MAIL),
        SourcePart(url=f"mailto:{MAIL}", title=MAIL),
        FilePart(data="eA==", name=f"{MAIL}.txt"),
        DataPart("own", {"from": MAIL}),
        UnknownPart({"type": "new", "of": [MAIL]}),
    ]
    (message,) = pii().check_sync([Message.assistant(parts)], stage="process_output_result").messages
    assert repr(message.parts).count(MAIL) == 0
    assert message.parts[2] == ToolPart("c", "t", {"to": ["[EMAIL]"], "[EMAIL]": 1}, "result", {"from": "[EMAIL]"})
    assert message.parts[-1] == UnknownPart({"type": "new", "of": ["[EMAIL]"]})


def test_only_parts_of_the_kinds_that_were_asked_for_are_read() -> None:
    """An application's data here."""
    message = Message.user([DataPart("own", {"from": MAIL}), TextPart(MAIL)])
    outcome = pii(parts=["data"]).check_sync([message])
    assert outcome.messages[0].parts == (DataPart("own", {"from": "[EMAIL]"}), TextPart(MAIL))


def test_both_copies_of_a_stored_text_are_redacted() -> None:
    """The reference left the flattened copy as it was, and did not see a message that had only that."""
    from penstock import dump_messages, parse_messages

    content = {"format": 2, "parts": [{"type": "text", "text": MAIL}], "content": MAIL}
    row = {"id": "m", "role": "user", "createdAt": "2026-01-01T00:00:00.000Z", "content": content}
    only = {**row, "id": "n", "content": {"format": 2, "content": MAIL}}
    outcome = pii().check_sync(parse_messages([row, only]))
    assert MAIL not in json.dumps(dump_messages(outcome.messages, "stored"), default=str)


def test_a_secret_split_over_parts_is_found() -> None:
    """Neighbouring text parts are also read as one; the replacement stands where the match began."""
    parts = [TextPart(f"my key {KEY[:9]}"), TextPart(f"{KEY[9:]} and a@"), TextPart("b.io ok")]
    outcome = flow(presets=["pii", "secrets"]).check_sync([Message.user(parts)])
    assert [part.text for part in outcome.messages[0].parts] == ["my key [API_KEY]", " and [EMAIL]", " ok"]


def test_parts_that_are_no_neighbours_are_not_read_as_one() -> None:
    """A picture stands between them."""
    parts = [TextPart("a@"), FilePart(data="eA=="), TextPart("b.io")]
    assert pii().check_sync([Message.user(parts)]).messages[0].parts == tuple(parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ａ＠ｂ．ｉｏ", "[EMAIL]"),
        ("a\u200b@b.i\u200bo", "[EMAIL]"),
        ("а@b.io", "[EMAIL]"),
        ("A@B.IO", "[EMAIL]"),
        (f"{KEY[:5]}\u200b{KEY[5:]}", "[API_KEY]"),
    ],
)
def test_a_disguise_does_not_get_past(text: str, expected: str) -> None:
    """Even where no normaliser stands before it."""
    assert flow(presets=["pii", "secrets"]).check_sync(text).text == expected


@pytest.mark.parametrize("stage", ["process_tool_call", "process_tool_result"])
def test_tools_are_guarded_deep_inside(stage: str) -> None:
    """Strings anywhere in the value; a key's name explains what it holds."""
    value = {"to": [{"mail": MAIL}], "phone": "329 7730", "password": "correct horse", "n": 3}
    outcome = flow(presets=["pii", "secrets"]).check_sync(value, stage=stage)
    guarded = outcome.arguments if stage == "process_tool_call" else outcome.result
    assert guarded == {"to": ({"mail": "[EMAIL]"},), "phone": "[PHONE]", "password": "[PASSWORD]", "n": 3}


def test_a_secret_as_the_name_of_a_key_is_redacted() -> None:
    """In a tool's arguments as in a message's parts; two that become one are numbered, and no value is lost."""
    outcome = pii().check_sync({MAIL: 1, "c@d.io": 2}, stage="process_tool_call")
    assert outcome.arguments == {"[EMAIL]": 1, "[EMAIL] (2)": 2}


@pytest.mark.parametrize("strategy", ["redact", "block"])
def test_a_number_that_is_personal_is_hidden_as_a_whole(strategy: str) -> None:
    """A card sent as a number becomes null, or stops the run; small numbers and time stamps pass."""
    outcome = pii(strategy=strategy).check_sync({"card": 4111111111111111}, stage="process_tool_result")
    if strategy == "redact":
        assert outcome.result == {"card": None}
    else:
        assert outcome.tripwire.metadata["counts"] == {"credit-card": 1}
    value = {"at": 1700000000, "ms": 1700000000123, "n": 7, "x": 0.5, "ok": True}
    assert pii(strategy=strategy).check_sync(value, stage="process_tool_result").result == value


@pytest.mark.parametrize(
    ("phase", "guarded"),
    [
        ("input", {"process_input", "process_tool_result"}),
        ("output", {"process_output_stream", "process_output_step", "process_tool_call", "process_output_result"}),
    ],
)
def test_the_phase_chooses_the_stages(phase: str, guarded: set[str]) -> None:
    """What goes to the model, or what comes from it."""
    assert set(RegexFilterProcessor(presets=["pii"], phase=phase).stages) == guarded
    other = "process_output_result" if phase == "input" else "process_input"
    role = "assistant" if phase == "input" else "user"
    run = pii(phase=phase).start_sync()
    assert getattr(run, other)([Message(role, MAIL)]).text == MAIL


async def test_history_is_guarded_on_request() -> None:
    """Before a model call the whole conversation is shown, system messages where asked for."""
    messages = [Message.system(MAIL), Message.user(MAIL), Message.assistant(MAIL)]
    async with pii(history=True, system="all").start() as run:
        outcome = await run.process_input_step(messages)
    assert [message.text for message in outcome.message_list] == ["[EMAIL]"] * 3
    async with pii(history=True).start() as run:
        outcome = await run.process_input_step(messages)
    assert [message.text for message in outcome.message_list] == [MAIL, "[EMAIL]", "[EMAIL]"]


def test_a_normaliser_before_it_helps_rules_of_ones_own() -> None:
    """They read the text as it is."""
    guard = RegexFilterProcessor([RegexRule("x", "abc", replacement="X")], strategy="redact")
    assert Workflow("w").then(guard).check_sync("a\u200bbc").text == "a\u200bbc"
    assert Workflow("w").then(UnicodeNormalizer()).then(guard).check_sync("a\u200bbc").text == "X"


# Rules


def test_rules_of_presets_come_first() -> None:
    """Of equally long matches the preset's replacement stands."""
    rule = {"name": "corp", "pattern": r"[a-z]+@corp\.io", "replacement": "[CORP]"}
    assert flow(rule, presets=["pii"]).check_sync("x@corp.io y@b.io").text == "[EMAIL] [EMAIL]"


def test_rules_may_share_a_name() -> None:
    """Each match has its own replacement; the name is told once."""
    rules = [RegexRule("r", "a", replacement="1"), RegexRule("r", "b", replacement="2")]
    assert flow(*rules).check_sync("ab").text == "12"
    assert flow(*rules, strategy="block").check_sync("ab").tripwire.reason.endswith(": r")


def test_a_replacement_may_be_empty() -> None:
    """Then the match is gone."""
    assert flow(RegexRule("x", "cat ", replacement="")).check_sync("a cat sat").text == "a sat"


# Failure


def test_a_rule_that_takes_too_long_blocks() -> None:
    """Its name is in the record; the text went nowhere."""
    outcome = flow(RegexRule("slow", "(a|aa)+$"), timeout=0.02).check_sync("a" * 60 + "b")
    assert outcome.blocked
    (record,) = outcome.records
    assert (record.status, record.error) == ("failed", "TimeoutError")
    assert "'slow'" in record.details["timeout"]


def test_a_rule_may_have_its_own_limit() -> None:
    """The processor's is for the others."""
    rule = RegexRule("slow", "(a|aa)+$", timeout=0.01)
    assert "0.01 s" in flow(rule, timeout=9).check_sync("a" * 60 + "b").records[0].details["timeout"]


def test_a_validator_that_raises_blocks() -> None:
    """It could not say that the match is harmless."""

    def broken(_: str) -> bool:
        raise ValueError

    assert flow(RegexRule("x", "a", validator=broken)).check_sync("a").blocked


# The callback


def test_the_callback_is_told_of_each_text() -> None:
    """What, where and what stands there now; the values only on request."""
    seen: list[Violation] = []
    message = Message.user([TextPart(MAIL), FilePart(data="eA=="), TextPart(f"z {MAIL}")], id="m")
    pii(on_violation=seen.append).check_sync([message])
    assert [(v.stage, v.message_id, v.part, v.field, v.strategy) for v in seen] == [
        ("process_input", "m", 0, "text", "redact"),
        ("process_input", "m", 2, "text", "redact"),
    ]
    assert seen[1].matches == (PatternMatch("email", 2, 6, "[EMAIL]"),)


def test_matched_texts_go_to_the_callback_only() -> None:
    """Neither into records nor into facts."""
    seen: list[Violation] = []
    outcome = pii(include_redacted_values=True, on_violation=seen.append).check_sync(f"x {MAIL}")
    assert seen[0].matches[0].value == MAIL
    assert MAIL not in f"{outcome.records} {outcome.facts}"


def test_the_callback_is_told_which_rules_were_united() -> None:
    """Where there was more than one."""
    seen: list[Violation] = []
    rules = [RegexRule("short", "abc"), RegexRule("long", "abcdef", replacement="L")]
    flow(*rules, on_violation=seen.append).check_sync("xabcdefx")
    assert seen[0].matches == (PatternMatch("long", 1, 6, "L", ("long", "short")),)


@pytest.mark.parametrize("with_values", [False, True])
def test_an_error_in_the_callback_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
    with_values: bool,
) -> None:
    """The reference swallowed it. Its traceback is left out where it could quote what was matched."""

    def broken(violation: Violation) -> None:
        raise KeyError(violation.matches[0].value)

    with caplog.at_level(logging.ERROR, logger="penstock"):
        outcome = pii(include_redacted_values=with_values, on_violation=broken).check_sync(MAIL)
    assert outcome.text == "[EMAIL]"
    assert "on_violation raised KeyError" in caplog.text
    assert MAIL not in caplog.text


# Options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "rules"),
        ({"presets": ["piii"]}, "presets"),
        ({"presets": ["pii"], "strategy": "mask"}, "strategy"),
        ({"presets": ["pii"], "phase": "both"}, "phase"),
        ({"presets": ["pii"], "stream_carryover_size": 0}, "stream_carryover_size"),
        ({"presets": ["pii"], "stream_carryover_size": 4097}, "stream_carryover_size"),
        ({"presets": ["pii"], "stream_carryover_size": 1.5}, "stream_carryover_size"),
        ({"presets": ["pii"], "stream_carryover_size": True}, "stream_carryover_size"),
        ({"presets": ["pii"], "timeout": float("nan")}, "timeout"),
        ({"presets": ["pii"], "include_redacted_values": 1}, "include_redacted_values"),
        ({"presets": ["pii"], "on_violation": "print"}, "on_violation"),
        ({"presets": ["pii"], "parts": ["images"]}, "parts"),
        ({"rules": [{"name": "r", "pattern": "("}]}, "rules[0] (r).pattern"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], named: str) -> None:
    """An unknown preset too, which the reference ignored."""
    with pytest.raises(OptionError) as caught:
        RegexFilterProcessor(**options)
    assert caught.value.option == named


def test_an_unknown_preset_is_answered_with_the_known_ones() -> None:
    """So that nobody believes to be guarded who is not."""
    with pytest.raises(OptionError, match="'pii', 'secrets', 'urls'"):
        RegexFilterProcessor(presets=["PII"])


def test_a_callback_that_would_have_to_be_awaited_is_refused() -> None:
    """It would never run."""

    async def notify(_: Violation) -> None: ...

    with pytest.raises(OptionError, match="not awaited"):
        RegexFilterProcessor(presets=["pii"], on_violation=notify)


def test_it_shows_the_options_that_are_not_the_defaults() -> None:
    """And is equal to one of equal options."""
    assert repr(RegexFilterProcessor(presets="pii", phase="input")) == (
        "RegexFilterProcessor(presets=('pii',), phase='input')"
    )
    rule = RegexRule("r", "x")
    assert RegexFilterProcessor([rule]) == RegexFilterProcessor([rule]) != RegexFilterProcessor([rule, rule])


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("See https://a.com/b. (https://a.com/b) **https://a.com**", "See [URL]. ([URL]) **[URL]**"),
        ("https://a.org/A_(b). (see https://a.org/A_(b)) “www.a.com”, yes", "[URL]. (see [URL]) “[URL]”, yes"),
        ("https://a.com/?q=1&b=2; https://a.com/x、", "[URL]; [URL]、"),
    ],
)
def test_the_punctuation_behind_a_link_stays(given: str, left: str) -> None:
    """It is the sentence's."""
    guard = RegexFilterProcessor(presets=["urls"], strategy="redact")
    assert Workflow("w").then(guard).check_sync(given).text == left
