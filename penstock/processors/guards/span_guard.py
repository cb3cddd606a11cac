"""`SpanGuard`: the base of guards that find stretches of texts, and hide them, filter, or stop the run.

The embedded detector searches every text. A judge, if there is one, reads the text sentence by sentence with what was
found already hidden, and names values; where they stand is searched for, since models cannot count characters.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.detection.windows import Windows
from penstock.engine.tasks import gather
from penstock.engine.values.edits import Edit, apply
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.model import JudgeError
from penstock.processors.guards.detections import Detection
from penstock.processors.guards.findings import Book, Finding, of_spans, regions
from penstock.processors.guards.guard import Guard
from penstock.processors.guards.readings import whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Found, Hit, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.ports import Judged
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.findings import Region, Said

V = TypeVar("V")

_BOOK = "book"
_NOTHING = ""  # the type of a finding that says that nothing was found, where somebody wants to be told of that too
_MOST_TOLD = 100  # findings in a tripwire's metadata; the counts are of all


class SpanGuard(Guard[V]):
    """Finds stretches of texts. A subclass says by which detector, and how a judge's verdict reads.

    Attributes:
        windows: how texts are cut for the judge, and what is taken away around a finding by ``strategy="filter"``
            where no message can be left out.
        threshold: the score from which on a finding counts.
        found: the fact under which it tells how often what was found in the run: ``{"email": 2}``.
    """

    windows: Windows = Windows(least=40, most=600, overlap=200)
    threshold: float = 0.5
    found: Key[Mapping[str, int]]

    def embedded_scan(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what the embedded detector finds in a window from ``start`` on, and up to where that is decided.

        ``notes`` is its own for each text. A window that is ``final`` is decided to its end.
        """
        raise NotImplementedError

    def encoded_scan(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what stands in a window behind a code, as `embedded_scan` does; by default nothing."""
        del start, notes, ctx
        return (), len(window.text)

    def said(self, judged: Judged[V]) -> Iterable[Said]:
        """Return what a judge says that a window holds."""
        raise NotImplementedError

    def replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what is to stand in place of a text of that type."""
        raise NotImplementedError

    def encoded_replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what is to stand in place of a code that says something of that type; by default as for the plain."""
        return self.replacement(text, type, ctx)

    def shown(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the judge is shown it: what the embedded detector finds in it is hidden already."""
        del ctx
        return text

    def declare_found(self, *told: object) -> None:
        """Declare the fact under which the counts are told; ``told`` tells this guard from others."""
        self.lookback = max(self.lookback, self.windows.overlap)
        self.max_hold = max(self.max_hold, 2 * self.windows.most)
        if self.strategy == "filter":
            self.max_hold += self.windows.most  # what a detector holds back, it holds from the sentence's beginning on
        self.read_parts_separately = self.strategy != "filter"
        self.found = Key(self.fact_name("found", *told))
        self.provides = (self.found,)

    # Finding

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[Finding], int] | Awaitable[tuple[Sequence[Finding], int]]:
        """Return what is found and decided, and from where on more text could change it."""
        at = window.base + window.start
        book: Book = window.notes.setdefault(_BOOK, Book.begun(at))
        book.forget(at)
        finders = ((book.embedded, self.embedded_scan), (book.encoded, self.encoded_scan))
        for progress, look in finders:
            begin = progress.at - window.base
            none: tuple[Sequence[Span], int] = ((), len(window.text))
            spans, hold = look(window, begin, progress.notes, ctx) if self.embedded else none
            found = of_spans(spans, encoded=progress is book.encoded)
            progress.advance(found, window.base, hold, final=window.final)
        if self.judge is not None:
            return self._judged(window, book, ctx)
        book.judged.at = window.base + len(window.text)
        return self._decided(window, book)

    async def _judged(self, window: TextWindow, book: Book, ctx: AnyContext) -> tuple[Sequence[Finding], int]:
        begin = book.judged.at - window.base
        cuts = self.windows.cuts(window.text, begin, final=window.final)
        pieces = itertools.pairwise([begin, *cuts])
        found = await gather([partial(self._asked, window.text, start, end, ctx) for start, end in pieces])
        hold = cuts[-1] if cuts else begin
        book.judged.advance(itertools.chain.from_iterable(found), window.base, hold, final=window.final)
        return self._decided(window, book)

    async def _asked(self, text: str, start: int, end: int, ctx: AnyContext) -> list[Finding]:
        """Return what the judge finds in a window, in characters of the text.

        Raises:
            JudgeError: it gave no verdict.
        """
        if self.judge is None or not text[start:end].strip():
            return []
        view = self.windows.view(text, start, end)
        shown = self.shown(view, ctx)
        try:
            judged = await self.judge.ask(shown, ctx=ctx)
            said = [one for one in self.said(judged) if one.score >= self.threshold]
            # What hides or filters needs every value: one that could not be read would stay where it is.
            whole(judged, bool(said) and self.edits == "nothing", judged.model)
        except JudgeError:
            if self.judge_failure == "fail":
                raise
            ctx.note(judge_failed=True)
            return []
        ahead = end - len(view)  # where the view begins
        from penstock.processors.guards.locating import Locating  # loaded where a judge names values

        here, there = Locating(view), Locating(shown)
        placed = [(one, here.find(one.value or "")) for one in said]
        real = [(one, at) for one, at in placed if at or not there.find(one.value or "")]  # no names of what is hidden
        return [item for one, at in real for item in _placed(one, at, ahead, start, end, judged.model)]

    def _decided(self, window: TextWindow, book: Book) -> tuple[Sequence[Finding], int]:
        base = window.base
        limit = min(book.embedded.at, book.encoded.at, book.judged.at)
        if self.strategy == "filter":
            begin = book.sentences.at - base
            cuts = self.windows.cuts(window.text, begin, final=window.final)
            sentences = [Finding(low, high, "") for low, high in itertools.pairwise([begin, *cuts])]
            book.sentences.advance(sentences, base, cuts[-1] if cuts else begin, final=window.final)
            limit = min(limit, book.sentences.at)
        until = limit if window.final else book.settled(limit, by_sentence=self.strategy == "filter")
        found = [item for item in book.findings() if item.end <= until and item.score >= self.threshold]
        book.flagged = book.flagged or bool(found)
        if window.final and not book.flagged and self.on_detection is not None:
            found = [Finding(until, until, _NOTHING)]
        return [item._replace(start=item.start - base, end=item.end - base) for item in found], until - base

    def overrides(self, within: Found, across: Found) -> bool:
        """Tell whether a finding within a part rules out one across parts: of the same type, which is another reading.

        Two types are two things, and both are hidden.
        """
        return cast("Finding", within).type == cast("Finding", across).type

    # Acting

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits of the strategy, after everybody has been told; or stop the run."""
        found = [(hit.window, regions(_real(hit))) for hit in hits]
        told = [(window, region) for window, made in found for region in made]
        for window, made in found:
            self._tell_places(ctx, window, made)
        if not told:
            return [()] * len(hits)
        self._tell_counts(ctx, Counter(region.owner.type for _, region in told))
        types = [region.owner.type for _, region in told]
        if self.strategy == "warn":
            self.warn(ctx, types)
        stuck = self._stuck(told)
        if self.strategy == "block" or stuck:
            self.block(ctx, types, self.told(told), stuck)
        return [self._edits(window, made, ctx) for window, made in found]

    def _stuck(self, told: Sequence[tuple[TextWindow, Region]]) -> str:
        """Return why what was found cannot be edited; nothing if it can."""
        if self.edits == "nothing":
            return ""
        if any(window.fixed for window, _ in told):
            return "what is no text cannot be edited in place; "
        if self.strategy != "filter" and any(not region.owner.located for _, region in told):
            return "what the judge found does not stand in the text as it says, so it cannot be hidden; "
        return ""

    def _edits(self, window: TextWindow, made: Sequence[Region], ctx: AnyContext) -> list[Edit]:
        if self.edits == "nothing":
            return []
        if self.strategy == "filter":
            return self._sentences(window, made)
        return [
            Edit(
                item.start,
                item.end,
                self._hidden(window.text[item.start : item.end], item.owner, ctx),
                "redact",
            )
            for item in made
        ]

    def _hidden(self, text: str, owner: Finding, ctx: AnyContext) -> str:
        hide = self.encoded_replacement if owner.encoded else self.replacement
        return hide(text, owner.type, ctx)

    def _sentences(self, window: TextWindow, made: Sequence[Region]) -> list[Edit]:
        """Return edits that take away the sentences in which something was found."""
        cuts = [0, *self.windows.cuts(window.text)]
        taken = {
            at
            for region in made
            for at in range(bisect_right(cuts, region.start) - 1, bisect_left(cuts, max(region.end, region.start + 1)))
        }
        return [Edit(cuts[at], cuts[at + 1], "", "redact") for at in sorted(taken) if at + 1 < len(cuts)]

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits, without the messages that were filtered out."""
        return self.without_flagged(ctx, edits) if self.strategy == "filter" else super().changed(ctx, edits)

    # Telling

    def told(self, found: Sequence[tuple[TextWindow, Region]]) -> dict[str, Value]:
        """Return what a tripwire's metadata say."""
        owners = [region.owner for _, region in found]
        return {
            "categories": {
                type: max(owner.score for owner in owners if owner.type == type)
                for type in dict.fromkeys(owner.type for owner in owners)
            },
            "counts": dict(Counter(owner.type for owner in owners)),
            "threshold": self.threshold,
            "judge": next((owner.judge for owner in owners if owner.judge), None),
            "spans": [_span(window, region) for window, region in found[:_MOST_TOLD]],
        }

    def _tell_counts(self, ctx: AnyContext, counts: Mapping[str, int]) -> None:
        before = ctx.get(self.found) or EMPTY
        now = {name: before.get(name, 0) + counts.get(name, 0) for name in {**before, **counts}}
        ctx.put(self.found, freeze(now))
        ctx.note(found=now if ctx.stage == "process_output_stream" else dict(counts))

    def _tell_places(self, ctx: AnyContext, window: TextWindow, made: Sequence[Region]) -> None:
        if self.on_detection is None and self.on_violation is None:
            return
        places: dict[TextPlace, list[Region]] = {} if made else {window.locate(0)[0]: []}
        for region in made:
            places.setdefault(window.locate(region.start)[0], []).append(region)
        for place, here in places.items():
            self.tell(ctx, self._detection(ctx, window, place, here))

    def _detection(self, ctx: AnyContext, window: TextWindow, place: TextPlace, here: Sequence[Region]) -> Detection:
        from penstock.detection.spans import Span

        scores: dict[str, float] = {}
        for region in here:
            scores[region.owner.type] = max(region.owner.score, scores.get(region.owner.type, 0.0))
        at = [(window.locate(region.start)[1], region) for region in here]
        spans = tuple(Span(low, low + item.end - item.start, item.owner.type, item.owner.score) for low, item in at)
        return Detection(
            self.id,
            ctx.stage,
            place.message_id,
            place.part,
            str(place.path[0]) if place.path else "",
            bool(here),
            self.strategy if here else "none",
            tuple(scores),
            freeze(scores),
            spans,
            None,
            next((region.owner.judge for region in here if region.owner.judge), ""),
            window.text if self.include_text else None,
        )


def _real(hit: Hit) -> list[Finding]:
    return [item for item in cast("list[Finding]", hit.found) if item.type != _NOTHING]


def _placed(
    said: Said, places: Sequence[tuple[int, int]], ahead: int, start: int, end: int, judge: str
) -> list[Finding]:
    """Return a value's places as findings in a window; the whole window if it stands nowhere in what was shown."""
    if not places:
        return [Finding(start, end, said.type, said.score, judge, located=False)]
    inside = [(max(low + ahead, start), high + ahead) for low, high in places if high + ahead > start]
    return [Finding(low, high, said.type, said.score, judge) for low, high in inside]


def _span(window: TextWindow, region: Region) -> dict[str, Value]:
    place, start = window.locate(region.start)
    return {
        "message_id": place.message_id,
        "part": place.part,
        "field": place.path[0] if place.path else "",
        "start": start,
        "length": region.end - region.start,
        "type": region.owner.type,
        "score": region.owner.score,
    }


def hidden(text: str, spans: Iterable[Span]) -> str:
    """Return a text with what was found in it replaced by the names of its types, as a judge is to see it."""
    made = regions(sorted(of_spans(spans), key=lambda item: (item.start, item.end)))
    return apply(text, tuple(Edit(item.start, item.end, f"[{item.owner.type.upper()}]", "redact") for item in made))
