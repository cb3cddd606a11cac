"""`SpanSearch`: finds spans of text, with an embedded detector, the user's own detector, and a judge.

The embedded detector searches every text; neighbouring text parts of a message both separately and as one joined text.
The user's own detector, if there is one, reads the joined text window by window; its spans count where they stand.
A judge, if there is one, is asked once about each sentence of the joined text, with the detector's findings hidden, and
names values. The guard then searches the text for these values, since models cannot count characters.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Mapping
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

from penstock.detection.places.owner import OwnerWords
from penstock.detection.unicode.invisibles import visible_text
from penstock.detection.windows import Windows
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import gather
from penstock.engine.text_guards.components import Action, Search
from penstock.engine.text_guards.reading import is_random
from penstock.engine.text_guards.text_guard import MAX_HOLD
from penstock.engine.values.errors import DetectorError
from penstock.engine.values.facts import Key
from penstock.engine.values.model import JudgeError
from penstock.processors.guards.guard_options import limit_hold
from penstock.processors.guards.judging import answers_in_time, require_complete, says_something
from penstock.processors.guards.span_findings import NOTHING, JudgedValue, SpanFinding, confirmed, to_findings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.text_guard import TextGuard
    from penstock.engine.text_guards.window import Found, TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Judged, SpanDetector
    from penstock.processors.guards.guard_options import GuardSetup

V = TypeVar("V")
Spans: TypeAlias = "tuple[Sequence[Span], int]"
SpanFindings: TypeAlias = "tuple[Sequence[SpanFinding], int]"
FindSpans: TypeAlias = "Callable[[TextWindow, int, dict[str, Value], AnyContext], Spans]"

WINDOWS = Windows(least=40, most=600, overlap=200)
"""How texts are cut for a judge, unless a guard says otherwise."""

_SEARCH = "book"
_PLACE = itemgetter(0, 1)
_TYPE = attrgetter("type")


def _come_to(search: tuple[_SearchProgress, object]) -> int:
    """Return up to where a search has come."""
    return search[0].at


class SpanSearch(Search, Generic[V]):
    """Finds spans of text. A subclass writes `find_spans`; with a judge, also `judged_values`.

    Attributes:
        setup: the options of the guard.
        windows: how to cut texts for the judge; ``strategy="filter"`` removes such a window around a finding where it
            cannot remove the message.
        threshold: the score from which a finding counts, 0 to 1.
        detector_threshold: the score from which findings of the user's own detector count.
        detector_windows: how to cut texts that go to the model for the user's own detector; other texts are cut as for
            the judge.
        lookback: how many characters before a finding the search must see.
        found: the fact with the number of findings of the run by type: ``{"email": 2}``.
        owner: the options ``fields`` and ``allow``; empty unless a subclass sets it.
    """

    owner = OwnerWords()
    detector_windows: ClassVar[Windows] = Windows(least=1_000, most=2_000, overlap=200)

    def __init__(
        self,
        setup: GuardSetup[V, Sequence[Span]],
        windows: Windows = WINDOWS,
        *,
        threshold: float = 0.5,
        detector_threshold: float = 0.0,
        lookback: int = 0,
    ) -> None:
        self.setup = setup
        self.windows = windows
        self.threshold = threshold
        self.detector_threshold = detector_threshold
        self.lookback = max(windows.overlap, lookback)
        self.found = Key[Mapping[str, int]](setup.fact)
        self._calls, self._judge = setup.detector.calls, setup.judge
        self._tells_all = setup.reporter.callbacks.get("on_detection") is not None

    def install(self, guard: TextGuard, action: Action, needs_hold: int = 0) -> None:
        """Make a guard of this search and an action; call it in the guard's constructor.

        It sets ``search``, ``action``, ``provides``, and the limits in streams that follow from this search.

        Args:
            guard: the guard.
            action: edits findings, or stops the run.
            needs_hold: how many characters of a stream the detector may need to hold back; `limit_hold` says what
                follows. Two windows, three with ``strategy="filter"``, are needed in any case.
        """
        guard.search, guard.action, guard.provides = self, action, (self.found,)
        guard.lookback = max(guard.lookback, self.lookback)
        # With "filter", a detector holds text back from the beginning of its sentence.
        sentence = self.windows.most if self.setup.strategy == "filter" else 0
        limit_hold(guard, max(2 * self.windows.most + sentence, needs_hold), MAX_HOLD + sentence)
        guard.read_parts_separately = self.setup.strategy != "filter"
        self.reads_steps_on = self.setup.strategy == "filter"
        self.reads_joined_on = self._calls is not None or self._judge is not None

    def find_spans(self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext) -> Spans:
        """Return the embedded detector's findings in a window, and from where on more text could change that.

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

    def find_encoded_spans(self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext) -> Spans:
        """Return the findings of a second search, in encoded text; like `find_spans`. By default nothing."""
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

    def judged_values(self, judged: Judged[V]) -> Iterable[JudgedValue]:
        """Return the values that a judge's verdict names."""
        raise NotImplementedError

    def judge_view(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the judge is shown it; subclasses hide the embedded detector's findings in it."""
        del ctx
        return text

    def wants(self, type: str) -> bool:
        """Return whether findings of a type by the user's own detector count; by default all do."""
        del type
        return True

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return the position from which text must be held back, if a glance shows that nothing was found; else None.

        It is None for a guard that is to do something about every text: to ask a judge or the user's own detector, to
        report that a text holds nothing, or to tell sentences of a stream apart.
        """
        if self._calls is not None or self._judge is not None or self._tells_all or self.owner.fields:
            return None
        if (self.setup.strategy == "filter" and not final) or (notes and not notes[_SEARCH].begun_anew):
            return None
        return self.quiet_spans(text, start, final=final)

    def evidence(self, ctx: AnyContext) -> bytes | None:
        """Return nothing, unless somebody is asked or told about each text."""
        del ctx
        return None if self._calls is not None or self._judge is not None or self._tells_all else b""

    def scan(self, window: TextWindow, ctx: AnyContext) -> SpanFindings | Awaitable[SpanFindings]:
        """Return the findings that are decided, and from where on more text could change the others."""
        at = window.base + window.start
        searches = self.searches()
        search: _SpanSearch | None = window.notes.get(_SEARCH)
        if search is None:
            search = window.notes[_SEARCH] = _SpanSearch(at, len(searches))
        else:
            search.forget(at)
            search.pass_over(at)
        none: Spans = ((), len(window.text))
        behind = window.base + len(window.text)
        for progress, (find, encoded) in sorted(zip(search.embedded, searches, strict=True), key=_come_to):
            if progress.at >= behind and not window.final:
                continue  # it is ahead of one that has just gone on, and no text leaves before that one has come so far
            begin = progress.at - window.base
            spans, hold = find(window, begin, progress.notes, ctx) if self.setup.embedded else none
            found = [_behind(item, window.start) for item in to_findings(spans, encoded=encoded)]
            progress.advance(found, window.base, hold, final=window.final)
            behind = min(behind, progress.at)
        if self._calls is not None:
            return self._ask_detector(window, search, ctx)
        search.without_detector(window)
        if self._judge is not None:
            return self._ask_judge(window, search, ctx)
        search.without_judge(window)
        decided = self._decided(window, search, ctx)
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

    async def _ask_detector(self, window: TextWindow, search: _SpanSearch, ctx: AnyContext) -> SpanFindings:
        if window.separate or (window.fixed and is_random(window.text, window.key) and not says_something(window.text)):
            search.without_detector(window)
        else:
            windows = self.detector_windows if STAGES[ctx.stage].phase == "input" else self.windows
            begin = search.theirs.at - window.base
            cuts = windows.cuts(window.text, begin, final=window.final)
            found = await self._found_by_detector(window, windows, list(itertools.pairwise([begin, *cuts])), ctx)
            search.theirs.advance(found, window.base, cuts[-1] if cuts else begin, final=window.final)
        if self._judge is not None:
            return await self._ask_judge(window, search, ctx)
        search.without_judge(window)
        return self._decided(window, search, ctx)

    async def _found_by_detector(
        self, window: TextWindow, windows: Windows, places: Sequence[tuple[int, int]], ctx: AnyContext
    ) -> list[SpanFinding]:
        """Return the findings of the user's own detector in stretches of a text, in characters of the window.

        Raises:
            DetectorError: it failed.
        """
        if self._calls is None:
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
        answers = await answers_in_time(self._calls, [reading.text for _, _, reading in asked], ctx)
        found: dict[SpanFinding, None] = {}
        for (start, ahead, reading), spans in zip(asked, answers, strict=True):
            if isinstance(spans, DetectorError):
                ctx.let_pass(spans)
                if self.setup.combine == "confirm":  # a finding that nobody could confirm stays
                    end = reading.given(len(reading.text)) + ahead
                    types = cast("SpanDetector", self._calls.detector).types
                    found |= {SpanFinding(start, end, each, detector=self._calls.name): None for each in types}
                continue
            for span in spans:
                low, high = reading.given(span.start) + ahead, reading.given(span.end) + ahead
                if high > start and span.score >= self.detector_threshold and self.wants(span.type):
                    item = SpanFinding(max(low, start), high, span.type, span.score, detector=self._calls.name)
                    found[item] = None
        return list(found)

    async def _ask_judge(self, window: TextWindow, search: _SpanSearch, ctx: AnyContext) -> SpanFindings:
        if window.separate:
            search.without_judge(window)
            return self._decided(window, search, ctx)
        begin = search.judged.at - window.base
        if window.fixed and not says_something(window.text):
            search.judged.advance((), window.base, len(window.text), final=window.final)
            return self._decided(window, search, ctx)
        cuts = self.windows.cuts(window.text, begin, final=window.final)
        sentences = itertools.pairwise([begin, *cuts])
        found = await gather([partial(self._ask_about, window, start, end, ctx) for start, end in sentences])
        hold = cuts[-1] if cuts else begin
        search.judged.advance(itertools.chain.from_iterable(found), window.base, hold, final=window.final)
        return self._decided(window, search, ctx)

    async def _ask_about(self, window: TextWindow, start: int, end: int, ctx: AnyContext) -> list[SpanFinding]:
        """Return the judge's findings between two places of a text.

        Raises:
            JudgeError: the judge gave no verdict.
        """
        if self._judge is None or not window.text[start:end].strip():
            return []
        view = self.windows.view(window.text, start, end)
        ahead = end - len(view)  # where the view begins
        readings = _readings(view, [at - ahead for at in window.borders(ahead, end)])
        shown = self.judge_view("\n\n".join(reading.text for reading in readings), ctx)
        values: list[JudgedValue] = []
        judge = type(self._judge).__name__
        try:
            judged = await ctx.in_time(self._judge.ask(shown, ctx=ctx))
            judge = judged.model or judge
            values = [value for value in self.judged_values(judged) if value.score >= self.threshold]
            # Redacting and filtering need every value: one that could not be read would stay where it is.
            require_complete(judged, flagged=bool(values) and not self.setup.edits, model=judged.model)
        except Exception as error:  # noqa: BLE001 - the policy decides about this text, and about no other
            if not isinstance(error, JudgeError) or self.setup.judge_failure == "fail":
                ctx.let_pass(error)
            ctx.note(judge_failed=True)
            if not values:
                return []
        placed = _located(values, readings, shown)
        return [item for value, at in placed for item in _at_places(value, at, ahead, start, end, judge)]

    def _decided(self, window: TextWindow, search: _SpanSearch, ctx: AnyContext) -> SpanFindings:
        base = window.base
        limit = min(search.judged.at, search.theirs.at, *(progress.at for progress in search.embedded))
        if self.setup.strategy == "filter":
            begin = search.sentences.at - base
            cuts = self.windows.cuts(window.text, begin, final=window.final)
            sentences = [SpanFinding(low, high, "") for low, high in itertools.pairwise([begin, *cuts])]
            search.sentences.advance(sentences, base, cuts[-1] if cuts else begin, final=window.final)
            limit = min(limit, search.sentences.at)
        until = limit if window.final else search.last_cut(limit, by_sentence=self.setup.strategy == "filter")
        found = [
            item for item in search.findings() if item.end <= until and (item.detector or item.score >= self.threshold)
        ]
        if self.setup.combine == "confirm":
            found = confirmed(found)
        found, until = [_moved(item, -base) for item in found], until - base
        if self.owner:
            found, until = self.owner.applied(window, found, until, _TYPE, SpanFinding, ctx)
        search.flagged = search.flagged or bool(found)
        if window.final and not window.separate and not search.flagged and self._tells_all:
            found = [SpanFinding(until, until, NOTHING)]
        return found, until

    def overrides(self, within: Found, across: Found) -> bool:
        """Return whether a finding within a part replaces one across parts: if the detector gave both the same type.

        Findings of two types are two things, and both are hidden. So is all that the judge and the user's own detector
        find.
        """
        one, other = cast("SpanFinding", within), cast("SpanFinding", across)
        return one.type == other.type and not (one.judge or other.judge or one.detector or other.detector)

    def joined_only(self, found: Found) -> bool:
        """Return whether somebody found or confirmed it who reads the joined text only, or it is no finding at all."""
        item = cast("SpanFinding", found)
        return bool(item.judge or item.detector) or item.type == NOTHING or self.setup.combine == "confirm"


# How far the searches of one text have come


class _SearchProgress:
    """The progress of one search, its findings, and its notes; places are counted from the text's beginning."""

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
        """Count a window as judged, since no judge reads it. A judge's findings are left to the joined text."""
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


def _behind(item: SpanFinding, at: int) -> SpanFinding:
    """Return a finding, or its rest behind a place up to which all has left."""
    return item._replace(start=at) if item.start < at < item.end else item


def _moved(item: SpanFinding, by: int) -> SpanFinding:
    """Return a finding with ``by`` added to its positions."""
    return item._replace(start=item.start + by, end=item.end + by) if by else item


class _Reading(NamedTuple):
    """A text as it is read: as it stands, with a line break where a part begins, or without invisible characters.

    Attributes:
        text: the text to read.
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
    """Return values with their places in a text, in any of its readings, without the names of hidden values."""
    from penstock.detection.locating import ValueLocator  # loaded where a judge names values

    here = [(reading, ValueLocator(reading.text)) for reading in readings]
    there = ValueLocator(shown)
    located: list[tuple[JudgedValue, list[tuple[int, int]]]] = []
    for value in values:
        said = value.value or ""
        places = {
            (reading.given(low), reading.given(high)) for reading, locator in here for low, high in locator.find(said)
        }
        if places or not there.find(said):  # a value that only the shown text has names a hidden one
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
