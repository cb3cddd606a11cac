"""The preset `privacy`: what it hides and from whom, what it puts back, and that it is drawn and run by its name."""

import pytest

from penstock import Agent, Message, Workflow
from penstock.engine.values.errors import OptionError
from penstock.testing import ScriptedModel
from penstock.workflows.batch import is_sync
from penstock.workflows.presets import PRESETS, privacy
from penstock.workflows.presets.hygiene import NOTE

CARD = "4111 1111 1111 1111"
guard = privacy()


def test_personal_data_are_hidden_on_both_ways() -> None:
    """In messages, answers, arguments and results; what stands around them stays."""
    assert guard.check_sync(f"Mail ann@example.com my card {CARD}.").text == "Mail [EMAIL] my card [CREDIT-CARD]."
    assert guard.check_sync("It is ann@example.com.", stage="process_output_step").text == "It is [EMAIL]."
    result = guard.check_sync({"mail": "ann@example.com"}, stage="process_tool_result", tool_name="search").result
    assert dict(result) == {"mail": "[EMAIL]"}


@pytest.mark.parametrize(
    "disguised",
    ["ａｎｎ@ｅｘａｍｐｌｅ.com", "ann@exam\u200bple.com", "ann@exаmple.com", "𝐚𝐧𝐧@example.com"],
    ids=["full-width", "zero-width", "homoglyph", "styled"],
)
def test_a_disguise_hides_nothing_from_it(disguised: str) -> None:
    """The text is brought into shape first."""
    assert guard.check_sync(f"Mail {disguised} today").text == "Mail [EMAIL] today"


def test_the_model_is_told_what_placeholders_mean() -> None:
    """Only where something was hidden."""
    assert [message.text for message in guard.check_sync("I am ann@example.com").message_list.system] == [NOTE]
    assert guard.check_sync("I am Ann.").message_list.system == ()


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_stream_holds_what_the_whole_answer_would(size: int) -> None:
    """However it is cut."""
    answer = f"Write to ann@example.com, or pay with {CARD}. Good luck."
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    with guard.start_sync().process_output_stream(pieces) as chunks:
        text = "".join(chunk.text for chunk in chunks if chunk.type == "text-delta")
    assert text == "Write to [EMAIL], or pay with [CREDIT-CARD]. Good luck."


@pytest.mark.parametrize("strategy", ["block", "filter"])
def test_it_can_stop_the_run_instead(strategy) -> None:
    """Filtering the only message leaves nothing to answer, so it stops the run, too."""
    outcome = privacy(strategy=strategy).check_sync("I am ann@example.com")
    assert outcome.blocked
    assert outcome.text == ""
    assert "ann" not in repr(outcome.tripwire)


def test_a_warning_lets_everything_pass() -> None:
    """And explains no placeholder, for there is none."""
    outcome = privacy(strategy="warn").check_sync("I am ann@example.com")
    assert outcome.text == "I am ann@example.com"
    assert outcome.message_list.system == ()


def test_values_are_put_back_for_the_client_and_for_tools() -> None:
    """The model works on tokens: equal values have equal ones."""
    run = privacy(restore=True).start_sync()
    asked = run.process_input("Mail ann@example.com and bob@example.com, not ann@example.com.")
    assert asked.text == "Mail [EMAIL_1] and [EMAIL_2], not [EMAIL_1]."
    with run.process_output_stream(["I wrote to [EMA", "IL_2], as you", " asked."]) as chunks:
        text = "".join(chunk.text for chunk in chunks if chunk.type == "text-delta")
    assert text == "I wrote to bob@example.com, as you asked."
    called = run.process_tool_call("send", {"to": ["[EMAIL_1]"]})
    assert list(called.arguments["to"]) == ["ann@example.com"]


async def test_what_was_put_back_stays_hidden_from_the_model() -> None:
    """The next model call of the request, and the next request with the answers, have the tokens again."""

    def send(to: str) -> str:
        return f"sent to {to}"

    calls = {"text": "I write to [EMAIL_1].", "tool_calls": [{"name": "send", "args": {"to": "[EMAIL_1]"}}]}
    model = ScriptedModel([calls, "I wrote to [EMAIL_1].", "I did."])
    agent = Agent(model, tools=[send], processors=[privacy(restore=True)])
    done = await agent.generate("Mail ann@example.com")
    assert done.text == "I write to ann@example.com.I wrote to ann@example.com."
    await agent.generate([*done.messages, Message.user("Did you?")])
    assert [str(request.messages).count("ann@") for request in model.requests] == [0, 0, 0]
    assert [str(request.messages).count("[EMAIL_1]") for request in model.requests[:2]] == [1, 4]


def test_only_what_is_redacted_can_be_put_back() -> None:
    """Anything else is refused at once."""
    with pytest.raises(OptionError, match="restore=True"):
        privacy(restore=True, strategy="block")


async def test_a_model_finds_what_has_no_shape() -> None:
    """Without one, asking for it is an error."""
    with pytest.raises(OptionError, match="name"):
        privacy(types=["name"])
    verdict = '{"findings": [{"type": "name", "value": "Ann Lee", "score": 0.9}]}'
    outcome = await privacy(ScriptedModel([verdict]), types=["name"]).check("I am Ann Lee, hello.")
    assert outcome.text == "I am [NAME], hello."


def test_it_is_a_value_like_any_workflow() -> None:
    """Equal options make equal workflows, and they nest."""
    assert privacy() == guard == PRESETS["privacy"]()
    assert privacy(strategy="block") != guard
    assert Workflow("mine").then(guard).check_sync("ann@example.com here").text == "[EMAIL] here"


def test_it_needs_no_event_loop() -> None:
    """Every step is sync without a model."""
    assert all(is_sync(guard, stage) for stage in ("process_input", "process_output_step", "process_tool_call"))


def test_the_command_line_knows_it(run) -> None:
    """By its name."""
    ran = run("run", "privacy", "Write to ann@example.com now")
    assert ran.code == 0
    assert "[EMAIL]" in ran.out
