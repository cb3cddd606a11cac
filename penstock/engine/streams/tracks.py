"""Lanes and tracks: how a part of a graph processes the texts of a stream.

A `Lane` is made for each part of the graph when the stream starts. It opens a `Track` for each `Subject`: a streamed
text, or a chunk that holds whole texts, such as tool arguments. A track is fed text and returns its decided edits. This
module has the tracks that call processors; `combined_tracks` has those that consist of other tracks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.streams.chunk_texts import PROBE, SNAPSHOT, chunk_texts, unread_in, with_texts
from penstock.engine.streams.decisions import Decided, by_part, shifted
from penstock.engine.text_guards.calls import (
    LONG_FOR_ASYNC,
    acted,
    check_edits,
    in_places,
    passed,
    scan_or_move,
    window_of,
)
from penstock.engine.text_guards.known import known_texts
from penstock.engine.text_guards.scope import PART_KINDS
from penstock.engine.text_guards.views import TextViews
from penstock.engine.text_guards.window import Hit, TextReader, TextWindow, behind, moved
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.json_text import JsonReader
from penstock.engine.values.texts import LEAST_NUMBER, KeyText, TextPlace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from penstock.engine.graph.plan import HookCall
    from penstock.engine.streams.decisions import Fed
    from penstock.engine.streams.steps import StreamStep
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.text_guard import TextGuard
    from penstock.engine.text_guards.window import Found, Scanned
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value

    PlaceEdits = Mapping[TextPlace, Edits]

GAP = "\n"
"""Stands between the whole texts of a chunk while they are fed as one, so that no edit touches two of them."""


class Subject(NamedTuple):
    """The input of a track: a streamed text, or a chunk that holds whole texts.

    The texts of a chunk are fed at once, as the parts of one text, separated by `GAP`.

    Attributes:
        chunk: the chunk that holds the texts; for a streamed text, a chunk to make its pieces from.
        kind: the kind of part that holds a streamed text: ``text`` or ``reasoning``.
        earlier: the end of the text before a streamed text, which has left; a finding may begin in it.
        texts: the texts in the chunk; None for a streamed text.
        joined: these texts as one, before any edits.
    """

    chunk: Chunk
    kind: str = ""
    earlier: str = ""
    texts: tuple[Text, ...] | None = None
    joined: str = ""

    @property
    def gap(self) -> int:
        """The number of characters between two parts."""
        return 0 if self.texts is None else len(GAP)

    def texts_of(self, text: str, borders: Sequence[int]) -> list[Text]:
        """Return the texts of a chunk, with the edits of the steps before."""
        if not self.texts or text == self.joined:
            return list(self.texts or ())
        starts = [0, *borders]
        ends = [*(border - len(GAP) for border in borders), len(text)]
        return [
            known._replace(text=text[start:end]) for known, start, end in zip(self.texts, starts, ends, strict=True)
        ]


class Track(Protocol):
    """Processes one text. A step that has failed takes no further part in the text."""

    def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Fed:
        """Take more of the text; return the new decisions, or a coroutine where something was found, or must wait.

        The coroutine must be awaited before more text is fed. Errors are raised by the coroutine only.

        Args:
            text: the text that follows the earlier input.
            borders: the positions in ``text`` where neighbouring parts of the message begin, in order.
            final: whether the text ends here. The texts of a chunk are fed in one final call.
        """
        ...


class Lane(NamedTuple):
    """How a part of a graph processes the texts of a stream.

    Attributes:
        open: returns a track for a text or a chunk.
        kinds: the kinds of parts that the lane reads.
        guards: whether it contains a guard.
        least: the smallest number in a value that the lane reads, without its sign.
    """

    open: Callable[[Subject], Track]
    kinds: frozenset[str] = frozenset()
    guards: bool = False
    least: int = LEAST_NUMBER

    def texts(self, chunk: Chunk, kind: str | None = None) -> list[Text]:
        """Return the texts in a chunk that the lane reads; ``kind``: their kind, if it is known."""
        return chunk_texts(chunk, self.kinds, kind, least=self.least)


def combined_lane(lanes: Sequence[Lane], combine: Callable[[Subject, list[Track]], Track]) -> Lane:
    """Return a lane whose tracks combine those of other lanes."""

    def open_track(subject: Subject) -> Track:
        return combine(subject, [lane.open(subject) for lane in lanes])

    kinds = frozenset[str]().union(*(lane.kinds for lane in lanes))
    least = min([LEAST_NUMBER, *(lane.least for lane in lanes)])
    return Lane(open_track, kinds, any(lane.guards for lane in lanes), least)


async def judge_chunk(lane: Lane, chunk: Chunk, texts: Sequence[Text]) -> dict[TextPlace, Edits]:
    """Return the edits that a lane makes to the whole texts in a chunk, by place."""
    borders: list[int] = []
    at = 0
    for text in texts[:-1]:
        at += len(text.text) + len(GAP)
        borders.append(at)
    joined = GAP.join([text.text for text in texts])
    track = lane.open(Subject(chunk, texts=tuple(texts), joined=joined))
    with TextViews():
        fed = track.feed(joined, borders, final=True)
        made = () if isinstance(fed, int) else (await fed).edits
    if not made:
        return {}
    parts = by_part(made, [0, *borders])
    return {text.place: edits for text, edits in zip(texts, parts, strict=True) if edits}


# Tracks that decide everything at once


class PassTrack:
    """Leaves the text unchanged, because no step of this stage reads it."""

    __slots__ = ("_fed",)

    def __init__(self) -> None:
        self._fed = 0

    def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> int:
        """Decide the text without edits."""
        del borders, final
        self._fed += len(text)
        return self._fed


def pass_lane() -> Lane:
    """Return the lane of an arm without steps of this stage."""

    def open_track(subject: Subject) -> Track:
        del subject
        return PassTrack()

    return Lane(open_track)


class WatchTrack:
    """Passes each piece, as a chunk, to a step that must not edit it."""

    __slots__ = ("_fed", "_show", "_shows_end", "_subject")

    def __init__(self, subject: Subject, show: Callable[[Chunk], Awaitable[object]], *, shows_end: bool) -> None:
        self._subject = subject
        self._show = show
        self._shows_end = shows_end
        self._fed = 0

    async def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Decided:
        """Show the piece, or the chunk with the edits of the steps before. Decide the text without edits."""
        self._fed += len(text)
        chunk = self._subject.chunk
        if self._subject.texts is not None:
            if chunk.type != PROBE:
                await self._show(self._left(chunk, text, borders))
            return Decided((), self._fed)
        if text:
            await self._show(chunk.with_text(text))
        if final and self._shows_end:
            await self._show(Chunk(chunk.type.replace("-delta", "-end"), id=chunk.id))
        return Decided((), self._fed)

    def _left(self, chunk: Chunk, text: str, borders: Sequence[int]) -> Chunk:
        texts = zip(self._subject.texts or (), self._subject.texts_of(text, borders), strict=True)
        return with_texts(chunk, {now.place: now.text for before, now in texts if now.text != before.text})


def watch_lane(
    show: Callable[[Subject], Callable[[Chunk], Awaitable[object]]], *, guards: bool = False, shows_end: bool = False
) -> Lane:
    """Return the lane of a step that sees every chunk and edits nothing.

    Args:
        show: returns, for each text or chunk, the function that is called with its pieces.
        guards: whether the step is a guard.
        shows_end: whether it also gets the end of a text.
    """

    def open_track(subject: Subject) -> Track:
        return WatchTrack(subject, show(subject), shows_end=shows_end)

    return Lane(open_track, frozenset(PART_KINDS), guards)


class ShownHook:
    """A hook that edits nothing: it must return each chunk unchanged. After a failure it gets no more chunks."""

    __slots__ = ("_call", "_out", "_step", "_waits")

    def __init__(self, step: StreamStep, call: HookCall, *, waits: bool) -> None:
        self._step = step
        self._call = call
        self._waits = waits
        self._out = False

    async def show(self, chunk: Chunk) -> None:
        """Call the hook."""
        if self._out:
            return
        try:
            result = self._call(chunk, self._step.ctx)
            if self._waits:
                result = await self._step.watched(result)
            self._step.keep_written()
            self._check(chunk, result)
        except BaseException as error:  # noqa: BLE001 - `broke` sorts it and lets interrupts pass
            self._step.broke(error)
            self._out = True

    def _check(self, chunk: Chunk, result: Value) -> None:
        if self._step.step.role != "observer" and result is not chunk:
            raise WrongReturnError("it declares edits='nothing', but did not return the chunk unchanged")


def hook_lane(step: StreamStep, call: HookCall, *, waits: bool) -> Lane:
    """Return the lane of a hook that edits nothing."""
    return watch_lane(lambda _: ShownHook(step, call, waits=waits).show, guards=step.step.role == "guard")


# Text guards


class StreamGuard(NamedTuple):
    """A `TextGuard` in a stream.

    Attributes:
        step: its step.
        guard: the guard.
        scan: its method of that name, or the same in a thread.
    """

    step: StreamStep
    guard: TextGuard
    scan: HookCall

    def reader(self, kind: str, text: Text | None = None) -> TextReader:
        """Return a reader of a streamed text, or of a whole one."""
        if text is None:
            return TextReader(self.guard, self._scan, kind)
        made = TextReader(self.guard, self._scan, kind, key=text.key, fixed=text.fixed, place=text.place)
        made.add(text.text)
        return made

    def _scan(self, window: TextWindow) -> Scanned | Awaitable[Scanned]:
        step = self.step
        result: Scanned | Awaitable[Scanned]
        if len(window.text) <= LONG_FOR_ASYNC:
            try:
                result = self.scan(window, step.ctx)
            except Exception as error:  # noqa: BLE001 - the policy decides about this window, and about no other
                result = passed(error, window, step.ctx)
        else:
            result = scan_or_move(self.guard, self.scan, window, step.ctx)
        if not isinstance(result, tuple):
            return self._awaited(result, window)
        if step.ctx.effects is not None:
            step.keep_written()
        return result

    async def _awaited(self, waiting: Awaitable[Scanned], window: TextWindow) -> Scanned:
        try:
            scanned = await self.step.looked(self.step.ctx.in_time(waiting))
        except Exception as error:  # noqa: BLE001 - as above
            scanned = passed(error, window, self.step.ctx)
        self.step.keep_written()
        return scanned


def _is_below(digits: str, least: int) -> bool:
    """Return whether a text is a number below the smallest that a guard reads; it is none if a step has edited it."""
    return digits.isdecimal() and int(digits) < least


def guard_lane(placed: StreamGuard) -> Lane:
    """Return the lane of a text guard."""
    kinds = frozenset(placed.guard.scope.kinds)

    def open_track(subject: Subject) -> Track:
        if subject.texts is None:
            return GuardTrack(placed, subject) if subject.kind in kinds else PassTrack()
        is_read = any(text.kind in kinds for text in subject.texts)
        if not is_read and not (placed.guard.scope.on_unread != "allow" and unread_in(subject.chunk)):
            return PassTrack()
        return GuardChunkTrack(placed, subject)

    return Lane(open_track, kinds, placed.step.step.role == "guard", placed.guard.search.least_number)


_MANY = 64  # pieces of a text, after which what was decided is forgotten


class GuardTrack:
    """A `TextGuard` that reads one streamed text, which may be several blocks, and may follow text that has left.

    Positions are those in the streamed text; its reader counts from the beginning of the earlier text.
    """

    __slots__ = (
        "_bounded",
        "_earlier",
        "_fed",
        "_guard",
        "_held",
        "_held_from",
        "_json",
        "_kind",
        "_most",
        "_observes",
        "_offset",
        "_out",
        "_parts",
        "_reader",
        "_step",
        "_until",
        "_waits",
    )

    def __init__(self, placed: StreamGuard, subject: Subject) -> None:
        self._step = placed.step
        self._guard = placed.guard
        self._kind = subject.kind
        self._reader = placed.reader(subject.kind)
        search = placed.guard.search
        reads_on = subject.kind == "text" or search.reads_thoughts_on
        reads_back = placed.guard.read_parts_separately or search.reads_steps_on
        self._earlier = subject.earlier if reads_on and reads_back else ""
        self._offset = len(self._earlier)
        if self._earlier:
            self._reader.begin_behind(self._earlier)
        self._parts = 1
        self._held: list[str] = []  # the text from `_held_from` on, in pieces
        self._held_from = self._fed = self._until = 0
        self._out = False
        self._bounded = placed.guard.min_hold > 0
        self._most = placed.guard.max_hold
        self._waits = placed.guard.awaits
        self._observes = placed.step.step.role == "observer"
        self._json = JsonReader() if placed.guard.edits != "nothing" else None  # in positions of the streamed text

    def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Fed:
        """Read the text, unless too little is new; return the new decisions."""
        self._fed = fed = self._fed + len(text)
        if self._out:
            return fed
        self._held.append(text)
        if self._json is not None and not borders:
            self._json.feed(text, final=final)
        if final or borders or self._waits or not text:
            return self._judged(text, borders, final=final)
        try:
            until = self._reader.search_piece(text)
            if until is None:
                return self._judged(text, (), final=False)
            until -= self._offset
            if self._bounded or fed - until > self._most or (self._json is not None and self._json.tokens):
                until = self._allowed(until, fed)
        except BaseException as error:  # noqa: BLE001 - raised or handled by the coroutine
            return self._failed(error)
        self._until = until
        if self._json is not None and self._json.tokens:
            self._json.forget(until)
        if len(self._held) > _MANY:
            self._join_held()
        return fed if self._observes else until

    async def _judged(self, text: str, borders: Sequence[int], *, final: bool) -> Decided:
        """Search the text where something may be found, or the guard waits; return the new decisions."""
        try:
            due = await self._add(text, borders)
            edits = await self._read(final=final) if final or due else ()
        except BaseException as error:  # noqa: BLE001 - `broke` sorts it and lets interrupts pass
            return await self._failed(error)
        return Decided(edits, self._fed if self._observes else self._until)

    async def _failed(self, error: BaseException) -> Decided:
        """Release all that was held, and read no more, if the step's policy allows that."""
        self._step.broke(error)
        self._out = True
        return Decided((), self._fed)

    async def _add(self, text: str, borders: Sequence[int]) -> bool:
        """Append to the text that is read, part by part; return whether it is to be searched now."""
        begin = 0
        for border in borders:
            self._reader.add(text[begin:border])
            if self._json is not None:
                self._json.feed(text[begin:border], final=True)
                self._json.begin_part()
            await self._reader.begin_part(TextPlace("", self._parts))
            self._parts += 1
            begin = border
        if borders and self._json is not None:
            self._json.feed(text[begin:])
        due = self._reader.add(text[begin:]) and not (self._waits and self._step.has_more_text)
        return due or bool(borders)  # a part that has ended is news, though nothing follows yet

    def _join_held(self) -> str:
        """Return the text that was held; forget earlier decisions."""
        text = "".join(self._held)[self._until - self._held_from :]
        self._held, self._held_from = [text], self._until
        return text

    def _allowed(self, until: int, fed: int, *, final: bool = False) -> int:
        """Return up to where the text may leave that is decided up to ``until``.

        If the guard would hold back more than it may, and its policy lets that pass, the text leaves, and the guard
        begins anew behind it.

        Raises:
            WrongReturnError: the policy does not.
        """
        if self._guard.min_hold and not final:
            until = max(self._until, min(until, fed - self._guard.min_hold))
        until = max(self._uncut(until, final=final), 0)
        if fed - until > self._guard.max_hold and self._reader.is_up_to_date:
            most = self._guard.max_hold
            self._step.ctx.let_pass(WrongReturnError(f"it would hold back more than {most} characters of the stream"))
            self._reader.give_up()
            return fed
        return until

    def _uncut(self, until: int, *, final: bool) -> int:
        """Return the largest position up to ``until`` that is within no finding, and no number or escape of JSON."""
        until = self._reader.uncut(until + self._offset) - self._offset
        while self._json is not None and not final:
            whole = self._json.uncut(until)
            if whole == until:
                break
            until = self._reader.uncut(whole + self._offset) - self._offset
        return until

    async def _read(self, *, final: bool) -> Edits:
        """Read the new text; return the edits of the newly decided part."""
        until = self._allowed(await self._reader.read(final=final) - self._offset, self._fed, final=final)
        found = self._reader.take(until + self._offset, final=final)
        edits = self._edits(found, until) if found else ()
        self._until = until
        if self._json is not None:
            self._json.forget(until)
        return edits

    def _edits(self, found: Sequence[Found], until: int) -> Edits:
        """Return the guard's edits for decided findings, after checks."""
        begin, held = self._until, self._join_held()
        if begin == 0 and self._guard.read_parts_separately:
            begin, held = -self._offset, self._earlier + held
        base = begin + self._offset
        window = TextWindow(held, max(-begin, 0), base, base == 0, kind=self._kind, parts=self._reader.parts)
        act = self._step.enclosed(self._guard.act)
        edits: Edits = ()
        try:
            made = acted(act, [Hit(window, [behind(moved(item, -base), 0) for item in found])], self._step.ctx)[0]
            decided = edit_ops.normalise(made, held)
            if decided and self._json is not None:
                decided = self._json.fit(decided, held, base - self._offset, self._guard.numbers)
            edits = self._checked(decided, until - begin)
        except Exception as error:  # noqa: BLE001 - the policy decides about these findings, and about no others
            self._step.ctx.let_pass(error)
        self._step.keep_written()
        edits = self._step.stamp(shifted(_from(edits, -begin), begin))
        for edit in edits:
            self._step.note_edits(window.locate(edit.start - begin)[0], (edit,))
        return edits

    def _checked(self, edits: Edits, end: int) -> Edits:
        """Return edits of text that is decided up to a position.

        Raises:
            WrongReturnError: an edit is not allowed.
        """
        if edits and self._guard.edits == "nothing":
            raise WrongReturnError("it declares edits='nothing', but it returned edits; declare edits='spans'")
        if edits and edits[-1].end > end:
            raise WrongReturnError("it edits text that is not decided yet; edit only what was found")
        return edits


def _from(edits: Edits, start: int) -> Edits:
    """Return the edits of the text behind a position; those that begin before it begin there."""
    if start <= 0 or not edits or edits[0].start >= start:
        return edits
    return tuple([edit if edit.start >= start else replace(edit, start=start) for edit in edits if edit.end > start])


class GuardChunkTrack:
    """A `TextGuard` that reads the whole texts of one chunk."""

    __slots__ = ("_guard", "_placed", "_step", "_subject")

    def __init__(self, placed: StreamGuard, subject: Subject) -> None:
        self._placed = placed
        self._step = placed.step
        self._guard = placed.guard
        self._subject = subject

    async def feed(self, text: str, borders: Sequence[int] = (), *, final: bool = False) -> Decided:
        """Judge the texts; for a chunk that shows a growing value, the decided part of them."""
        del final
        texts = self._subject.texts_of(text, borders)
        step, guard = self._step, self._guard
        least = guard.search.least_number
        read = [
            item
            for item in texts
            if item.kind in guard.scope.kinds and not (item.number and _is_below(item.text, least))
        ]
        cuts: PlaceEdits = {}
        try:
            self._check_unread()
            if self._subject.chunk.type == SNAPSHOT:
                made, cuts = await self._so_far(read)
            else:
                made = await self._judged(read, is_whole=text == self._subject.joined)
            if made:
                made = guard.with_whole_numbers(read, made)
                guard.check_arguments(step.ctx, read, made)
            step.keep_written()
            edits = self._edits(read, made, cuts) if made or cuts else {}
        except BaseException as error:  # noqa: BLE001 - `broke` sorts it and lets interrupts pass
            step.broke(error)
            return Decided((), len(text))
        if not edits:
            return Decided((), len(text))
        for place, own in edits.items():
            step.note_edits(place, own)
        starts = zip(texts, (0, *borders), strict=True)
        return Decided(
            tuple([edit for item, start in starts for edit in shifted(edits.get(item.place, ()), start)]), len(text)
        )

    async def _judged(self, texts: list[Text], *, is_whole: bool) -> PlaceEdits:
        """Return the edits; ``is_whole``: whether the texts are all that is in the chunk, as it is."""
        step, guard, chunk = self._step, self._guard, self._subject.chunk
        known = known_texts(guard, step.ctx) if is_whole and texts and texts[0].kind == "tool" else None
        texts = texts if known is None else known.without_known(chunk.payload, texts)
        judged = step.enclosed(guard.judged, awaits=True)(step.ctx, texts)
        made: PlaceEdits = await (step.watched(judged) if guard.awaits else judged)
        check_edits(made)
        if known is not None:
            known.learn_all(made, texts)
            known.tell()
        return made

    def _check_unread(self) -> None:
        """Report what the chunk holds that the guard cannot read, which may stop the run."""
        scope = self._guard.scope
        if scope.on_unread != "allow":
            parts = [found for found in unread_in(self._subject.chunk) if found.kind in scope.unread_kinds]
            scope.unread(self._step.ctx, type(self._guard).__name__, parts)

    def _edits(self, texts: list[Text], made: PlaceEdits, cuts: PlaceEdits) -> dict[TextPlace, Edits]:
        """Return the edits to each text, in order and under the step's name.

        Raises:
            WrongReturnError: it edits a text that can only be read.
        """
        if any(text.fixed and not text.number and text.place in made for text in texts):
            raise WrongReturnError("it edits a text that can only be read; abort instead")
        return {
            text.place: self._step.stamp(edit_ops.normalise(edits, text.text))
            for text in texts
            if (edits := (*made.get(text.place, ()), *cuts.get(text.place, ())))
        }

    async def _so_far(self, texts: Sequence[Text]) -> tuple[PlaceEdits, PlaceEdits]:
        """Return the decided edits of texts that still grow, and the cuts that remove the undecided rest."""
        hits: list[Hit] = []
        cuts: dict[TextPlace, Edits] = {}
        for text in texts:
            reader = self._placed.reader(text.kind, text)
            is_key = isinstance(text.place.path[-1], KeyText)  # a key is complete: its value stands behind it
            until = reader.uncut(await reader.read(final=is_key))
            found = reader.take(until, final=is_key)
            if text.number:  # a number cannot be cut, so it stays or is replaced as a whole
                is_cut = until < len(text.text)
                reader = self._placed.reader(text.kind, text)
                found = reader.take(await reader.read(final=True), final=True)
                until = 0 if is_cut and not found else len(text.text)
            if until < len(text.text):
                cuts[text.place] = (edit_ops.Edit(until, len(text.text), "", "redact", self._step.step.path),)
            if found:
                window = window_of([text])
                window.final = is_key
                hits.append(Hit(window, found))
        act = self._step.enclosed(self._guard.act)
        made = self._guard.fitting(hits, acted(act, hits, self._step.ctx)) if hits else ()
        return in_places(hits, made), cuts
