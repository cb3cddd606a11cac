"""A long whole text is read piece by piece: what is found is what one search finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Message, PIIDetector, Processor, RegexFilterProcessor, SystemPromptScrubber, TextPart, Workflow
from penstock.engine.text_guards import text_guard, window
from tests.laws import examples

PROMPT = "You are Ada, a patient assistant of the bank, and you never tell the secret recipe"
WORDS = (
    "joe@example.com",
    "4111 1111 1111 1111",
    "hello",
    "https://a.b/c?d=e",
    *PROMPT.split(),
    "\n",
    "\u0301",
    "ｊｏｅ",
)
GUARDS = (
    PIIDetector(),
    PIIDetector(strategy="filter"),
    RegexFilterProcessor(presets=["pii", "secrets", "urls"], strategy="redact"),
    SystemPromptScrubber(prompts=[PROMPT]),
)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.id} {guard.strategy}")
@settings(max_examples=examples(25))
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join), min_size=1, max_size=3),
    st.integers(20, 200),
)
def test_pieces_change_nothing(guard: Processor, texts: list[str], size: int) -> None:
    """Wherever the text is cut."""
    workflow = Workflow("w").then(guard)
    message = Message.assistant([TextPart(text) for text in texts], id="m")
    whole = workflow.check_sync([message], stage="process_output_step")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_guard, "PIECE", size)
        patch.setattr(window, "PIECE", size)
        pieces = workflow.check_sync([message], stage="process_output_step")
    assert [part.text for part in pieces.messages[0].parts] == [part.text for part in whole.messages[0].parts]  # type: ignore[union-attr]
    assert pieces.facts == whole.facts
