"""A trace as lines for a terminal: the tree of its spans, with notes, durations, and bars for when each ran.

A line is a row of pieces, each with a style, so that one layout serves plain text and a terminal with colours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.tracing.display import at_difference, columns, shortened, visible, wrapped
from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.engine.tracing.span import Span
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Tripwire

Style = Literal["", "dim", "bold", "passed", "edited", "tripped", "failed", "skipped"]
Piece: TypeAlias = tuple[str, Style]
Line: TypeAlias = tuple[Piece, ...]

WIDTH = 100
"""The width of ``str(trace)``, in columns."""

NARROWEST = 30
"""The least width that is laid out, in columns; a narrower terminal breaks the lines itself."""

WITH_BARS = 60
"""The width from which there is room for bars, in columns."""

LONGEST = 240
"""How many characters of a reason, a note or a text are shown."""

LONGEST_DETAILS = 80
"""How many characters of a processor's notes are shown: the trace as JSON has them all."""

LONGEST_REASON = 1000
"""How many characters are shown of the reason that stopped the run."""

_LEAST_MS, _LEAST_TENTHS, _LEAST_SECOND = 100, 9_995, 999_950
"""In microseconds: from where on a time is said in ms with two decimals, in ms with one, and in seconds."""

_TIME = 9  # columns of a duration, such as "123.45 ms"
_GAP = 2
_NOTE = 20  # columns without which notes stand below the names, not beside them

SIGNS: Mapping[str, str] = {"passed": "✓", "edited": "✎", "tripped": "✗", "failed": "!", "skipped": "·"}
"""The sign of each status of a span."""

_STYLES: Mapping[str, Style] = {"passed": "passed", "edited": "edited", "blocked": "tripped", "failed": "failed"}

_KINDS: Mapping[str, str] = {"model_step": "model step", "attempt": "attempt", "model": "model", "tool": "tool"}

_DONE: Mapping[str, str] = {"replace": "reworded", "insert": "added"}

_TOKENS: Mapping[str, str] = {
    "input_tokens": "in",
    "output_tokens": "out",
    "cached_tokens": "cached",
    "reasoning_tokens": "reasoning",
}


def timeline(trace: Trace, width: int = WIDTH) -> Iterator[Line]:
    """Yield the lines of a trace.

    Args:
        trace: the trace.
        width: the columns that a line may take.
    """
    width = max(width, NARROWEST)
    yield from _heading(trace, width)
    rows = list(_rows(trace.spans, trace.tripwire))
    if rows:
        yield ()
        end = max(trace.seconds, *(row.span.at + row.span.seconds for row in rows))
        layout = _TimelineLayout(rows, width, end)
        for row in rows:
            yield from layout.lines(row)
    ending = list(_ending(trace, width))
    if ending:
        yield ()
        yield from ending


def as_text(trace: Trace, width: int = WIDTH) -> str:
    """Return the lines of a trace without their styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in timeline(trace, width))


def duration(seconds: float) -> str:
    """Return a time in a fitting unit: ``30 µs``, ``1.25 ms``, ``12.5 ms``, ``1.20 s``.

    The pages say times in the same way (``duration`` in ``page/format.js``).
    """
    micros = round(seconds * 1e6)
    if micros < _LEAST_MS:
        return f"{micros} µs"
    if micros < _LEAST_SECOND:
        return f"{micros / 1e3:.{2 if micros < _LEAST_TENTHS else 1}f} ms"
    return f"{seconds:,.2f} s"


def tokens(usage: Values) -> str:
    """Return the tokens in words, such as ``12 in, 40 out``; empty if none are known."""
    counts = [(usage.get(name), word) for name, word in _TOKENS.items()]
    return ", ".join(f"{count:,} {word}" for count, word in counts if isinstance(count, int) and count)


def one_line(text: str, limit: int = LONGEST) -> str:
    """Return a text for one line: cut to a number of characters, and with control characters made visible."""
    return visible(text if len(text) <= limit else f"{text[: limit - 1]}…")


# What stands above and below


def _heading(trace: Trace, width: int) -> Iterator[Line]:
    took = f" in {duration(trace.seconds)}"
    name = shortened(one_line(trace.workflow) or "run", width - columns(f": {trace.status}{took}"))
    yield (name, "bold"), (": ", ""), (trace.status, _STYLES.get(trace.status, "")), (took, "")
    about = [f"run {trace.run_id}"] if trace.run_id else []
    about += [f"thread {trace.thread_id}"] if trace.thread_id is not None else []
    if trace.started:
        with suppress(OverflowError, ValueError, OSError):  # no time that a calendar has
            about.append(f"{datetime.fromtimestamp(trace.started, UTC):%Y-%m-%d %H:%M:%S} UTC")
    yield from _paragraph(one_line(", ".join(about)), width, "dim")


def _ending(trace: Trace, width: int) -> Iterator[Line]:
    if trace.tripwire is not None:
        verdict = trace.tripwire
        words = f"{trace.status} by {verdict.processor_id} in {verdict.stage}: {verdict.reason}"
        yield from _paragraph(one_line(words, LONGEST_REASON), width, "tripped")
    if trace.usage is not None and (counts := tokens(trace.usage)):
        yield from _paragraph(f"tokens: {counts}", width, "")
    if trace.texts:
        words = "The trace holds the texts of the request, including everything that was hidden."
        yield from _paragraph(words, width, "dim")


def _paragraph(text: str, width: int, style: Style) -> Iterator[Line]:
    for line in wrapped(text, width):
        yield ((line, style),)


# The tree


@dataclass(frozen=True, slots=True)
class _Row:
    """A span with its place in the tree."""

    span: Span
    lead: str
    """What stands before its sign."""
    trunk: str
    """What stands in this place in lines below it."""
    title: str
    note: str

    @property
    def head(self) -> str:
        return f"{self.lead}{SIGNS[self.span.status]} {self.title}"

    @property
    def style(self) -> Style:
        return "dim" if self.span.shadow else self.span.status


def _rows(spans: Sequence[Span], verdict: Tripwire | None) -> Iterator[_Row]:
    """Yield the spans as a tree; the one of the whole run is left out, since the heading is about it."""
    below: dict[int | None, list[Span]] = defaultdict(list)
    for span in spans:
        below[span.parent].append(span)
    roots = below[None]
    if len(roots) == 1 and roots[0].kind == "run":
        roots = below[roots[0].id]
    waiting = [(span, "", "", "") for span in reversed(roots)]
    while waiting:
        span, lead, indent, around = waiting.pop()
        children = below[span.id]
        trunk = f"{indent}{'│  ' if children else '   '}"
        explained = any(child.error == span.error for child in children)
        yield _Row(span, lead, trunk, _title(span, around), _note(span, verdict, explained=explained))
        path = span.path or around
        for index, child in reversed(list(enumerate(children))):
            ends = index == len(children) - 1
            waiting.append((child, f"{indent}{'└─ ' if ends else '├─ '}", f"{indent}{'   ' if ends else '│  '}", path))


def _title(span: Span, around: str) -> str:
    """Return the title of a span: its path below the path around it, or its name."""
    name = span.path.removeprefix(f"{around}/") if span.path else span.name
    words = [_KINDS.get(span.kind, ""), "" if span.number is None else str(span.number)]
    if name and span.kind not in ("model_step", "attempt"):
        words.append(name)
    return one_line(" ".join(filter(None, words)) or span.kind) + (" (shadow)" if span.shadow else "")


def _note(span: Span, verdict: Tripwire | None, *, explained: bool) -> str:
    """Return the result of a span in a few words; an error is left out if a part inside explains it."""
    parts = [_verdict(span, verdict), f"failed: {span.error}" if span.error and not explained else ""]
    if span.arms:
        taken = ", ".join(arm.label for arm in span.arms if arm.taken)
        other = ", ".join(arm.label for arm in span.arms if not arm.taken)
        parts.append(f"took {taken or 'no arm'}" + (f"; not {other}" if other else ""))
    parts.append(_edits(span))
    if span.flagged:
        parts.append(f"flagged: {', '.join(span.flagged)}")
    if span.usage is not None and span.kind != "model_step" and (counts := tokens(span.usage)):
        parts.append(f"tokens: {counts}")
    if span.finish_reason:
        parts.append(f"finish: {span.finish_reason}")
    if span.chunks:
        count, most = len(span.chunks), max(chunk.held for chunk in span.chunks)
        parts.append(
            f"{'1 chunk' if count == 1 else f'{count:,} chunks'}"
            + (f", held up to {most:,} characters" if most else "")
        )
    if span.status == "skipped":
        parts.append("skipped")
    if not any(parts):
        parts = [f"{name}: {_short(value)}" for name, value in span.details.items()]
        return one_line("; ".join(parts), LONGEST_DETAILS)
    return one_line("; ".join(filter(None, parts)))


def _verdict(span: Span, verdict: Tripwire | None) -> str:
    """Return the verdict of a span; the reason of the one that stopped the run is at the end of the timeline."""
    if span.tripwire is None or span.kind in ("run", "stage", "model_step", "branch"):
        return ""
    words = "would trip" if span.shadow else "asked for a retry" if span.tripwire.retry else "tripped"
    return words if span.tripwire == verdict else f"{words}: {span.tripwire.reason}"


def _edits(span: Span) -> str:
    if not span.edits:
        return "edited" if span.status == "edited" and span.kind == "step" else ""
    parts = Counter(edit.replacement or "(removed)" for edit in span.edits if edit.kind == "redact")
    parts.update(_DONE[edit.kind] for edit in span.edits if edit.kind != "redact")
    listed = ", ".join(f"{what} ×{count}" if count > 1 else what for what, count in parts.items())
    words = "would make " if span.shadow else ""
    return f"{words}{len(span.edits)} {'edit' if len(span.edits) == 1 else 'edits'}: {listed}"


def _short(value: object) -> str:
    """Return a detail in few characters: three digits of a number, and no brackets around a single layer."""
    if is_mapping(value):
        return ", ".join(f"{key} {_short(item)}" for key, item in value.items())
    if is_items(value):
        return ", ".join(map(_short, value))
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value) if value is None or isinstance(value, (str, int)) else type(value).__name__


# The columns


class _TimelineLayout:
    """Lays rows out in columns: the tree, the notes, the time, and the bar where there is room."""

    def __init__(self, rows: Sequence[_Row], width: int, end: float) -> None:
        self._width = width
        self._end = end
        self._bar = max(12, width // 5) if width >= WITH_BARS and end > 0 else 0
        self._left = width - _TIME - _GAP - (self._bar and self._bar + _GAP)
        widest = max(columns(row.head) for row in rows)
        self._head = min(widest, self._left * 3 // 5)
        self._beside = self._left - self._head - _GAP >= _NOTE
        self._deepest = self._left // 3  # how far the tree may reach to the right

    def lines(self, row: _Row) -> Iterator[Line]:
        """Yield the lines of a row."""
        lead, trunk = self._indent(row.lead), self._indent(row.trunk)
        faint = row.span.status == "skipped" or row.span.shadow
        style = row.style if row.span.status in ("tripped", "failed") else "dim" if faint else ""
        start = self._head + _GAP if self._beside else columns(trunk) + _GAP
        notes = list(wrapped(row.note, (self._left if self._beside else self._width) - start))
        sign = f"{SIGNS[row.span.status]} "
        title = shortened(row.title, self._left - columns(lead) - columns(sign))
        head = columns(lead) + columns(sign) + columns(title)
        beside = f"{' ' * (start - head)}{notes.pop(0)}" if notes and self._beside and head <= self._head else ""
        yield (
            (lead, "dim"),
            (sign, row.style),
            (title, "dim" if faint else ""),
            (beside, style),
            *self._times(row.span, self._left - head - columns(beside)),
        )
        for note in notes:
            yield (trunk, "dim"), (" " * (start - columns(trunk)), ""), (note, style)
        for text in row.span.texts if row.span.kind == "step" else ():  # those of a stage are shown at its steps
            if text.before != text.after:
                room = self._width - columns(trunk) - len("  before ")
                for label, shown in zip(
                    ("before", "after "), at_difference(text.before, text.after, room), strict=True
                ):
                    yield (trunk, "dim"), (f"  {label} ", "dim"), (shown, "")

    def _indent(self, lead: str) -> str:
        """Return the lead of a row; of a very deep one only its end, which touches the row."""
        return lead if len(lead) <= self._deepest else f"… {lead[-self._deepest + 2 :]}"

    def _times(self, span: Span, room: int) -> Iterator[Piece]:
        if span.status == "skipped" and not span.seconds:
            return
        yield f"{' ' * (room + _GAP)}{duration(span.seconds):>{_TIME}}", ""
        if self._bar:
            start = min(self._column(span.at), self._bar - 1)
            end = max(self._column(span.at + span.seconds, ceil), start + 1)
            yield f"{' ' * (_GAP + start)}{'━' * (end - start)}", "dim" if span.shadow else span.status

    def _column(self, at: float, whole: Callable[[float], int] = int) -> int:
        """Return the column of a bar for a time; one before the start or after the end is that of the edge."""
        return whole(min(max(at / self._end, 0.0), 1.0) * self._bar)
