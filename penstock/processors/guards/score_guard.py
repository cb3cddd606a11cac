"""`ScoreGuard`: the base of guards that give a verdict about a text as a whole, window by window.

A window is first read by the embedded detector. What that is sure of is decided; the rest the judge decides, if there
is one. What then happens to the text is the strategy's.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeVar, cast

from penstock.detection.encoded import spoken
from penstock.detection.windows import Windows
from penstock.engine.tasks import gather
from penstock.engine.text_guards.guard import neighbours
from penstock.engine.values.edits import Edit
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.model import JudgeError
from penstock.processors.guards.detections import Detection
from penstock.processors.guards.guard import Guard, unquoted
from penstock.processors.guards.readings import Reading, Verdict, whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.ports import Judged
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.readings import ScoreDetector

V = TypeVar("V")

_INPUT = ("process_input", "process_input_step", "process_tool_result")
_MOST_TOLD = 100  # windows in a tripwire's metadata


class ScoreGuard(Guard[V]):
    """Judges texts window by window. A subclass says by which detector, and how a judge's verdict reads.

    Attributes:
        input_windows: how texts are cut that go to the model.
        output_windows: how the model's texts are cut: in a stream, a window is held until it is judged.
        detector: the embedded detector; None where there is none.
        certain: the embedded score from which on no judge is asked.
        says: what a tripwire's reason begins with.
        judged_threshold: the limit of a judge's scores where none was given.
        scores: the fact under which it tells the highest scores of the run.
    """

    input_windows: ClassVar[Windows] = Windows(least=1_000, most=2_000, overlap=200)
    output_windows: Windows = Windows(least=40, most=600, overlap=200)
    read_parts_separately = False
    detector: ScoreDetector | None = None
    certain: float = 0.99
    judged_threshold: ClassVar[float] = 0.5
    categories: tuple[str, ...] = ()
    threshold: float | Mapping[str, float] | None = None
    include_scores: bool = False
    says: ClassVar[str] = "the text was flagged"
    scores: Key[Mapping[str, float]]

    def judged_reading(self, judged: Judged[V], text: str) -> Reading:
        """Return what a judge's verdict about a window says; ``flagged`` and ``judge`` are filled in later."""
        raise NotImplementedError

    def embedded_reading(self, text: str) -> Reading | None:
        """Return what the embedded detector finds in a window, behind codes too; None if there is none."""
        if self.detector is None:
            return None
        read = [self.detector.scores(each) for each in (text, *spoken(text))]
        found = {name: max(scores[name] for scores in read) for name in read[0]}
        return self.limited(Reading({name: found[name] for name in found if name in self.categories}))

    def declare_scores(self, *told: object) -> None:
        """Declare the fact under which the scores are told; ``told`` tells this guard from others."""
        self.lookback = max(self.input_windows.overlap, self.output_windows.overlap)
        self.max_hold = max(self.max_hold, 2 * self.output_windows.most)
        self.scores = Key(self.fact_name("scores", *told))
        self.provides = (self.scores,)

    def limit(self, category: str, *, judged: bool) -> float:
        """Return the score from which on a category counts."""
        if isinstance(self.threshold, (int, float)):
            return self.threshold
        if self.threshold is not None and category in self.threshold:
            return self.threshold[category]
        if judged or self.detector is None:
            return self.judged_threshold
        return self.detector.thresholds.get(category, self.judged_threshold)

    def limited(self, reading: Reading) -> Reading:
        """Return a reading with the categories that reach their limit."""
        judged = bool(reading.judge)
        flagged = tuple(name for name, score in reading.scores.items() if score >= self.limit(name, judged=judged))
        return reading._replace(flagged=flagged)

    # Reading windows

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return texts in the runs in which they are read: neighbouring parts, and all texts of one tool's value.

        What a tool is given is one value, and what it returns another, as they are in a stream. Digits of numbers say
        nothing that these guards are about, and are left out.
        """
        del ctx
        runs: list[list[Text]] = []
        for run in neighbours(text for text in texts if not (text.fixed and text.text.isdigit())):
            if runs and _of_one_value(runs[-1][-1], run[0]):
                runs[-1] += run
            else:
                runs.append(run)
        return runs

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[Verdict], int] | Awaitable[tuple[Sequence[Verdict], int]]:
        """Return a verdict about each window that has ended, and where the next one begins."""
        windows = self.input_windows if ctx.stage in _INPUT else self.output_windows
        cuts = windows.cuts(window.text, window.start, final=window.final)
        pieces = list(itertools.pairwise([window.start, *cuts]))
        hold = cuts[-1] if cuts else window.start
        views = [_view(window, windows.overlap, start, end) for start, end in pieces]
        if self.judge is not None:
            return self._judged(pieces, views, hold, ctx)
        read = [(view and self.embedded_reading(view)) or Reading() for view in views]
        return [Verdict(*piece, reading) for piece, reading in zip(pieces, read, strict=True)], hold

    async def _judged(
        self, pieces: Sequence[tuple[int, int]], views: Sequence[str], hold: int, ctx: AnyContext
    ) -> tuple[Sequence[Verdict], int]:
        read = await gather([partial(self.read, view, ctx) for view in views])
        return [Verdict(*piece, reading) for piece, reading in zip(pieces, read, strict=True)], hold

    async def read(self, text: str, ctx: AnyContext) -> Reading:
        """Return what is found out about a window by the embedded detector and the judge.

        Raises:
            JudgeError: the judge gave no verdict, and nothing else counts in its place.
        """
        if self.judge is None or not text:
            return (text and self.embedded_reading(text)) or Reading()
        own = self.embedded_reading(text) if self.embedded else None
        if own is not None and any(own.scores[name] >= self.certain for name in own.flagged):
            return own
        try:
            judged = await self.judge.ask(text, ctx=ctx)
            reading = self._limited(judged, text)
        except JudgeError:
            if self.judge_failure == "fail" or own is None:
                raise
            ctx.note(judge_failed=True)
            return own
        return reading

    def _limited(self, judged: Judged[V], text: str) -> Reading:
        reading = self.limited(self.judged_reading(judged, text)._replace(judge=judged.model))
        whole(judged, bool(reading.flagged), judged.model)
        return reading._replace(reason=unquoted(reading.reason, text))

    # Acting

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits of the strategy, after everybody has been told; or stop the run."""
        found = [(hit.window, cast("list[Verdict]", hit.found)) for hit in hits]
        flagged = [(window, verdict) for window, verdicts in found for verdict in verdicts if verdict.reading.flagged]
        self._tell_scores(ctx, [verdict.reading for _, verdicts in found for verdict in verdicts])
        for window, verdicts in found:
            for verdict in verdicts:
                if window.text[verdict.start : verdict.end].strip():
                    self.tell(ctx, self._detection(ctx, window, verdict))
        if flagged:
            self._tell_flagged(ctx, flagged)
        return [[edit for verdict in verdicts for edit in self.edited(verdict)] for _, verdicts in found]

    def edited(self, verdict: Verdict) -> Iterable[Edit]:
        """Return the edits for a window: what is flagged is taken away, unless the strategy lets it pass."""
        if self.edits == "nothing" or not verdict.reading.flagged:
            return ()
        text = verdict.reading.text or ""
        return (Edit(verdict.start, verdict.end, text, "redact"),) if verdict.start < verdict.end else ()

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits, without the messages that were filtered out."""
        return self.without_flagged(ctx, edits) if self.strategy == "filter" else super().changed(ctx, edits)

    def _tell_flagged(self, ctx: AnyContext, flagged: Sequence[tuple[TextWindow, Verdict]]) -> None:
        categories = [name for _, verdict in flagged for name in verdict.reading.flagged]
        if self.strategy == "warn":
            self.warn(ctx, categories)
        fixed = [item for item in flagged if item[0].fixed]
        if self.strategy == "block" or (fixed and self.edits != "nothing"):
            why = "" if self.strategy == "block" else "what is no text cannot be edited; "
            self.block(ctx, categories, self.told(flagged), why)

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run; say which categories, what the judge says about it and, if asked for, all scores."""
        told = f"{why}{self.says}: {', '.join(dict.fromkeys(categories))}"
        if metadata.get("reason"):
            told += f" ({metadata['reason']})"
        if self.include_scores:
            scores: Mapping[str, float] = metadata.get("scores", {})
            told += f"; scores: {', '.join(f'{name} {score:.4g}' for name, score in scores.items())}"
        ctx.abort(told, metadata={"strategy": self.strategy, **metadata})

    def told(self, flagged: Sequence[tuple[TextWindow, Verdict]]) -> dict[str, Value]:
        """Return what a tripwire's metadata say about windows; the first one's verdict at its top."""
        first = flagged[0][1].reading
        judged = bool(first.judge)
        return {
            "categories": {name: first.scores.get(name) for name in first.flagged},
            "scores": dict(first.scores),
            "threshold": {name: self.limit(name, judged=judged) for name in first.flagged},
            "reason": first.reason,
            "judge": first.judge or None,
            "spans": [_span(window, verdict) for window, verdict in flagged[:_MOST_TOLD]],
            **first.details,
        }

    def _tell_scores(self, ctx: AnyContext, readings: Sequence[Reading]) -> None:
        highest = dict(ctx.get(self.scores) or EMPTY)
        for reading in readings:
            for name, score in reading.scores.items():
                highest[name] = max(score, highest.get(name, 0.0))
        if highest:
            ctx.put(self.scores, freeze(highest))
            ctx.note(scores=highest)

    def _detection(self, ctx: AnyContext, window: TextWindow, verdict: Verdict) -> Detection:
        place, _ = window.locate(verdict.start)
        reading = verdict.reading
        return Detection(
            self.id,
            ctx.stage,
            place.message_id,
            place.part,
            str(place.path[0]) if place.path else "",
            bool(reading.flagged),
            self.strategy if reading.flagged else "none",
            reading.flagged,
            freeze(dict(reading.scores)),
            (),
            reading.reason,
            reading.judge,
            _view(window, 0, verdict.start, verdict.end) if self.include_text else None,
        )


def _of_one_value(one: Text, other: Text) -> bool:
    """Tell whether both stand in the same value of a tool's, its arguments or its result, and can be edited."""
    same = one.kind == other.kind == "tool" and one.place[:2] == other.place[:2]
    same = same and one.place.path[:1] == other.place.path[:1]
    return same and not one.fixed and not other.fixed


def _view(window: TextWindow, before: int, start: int, end: int) -> str:
    """Return a window as it is read, parts parted by spaces, with so much before it; nothing if it is blank.

    Parts that are empty are none: a stream has no sign of them.
    """
    if not window.text[start:end].strip():
        return ""
    low = max(start - before, 0)
    borders = [part.start - window.base for part in window.parts[1:] if low < part.start - window.base < end]
    pieces = [window.text[a:b] for a, b in itertools.pairwise([low, *borders, end])]
    return " ".join(filter(None, pieces)) if borders else pieces[0]


def _span(window: TextWindow, verdict: Verdict) -> dict[str, Value]:
    place, start = window.locate(verdict.start)
    return {
        "message_id": place.message_id,
        "part": place.part,
        "field": place.path[0] if place.path else "",
        "start": start,
        "length": verdict.end - verdict.start,
        "categories": list(verdict.reading.flagged),
    }
