"""The preset `hygiene`: what it hides, refuses and explains, and that it can be taken apart."""

import json
from pathlib import Path

import pytest

from penstock import InputContext, Message, Workflow, processor
from penstock.engine.tasks import run_without_loop
from penstock.workflows.batch import is_sync
from penstock.workflows.presets import PRESETS, hygiene
from penstock.workflows.presets.hygiene import NOTE

MESSAGES = Path(__file__).parents[3] / "examples" / "data" / "messages.jsonl"
KEY = "AKIA" + "IOSFODNN7" + "QWERTYU"


@processor("process_input", edits="nothing")
def note(ctx: InputContext) -> None:
    """Look on."""
    ctx.note(seen=len(ctx.text))


guard = hygiene()


def test_each_kind_of_value_is_hidden_side_by_side() -> None:
    """And what is between them stays as it was."""
    text = f"Mail ann@example.com the key {KEY} or see https://example.com/a?b=c at noon."
    outcome = guard.check_sync(text)
    assert outcome.text == "Mail [EMAIL] the key [AWS_KEY] or see [URL] at noon."
    assert {record.step for record in outcome.records if record.status == "edited"} >= {
        "personal-data",
        "secrets",
        "links",
    }


def test_what_nobody_sees_hides_nothing() -> None:
    """The normaliser runs before the filters."""
    assert guard.check_sync("Mail ann@exam\u200bple.com at noon, please.").text == "Mail [EMAIL] at noon, please."


def test_an_address_inside_a_link_is_hidden_once() -> None:
    """The wider of two redactions stands."""
    text = guard.check_sync("Please look at https://example.com/?user=ann@example.com and tell me more.").text
    assert text == "Please look at [URL] and tell me more."


def test_a_text_that_is_little_but_hidden_values_is_refused() -> None:
    """There is nothing to answer."""
    outcome = guard.check_sync(f"ann@example.com {KEY}")
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "mostly-hidden"
    assert "ann" not in outcome.tripwire.reason


def test_the_model_is_told_what_placeholders_mean() -> None:
    """Once, in a system message of its own, and only if something was hidden."""
    run = guard.start()
    for text in ("I am ann@example.com, hello.", "And bob@example.com greets you."):
        run_without_loop(run.process_input(text), "test")
    assert [message.text for message in run.message_list.system] == [NOTE]
    assert guard.check_sync("Nothing to hide.").message_list.system == ()


def test_a_placeholder_that_somebody_typed_is_a_word() -> None:
    """Only what was found counts as hidden."""
    outcome = guard.check_sync("[EMAIL]")
    assert not outcome.blocked
    assert outcome.message_list.system == ()
    assert not guard.check_sync("[TODO] [TODO] [TODO] ask ann@example.com").blocked


@pytest.mark.parametrize(
    ("options", "text", "step"),
    [
        ({"personal": "block"}, "I am ann@example.com, hello.", "personal-data"),
        ({"secrets": "block"}, f"My key is {KEY}, hello.", "secrets"),
        ({"links": "block"}, "Look at https://example.com please.", "links"),
    ],
)
def test_each_filter_can_block_instead(options, text, step) -> None:
    """The verdict names it."""
    assert not guard.check_sync(text).blocked
    assert hygiene(**options).check_sync(text).tripwire.processor_id == step


def test_a_filter_that_warns_hides_nothing() -> None:
    """So nothing is refused for being hidden, nor explained."""
    outcome = hygiene(links="warn").check_sync("https://example.com https://example.org")
    assert outcome.text == "https://example.com https://example.org"
    assert outcome.message_list.system == ()


def test_answers_and_tool_results_are_filtered_too() -> None:
    """Without the branch, which is about the input."""
    assert guard.check_sync("Write to ann@example.com", stage="process_output_step").text == "Write to [EMAIL]"
    result = guard.check_sync({"mail": "ann@example.com"}, stage="process_tool_result", tool_name="search").result
    assert dict(result) == {"mail": "[EMAIL]"}


def test_it_needs_no_event_loop() -> None:
    """Every step is sync, at every stage."""
    assert all(is_sync(guard, stage) for stage in ("process_input", "process_output_step", "process_tool_result"))


def test_it_is_a_value_like_any_workflow() -> None:
    """Equal if made alike, and a start for one's own."""
    assert hygiene() == hygiene()
    assert hygiene(links="warn") != hygiene()
    assert PRESETS["hygiene"]() == guard
    longer = Workflow("mine").then(guard).then(note)
    assert longer.check_sync("hello").records[-1].details == {"seen": 5}


def test_a_conversation_is_judged_as_a_whole() -> None:
    """One message that is all hidden is no reason to refuse the others."""
    messages = [Message.user("ann@example.com"), Message.assistant("Is that yours?"), Message.user("Yes, please help.")]
    assert not guard.check_sync(messages).blocked


def test_the_example_has_real_messages_of_every_kind(run) -> None:
    """At least 200; some pass, some are edited, some blocked, none breaks."""
    rows = [json.loads(line) for line in MESSAGES.read_text("utf-8").splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) >= 200
    ran = run("run", "hygiene", "--input", str(MESSAGES))
    assert ran.code == 0
    assert [row["id"] for row in ran.rows] == [row["id"] for row in rows]
    assert {row["status"] for row in ran.rows} == {"passed", "edited", "blocked"}
