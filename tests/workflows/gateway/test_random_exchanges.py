"""Random requests and answers of each protocol: no secret passes, none is repeated elsewhere, and nothing fails."""

from __future__ import annotations

import pytest

from penstock import Processor
from tests.workflows.gateway import random_exchanges
from tests.workflows.gateway.random_exchanges import protocols, tried

pytestmark = pytest.mark.rest

COUNT = 150
OURS = ("chat", "completions", "embeddings", "responses")
THEIRS = ("messages", "count_tokens")


@pytest.mark.parametrize("name", [*OURS, *THEIRS])
async def test_no_random_exchange_lets_a_secret_pass(name: str) -> None:
    """A larger count runs by hand: see the module."""
    if name in THEIRS:
        pytest.importorskip("anthropic")
    assert (await tried(name, COUNT, 1)).faults == []


class Blind(Processor):
    """A guard that reads everything and sees nothing."""

    id = "blind"

    def process_output_stream(self, chunk, ctx):
        return chunk

    def process_input(self, ctx):
        return None


@pytest.mark.parametrize("name", OURS)
async def test_without_a_guard_the_secrets_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the law can fail."""
    monkeypatch.setattr(random_exchanges, "REDACTING", Blind())
    made = await tried(name, 60, 1)
    assert len(made.faults) > 30 * (name != "embeddings")
    assert {fault.split()[3] for fault in made.faults} >= {"request:", "answer:"}
    assert set(protocols()) >= set(OURS)
