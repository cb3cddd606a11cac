"""``--fail-if``: conditions over the figures of an evaluation, ``recall.low < 0.9``.

A condition is a figure, a comparison and a number. The comparisons are ``<``, ``<=``, ``>``, ``>=``, ``==``, ``!=``. A
number may be ``0.9``, ``90%`` or ``3/1000``. A figure is one of `FIGURES`; a share may have ``.low`` or ``.high``, the
ends of its interval. Before it may stand which step and which rows are meant: ``step(moderation).slice(lang=de).``.
"""

from __future__ import annotations

import difflib
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from penstock.engine.values.errors import PenstockError
from penstock.workflows.evaluation.intervals import Share
from penstock.workflows.evaluation.results import GateResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.workflows.evaluation.results import Evaluation, PartFigures, SliceFigures


class GateError(PenstockError):
    """A condition that cannot be read.

    Attributes:
        condition: the condition.
        at: where in it the problem is, in characters from its beginning.
        problem: the problem in words.
    """

    def __init__(self, condition: str, at: int, problem: str) -> None:
        self.condition = condition
        self.at = at
        self.problem = problem
        super().__init__(f"{problem}, at character {at + 1}:\n  {condition}\n  {' ' * at}^")


Figure = Share | float | None

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}

VERDICTS = ("precision", "recall", "f1", "false_alarms", "misses", "accuracy")
"""The figures of verdicts, which every part and slice has."""

PART_FIGURES: Mapping[str, Callable[[PartFigures], Figure]] = {
    "failed": lambda part: part.failed,
    "auc": lambda part: None if part.scores is None else part.scores.auc,
    "average_precision": lambda part: None if part.scores is None else part.scores.average_precision,
    "p50": lambda part: None if part.latency is None else part.latency.p50,
    "p95": lambda part: None if part.latency is None else part.latency.p95,
    "p99": lambda part: None if part.latency is None else part.latency.p99,
    "spans.precision": lambda part: part.spans[0].half.precision if part.spans else None,
    "spans.recall": lambda part: part.spans[0].half.recall if part.spans else None,
    "spans.f1": lambda part: part.spans[0].half.f1 if part.spans else None,
}
"""The figures of a whole workflow or a step, but for those of verdicts."""

RUN_FIGURES: Mapping[str, Callable[[Evaluation], Figure]] = {
    "skipped": lambda made: made.rows.skipped,
    "as_wanted": lambda made: made.as_wanted,
    "released": lambda made: None if made.released is None else made.released.rows,
    "released.p50": lambda made: None if made.released is None else made.released.p50,
    "released.p95": lambda made: None if made.released is None else made.released.p95,
    "released.most": lambda made: None if made.released is None else made.released.most,
    "worse": lambda made: None if made.comparison is None else made.comparison.worse,
    "better": lambda made: None if made.comparison is None else made.comparison.better,
    "p_value": lambda made: None if made.comparison is None else made.comparison.p_value,
    "unstable": lambda made: None if made.repeats is None else made.repeats.unstable,
    "alarms_a_day": lambda made: None if made.traffic is None else _daily(made.traffic.false_alarms),
    "misses_a_day": lambda made: None if made.traffic is None else _daily(made.traffic.misses),
}
"""The figures of the evaluation as a whole."""

FIGURES = (*VERDICTS, "flagged", "rows", *PART_FIGURES, *RUN_FIGURES)
"""The figures that a condition may name."""


def _daily(daily: object) -> Share | None:
    value, low, high = (getattr(daily, name) for name in ("value", "low", "high"))
    return None if value is None else Share(0, 0, value, low, high)


@dataclass(frozen=True, slots=True)
class FigureGate:
    """A condition, parsed.

    Attributes:
        condition: the condition as it was given.
        step: the path of the step; None: the whole workflow.
        slice: the column and the value of the slice; None: all rows.
        figure: the name of the figure.
        end: ``low``, ``high``, or empty: the figure itself.
        comparison: the comparison.
        limit: the number.
    """

    condition: str
    step: str | None
    slice: tuple[str, str] | None
    figure: str
    end: str
    comparison: str
    limit: float

    def result(self, made: Evaluation) -> GateResult:
        """Return whether it holds. A figure that is not there fails: nobody knows whether it would hold."""
        try:
            value = self._value(made)
        except LookupError as error:
            return GateResult(self.condition, failed=True, value=None, reason=str(error.args[0]))
        if value is None:
            return GateResult(
                self.condition, failed=True, value=None, reason=f"there is no {self.figure}: no such rows"
            )
        failed = _COMPARISONS[self.comparison](value, self.limit)
        return GateResult(self.condition, failed, value, f"{self._name} is {value:.4g}")

    @property
    def _name(self) -> str:
        return f"{self.figure}.{self.end}" if self.end else self.figure

    def _value(self, made: Evaluation) -> float | None:
        figure = self._figure(made)
        if isinstance(figure, Share):
            return {"low": figure.low, "high": figure.high, "": figure.value}[self.end]
        return figure

    def _figure(self, made: Evaluation) -> Figure:
        if self.figure in RUN_FIGURES:
            return RUN_FIGURES[self.figure](made)
        part: PartFigures | SliceFigures = made.whole if self.step is None else _step_of(made, self.step)
        if self.slice is not None:
            part = _slice_of(made.whole if self.step is None else _step_of(made, self.step), *self.slice)
        if self.figure in VERDICTS:
            figure: Figure = getattr(part.verdicts, self.figure)
            return figure
        if self.figure in ("flagged", "rows"):
            return part.flagged if self.figure == "flagged" else part.rows
        return PART_FIGURES[self.figure](made.whole if self.step is None else _step_of(made, self.step))


def _step_of(made: Evaluation, path: str) -> PartFigures:
    try:
        return made.step(path)
    except KeyError:
        raise LookupError(f"no step {path!r} judged a row") from None


def _slice_of(part: PartFigures, column: str, value: str) -> SliceFigures:
    for each in part.slices:
        if (each.column, each.value) == (column, value):
            return each
    raise LookupError(f"no row has {column}={value}; name the column with --by")


_WORD = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)


class _ConditionReader:
    """Reads one condition."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        raise GateError(self.text, self.at if at is None else at, problem)

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def takes(self, sign: str) -> bool:
        self.skip()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def word(self, what: str) -> str:
        self.skip()
        found = _WORD.match(self.text, self.at)
        if found is None:
            self.fail(f"here should stand {what}")
        self.at = found.end()
        return found[0]

    def number(self) -> float:
        self.skip()
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            self.fail("here should stand a number, such as 0.9, 90% or 3/1000")
        self.at = found.end()
        return float(found[0])

    def argument(self) -> str:
        """Return the text between parentheses; they may be nested."""
        if not self.takes("("):
            self.fail("here should stand '('")
        begin, depth = self.at, 1
        while depth:
            if self.at == len(self.text):
                self.fail("the ')' is missing")
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1
        return self.text[begin : self.at - 1].strip()


def parse_gate(condition: str) -> FigureGate:
    """Return a condition, parsed.

    Raises:
        GateError: it cannot be read.
    """
    reader = _ConditionReader(condition)
    step: str | None = None
    part: tuple[str, str] | None = None
    while True:
        reader.skip()
        begin = reader.at
        name = reader.word("a figure, such as recall or false_alarms")
        if name not in ("step", "slice"):
            break
        argument = reader.argument()
        if not reader.takes("."):
            reader.fail("here should stand '.' and a figure")
        if name == "step":
            step = argument
            continue
        column, equals, value = argument.partition("=")
        if not equals:
            reader.fail("a slice is named by column and value: slice(lang=de)", begin)
        part = (column.strip(), value.strip())
    figure, end = _figure(reader, begin, name, sliced=part is not None)
    comparison = next((sign for sign in _COMPARISONS if reader.takes(sign)), None)
    if comparison is None:
        reader.fail(f"here should stand one of {' '.join(_COMPARISONS)}")
    limit = _limit(reader)
    reader.skip()
    if reader.at < len(condition):
        reader.fail("the condition should end here; give --fail-if several times for several conditions")
    return FigureGate(condition, step, part, figure, end, comparison, limit)


def _figure(reader: _ConditionReader, begin: int, name: str, *, sliced: bool) -> tuple[str, str]:
    """Return the name of a figure, and the end of its interval that is meant."""
    end = ""
    while reader.takes("."):
        at = reader.at
        word = reader.word("low or high")
        if f"{name}.{word}" in FIGURES:
            name = f"{name}.{word}"
        elif word in ("low", "high") and name in FIGURES:
            end = word
            break
        else:
            reader.fail("here should stand low or high" if name in FIGURES else _unknown(f"{name}.{word}"), at)
    if name not in FIGURES:
        reader.fail(_unknown(name), begin)
    if sliced and name not in (*VERDICTS, "flagged", "rows"):
        reader.fail(f"a slice has no {name}; it has {', '.join((*VERDICTS, 'flagged', 'rows'))}", begin)
    if end and name in _PLAIN:
        reader.fail(f"{name} has no interval", begin)
    return name, end


_PLAIN = (
    *("rows", "failed", "auc", "average_precision", "p50", "p95", "p99", "skipped", "worse", "better", "p_value"),
    *("released.p50", "released.p95", "released.most"),
)


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, FIGURES, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the figures are {', '.join(FIGURES)}"
    return f"there is no figure {name!r}; {hint}"


def _limit(reader: _ConditionReader) -> float:
    value = reader.number()
    if reader.takes("%"):
        return value / 100
    if reader.takes("/"):
        at = reader.at
        whole = reader.number()
        if whole == 0:
            reader.fail("nothing is divided by 0", at)
        return value / whole
    return value
