"""The vocabulary is loaded beside the event loop wherever a hook can wait for it."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import anyio
import pytest
from anyio import to_thread

from penstock import InMemoryStorage, Message, MessageHistory, TokenCostControl, TokenLimiterProcessor, Workflow
from penstock.engine import UsageError
from penstock.models.tokens import BPECounter, Counting, bpe
from penstock.models.tokens.counters import counting
from penstock.processors.budgets import Price


class Vocabulary:
    """Stands for the shipped one. It loads only once the event loop has gone on.

    Attributes:
        threads: in which threads it was loaded.
        goes_on: set by a task of the loop, while another loads.
    """

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.goes_on = threading.Event()

    def load(self) -> Vocabulary:
        """Load it, or give up where nothing goes on."""
        self.threads.append("main" if threading.current_thread() is threading.main_thread() else "worker")
        if not self.goes_on.wait(10):
            raise UsageError("the event loop stands still")
        return self

    def encode_ordinary(self, text: str) -> list[int]:
        """Give a token a word."""
        return [0 for _ in text.split()]


@pytest.fixture
def vocabulary(monkeypatch: pytest.MonkeyPatch) -> Vocabulary:
    """Have none loaded, and none begun to be: as in a process that has just been forked."""
    made = Vocabulary()
    monkeypatch.setattr(bpe, "_loaded", {})
    monkeypatch.setattr(bpe, "_shipped", made.load)
    monkeypatch.setattr(BPECounter, "prepare", lambda _: None)
    return made


async def beside(vocabulary: Vocabulary, work: Any, times: int = 1) -> None:
    """Run the work, and let another task go on meanwhile."""

    async def others() -> None:
        while not vocabulary.threads:
            await anyio.lowlevel.checkpoint()
        vocabulary.goes_on.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(times):
                group.start_soon(work)
            group.start_soon(others)


async def test_who_awaits_it_lets_others_go_on(vocabulary: Vocabulary) -> None:
    """It is loaded once, in a worker thread, for all who wait."""
    counter = Counting(BPECounter())
    await beside(vocabulary, counter.ready, times=100)
    assert vocabulary.threads == ["worker"]
    assert counter.count("one two") == 2
    await counter.ready()
    assert vocabulary.threads == ["worker"]


async def test_who_waits_in_vain_is_told(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """As who counts is; and the next one tries again."""

    def gone() -> None:
        raise UsageError("the vocabulary is damaged")

    monkeypatch.setattr(bpe, "_shipped", gone)
    with pytest.raises(UsageError, match="damaged"):
        await BPECounter().ready()
    monkeypatch.setattr(bpe, "_shipped", vocabulary.load)
    await beside(vocabulary, BPECounter().ready)


async def test_who_is_cancelled_does_not_wait(vocabulary: Vocabulary) -> None:
    """The thread goes on, for others."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(BPECounter().ready)
            while not vocabulary.threads:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert not vocabulary.goes_on.is_set()
        vocabulary.goes_on.set()
        await BPECounter().ready()
    assert vocabulary.threads == ["worker"]


async def test_counters_that_load_nothing_need_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is ready as it is."""
    monkeypatch.setattr(to_thread, "run_sync", None)
    await counting("test", len, "o200k_base").ready()
    await counting("test", "heuristic", "o200k_base").ready()


async def told(*_: object) -> None:
    """Wait, as a callback may."""


async def ask(*_: object) -> bool:
    """Agree."""
    return True


def history() -> MessageHistory:
    """Return a history within a number of tokens."""
    return MessageHistory(InMemoryStorage(), max_tokens=100)


def limiter() -> TokenLimiterProcessor:
    """Return a limiter whose hooks wait."""
    return TokenLimiterProcessor(100, on_trim=told, scope="history")


def control() -> TokenCostControl:
    """Return a control whose hooks wait."""
    prices = {"test/one": Price(input=Decimal(1), output=Decimal(1))}
    return TokenCostControl(10, scope="run", prices=prices, strategy="ask", ask=ask)


@pytest.mark.parametrize("make", [history, limiter, control])
async def test_hooks_that_wait_load_it_beside_the_loop(vocabulary: Vocabulary, make: Any) -> None:
    """Other requests go on."""
    made = make()
    if isinstance(made, MessageHistory):
        await made.storage.save_messages([Message.user("Hi", id="m", thread_id="t", resource_id="r")])

    async def request() -> None:
        run = Workflow("w").then(made).start(request_context={"thread_id": "t", "resource_id": "r"})
        async with run:
            await run.process_input("one two three")
            await run.process_input_step(model="test/one")

    await beside(vocabulary, request)
    assert vocabulary.threads == ["worker"]
