"""`SpanGuard`: base class of guards that find spans of text, and redact or remove them, log them, or stop the run.

The embedded detector searches every text; neighbouring text parts of a message both separately and as one joined text.
The user's own detector, if there is one, reads the joined text window by window; its spans count where they stand.
A judge, if there is one, is asked once about each sentence of the joined text, with the detector's findings hidden, and
names values. The guard then searches the text for these values, since models cannot count characters.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias, TypeVar, cast

from penstock.detection.unicode.invisibles import visible_text
from penstock.detection.windows import Windows
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import gather
from penstock.engine.text_guards.reading import is_random
from penstock.engine.text_guards.reporting import MOST_LISTED, by_place, cannot_edit, field_of, listed_place
from penstock.engine.text_guards.text_guard import MAX_HOLD
from penstock.engine.values.edits import Edit, apply
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import freeze
from penstock.engine.values.model import JudgeError
from penstock.processors.guards.judged_guard import REMOVES_MESSAGES, Detection, Guard, require_complete, says_something

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Found, Hit, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.protocols import Judged
    from penstock.engine.values.texts import TextPlace
    from penstock.models.detectors.calls import DetectorCalls
    from penstock.processors.guards.judged_guard import GuardOptions

V = TypeVar("V")
FindSpans: TypeAlias = "Callable[[TextWindow, int, dict[str, Value], AnyContext], tuple[Sequence[Span], int]]"

_SEARCH = "book"
_START, _PLACE = itemgetter(0), itemgetter(0, 1)  # of a finding, and of a group
_NOTHING = ""  # the type of a finding that only makes `act` report that a text holds nothing


class SpanFinding(NamedTuple):
    """A stretch of a text in which something was found.

    Attributes:
        start: where it begins, in characters.
        end: where it ends.
        type: what was found.
        score: how sure that is, from 0 to 1.
        judge: the name of the model that found it; empty for detectors.
        detector: the name of the user's own detector that found it; empty for the embedded one.
        located: whether the stretch is what was found; if not, what was found stands somewhere in the stretch.
        encoded: whether the stretch is encoded text.
    """

    start: int
    end: int
    type: str
    score: float = 1.0
    judge: str = ""
    detector: str = ""
    located: bool = True
    encoded: bool = False


class JudgedValue(NamedTuple):
    """A value that a judge names: its type, the value itself (None if the judge names only the type), its score."""

    type: str
    value: str | None
    score: float = 1.0


class FindingGroup(NamedTuple):
    """Findings that overlap, as one stretch.

    ``owner`` is the longest of them; it gives the type. ``action`` is the strategy for them.
    """

    start: int
    end: int
    owner: SpanFinding
    action: str = ""


class SpanGuard(Guard[V]):
    """Finds spans of text. A subclass tells how its detector finds them, and how to read a judge's verdict.

    Write `find_spans` and `replacement`; with a judge, `judged_values`; and call `set_up` in the constructor. A
    ``max_hold`` that a subclass declares must allow two of the `windows` (1,200 characters by default), three with
    ``strategy="filter"``.

    Attributes:
        windows: how to cut texts for the judge; ``strategy="filter"`` removes such a window around a finding where it
            cannot remove the message.
        threshold: the score from which a finding counts, 0 to 1.
        detector_windows: how to cut texts that go to the model for the user's own detector; other texts are cut as for
            the judge.
        detector_threshold: the score from which its findings count.
        calls: its calls; None if there is none.
        found: the fact with the number of findings of the run by type: ``{"email": 2}``.
    """

    searching = (*Guard.searching, "searches", "find_spans", "find_encoded_spans")
    glancing = (*Guard.glancing, "quiet_spans")
    windows: Windows = Windows(least=40, most=600, overlap=200)
    threshold: float = 0.5
    detector_windows: ClassVar[Windows] = Windows(least=1_000, most=2_000, overlap=200)
    detector_threshold: float = 0.0
    calls: DetectorCalls[Sequence[Span]] | None = None
    found: Key[Mapping[str, int]]

    def find_spans(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what the embedded detector finds in a window, and from where on more text could change that.

        Args:
            window: the text, or the part of a streamed one that is not decided yet.
            start: where in ``window.text`` the search begins; spans begin there or later.
            notes: a dict of this search for each text, empty at the beginning of the text.
            ctx: the context of the call.

        Returns:
            The spans in order, and the place from which on the search goes on when there is more text. Spans that end
            beyond it are ignored unless the window is ``final``.
        """
        raise NotImplementedError

    def find_encoded_spans(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what a second search finds, in encoded text; like `find_spans`. By default nothing."""
        del start, notes, ctx
        return (), len(window.text)

    def searches(self) -> Sequence[tuple[FindSpans, bool]]:
        """Return the searches of the embedded detector, each with whether it reads encoded text.

        Each search goes on at its own pace. By default these are `find_spans` and `find_encoded_spans`.
        """
        return ((self.find_spans, False), (self.find_encoded_spans, True))

    def quiet_spans(self, text: str, start: int, *, final: bool) -> int | None:
        """Return what `quiet` returns, as far as the embedded detector's searches are concerned; by default None.

        A subclass that answers must also write `is_begun`.
        """
        del text, start, final
        return None

    def is_begun(self, text: str, since: int, ends: Sequence[tuple[int, Mapping[str, Value]]]) -> bool:
        """Return whether the `searches` can begin anew at a position of the text, or behind it, once that is quiet.

        ``ends`` holds, for each of them, the position that it has come to, and its notes.
        """
        del text, since, ends
        return False

    def action(self, type: str) -> str:
        """Return the strategy for findings of a type; by default that of the guard."""
        del type
        return self.strategy

    def judged_values(self, judged: Judged[V]) -> Iterable[JudgedValue]:
        """Return the values that a judge's verdict names."""
        raise NotImplementedError

    def replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what replaces a text of a type."""
        raise NotImplementedError

    def encoded_replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what replaces encoded text that holds something of a type; by default the same as for plain text."""
        return self.replacement(text, type, ctx)

    def judge_view(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the judge is shown it; subclasses hide what the embedded detector finds in it."""
        del ctx
        return text

    def set_up(
        self,
        model: object,
        strategy: str,
        verdict: type[V],
        question: str,
        options: GuardOptions,
        *,
        named: Iterable[object] = (),
        needs_hold: int = 0,
    ) -> None:
        """Check and store the options that all guards have, and declare the fact `found`.

        Set `windows` and `threshold` before, and `calls` if there is a ``detector``. The other arguments and the
        errors are those of `Guard.set_up`.

        Args:
            named: tells the fact of this guard from those of others.
            needs_hold: how many characters of a stream the detector may need to hold back; `limit_hold` says what
                follows. Two windows, three with ``strategy="filter"``, are needed in any case.
        """
        super().set_up(model, strategy, verdict, question, options)
        self.lookback = max(self.lookback, self.windows.overlap)
        # With "filter", a detector holds text back from the beginning of its sentence.
        sentence = self.windows.most if self.strategy == "filter" else 0
        self.limit_hold(max(2 * self.windows.most + sentence, needs_hold), MAX_HOLD + sentence)
        # What the user's own detector must confirm is searched for in the joined text, which is what that one reads.
        self.read_parts_separately = self.strategy != "filter" and self.combine != "confirm"
        self.found = Key(self.fact_name("found", *named))
        self.provides = (self.found,)

    # Finding

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return the position from which text must be held back, if a glance shows that nothing was found; else None.

        It is None for a guard that is to do something about every text: to ask a judge or the user's own detector, to
        report that a text holds nothing, or to tell sentences of a stream apart.
        """
        if self.calls is not None or self.judge is not None or self.on_detection is not None:
            return None
        if (self.strategy == "filter" and not final) or (notes and not notes[_SEARCH].begun_anew):
            return None
        return self.quiet_spans(text, start, final=final)

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[SpanFinding], int] | Awaitable[tuple[Sequence[SpanFinding], int]]:
        """Return the findings that are decided, and from where on more text could change the others."""
        at = window.base + window.start
        searches = self.searches()
        search: _SpanSearch | None = window.notes.get(_SEARCH)
        if search is None:
            search = window.notes[_SEARCH] = _SpanSearch(at, len(searches))
        else:
            search.forget(at)
            search.pass_over(at)
        for progress, (find, encoded) in zip(search.embedded, searches, strict=True):
            begin = progress.at - window.base
            none: tuple[Sequence[Span], int] = ((), len(window.text))
            spans, hold = find(window, begin, progress.notes, ctx) if self.embedded else none
            found = to_findings(spans, encoded=encoded)
            progress.advance(found, window.base, hold, final=window.final)
        if self.calls is not None:
            return self._ask_detector(window, search, ctx)
        search.without_detector(window)
        if self.judge is not None:
            return self._ask_judge(window, search, ctx)
        search.without_judge(window)
        decided = self._decided(window, search)
        search.begun_anew = not window.final and self._is_begun(window, search, decided[1])
        return decided

    def _is_begun(self, window: TextWindow, search: _SpanSearch, until: int) -> bool:
        """Return whether all searches can begin anew behind a position, once the text from there on is quiet.

        Then nothing may be found behind it, nor may it lie within a word.
        """
        ends = [(progress.at - window.base, progress.notes) for progress in search.embedded]
        if any(item.end > until + window.base for progress in search.embedded for item in progress.found):
            return False
        alone = until == 0 or window.text[until - 1].isspace() or all(at == until for at, _ in ends)
        return alone and self.is_begun(window.text, until, ends)

    async def _ask_detector(
        self, window: TextWindow, search: _SpanSearch, ctx: AnyContext
    ) -> tuple[Sequence[SpanFinding], int]:
        if window.separate or (window.fixed and is_random(window.text, window.key) and not says_something(window.text)):
            search.without_detector(window)
        else:
            windows = self.detector_windows if STAGES[ctx.stage].phase == "input" else self.windows
            begin = search.theirs.at - window.base
            cuts = windows.cuts(window.text, begin, final=window.final)
            found = await self._found_by_detector(window, windows, list(itertools.pairwise([begin, *cuts])))
            search.theirs.advance(found, window.base, cuts[-1] if cuts else begin, final=window.final)
        if self.judge is not None:
            return await self._ask_judge(window, search, ctx)
        search.without_judge(window)
        return self._decided(window, search)

    async def _found_by_detector(
        self, window: TextWindow, windows: Windows, places: Sequence[tuple[int, int]]
    ) -> list[SpanFinding]:
        """Return what the user's own detector finds in stretches of a text, in characters of the window.

        Raises:
            DetectorError: it failed.
        """
        if self.calls is None:
            return []
        asked: list[tuple[int, int, _Reading]] = []
        for start, end in places:
            if window.text[start:end].strip():
                view = windows.view(window.text, start, end)
                ahead = end - len(view)
                borders = [at - ahead for at in window.borders(ahead, end)]
                seen = visible_text(view)  # the embedded detector sees through them, too
                uncovered = [_Reading(*seen)] if seen is not None and seen.text.strip() else []
                asked += [(start, ahead, reading) for reading in (*_readings(view, borders), *uncovered)]
        answers = await self.calls.ask([reading.text for _, _, reading in asked])
        found: dict[SpanFinding, None] = {}
        for (start, ahead, reading), spans in zip(asked, answers, strict=True):
            for span in spans:
                low, high = reading.given(span.start) + ahead, reading.given(span.end) + ahead
                if high > start and span.score >= self.detector_threshold and self.wants(span.type):
                    item = SpanFinding(max(low, start), high, span.type, span.score, detector=self.calls.name)
                    found[item] = None
        return list(found)

    def wants(self, type: str) -> bool:
        """Return whether findings of a type by the user's own detector count; by default all do."""
        del type
        return True

    async def _ask_judge(
        self, window: TextWindow, search: _SpanSearch, ctx: AnyContext
    ) -> tuple[Sequence[SpanFinding], int]:
        if window.separate:
            search.without_judge(window)
            return self._decided(window, search)
        begin = search.judged.at - window.base
        if window.fixed and not says_something(window.text):
            search.judged.advance((), window.base, len(window.text), final=window.final)
            return self._decided(window, search)
        cuts = self.windows.cuts(window.text, begin, final=window.final)
        sentences = itertools.pairwise([begin, *cuts])
        found = await gather([partial(self._ask_about, window, start, end, ctx) for start, end in sentences])
        hold = cuts[-1] if cuts else begin
        search.judged.advance(itertools.chain.from_iterable(found), window.base, hold, final=window.final)
        return self._decided(window, search)

    async def _ask_about(self, window: TextWindow, start: int, end: int, ctx: AnyContext) -> list[SpanFinding]:
        """Return what the judge finds between two places of a text.

        Raises:
            JudgeError: the judge gave no verdict.
        """
        if self.judge is None or not window.text[start:end].strip():
            return []
        view = self.windows.view(window.text, start, end)
        ahead = end - len(view)  # where the view begins
        readings = _readings(view, [at - ahead for at in window.borders(ahead, end)])
        shown = self.judge_view("\n\n".join(reading.text for reading in readings), ctx)
        try:
            judged = await self.judge.ask(shown, ctx=ctx)
            values = [value for value in self.judged_values(judged) if value.score >= self.threshold]
            # Redacting and filtering need every value: one that could not be read would stay where it is.
            require_complete(judged, flagged=bool(values) and self.edits == "nothing", model=judged.model)
        except JudgeError:
            if self.judge_failure == "fail":
                raise
            ctx.note(judge_failed=True)
            return []
        placed = _located(values, readings, shown)
        judge = judged.model or type(self.judge).__name__
        return [item for value, at in placed for item in _at_places(value, at, ahead, start, end, judge)]

    def _decided(self, window: TextWindow, search: _SpanSearch) -> tuple[Sequence[SpanFinding], int]:
        base = window.base
        limit = min(search.judged.at, search.theirs.at, *(progress.at for progress in search.embedded))
        if self.strategy == "filter":
            begin = search.sentences.at - base
            cuts = self.windows.cuts(window.text, begin, final=window.final)
            sentences = [SpanFinding(low, high, "") for low, high in itertools.pairwise([begin, *cuts])]
            search.sentences.advance(sentences, base, cuts[-1] if cuts else begin, final=window.final)
            limit = min(limit, search.sentences.at)
        until = limit if window.final else search.last_cut(limit, by_sentence=self.strategy == "filter")
        found = [
            item for item in search.findings() if item.end <= until and (item.detector or item.score >= self.threshold)
        ]
        if self.combine == "confirm":
            found = confirmed(found)
        search.flagged = search.flagged or bool(found)
        if window.final and not window.separate and not search.flagged and self.on_detection is not None:
            found = [SpanFinding(until, until, _NOTHING)]
        return [_moved(item, -base) for item in found], until - base

    def overrides(self, within: Found, across: Found) -> bool:
        """Return whether a finding within a part replaces one across parts: if the detector gave both the same type.

        Findings of two types are two things, and both are hidden. So is all that the judge and the user's own detector
        find.
        """
        one, other = cast("SpanFinding", within), cast("SpanFinding", across)
        return one.type == other.type and not (one.judge or other.judge or one.detector or other.detector)

    def joined_only(self, found: Found) -> bool:
        """Return whether it was found by somebody who reads the joined text only, or is no finding at all."""
        item = cast("SpanFinding", found)
        return bool(item.judge or item.detector) or item.type == _NOTHING

    # Acting

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Report what was found; then return the edits of the strategy, or stop the run."""
        found = [(hit.window, self._groups(_real(hit))) for hit in hits]
        listed = [(window, group) for window, groups in found for group in groups]
        for window, groups in found:
            self._report_places(ctx, window, groups)
        if not listed:
            return [()] * len(hits)
        types = [group.owner.type for _, group in listed]
        self._reporter.count(ctx, self.found, Counter(types))
        warned = [group.owner.type for _, group in listed if group.action == "warn"]
        if warned:
            self.warn(ctx, warned)
        edited = [(window, group) for window, group in listed if group.action not in ("block", "warn")]
        stuck = self._why_not_edited(edited, ctx)
        stops = [(window, group) for window, group in listed if group.action == "block"] or (edited if stuck else [])
        if stops:
            self.block(ctx, [group.owner.type for _, group in stops], self._metadata(stops), stuck)
        return [self._edits(window, groups, ctx) for window, groups in found]

    def _groups(self, found: Sequence[SpanFinding]) -> list[FindingGroup]:
        """Return findings, which are in order, as stretches; those of different strategies may overlap."""
        actions = {item.type: self.action(item.type) for item in found}
        groups = [
            group
            for action in dict.fromkeys(actions.values())
            for group in group_findings([item for item in found if actions[item.type] == action], action)
        ]
        return sorted(groups, key=_START)

    def _why_not_edited(self, found: Sequence[tuple[TextWindow, FindingGroup]], ctx: AnyContext) -> str:
        """Return why the findings cannot be edited; an empty text if they can."""
        if self.edits == "nothing":
            return ""
        fixed = [window for window, _ in found if window.fixed]
        if fixed and not (self.removes_messages and ctx.stage in REMOVES_MESSAGES):
            return cannot_edit(fixed)
        if self.strategy != "filter" and any(not group.owner.located for _, group in found):
            return "what the judge found does not stand in the text as it says, so it cannot be hidden; "
        return ""

    def _edits(self, window: TextWindow, groups: Sequence[FindingGroup], ctx: AnyContext) -> list[Edit]:
        if self.edits == "nothing":
            return []
        if self.strategy == "filter":
            return self._without_sentences(window, groups)
        return [
            Edit(item.start, item.end, self._hidden(window.text[item.start : item.end], item.owner, ctx), "redact")
            for item in groups
            if item.action == "redact"
        ]

    def _hidden(self, text: str, owner: SpanFinding, ctx: AnyContext) -> str:
        hide = self.encoded_replacement if owner.encoded else self.replacement
        return hide(text, owner.type, ctx)

    def _without_sentences(self, window: TextWindow, groups: Sequence[FindingGroup]) -> list[Edit]:
        """Return edits that remove the sentences in which something was found."""
        cuts = [0, *self.windows.cuts(window.text)]
        removed = {
            at
            for group in groups
            for at in range(bisect_right(cuts, group.start) - 1, bisect_left(cuts, max(group.end, group.start + 1)))
        }
        return [Edit(cuts[at], cuts[at + 1], "", "redact") for at in sorted(removed) if at + 1 < len(cuts)]

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits; with ``strategy="filter"`` without the messages that have some."""
        return self.without_flagged(ctx, edits) if self.strategy == "filter" else super().changed(ctx, edits)

    # Reporting

    def _metadata(self, found: Sequence[tuple[TextWindow, FindingGroup]]) -> dict[str, Value]:
        """Return the metadata of a tripwire."""
        owners = [group.owner for _, group in found]
        theirs = next((owner.detector for owner in owners if owner.detector), "")
        return {
            "categories": {
                type: max(owner.score for owner in owners if owner.type == type)
                for type in dict.fromkeys(owner.type for owner in owners)
            },
            "counts": dict(Counter(owner.type for owner in owners)),
            "threshold": self.threshold,
            "judge": next((owner.judge for owner in owners if owner.judge), None),
            **({"detector": theirs} if theirs else {}),
            "spans": [_listed_span(window, group) for window, group in found[:MOST_LISTED]],
        }

    def _report_places(self, ctx: AnyContext, window: TextWindow, groups: Sequence[FindingGroup]) -> None:
        if not self._reporter.is_heard():
            return
        places: dict[TextPlace, list[FindingGroup]] = by_place(window, groups) or {window.locate(0)[0]: []}
        for place, here in places.items():
            self.report(ctx, self._detection(ctx, window, place, here))

    def _detection(
        self, ctx: AnyContext, window: TextWindow, place: TextPlace, here: Sequence[FindingGroup]
    ) -> Detection:
        from penstock.detection.spans import Span

        scores: dict[str, float] = {}
        for group in here:
            scores[group.owner.type] = max(group.owner.score, scores.get(group.owner.type, 0.0))
        at = [(window.locate(group.start)[1], group) for group in here]
        spans = tuple(Span(low, low + item.end - item.start, item.owner.type, item.owner.score) for low, item in at)
        return Detection(
            self.id,
            ctx.stage,
            place.message_id,
            place.part,
            field_of(place),
            bool(here),
            self.strategy if here else "none",
            tuple(scores),
            freeze(scores),
            spans,
            None,
            next((group.owner.judge for group in here if group.owner.judge), ""),
            window.text if self.include_text else None,
        )


def to_findings(spans: Iterable[Span], *, encoded: bool = False) -> Iterator[SpanFinding]:
    """Yield the spans of an embedded detector as findings."""
    for span in spans:
        yield SpanFinding(span.start, span.end, span.type, span.score, encoded=encoded)


def group_findings(found: Sequence[SpanFinding], action: str = "") -> list[FindingGroup]:
    """Return findings, which are in order, as stretches that do not overlap; ``action`` is the strategy for them."""
    made: list[FindingGroup] = []
    for item in _told_apart(found):
        last = made[-1] if made else None
        if last is None or item.start >= last.end:
            made.append(FindingGroup(item.start, item.end, item, action))
            continue
        owner = max(last.owner, item, key=lambda one: (not one.located, one.end - one.start))
        encoded = last.owner.encoded or item.encoded
        made[-1] = FindingGroup(last.start, max(last.end, item.end), owner._replace(encoded=encoded), action)
    return made


def _told_apart(found: Sequence[SpanFinding]) -> Iterator[SpanFinding]:
    """Yield findings; one in encoded text that lies within one in the text as it is written counts as plain, too."""
    if not any(item.encoded for item in found):
        yield from found
        return
    plain = sorted((item.start, item.end) for item in found if not item.encoded)
    starts = [start for start, _ in plain]
    reach = [0, *itertools.accumulate((end for _, end in plain), max)]  # the furthest end among those before each
    for item in found:
        known = item.encoded and item.end <= reach[bisect_right(starts, item.start)]
        yield item._replace(encoded=False) if known else item


def confirmed(found: Sequence[SpanFinding]) -> list[SpanFinding]:
    """Return the judge's findings, and those of the embedded detector that one of the user's own of a type overlaps."""
    theirs: dict[str, list[SpanFinding]] = {}
    for item in found:
        if item.detector:
            theirs.setdefault(item.type, []).append(item)
    return [
        item
        for item in found
        if item.judge
        or (
            not item.detector
            and any(one.start < item.end and item.start < one.end for one in theirs.get(item.type, ()))
        )
    ]


def hide_spans(text: str, spans: Iterable[Span]) -> str:
    """Return a text with spans replaced by the names of their types, as a judge is shown it: ``[EMAIL]``."""
    made = group_findings(sorted(to_findings(spans), key=_PLACE))
    return apply(text, tuple(Edit(item.start, item.end, f"[{item.owner.type.upper()}]", "redact") for item in made))


# How far the searches of one text have come


class _SearchProgress:
    """How far one search has come, what it found, and its notes; places are counted from the text's beginning."""

    __slots__ = ("at", "found", "notes")

    def __init__(self, at: int) -> None:
        self.at = at
        self.found: list[SpanFinding] = []
        self.notes: dict[str, Value] = {}

    def advance(self, spans: Iterable[SpanFinding], base: int, hold: int, *, final: bool) -> None:
        """Add findings, in characters of a window that begins at ``base``; all up to ``hold`` is decided."""
        for span in spans:
            if final or span.end <= hold:
                self.found.append(_moved(span, base))
        self.at = base + hold


class _SpanSearch:
    """The searches of one text, each with a pace of its own. At first, everything before a place is decided.

    Attributes:
        embedded: the embedded detector's searches.
        theirs: that of the user's own detector.
        judged: the judge's.
        sentences: the ends of sentences, for ``strategy="filter"``.
        flagged: whether anything was found in the text so far.
        begun_anew: whether the embedded detector's searches may begin anew where the text is quiet.
    """

    __slots__ = ("begun_anew", "embedded", "flagged", "judged", "sentences", "theirs")

    def __init__(self, at: int, searches: int) -> None:
        self.embedded = [_SearchProgress(at) for _ in range(searches)]
        self.theirs = _SearchProgress(at)
        self.judged = _SearchProgress(at)
        self.sentences = _SearchProgress(at)
        self.flagged = self.begun_anew = False

    def without_detector(self, window: TextWindow) -> None:
        """Count a window as read by the user's own detector, since there is none, or it reads the joined text."""
        self.theirs = _SearchProgress(window.base + len(window.text))

    def without_judge(self, window: TextWindow) -> None:
        """Count a window as judged, since no judge reads it. What a judge found is left to the joined text."""
        self.judged = _SearchProgress(window.base + len(window.text))

    def pass_over(self, before: int) -> None:
        """Let those searches begin anew at a place that have not come so far, since the text before it was quiet."""
        self.embedded = [one if one.at >= before else _SearchProgress(before) for one in self.embedded]
        self.sentences.at = max(self.sentences.at, before)

    def forget(self, before: int) -> None:
        """Forget findings before a place, which are decided."""
        for progress in (*self.embedded, self.theirs, self.judged, self.sentences):
            progress.found = [item for item in progress.found if item.start >= before]

    def findings(self) -> list[SpanFinding]:
        """Return all findings that are not forgotten, in order."""
        found = [item for progress in (*self.embedded, self.theirs, self.judged) for item in progress.found]
        return sorted(found, key=_PLACE)

    def last_cut(self, limit: int, *, by_sentence: bool) -> int:
        """Return the last place up to a limit that lies in no finding, and, if asked for, between two sentences."""
        found = self.findings()
        while True:
            lower = min((item.start for item in found if item.start < limit < item.end), default=limit)
            if by_sentence:
                ends = [item.end for item in self.sentences.found]
                starts = [item.start for item in self.sentences.found]
                lower = max((end for end in ends if end <= lower), default=min(starts, default=lower))
            if lower == limit:
                return limit
            limit = lower


def _moved(item: SpanFinding, by: int) -> SpanFinding:
    """Return a finding with ``by`` added to its positions."""
    return item._replace(start=item.start + by, end=item.end + by) if by else item


def _real(hit: Hit) -> list[SpanFinding]:
    return [item for item in cast("list[SpanFinding]", hit.found) if item.type != _NOTHING]


class _Reading(NamedTuple):
    """A text as it is read: as it stands, with a line break where a part begins, or without invisible characters.

    Attributes:
        text: what is read.
        cuts: where something was added or left out, in characters of ``text``, in order.
        shifts: how many characters less it has up to each cut, behind a 0 for none.
    """

    text: str
    cuts: Sequence[int] = ()
    shifts: Sequence[int] = (0,)

    def given(self, at: int) -> int:
        """Return a position of the text as it stands."""
        return at + self.shifts[bisect_left(self.cuts, at)]


def _readings(text: str, borders: Sequence[int]) -> list[_Reading]:
    """Return the ways to read a text: as it stands and, if parts meet within a word, with these words apart.

    "I am Jo" and "hn." are one word, "ask Jo" and "then go" are two; nothing but the reader can tell.
    """
    glued = [at for at in dict.fromkeys(borders) if text[at - 1].isalnum() and text[at].isalnum()]
    if not glued:
        return [_Reading(text)]
    pieces = [text[low:high] for low, high in itertools.pairwise([0, *glued, len(text)])]
    cuts = [at + before for before, at in enumerate(glued)]
    return [_Reading(text), _Reading("\n".join(pieces), cuts, range(0, -len(cuts) - 1, -1))]


def _located(
    values: Sequence[JudgedValue], readings: Sequence[_Reading], shown: str
) -> list[tuple[JudgedValue, list[tuple[int, int]]]]:
    """Return values with their places in a text, in any of its readings, without the names of what was hidden."""
    from penstock.detection.locating import ValueLocator  # loaded where a judge names values

    here = [(reading, ValueLocator(reading.text)) for reading in readings]
    there = ValueLocator(shown)
    located: list[tuple[JudgedValue, list[tuple[int, int]]]] = []
    for value in values:
        said = value.value or ""
        places = {
            (reading.given(low), reading.given(high)) for reading, locator in here for low, high in locator.find(said)
        }
        if places or not there.find(said):  # a value that stands only in what was shown is the name of what is hidden
            located.append((value, sorted(places)))
    return located


def _at_places(
    value: JudgedValue, places: Sequence[tuple[int, int]], ahead: int, start: int, end: int, judge: str
) -> list[SpanFinding]:
    """Return the places of a value as findings between two places; that whole stretch if the value stands nowhere."""
    if not places:
        return [SpanFinding(start, end, value.type, value.score, judge, located=False)]
    inside = [(max(low + ahead, start), high + ahead) for low, high in places if high + ahead > start]
    return [SpanFinding(low, high, value.type, value.score, judge) for low, high in inside]


def _listed_span(window: TextWindow, group: FindingGroup) -> dict[str, Value]:
    return {
        **listed_place(window, group.start),
        "length": group.end - group.start,
        "type": group.owner.type,
        "score": group.owner.score,
    }
