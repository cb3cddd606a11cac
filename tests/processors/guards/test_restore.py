"""`Restore`: tokens become values again, whole or in pieces, in texts and in tools' arguments."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Message, PIIDetector, Restore, Workflow
from penstock.engine.messages import TextPart, ToolPart

GUARD = Workflow("w").then(PIIDetector(redaction_method="token", phase="input")).then(Restore())
ASKED = "mail bob@example.com and amy@x.io, then call +49 30 1234567"


def begun() -> Any:
    """Return a run whose vault holds two addresses and a number."""
    run = GUARD.start_sync()
    assert run.process_input([Message.user(ASKED)]).text == "mail [EMAIL_1] and [EMAIL_2], then call [PHONE_1]"
    return run


def test_an_answer_has_its_values_back() -> None:
    """What is no token of the run's stays."""
    said = "Wrote to [EMAIL_2], [EMAIL_3], [EMAIL_02] and [x]."
    assert begun().process_output_result([Message.assistant(said)]).text == said.replace("[EMAIL_2]", "amy@x.io")


def test_tools_are_called_with_the_values() -> None:
    """However deep they stand, keys included."""
    arguments = {"to": ["[EMAIL_1]", {"cc": "x [EMAIL_2]"}], "[PHONE_1]": 1}
    part = ToolPart("c", "send", arguments)
    outcome = begun().process_output_result([Message("assistant", (TextPart("ok [PHONE_1]"), part))])
    assert outcome.messages[0].parts[1].arguments == {
        "to": ("bob@example.com", {"cc": "x amy@x.io"}),
        "+49 30 1234567": 1,
    }


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["[EMAIL_1]", "[EMAIL_2]", "[PHONE_1]", "[", "]", "[EMAIL_", "_1]", "x", " ", "[[", "[A"])
    ),
    st.data(),
)
def test_a_stream_is_restored_as_the_whole_is(parts: list[str], data: st.DataObject) -> None:
    """However it is cut."""
    text = "".join(parts) + "."
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=6)))
    pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True) if low < high]
    run = begun()
    with run.process_output_stream(pieces) as chunks:
        out = "".join(chunk.text for chunk in chunks)
    assert out == begun().process_output_result([Message.assistant(text)]).text


def test_only_what_may_be_a_token_is_held_back() -> None:
    """All else flows on."""
    with begun().process_output_stream(["Hello there, ", "see [1", "] or [EMA", "IL_1]"]) as chunks:
        assert [chunk.text for chunk in chunks] == ["Hello there, ", "see [1", "] or ", "bob@example.com"]


def test_without_a_vault_nothing_changes() -> None:
    """Nobody put tokens."""
    assert Workflow("w").then(Restore(phase="all")).check_sync("[EMAIL_1]").text == "[EMAIL_1]"
