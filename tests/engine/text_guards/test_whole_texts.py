"""Processors that work on all texts of a stage: where they look, how they show themselves, and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Edit, Message, OptionError, TextGuard, TextPart, ToolPart, Workflow
from penstock.engine import DataPart
from penstock.engine.text_guards.scope import choose_texts
from penstock.engine.values.frozen import freeze
from penstock.testing import run_stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.scope import Phase
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.texts import TextPlace


class Hider(TextGuard):
    """Hides a word."""

    def __init__(
        self,
        word: str = "secret",
        *,
        phase: Phase = "all",
        parts: Any = None,
        history: bool = False,
        system: Any = "none",
        id: str | None = None,
    ) -> None:
        self.word = word
        choose_texts(self, phase, parts, history=history, system=system, usual="allow")
        self.stages = tuple(stage for stage in self.stages or () if stage != "process_output_stream")
        if id is not None:
            self.id = id

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Hide it."""
        found = ((text, text.text.find(self.word)) for text in texts if not text.fixed)
        return {text.place: (Edit(at, at + len(self.word), "***"),) for text, at in found if at >= 0}


class Finder(TextGuard):
    """Hides a word, wherever it begins and ends."""

    reach = 6

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        """Return where it stands."""
        return [Edit(found.start(), found.end(), "***") for found in re.finditer("secret", text)]


@pytest.mark.parametrize(
    ("stage", "given"),
    [
        ("process_input", [Message.user("my secret")]),
        ("process_input_step", [Message.user("my secret")]),
        ("process_output_step", [Message.assistant("my secret")]),
        ("process_output_result", [Message.assistant("my secret")]),
        ("process_tool_call", {"my": "secret"}),
        ("process_tool_result", {"my": "secret"}),
    ],
)
def test_texts_are_found_wherever_a_stage_has_them(stage: str, given: Any) -> None:
    """In messages, in what tools are called with, and in what they answer."""
    outcome = run_stage(Hider(history=True), stage, given)
    if stage.startswith("process_tool"):
        assert dict(outcome.arguments if stage == "process_tool_call" else outcome.result) == {"my": "***"}
    else:
        assert [message.text for message in outcome.messages] == ["my ***"]
    assert [record.status for record in outcome.records] == ["edited"]


def test_a_processor_is_for_the_phase_and_the_parts_that_are_chosen() -> None:
    """Who looks at no tools has no tools' stages; one part may be named by itself."""
    assert Hider(phase="input", parts="text").stages == ("process_input",)
    assert Hider(phase="input").stages == ("process_input", "process_tool_result")
    message = Message("user", (TextPart("secret"), DataPart("note", {"a": "secret"})))
    outcome = run_stage(Hider(parts=["data", "data"]), "process_input", [message])
    assert outcome.messages[0].parts == (TextPart("secret"), DataPart("note", {"a": "***"}))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"phase": "output", "history": True}, "'input' or 'all' where history=True or system='all' is set"),
        ({"phase": "output", "system": "all"}, "'input' or 'all'"),
        ({"phase": "always"}, "'phase'"),
        ({"parts": []}, "one or more of"),
        ({"parts": ["picture"]}, "'parts'"),
        ({"history": "yes"}, "True or False"),
        ({"system": True}, "client"),
    ],
)
def test_where_it_is_to_look_is_checked_when_it_is_made(options: dict[str, Any], told: str) -> None:
    """The error names the option and what is allowed."""
    with pytest.raises(OptionError, match=told):
        Hider(**options)


def test_a_processor_shows_the_options_that_differ_from_its_defaults() -> None:
    """And the id, if somebody gave one."""
    assert repr(Hider()) == "Hider()"
    assert repr(Hider("word", phase="input", id="mine")) == "Hider(id='mine', word='word', phase='input')"


def test_a_state_of_ones_own_needs_no_room_for_what_is_settled() -> None:
    """Where it is no mapping, messages are looked at anew."""

    class Counts(Hider):
        """Counts what it is shown, in a state that is no mapping."""

        def new_state(self) -> Any:
            """Return a list."""
            return []

        async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
            """Count."""
            ctx.state.append(len(texts))
            ctx.note(seen=tuple(ctx.state))
            return {}

    run = Workflow("w").then(Counts(history=True)).start_sync(records=True)
    run.process_input("hi")
    run.process_input_step()
    assert [record.details["seen"] for record in run.records] == [(1,), (1, 1)]


def test_a_call_and_its_result_are_texts_of_an_answer() -> None:
    """Each string of them, keys included."""
    answer = Message("assistant", (ToolPart("c", "web", {"secret": "x"}, state="result", result=["a secret"]),))
    outcome = run_stage(Hider(), "process_output_step", [answer])
    (part,) = outcome.messages[0].parts
    assert isinstance(part, ToolPart)
    assert (dict(part.arguments), part.result) == ({"***": "x"}, ("a ***",))


def block(text: str) -> dict[str, str]:
    """Return a text block."""
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("result", "left"),
    [
        ([block("my sec"), block("ret x")], ["my ***", " x"]),
        ([block("s"), {"type": "image", "data": "x"}, block("ecre"), block(""), block("t")], ["***", "", "", ""]),
        ([block("a secret"), block("b")], ["a ***", "b"]),
        ([{"text": "my sec", "type": "text"}, {"text": "ret x", "type": "text"}], ["my ***", " x"]),
        ([{"text": "my sec"}, {"text": "ret"}], ["my sec", "ret"]),
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_text_blocks_of_a_result_are_read_as_one(result: Any, left: list[str], deep: bool) -> None:
    """A model reads them so. Other values of a list are read each by itself."""
    outcome = run_stage(Finder(), "process_tool_result", {"content": result} if deep else result)
    blocks = outcome.result["content"] if deep else outcome.result
    assert [each["text"] for each in blocks if "text" in each] == left


def test_text_blocks_of_two_lists_are_not_read_as_one() -> None:
    """Nor those of two results in one message."""
    apart = {"a": [block("sec")], "b": [block("ret")]}
    assert run_stage(Finder(), "process_tool_result", apart).result == freeze(apart)
    parts = [ToolPart(id, "f", {}, state="result", result=[block(text)]) for id, text in (("1", "sec"), ("2", "ret"))]
    message = Message("tool", tuple(parts))
    assert run_stage(Finder(), "process_input", [message]).messages[0].parts == message.parts
    one = Message("tool", (ToolPart("1", "f", {}, state="result", result=[block("sec"), block("ret")]),))
    left: Any = run_stage(Finder(), "process_input", [one]).messages[0].parts[0]
    assert left.result == (block("***"), block(""))
