"""`Restore`: tokens become values again, whole or in pieces, in texts and in tools' arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Chunk, Message, PIIDetector, Restore, Workflow
from penstock.engine.values.messages import TextPart, ToolPart
from tests.laws import examples

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


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(
        st.sampled_from(
            [
                "[EMAIL_1]",
                "[EMAIL_2]",
                "[PHONE_1]",
                "[",
                "]",
                "[EMAIL_",
                "_1]",
                "x",
                " ",
                "[[",
                "[A",
                "\\",
                "%5B",
                "%5d",
            ]
        )
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


@pytest.mark.parametrize("opened", ["[", "\\[", "\\\\[", "%5B", "%5b"])
@pytest.mark.parametrize("score", ["_", "\\_", "\\\\_", "%5F", "%5f"])
@pytest.mark.parametrize("closed", ["]", "\\]", "\\\\]", "%5D", "%5d"])
def test_a_token_is_known_behind_escapes(opened: str, score: str, closed: str) -> None:
    """Those of Markdown and of links, whole and in a stream; in a link the value is escaped, too."""
    said = f"see {opened}PHONE{score}1{closed}, ok"
    number = "%2B49%2030%201234567" if opened.startswith("%") else "+49 30 1234567"
    assert begun().process_output_result([Message.assistant(said)]).text == f"see {number}, ok"
    with begun().process_output_stream([*said]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == f"see {number}, ok"


def test_only_what_may_be_a_token_is_held_back() -> None:
    """All else flows on."""
    with begun().process_output_stream(["Hello there, ", "see [1", "] or [EMA", "IL_1]"]) as chunks:
        assert [chunk.text for chunk in chunks] == ["Hello there, ", "see [1", "] or ", "bob@example.com"]


def test_without_a_vault_nothing_changes() -> None:
    """Nobody put tokens."""
    assert Workflow("w").then(Restore(phase="all")).check_sync("[EMAIL_1]").text == "[EMAIL_1]"


def test_a_tool_that_is_about_to_run_is_given_the_values() -> None:
    """And what it says goes to the model under the same tokens."""
    workflow = Workflow("w").then(PIIDetector(redaction_method="token")).then(Restore())
    run = workflow.start_sync()
    run.process_input([Message.user(ASKED)])
    call = run.process_tool_call("send", {"to": "[EMAIL_1]", "text": "dear [EMAIL_2]"})
    assert call.arguments == {"to": "bob@example.com", "text": "dear amy@x.io"}
    result = run.process_tool_result("send", {"sent": ["bob@example.com", "new@y.io"]})
    assert result.result == {"sent": ("[EMAIL_1]", "[EMAIL_3]")}


def test_a_call_in_a_stream_is_restored_too() -> None:
    """The text around it goes on."""
    call = Chunk("tool-call", payload={"toolCallId": "c", "toolName": "s", "args": {"to": ["[EMAIL_1]"]}})
    chunks = [Chunk("text-delta", text="ok [EMA", id="t"), call, Chunk("text-delta", text="IL_2]", id="t")]
    with begun().process_output_stream(chunks) as left:
        out = list(left)
    assert "".join(chunk.text for chunk in out) == "ok amy@x.io"
    assert next(chunk for chunk in out if chunk.type == "tool-call").payload["args"] == {"to": ("bob@example.com",)}


def test_a_number_that_stands_anywhere_in_the_conversation_is_not_given_out_again() -> None:
    """Not in a tool's arguments or result, nor in one that is read now: its token would get another value."""
    guard = Workflow("w").then(PIIDetector(redaction_method="token"))
    part = ToolPart("c", "look", {"q": "[EMAIL_3]"}, "result", {"mail": "[EMAIL_1]", "more": [{"[PHONE_2]": 1}]})
    messages = [Message.user("Look."), Message.assistant([part]), Message.user("Mail bob@corp.org or +49 30 1234567.")]
    assert guard.check_sync(messages).messages[-1].text == "Mail [EMAIL_4] or [PHONE_3]."
    result = guard.start_sync().process_tool_result("look", {"a": "see [EMAIL_1]", "b": "bob@corp.org"}).result
    assert result == {"a": "see [EMAIL_1]", "b": "[EMAIL_2]"}


def test_a_value_has_one_number_in_all_stages_however_often_it_is_read() -> None:
    """In the input, a tool's result, a stream, and the answer that is read after it."""
    run = Workflow("w").then(PIIDetector(redaction_method="token")).start_sync()
    assert run.process_input([Message.user("I am ann@corp.org.")]).text == "I am [EMAIL_1]."
    value = run.process_tool_result("look", {"a": "bob@corp.org", "b": "ann@corp.org"}).result
    assert value == run.process_tool_result("look", value).result == {"a": "[EMAIL_2]", "b": "[EMAIL_1]"}
    with run.process_output_stream(["Mail ann@co", "rp.org, joe@corp.org, bo", "b@corp.org"]) as chunks:
        said = "".join(chunk.text for chunk in chunks)
    assert said == "Mail [EMAIL_1], [EMAIL_3], [EMAIL_2]"
    assert run.process_output_result(said).text == said
