"""Whether a blocked request leaves one line in the log, and nothing of its text."""

from __future__ import annotations

import logging

import pytest

from penstock import Agent, RegexFilterProcessor, Workflow
from penstock.testing import ScriptedModel

MAIL = "ada@example.com"
GUARD = RegexFilterProcessor(presets=["pii"], strategy="block")


@pytest.mark.parametrize("answer", ["Hello.", f"Write to {MAIL}."])
@pytest.mark.parametrize("question", ["Hi", f"I am {MAIL}."])
def test_a_blocked_request_leaves_one_line(question: str, answer: str, caplog: pytest.LogCaptureFixture) -> None:
    """At INFO, with the workflow, the guard and the stage; a request that passes leaves none."""
    caplog.set_level(logging.INFO)
    result = Agent(ScriptedModel([answer]), processors=[Workflow("inner").then(GUARD)]).generate_sync(question)
    lines = [(record.name, record.levelname) for record in caplog.records]
    assert lines == ([("penstock", "INFO")] if result.blocked else [])
    assert result.blocked == (MAIL in question + answer)
    assert MAIL not in caplog.text
    if result.blocked:
        assert GUARD.id in caplog.text


def test_a_check_leaves_one_line_a_text(caplog: pytest.LogCaptureFixture) -> None:
    """Its reason may quote the text, so it is left out."""
    caplog.set_level(logging.INFO)
    for text in ("Hello.", MAIL, MAIL):
        Workflow("privacy").then(GUARD).check_sync(text)
    assert caplog.messages == [f"privacy: {GUARD.id} blocked in process_input"] * 2
