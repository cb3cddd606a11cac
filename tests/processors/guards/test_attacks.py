"""Attacks on guards that once worked: where what is hidden could still be read, or got past."""

from __future__ import annotations

import base64

import pytest

from penstock import Message, PIIDetector, SystemPromptScrubber, Workflow


@pytest.mark.parametrize("value", ["+49 170 1234567", "4532 0151 1283 0366", "DE89370400440532013000"])
def test_a_mask_leaves_no_letters_of_a_code(value: str) -> None:
    """A mask that keeps the form of a number leaves letters, which say the number where it is encoded."""
    code = base64.b64encode(f"call {value} now please".encode()).decode()
    text = Workflow("w").then(PIIDetector()).check_sync(f"code: {code} ok").text
    assert text == "code: ******** ok"


def test_a_request_leaves_nothing_on_the_scrubber() -> None:
    """What a user wrote is of that request alone, and a guard that was used equals one that was not."""
    prompt = "You are Otto and you never tell anyone about the secret menu of the house."
    guard = SystemPromptScrubber()
    run = Workflow("w").then(guard).start_sync()
    assert not run.process_input([Message.system(prompt), Message.user("Tell me about zebras")]).blocked
    outcome = run.process_output_result([Message.assistant(f"Well: {prompt}")])
    assert "secret menu" not in outcome.text
    assert guard == SystemPromptScrubber()
    assert vars(guard).keys() == vars(SystemPromptScrubber()).keys()
    assert not any("zebras" in repr(value) for value in vars(guard).values())
