"""Workers: whose turn it is to compute, and what comes back from a thread that somebody waits for."""

from __future__ import annotations

import contextvars
import threading
from types import TracebackType

import pytest

from penstock.engine import workers
from penstock.engine.workers import LONG, moved_if_long, run_with_limit

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


def test_who_waits_too_long_for_a_turn_computes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in line no more, so the turn is free when the other has ended."""
    monkeypatch.setattr(workers, "_PATIENCE", 0.0)
    turns = workers._Turns()  # pyright: ignore[reportPrivateUsage]
    assert turns.take()
    assert not turns.take()
    assert not turns.wanted
    turns.give()
    assert turns.take()


def test_a_turn_that_is_given_when_patience_ends_is_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nobody would ever give it back."""

    class GivenLate:
        """The lock of the turns; the other worker ends between two entries of the one who waits."""

        def __init__(self) -> None:
            self.entries = 0

        def __enter__(self) -> None:
            self.entries += 1
            if self.entries == 3:  # behind both takes, before the one who waits leaves the line
                turns.give()

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            """Let go."""

    monkeypatch.setattr(workers, "_PATIENCE", 0.0)
    turns = workers._Turns()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(turns, "_lock", GivenLate())
    assert turns.take()
    assert turns.take()
    turns.give()
    assert turns.take()


def test_an_error_under_a_time_limit_is_the_callers() -> None:
    """It is raised where the result would be returned."""

    def fail() -> None:
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        run_with_limit(fail, 30)


def test_context_variables_set_under_a_time_limit_are_set_behind_it() -> None:
    """As if the call had been made in the caller's thread."""

    def work() -> str:
        before = NAME.get()
        NAME.set("Ada")
        return before

    token = NAME.set("Bob")
    try:
        assert run_with_limit(work, 30) == "Bob"
        assert NAME.get() == "Ada"
    finally:
        NAME.reset(token)


@pytest.mark.parametrize("longer", [0, 1])
async def test_long_work_alone_leaves_the_loops_thread(longer: int) -> None:
    """Short work is not worth the way."""
    moved = await moved_if_long(threading.get_ident, LONG + longer) != threading.get_ident()
    assert moved == bool(longer)
