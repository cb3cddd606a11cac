"""Tracks: steps at work on one text of a stream. Each is fed text and says what is decided of it.

A track knows its step and the text, no chunk's way. It lives as long as the text; a step that failed is out so long.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Protocol

from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.streams.deltas import Delta, shifted, uncut
from penstock.engine.text_guards.guard import crosses
from penstock.engine.text_guards.window import Hit, Spot, TextWindow, moved
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.edits import stamp
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.graph.plan import HookCall
    from penstock.engine.streams.steps import StreamStep
    from penstock.engine.text_guards.guard import TextGuard
    from penstock.engine.text_guards.window import Found
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value


_TRIM = 512  # context is forgotten in pieces of this size: cutting costs


class Span:
    """A window that moves over a text. Lives as long as the text.

    Attributes:
        base: how many characters of the text stand before it.
        kind: the kind of part that the text stands in.
    """

    __slots__ = ("_begins", "_fresh", "_held", "_notes", "_start", "_text", "base", "kind")

    def __init__(self, kind: str, base: int = 0) -> None:
        self.kind = kind
        self.base = base
        self._text = ""
        self._start = 0
        self._begins = True
        self._notes: dict[str, Value] = {}
        self._fresh = self._held = 0

    def copy(self) -> Span:
        """Return one like it, to go on by itself."""
        made = Span(self.kind, self.base)
        made._text, made._start, made._begins = self._text, self._start, self._begins
        made._notes = deepcopy(self._notes)
        return made

    def add(self, text: str) -> None:
        """Take in more of the text."""
        self._text += text
        self._fresh += len(text)

    @property
    def due(self) -> bool:
        """Whether enough is new to look again: an eighth of what was held, so that looking stays linear."""
        return self._fresh > 0 and self._fresh >= self._held >> 3

    @property
    def until(self) -> int:
        """Up to where the text is decided."""
        return self.base + self._start

    def window(self, *, final: bool, spots: Sequence[Spot]) -> TextWindow:
        """Return it as a guard is to see it."""
        self._fresh = 0
        return TextWindow(
            self._text, self._start, self.base, self._begins, final, self.kind, notes=self._notes, spots=spots
        )

    def decide(self, until: int, lookback: int) -> None:
        """Move on: what stands before a place of the window is decided; what is no longer looked back at, forgotten."""
        self._start = until
        self._held = len(self._text) - self._start
        cut = self._start - lookback
        if cut > _TRIM:
            self._text = self._text[cut:]
            self._start -= cut
            self.base += cut
            self._begins = False


class Track(Protocol):
    """What a graph, or a part of one, does with one text."""

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Take in more of the text; ``final``: and there is no more. Return what is decided now."""
        ...

    async def border(self) -> None:
        """Note that a neighbouring part of the message begins here: it is read by itself, and as one with the last."""
        ...


class GuardTrack:
    """A `TextGuard` at work on one text, or on neighbouring ones, which it reads each by itself and as one."""

    __slots__ = (
        "_borders",
        "_fed",
        "_found",
        "_guard",
        "_held",
        "_joined",
        "_out",
        "_own",
        "_scan",
        "_spots",
        "_step",
        "_told",
        "_waits",
    )

    def __init__(self, step: StreamStep, guard: TextGuard, scan: HookCall, kind: str, *, waits: bool) -> None:
        self._step = step
        self._guard = guard
        self._scan = scan
        self._waits = waits
        self._own = Span(kind)
        self._joined: Span | None = None  # where neighbours are read as one
        self._borders: list[int] = []
        self._spots: list[Spot] = [Spot(0, TextPlace("", 0))]
        self._found: list[Found] = []  # decided by one reading, not acted on; counted from the text's beginning
        self._held = ""
        self._fed = self._told = 0
        self._out = False

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Take in more of the text; return what is decided now."""
        self._fed += len(text)
        if self._out:
            return Delta((), self._fed)
        self._held += text
        self._own.add(text)
        if self._joined is not None:
            self._joined.add(text)
        if not final and not self._own.due:
            return Delta((), self._decided())
        try:
            return Delta(await self._looked(final=final), self._decided())
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            return self._failed(error)

    async def border(self) -> None:
        """Note that a neighbour begins: for itself, the text before ends here; read as one, it goes on."""
        if self._out:
            return
        if not self._guard.apart:
            self._spots.append(Spot(self._fed, TextPlace("", len(self._spots))))
            return
        if self._joined is None:
            self._joined = self._own.copy()
        try:
            await self._look(self._own, final=True)
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            self._failed(error)
            return
        self._own = Span(self._own.kind, self._fed)
        self._borders.append(self._fed)
        self._spots.append(Spot(self._fed, TextPlace("", len(self._spots))))

    def _failed(self, error: BaseException) -> Delta:
        """Be out for the text, if the step's policy lets it pass: all that was held is let go."""
        self._step.broke(error)
        self._out = True
        return Delta((), self._fed)

    def _decided(self) -> int:
        """Return up to where the text is decided: for one who only watches, all of it, as soon as it is there."""
        return self._fed if self._step.step.role == "observer" else self._told

    async def _looked(self, *, final: bool) -> Edits:
        """Look at what is new, act on what both readings have decided, and move on; return the edits."""
        await self._look(self._own, final=final)
        until = self._own.until
        if self._joined is not None:
            await self._look(self._joined, final=final, across=True)
            until = min(until, self._joined.until)
        if self._guard.min_hold and not final:
            until = max(self._told, min(until, self._fed - self._guard.min_hold))
        until = uncut(self._found, until)
        if self._fed - until > self._guard.max_hold:
            raise WrongReturnError(f"it would hold back more than {self._guard.max_hold} characters of the stream")
        edits = self._settled(until, final=final) if self._found else ()
        self._held = self._held[until - self._told :]
        self._told = until
        return edits

    async def _look(self, span: Span, *, final: bool, across: bool = False) -> None:
        """Note what a span has newly decided: findings, and up to where."""
        window = span.window(final=final, spots=self._spots)
        result = self._scan(window, self._step.ctx)
        found, held = await result if self._waits else result
        self._step.judged()
        if found:
            found = [item for item in found if item.start >= window.start]
            held = uncut(found, held)
            known = [moved(item, span.base) for item in found if item.start < held or final]
            self._found.extend([item for item in known if not across or crosses(item, self._borders)])
        span.decide(held, self._guard.lookback)

    def _settled(self, until: int, *, final: bool) -> Edits:
        """Return the edits of what has been found before a place."""
        settled = [found for found in self._found if found.start < until or final]
        if not settled:
            return ()
        self._found = [found for found in self._found if found.start >= until and not final]
        return self._acted(self._guard.standing(settled, self._borders), until)

    def _acted(self, settled: list[Found], until: int) -> Edits:
        """Return the edits that the guard makes of what is decided, checked."""
        told = self._told
        window = TextWindow(self._held, 0, told, told == 0, kind=self._own.kind, spots=self._spots)
        made = self._guard.act([Hit(window, [moved(item, -told) for item in settled])], self._step.ctx)[0]
        self._step.judged()
        edits = edit_ops.normalise(made, self._held)
        if edits and self._guard.edits == "nothing":
            raise WrongReturnError("it declares that it edits nothing, but it returned edits; declare edits='spans'")
        if edits and edits[-1].end > until - told:
            raise WrongReturnError("it edits text that is not decided yet; edit only what was found")
        step = self._step.step
        edits = stamp(shifted(edits, told), step.path, hides=step.role == "guard")
        for edit in edits:
            self._step.note_edits(window.locate(edit.start - told)[0], (edit,))
        return edits


class HookTrack:
    """A hook that edits nothing, beside guards: it sees each piece as a chunk, and must give it back."""

    __slots__ = ("_call", "_fed", "_out", "_step", "_template", "_waits")

    def __init__(self, step: StreamStep, call: HookCall, template: Chunk, *, waits: bool) -> None:
        self._step = step
        self._call = call
        self._template = template
        self._waits = waits
        self._fed = 0
        self._out = False

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Show it the piece; all is decided."""
        del final
        self._fed += len(text)
        if text and not self._out:
            await self.show(self._template.with_text(text))
        return Delta((), self._fed)

    async def border(self) -> None:
        """Do nothing: it sees chunks, whatever they belong to."""

    async def show(self, chunk: Chunk) -> None:
        """Show it a chunk, which it must give back."""
        try:
            result = self._call(chunk, self._step.ctx)
            if self._waits:
                result = await result
            self._step.judged()
            _check_given_back(self._step, chunk, result)
        except BaseException as error:  # noqa: BLE001 - sorted by `broke`, which lets interrupts pass
            self._step.broke(error)
            self._out = True


def _check_given_back(step: StreamStep, chunk: Chunk, result: object) -> None:
    if step.step.role != "observer" and result is not chunk:
        raise WrongReturnError("it declares that it edits nothing, but did not return the chunk it was given")


class PassTrack:
    """Nothing at work on a text: all of it is decided as it is."""

    __slots__ = ("_fed",)

    def __init__(self) -> None:
        self._fed = 0

    async def feed(self, text: str, *, final: bool) -> Delta:
        """Let it pass."""
        del final
        self._fed += len(text)
        return Delta((), self._fed)

    async def border(self) -> None:
        """Do nothing."""
