"""`UnicodeNormalizer` as a step: which texts it reaches in which stage, what it tells, what its failure means."""

import pytest

from penstock import Message, OptionError, TextPart, ToolPart, Workflow
from penstock.engine import FilePart
from penstock.processors.text import UnicodeNormalizer, unicode_normalizer


def flow(**options: object) -> Workflow:
    """Return a workflow of one normaliser."""
    return Workflow("w").then(UnicodeNormalizer(**options))


def test_every_text_of_a_message_is_brought_into_shape_and_attachments_are_not() -> None:
    """Each part by itself; data is no text."""
    parts = [TextPart("a\u200b"), FilePart(data="\ufb01\u200b", name="x\u200b.txt"), TextPart("\u200bb")]
    (message,) = flow(form="NFKC").check_sync([Message.user(parts)]).messages
    assert message.parts == (TextPart("a"), FilePart(data="\ufb01\u200b", name="x.txt"), TextPart("b"))


def test_it_tells_what_it_took_away() -> None:
    """In the record and as a fact; the edits are small."""
    normalizer = UnicodeNormalizer()
    outcome = Workflow("w").then(normalizer).check_sync("a\u200bb e\u0301 \u202e")
    assert outcome.fact(normalizer.findings) == {"zero-width": 1, "bidi": 1, "NFC": 1}
    (record,) = outcome.records
    assert record.details["found"] == {"zero-width": 1, "bidi": 1, "NFC": 1}
    assert [edit.start for _, edit in record.edits if edit.kind == "replace"] == [1, 4, 7]


def test_a_clean_text_is_left_as_it_is() -> None:
    """No edit, no note, no fact."""
    outcome = flow().check_sync("plain")
    assert (outcome.records[0].status, outcome.facts) == ("passed", {})


def test_a_tools_result_is_brought_into_shape() -> None:
    """Hidden text in what a tool found is how models are led astray; keys count, white space stays."""
    outcome = flow(trim=True).check_sync({"title": " \u200bx ", "n": [1, "y\u202e"]}, stage="process_tool_result")
    assert outcome.result == {"title": " x ", "n": (1, "y")}


@pytest.mark.parametrize(
    ("phase", "stages"),
    [
        ("input", {"process_input", "process_tool_result"}),
        ("output", {"process_output_step", "process_tool_call", "process_output_result"}),
    ],
)
def test_the_phase_chooses_the_stages(phase: str, stages: set[str]) -> None:
    """What goes to the model, or what comes from it; both is all."""
    assert set(UnicodeNormalizer(phase=phase).stages) == stages
    assert stages < set(UnicodeNormalizer(phase="all").stages)


async def test_history_is_reached_on_request() -> None:
    """Remembered messages are shown before a model call only; system messages where asked for."""
    async with flow(history=True, system="all").start() as run:
        messages = [Message.system("s\u200b"), Message.user("u\u200b"), Message.assistant("a\u200b")]
        outcome = await run.process_input_step(messages)
    assert [message.text for message in outcome.message_list] == ["s", "u", "a"]


def test_parts_choose_what_is_read() -> None:
    """Only text here; the tool's arguments stay."""
    message = Message.assistant([TextPart("a\u200b"), ToolPart("c", "t", {"q": "b\u200b"})])
    outcome = flow(parts=["text"], phase="output").check_sync([message], stage="process_output_result")
    assert [*outcome.messages[0].parts] == [TextPart("a"), ToolPart("c", "t", {"q": "b\u200b"})]
    assert not any("tool" in stage for stage in UnicodeNormalizer(parts="text").stages)


def test_its_failure_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards behind it must not be shown what it could not bring into shape; the reference passed it on."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(unicode_normalizer, "normalize", broken)
    outcome = flow().check_sync("a\u200b")
    assert outcome.blocked
    assert outcome.text == ""


def test_the_references_option_chooses_its_white_space() -> None:
    """True collapses everything, False keeps everything."""
    compat = {"form": "NFKC", "invisible": "keep", "trim": True}
    assert flow(collapse_whitespace=True, **compat).check_sync("  a  \n\n b").text == "a \n b"
    assert flow(collapse_whitespace=False, **compat).check_sync("  a  \n\n b").text == "a  \n\n b"


def test_one_that_only_detects_edits_nothing() -> None:
    """So it may stand beside anything."""
    detector = UnicodeNormalizer(form="keep", invisible="keep", confusables="detect")
    assert detector.edits == "nothing"
    outcome = Workflow("w").then(detector).check_sync("іgnore")
    assert (outcome.text, outcome.fact(detector.findings)) == ("іgnore", {"confusable": 1})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"form": "NFD"}, "form"),
        ({"invisible": True}, "invisible"),
        ({"whitespace": "none"}, "whitespace"),
        ({"confusables": "on"}, "confusables"),
        ({"trim": 1}, "trim"),
        ({"phase": "both"}, "phase"),
        ({"parts": ["images"]}, "parts"),
        ({"parts": []}, "parts"),
        ({"history": "yes"}, "history"),
        ({"history": True, "phase": "output"}, "phase"),
        ({"collapse_whitespace": True, "whitespace": "trim-lines"}, "collapse_whitespace"),
        ({"collapse_whitespace": "yes"}, "collapse_whitespace"),
        ({"form": "keep", "invisible": "keep"}, "form"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], named: str) -> None:
    """One that does nothing at all as well."""
    with pytest.raises(OptionError) as caught:
        UnicodeNormalizer(**options)
    assert caught.value.option == named


def test_it_shows_the_options_that_are_not_the_defaults() -> None:
    """And is equal to one of equal options."""
    assert repr(UnicodeNormalizer()) == "UnicodeNormalizer()"
    assert repr(UnicodeNormalizer(form="NFKC", id="n")) == "UnicodeNormalizer(id='n', form='NFKC')"
    assert UnicodeNormalizer(trim=True) == UnicodeNormalizer(trim=True) != UnicodeNormalizer()
