"""Ctrl-C between two results of a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from penstock.workflows.cli.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _heed_ctrl_c() -> Iterator[None]:
    """Handle Ctrl-C as a process does that was started in a terminal: workers of pytest-xdist ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_result_is_taken_whole_and_the_run_ends_behind_it() -> None:
    """Ctrl-C within it waits for its end."""
    interrupts, taken = Interrupts(), list[str]()

    def take(value: str) -> None:
        signal.raise_signal(signal.SIGINT)
        taken.append(value)

    with interrupts.handled(), pytest.raises(KeyboardInterrupt):
        interrupts.take(take, "row")
    assert taken == ["row"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_one_does_not_wait() -> None:
    """The reader of the output may have stopped reading, so that a result is never written."""
    interrupts, taken = Interrupts(), list[str]()

    def take(value: str) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        taken.append(value)

    with interrupts.handled(), pytest.raises(KeyboardInterrupt):
        interrupts.take(take, "row")
    assert taken == []


def test_between_results_it_comes_at_once() -> None:
    """As without it."""
    with Interrupts().handled(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_caller_stays() -> None:
    """Also in another thread than the main one, where none can be set."""
    caught = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        with Interrupts().handled():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught == [signal.SIGINT]
    handled = list[bool]()

    def handle() -> None:
        with Interrupts().handled():
            handled.append(True)

    thread = threading.Thread(target=handle)
    thread.start()
    thread.join()
    assert handled == [True]
