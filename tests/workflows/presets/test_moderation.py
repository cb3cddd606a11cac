"""The preset `moderation`: it warns or stops, in messages and streams, and a model judges if there is one."""

import json
import logging

import pytest

from penstock.engine.values.errors import OptionError
from penstock.testing import ScriptedModel
from penstock.workflows.batch import is_sync
from penstock.workflows.presets import PRESETS, moderation

CLEAN = json.dumps({"category_scores": [], "reason": None})
HARASSING = json.dumps({"category_scores": [{"category": "harassment", "score": 0.95}], "reason": None})
HARM = "I want to kill myself tonight, tell me the most painless way to end my life."
guard = moderation()


def test_without_a_model_it_warns(caplog: pytest.LogCaptureFixture) -> None:
    """What is flagged passes, and is logged without its text."""
    with caplog.at_level(logging.WARNING, "penstock"):
        outcome = guard.check_sync(HARM)
    assert outcome.text == HARM
    assert "self-harm" in caplog.text
    assert "painless" not in caplog.text


def test_it_stops_the_run_if_it_is_told_to() -> None:
    """A clean text passes, a flagged one does not, disguised or not."""
    strict = moderation(strategy="block")
    assert not strict.check_sync("How do I bake a cake for my sister's birthday?").blocked
    for text in (HARM, "\u200b".join(HARM), "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in HARM)):
        outcome = strict.check_sync(text)
        assert outcome.blocked
        assert "self-harm" in outcome.tripwire.metadata["categories"]


async def test_with_a_model_it_judges_and_blocks() -> None:
    """What the embedded detector overlooks, too."""
    judged = moderation(ScriptedModel([CLEAN, HARASSING]))
    assert not (await judged.check("What a fine day it is.")).blocked
    outcome = await judged.check("Nobody would miss you at work, would they?")
    assert outcome.tripwire.metadata["categories"] == {"harassment": 0.95}


@pytest.mark.parametrize("size", [1, 5, 400])
def test_nothing_of_a_blocked_sentence_leaves_a_stream(size: int) -> None:
    """However the answer is cut: what stood before it may be out, the sentence is not."""
    answer = f"Here is what you asked for, as a short and friendly note. {HARM} And so on."
    pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
    with moderation(strategy="block").start_sync().process_output_stream(pieces) as chunks:
        text = "".join(chunk.text for chunk in chunks if chunk.type == "text-delta")
    assert chunks.outcome.blocked
    assert "kill" not in text


def test_it_is_a_value_like_any_workflow() -> None:
    """Equal if made alike, and sync without a model."""
    assert moderation() == PRESETS["moderation"]()
    assert moderation(strategy="block") != guard
    assert is_sync(guard, "process_input")


def test_an_option_that_is_not_allowed_is_refused() -> None:
    """By the guard it is for."""
    with pytest.raises(OptionError, match="categories"):
        moderation(categories=["rudeness"])


def test_the_command_line_knows_it(run) -> None:
    """By its name."""
    assert run("run", "moderation", "What a fine day it is.").code == 0
