"""Processors that trip or break on a sign in the text, in every way a processor can; they know no graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import anyio

from penstock import Chunk, Edit, Key, Processor
from penstock.engine.text_guards.text_guard import TextGuard

SIGN = "@"
FACT = Key[str]("fact")


def abort(ctx: Any) -> None:
    """Trip."""
    ctx.abort("it was tripped")


def swallowed(ctx: Any) -> None:
    """Trip, and go on as if nothing were."""
    with contextlib.suppress(BaseException):
        ctx.abort("it was tripped")


def grouped(ctx: Any) -> None:
    """Trip, in a group of errors."""
    try:
        ctx.abort("it was tripped")
    except BaseException as error:  # noqa: BLE001 - whatever it is, it goes into the group
        raise BaseExceptionGroup("a group", [error, ValueError("beside it")]) from None


def replaced(ctx: Any) -> None:
    """Trip, and raise something else."""
    try:
        ctx.abort("it was tripped")
    except BaseException:  # noqa: BLE001 - that is the point
        raise ValueError("something else") from None


def raised(ctx: Any) -> None:
    """Break."""
    raise ValueError(f"the text was {SIGN}secret")


def listed(ctx: Any) -> None:
    """Derive a list, which a stream takes from nobody."""
    ctx.message_list.add("a message")


TRIPS: dict[str, Callable[[Any], None]] = {
    "abort": abort,
    "swallowed": swallowed,
    "grouped": grouped,
    "replaced": replaced,
}
BREAKS: dict[str, Callable[[Any], None]] = {"raised": raised, "listed": listed}


class BreakingGuard(TextGuard):
    """Trips or breaks at the sign; with ``final_only`` not before the text ends."""

    on_error: Any = "block"
    provides = FACT

    def __init__(self, act: Callable[[Any], None], *, final_only: bool = False) -> None:
        self.id = "breaking"
        self.act_so = act
        self.final_only = final_only
        self.calls = 0

    def hold(self, text: str, start: int) -> int:
        """Hold seven characters, or all."""
        return start if self.final_only else max(start, len(text) - 7)

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Do it."""
        self.calls += 1
        if SIGN in text and (final or not self.final_only):
            ctx.put(FACT, "told")
            self.act_so(ctx)
        return [Edit(at, at + 6, "***", "redact") for at in _finds(text, "secret")]


class AsyncBreakingGuard(BreakingGuard):
    """Does so behind a checkpoint."""

    async def find(self, text: str, ctx: Any, *, final: bool) -> Any:  # type: ignore[override]
        """Wait a turn, and do it."""
        await anyio.lowlevel.checkpoint()
        return super().find(text, ctx, final=final)


class WrongGuard(TextGuard):
    """Returns at the sign what it may not."""

    reach = 8

    def __init__(self, wrong: Any) -> None:
        self.id = "breaking"
        self.wrong = wrong

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Return it."""
        return self.wrong(text) if SIGN in text else None


WRONG: dict[str, Callable[[str], Any]] = {
    "a str": lambda text: "nothing found",
    "a number": lambda text: 7,
    "a mapping": lambda text: {"start": 1},
    "beyond the text": lambda text: [Edit(text.find(SIGN), 10_000, "*", "redact")],
    "overlapping words": lambda text: [
        Edit(text.find(SIGN), text.find(SIGN) + 3, "a", "replace"),
        Edit(text.find(SIGN) + 1, text.find(SIGN) + 4, "b", "replace"),
    ],
}


class HangingGuard(TextGuard):
    """Never comes back once it sees the sign; before, it may trip, and not tell."""

    reach = 8

    def __init__(self, *, trips: bool = False, hangs: Callable[[], None] = lambda: None) -> None:
        self.id = "breaking"
        self.trips = trips
        self.hangs = hangs

    async def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Hang."""
        if SIGN in text:
            if self.trips:
                swallowed(ctx)
            self.hangs()
            await anyio.Event().wait()


class HoldingGuard(TextGuard):
    """Wants to hold more than it may, once it sees the sign."""

    max_hold = 4

    def __init__(self) -> None:
        self.id = "breaking"

    def find(self, text: str, ctx: Any, *, final: bool) -> None:
        """Find nothing."""

    def hold(self, text: str, start: int) -> int:
        """Hold all from the sign on."""
        return max(start, text.find(SIGN)) if SIGN in text else len(text)


class BreakingHook(Processor):
    """Trips or breaks at the chunk with the sign; ``at`` says in which of its methods."""

    role = "guard"
    on_error: Any = "block"
    provides = FACT

    def __init__(self, act: Callable[[Any], None], at: str = "hook") -> None:
        self.id = "breaking"
        self.act_so = act
        self.at = at
        self.seen = False
        self.flushes = 0

    def process_output_stream(self, chunk: Chunk, ctx: Any) -> Chunk:
        """Do it, or note that it is to be done."""
        if SIGN in chunk.text:
            self.seen = True
            if self.at == "hook":
                ctx.put(FACT, "told")
                self.act_so(ctx)
        return chunk

    def flush(self, ctx: Any) -> Chunk | None:
        """Do it, if it is to be done here."""
        self.flushes += 1
        if self.seen and self.at == "flush":
            ctx.put(FACT, "told")
            self.act_so(ctx)
        return None


class WrongHook(Processor):
    """Returns at the sign what it may not."""

    role = "guard"
    on_error: Any = "block"

    def __init__(self, wrong: Any) -> None:
        self.id = "breaking"
        self.wrong = wrong

    def process_output_stream(self, chunk: Chunk, ctx: Any) -> Any:
        """Return it."""
        return self.wrong if SIGN in chunk.text else chunk


def _finds(text: str, word: str) -> Iterable[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
