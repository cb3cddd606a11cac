"""Streams of whole answers: every guard, rows and groups of guards; see `tests.processors.guards.answers`."""

from __future__ import annotations

import pytest

from penstock import Message, PIIDetector, Workflow
from tests.laws import seeds
from tests.processors.guards.answers import differences
from tests.processors.guards.cases import CASES, GROUPS, TWINS
from tests.processors.guards.invariance import Case

SEEDS = seeds([range(11, 12), range(12, 13)])


@pytest.mark.parametrize("numbers", SEEDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_answer_leaves_a_stream_as_it_leaves_whole(case: Case, numbers: range) -> None:
    """Its texts, thoughts, calls while they are written, results, sources and files."""
    assert await differences(Workflow("w").then(case.make()), numbers) == []


@pytest.mark.parametrize("numbers", SEEDS)
@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.rest
async def test_an_answer_leaves_guards_together_as_it_leaves_whole(name: str, numbers: range) -> None:
    """In a row, beside each other, in branches; of what one of them blocks, what is before it leaves at most."""
    assert await differences(GROUPS[name], numbers, twin=TWINS[name]) == []


async def test_tokens_that_an_answer_invents_change_no_numbers() -> None:
    """A stream has not seen those that are still to come."""
    workflow = Workflow("w").then(PIIDetector(redaction_method="token"))
    text = "I mailed ann@example.org, and wrote [EMAIL_1] into the book."
    whole = await workflow.start().process_output_result([Message.assistant(text)])
    async with workflow.start().process_output_stream([text[:30], text[30:]]) as chunks:
        streamed = "".join([chunk.text async for chunk in chunks])

    assert streamed == whole.messages[0].text == "I mailed [EMAIL_1], and wrote [EMAIL_1] into the book."
