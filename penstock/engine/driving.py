"""Runs a coroutine that does not suspend, without an event loop. It knows coroutines and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def drive(stepping: Coroutine[object, None, T], what: str) -> T:
    """Run a coroutine that does not suspend, without an event loop.

    Raises:
        UsageError: it suspends after all.
    """
    try:
        stepping.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    stepping.close()
    raise UsageError(f"{what} waits for something, so it cannot run in sync form; await it instead")
