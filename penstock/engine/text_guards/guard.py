"""`TextGuard`: the base of guards over text. From `find` and `hold` come all of its stages, streams included.

It says what is looked for and how long text must be held for it. Whole texts are judged here; streams are driven by
`penstock.engine.streams`, with the same calls.
"""

from __future__ import annotations

import inspect
import itertools
from functools import partial
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.processor import CLAIMS, is_async
from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.tasks import gather, run_without_loop
from penstock.engine.text_guards.whole_texts import Text, WholeTexts
from penstock.engine.text_guards.window import Found, Hit, Spot, TextReader, TextWindow, moved, span
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import EditError, OptionError, ProcessorError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext, OutputStreamContext
    from penstock.engine.processor.processor import AnyProcessor, ErrorPolicy, ProcessorRole
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.texts import TextPlace

MAX_HOLD = 4096
"""How many characters of a stream a guard may hold back; one that needs more has failed."""


_FOUND_TO = "penstock.found_to"  # a window's note: where the last decided finding ended; nothing is found across it


class TextGuard(WholeTexts):
    """Finds what may not pass in texts, whole or streamed, and redacts it or stops the run.

    Write `find`, which returns edits (or aborts), and say how long text must be held back in a stream: by ``reach``,
    or by `hold`. What leaves a stream then is what the whole text would have become, however it was cut into chunks.

    Attributes:
        reach: the longest stretch, in characters, that a finding can have, with what it looks at behind its end. None:
            not known, so a stream's text is held to its end.
        lookback: how many characters before a finding `find` wants to see in a stream.
        min_hold: how many characters of a stream are held back at least.
        max_hold: how many characters of a stream may be held back; beyond it the guard has failed.
        read_parts_separately: whether neighbouring text parts of a message are read each by itself as well as in one
            piece; if not, in one piece only.
    """

    claim_names = (*CLAIMS, "reach", "lookback", "min_hold", "max_hold", "read_parts_separately")
    role: ProcessorRole = "guard"
    on_error: ErrorPolicy = "block"
    reach: int | None = None
    lookback: int = 64
    min_hold: int = 0
    max_hold: int = MAX_HOLD
    read_parts_separately: bool = True

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note whether its judgement waits."""
        super().__init_subclass__(**kwargs)
        cls.awaits = is_async(cls.find) or is_async(cls.scan)
        if "edits" not in cls.__dict__ and cls.edits is None:
            cls.edits = "spans"

    def checked(self) -> None:
        """Refuse to be placed without a search, or with a figure that cannot be.

        Raises:
            ProcessorError: neither `find` nor `scan` is written, or `find` cannot be called as it will be.
            OptionError: ``reach``, ``lookback``, ``min_hold`` or ``max_hold`` is no such number.
        """
        super().checked()
        name = type(self).__name__
        for option, least in (("reach", 1), ("lookback", 0), ("min_hold", 0), ("max_hold", 1)):
            value: Value = getattr(self, option)
            unsaid = option == "reach" and value is None
            if not unsaid and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise OptionError(name, option, value, f"a number of characters, at least {least}")
        if type(self).scan is not TextGuard.scan:
            return
        if type(self).find is TextGuard.find:
            raise ProcessorError(self.id, "it finds nothing: write find(self, text, ctx, *, final)")
        try:
            inspect.signature(self.find).bind("", None, final=True)
        except TypeError as error:
            raise ProcessorError(self.id, f"find is called with (text, ctx, final=…): {error}") from None

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> Value:
        """Return what is found, as edits in positions of the text, sorted and disjoint; None for nothing.

        May be async. ``final`` tells that the text ends here; where it is False, more follows, and what is found
        beyond the place that `hold` names is not acted on yet. Depend on nothing but the text: in a stream it is a
        window, which begins `lookback` characters before what is not decided.

        Args:
            text: what can be seen of the text.
            ctx: the context of the stage at hand; ``ctx.abort`` stops the run at once.
            final: whether the text ends here.
        """
        raise NotImplementedError

    def hold(self, text: str, start: int) -> int:
        """Return the place from which on text must be held back, at least ``start``: before it nothing can change."""
        return start if self.reach is None else max(start, len(text) - self.reach + 1)

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[Found], int] | Awaitable[tuple[Sequence[Found], int]]:
        """Return what is found in a window, and the place from which on it must be held; by default from `find`.

        Override it where both come from one search. Findings begin at ``window.start`` or later and are sorted; those
        that end before the place are decided.
        """
        search = self._searched(window, ctx)
        return search if self.awaits else run_without_loop(search, self.id)

    async def _searched(self, window: TextWindow, ctx: AnyContext) -> tuple[Sequence[Found], int]:
        cut = 0
        found = await self._found_from(cut, window, ctx)
        if any(item.start < window.start < item.end for item in found):
            # It was begun within a finding that is decided, of which the window shows a part: begin behind that.
            cut = min(max(window.notes.get(_FOUND_TO, 0) - window.base, 0), window.start)
            found = await self._found_from(cut, window, ctx)
        known = [item for item in found if item.start >= window.start]
        if window.final:
            return known, len(window.text)
        held = self.hold(window.text[cut:], window.start - cut) + cut
        reached = [item.end for item in known if item.end <= held and item.start < held]
        if reached:
            window.notes[_FOUND_TO] = window.base + reached[-1]
        return known, held

    async def _found_from(self, cut: int, window: TextWindow, ctx: AnyContext) -> list[Found]:
        """Return what `find` finds in a window from a place on, in order.

        Raises:
            WrongReturnError: it is longer than the guard says that a finding can be.
        """
        result: Value = self.find(window.text[cut:], ctx, final=window.final)
        found: Iterable[Found] | None = await result if self.awaits else result
        ordered = sorted([moved(item, cut) for item in found], key=span) if found else []
        if self.reach is not None and any(item.end - item.start > self.reach for item in ordered):
            raise WrongReturnError(
                f"it found a stretch that is longer than its reach of {self.reach}; say a greater one"
            )
        return ordered

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits for each hit, in positions of its window. By default what was found is the edits.

        Called once for what is decided, never for what may change yet: the place to report, count, and abort.
        """
        del ctx
        return [united(cast("Sequence[Edit]", hit.found)) for hit in hits]

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> None:
        """Refuse: the engine drives `find` and `hold` itself, since one chunk alone cannot be judged."""
        del chunk, ctx
        raise UsageError(f"{self.id}: a TextGuard's stream is driven by the engine; run it in a workflow")

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits that whole texts need, by place; neighbouring text parts are read as one, too.

        Where judging waits, texts are judged beside each other.
        """
        runs = self.runs(texts, ctx)
        if self.awaits:
            found = await gather([partial(self._in_run, ctx, run) for run in runs])
        else:
            found = [await self._in_run(ctx, run) for run in runs]
        hits = [Hit(window_of(run), items) for run, items in zip(runs, found, strict=True) if items]
        return in_places(hits, self.act(hits, ctx)) if hits else {}

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return the texts in runs, each of which is read as one: neighbouring text parts; any other is by itself.

        In a stream neighbouring text parts are read as one, and nothing else is: of an answer, a subclass that joins
        more of its text parts would judge the stream otherwise than the whole.
        """
        del ctx
        return list(neighbours(texts))

    async def _in_run(self, ctx: AnyContext, run: Sequence[Text]) -> Sequence[Found]:
        """Return what is found in neighbouring texts, in order.

        A run that is read in one piece is one window, so it needs no reader.
        """
        if len(run) == 1 or not self.read_parts_separately:
            result: Value = self.scan(window_of(run), ctx)
            scanned: tuple[Sequence[Found], int] = await result if self.awaits else result
            return sorted(scanned[0], key=span)
        reader = TextReader(self, partial(self.scan, ctx=ctx), run[0].kind, waits=self.awaits, place=run[0].place)
        for index, text in enumerate(run):
            if index:
                await reader.begin_part(text.place)
            reader.add(text.text)
        return reader.take(await reader.read(final=True), final=True)

    def overrides(self, within: Found, across: Found) -> bool:
        """Tell whether a finding within a part rules out one across parts that it overlaps; by default it does.

        Where it does not, `act` is given both.
        """
        del within, across
        return True


def window_of(run: Sequence[Text]) -> TextWindow:
    """Return the window over whole texts that are read as one."""
    first = run[0]
    if len(run) == 1:
        return TextWindow(first.text, kind=first.kind, key=first.key, fixed=first.fixed, spots=(Spot(0, first.place),))
    spots: list[Spot] = []
    begin = 0
    for text in run:
        spots.append(Spot(begin, text.place))
        begin += len(text.text)
    return TextWindow("".join(text.text for text in run), kind=first.kind, spots=tuple(spots))


def neighbours(texts: Iterable[Text]) -> Iterator[list[Text]]:
    """Yield runs of text parts that follow one another in a message; any other text is by itself."""
    run: list[Text] = []
    for text in texts:
        last = run[-1] if run else None
        if last is not None and not (
            last.kind == text.kind == "text"
            and (last.place.message_id, last.place.part + 1) == (text.place.message_id, text.place.part)
        ):
            yield run
            run = []
        run.append(text)
    if run:
        yield run


def in_places(hits: Sequence[Hit], acted: Sequence[Iterable[Edit]]) -> dict[TextPlace, Edits]:
    """Return edits by place: one that lies on several puts its text where it begins, and takes the rest away."""
    edits: dict[TextPlace, list[Edit]] = {}
    for hit, made in zip(hits, acted, strict=True):
        for edit in made:
            text = edit.text
            for place, start, end in hit.window.pieces(edit.start, edit.end):
                edits.setdefault(place, []).append(Edit(start, end, text, edit.kind, edit.step, edit.hides))
                text = ""
    return {place: tuple(made) for place, made in edits.items()}


def united(found: Sequence[Edit]) -> Sequence[Edit]:
    """Return sorted edits as disjoint ones: what was found in a part and across parts may overlap.

    Raises:
        EditError: two overlap that no rule unites.
    """
    if all(one.end <= other.start for one, other in itertools.pairwise(found)):
        return found
    merged, conflicts = edit_ops.merge([(edit,) for edit in found])
    if any(edit.kind != "redact" for cluster in conflicts for edit in cluster):
        raise EditError("a guard found stretches that overlap; return disjoint edits")
    return edit_ops.in_order([*merged, *(edit_ops.cover(cluster) for cluster in conflicts)])


def text_guard_of(processor: AnyProcessor) -> TextGuard | None:
    """Return the processor if it is a `TextGuard` whose stream the engine drives; one with a hook of its own is not."""
    if isinstance(processor, TextGuard) and type(processor).process_output_stream is TextGuard.process_output_stream:
        return processor
    return None
