"""What a provider says about an answer may repeat it: it is told as the guards let it leave."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from penstock import Agent, Chunk, OutputResultContext, PIIDetector, processor
from penstock.engine import ModelRequest
from penstock.engine.run.held_answers import Release

pytestmark = pytest.mark.anyio

SECRET = "joe@example.com"


class Repeats:
    """A model whose end repeats its answer, as log probabilities do."""

    name = "repeats"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Say a secret, and once more."""
        yield Chunk("response-metadata", payload={"id": "r1", "model": "m", "created": 0})
        yield Chunk("text-delta", f"Ask {SECRET} now", "t")
        yield Chunk("finish", payload={"reason": "stop", "metadata": {"logprobs": [f"Ask {SECRET} now"]}})


@pytest.mark.parametrize("release", ["auto", "live", "step", "result"])
async def test_what_is_redacted_in_the_answer_is_in_no_metadata(release: Release) -> None:
    """Of its steps, and of the last response; names stay."""
    result = await Agent(Repeats(), processors=[PIIDetector(strategy="redact")], release=release).generate("Hi")
    assert SECRET not in repr((result.text, result.steps, result.response, result.messages))
    assert result.response.id == "r1"


async def test_what_is_blocked_at_the_end_leaves_no_metadata() -> None:
    """Though its chunks were out."""

    @processor
    def guard(ctx: OutputResultContext) -> None:
        ctx.abort("no")

    result = await Agent(Repeats(), processors=[guard], release="live").generate("Hi")
    assert SECRET not in repr((result.steps, result.response))
