"""An `Evaluation` as tables of words, for the terminal, Markdown and the HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.workflows.evaluation.intervals import rows_needed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.workflows.evaluation.curves import SweptThreshold
    from penstock.workflows.evaluation.intervals import Share
    from penstock.workflows.evaluation.results import (
        Daily,
        Evaluation,
        ExampleRow,
        PartFigures,
        Recommendation,
        ReleasedText,
        SliceFigures,
        SpanFit,
        Verdicts,
    )

SLICES = 10
"""How many slices of a column are shown."""

EXAMPLES = 5
"""How many rows of a kind are shown outside the page."""

NOTHING = "–"
"""The sign in place of a missing figure."""

THRESHOLDS = "Thresholds of"
"""The beginning of the title of a step's thresholds."""

COLLECT = "Rows to collect"
"""The title of the section with the numbers of missing rows: the only place that names one."""

IN_FORCE = "in force"
"""The name of the row with the figures of the step as it is, among those of other thresholds."""

HALVES = (
    "The rows are split into two halves by a hash of their ids. One half chose the threshold; the figures are those of "
    "the other half, because rows look better than new ones at a threshold that they have chosen."
)
"""Why a threshold is chosen on one half of the rows, and reported on the other."""

SWEPT = 10
"""Every so many of the swept thresholds is shown."""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with a title, and sentences below it.

    Attributes:
        title: the title.
        columns: the names of the columns; empty: there is no table.
        rows: the cells of each row.
        notes: the sentences.
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


def percent(value: float | None) -> str:
    """Return a share as percent: two digits near the ends, where they count, else one."""
    if value is None:
        return NOTHING
    digits = 2 if 0 < value < 0.1 or 0.9 < value < 1 else 1  # noqa: PLR2004 - near the ends
    return f"{100 * value:.{digits}f} %"


def share_text(share: Share) -> str:
    """Return a share with its interval."""
    if share.value is None:
        return NOTHING
    return f"{percent(share.value)} ({percent(share.low)[:-2]}–{percent(share.high)[:-2]})"


def count_text(share: Share) -> str:
    """Return a share with its interval, and how many rows it is."""
    return NOTHING if share.value is None else f"{share_text(share)}, {share.count:,} of {share.of:,}"


def sections_of(made: Evaluation) -> Iterator[Section]:
    """Yield the tables of an evaluation, the most important first."""
    yield _whole(made)
    if made.collect:
        yield _collect(made)
    if made.gates:
        yield _gates(made)
    if made.traffic is not None:
        yield _traffic(made)
    if made.comparison is not None:
        yield _comparison(made)
    if made.steps:
        yield _steps(made)
    yield from (_sweep(part) for part in made.steps if part.scores is not None)
    yield from _slices(made.whole, labelled=made.rows.labelled > 0)
    parts = (made.whole, *(made.steps if len(made.steps) > 1 else ()))
    yield from (_spans(part) for part in parts if part.spans and (part is made.whole or _finds(part)))
    if made.whole.categories:
        yield _categories(made.whole)
    if made.repeats is not None or made.judges:
        yield _judges(made)
    yield from _examples(made)


def _whole(made: Evaluation) -> Section:
    rows, verdicts, latency = made.rows, made.whole.verdicts, made.whole.latency
    lines = [("flagged", count_text(made.whole.flagged))]
    if rows.labelled:
        lines += [
            ("recall", count_text(verdicts.recall)),
            ("precision", count_text(verdicts.precision)),
            ("false alarms", count_text(verdicts.false_alarms)),
            ("F1", share_text(verdicts.f1)),
        ]
    if made.released is not None:
        lines += _released(made.released)
    if made.as_wanted is not None:
        lines.append(("text as wanted", count_text(made.as_wanted)))
    if latency is not None:
        lines.append(("time a row", f"{_ms(latency.p50)} (p95 {_ms(latency.p95)}, p99 {_ms(latency.p99)})"))
    counted = f"{rows.all:,} rows: {rows.positives:,} with something to find, {rows.negatives:,} without"
    notes = (counted, *made.notes, *rows.problems)
    return Section(f"{made.workflow}, {made.stage}", ("figure", "value (95 % interval)"), tuple(lines), notes)


def _released(each: ReleasedText) -> list[tuple[str, str]]:
    """Return how much of blocked rows had left before the verdict, as lines."""
    lines = [("blocked after text had left", count_text(each.rows))]
    if each.p50 is not None:
        told = f"{each.p50:,} (p95 {each.p95:,}, most {each.most:,})"
        lines.append(("characters that had left", told))
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.2f} ms"


def _collect(made: Evaluation) -> Section:
    collect, rows = made.collect, made.rows
    unlabelled = rows.all - rows.labelled - rows.skipped
    kinds = (
        ("with nothing to find", rows.negatives, collect.negatives),
        ("with something to find", rows.positives, collect.positives),
        ("without a label", unlabelled, collect.unlabelled),
    )
    lines = tuple((kind, f"{here:,}", f"{more:,}") for kind, here, more in kinds if more)
    aims = ["recommend a threshold"] if any(_lacks_rows(part) for part in made.steps) else []
    if made.traffic is not None and (made.traffic.false_alarms.needed or made.traffic.misses.needed):
        aims.append("know the false alarms and misses a day")
    return Section(COLLECT, ("rows", "here", "more"), lines, (f"So many rows it takes to {' and to '.join(aims)}.",))


def _lacks_rows(part: PartFigures) -> bool:
    return part.scores is not None and bool(part.scores.recommendation.collect)


def _gates(made: Evaluation) -> Section:
    lines = tuple((gate.condition, "failed" if gate.failed else "ok", gate.reason) for gate in made.gates)
    return Section("Conditions", ("fails if", "result", "because"), lines)


def daily_text(daily: Daily) -> str:
    """Return a number of rows a day with its interval."""
    if daily.value is None:
        return NOTHING
    return f"{daily.value:,.1f} ({daily.low:,.1f}–{daily.high:,.1f})"


def money_text(amount: float | None) -> str:
    """Return an amount of money: with two digits, or as many as a small one takes."""
    if amount is None:
        return NOTHING
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.4g}"


def _traffic(made: Evaluation) -> Section:
    traffic = made.traffic
    assert traffic is not None, "the caller has looked"  # noqa: S101
    lines = (
        ("false alarms a day", daily_text(traffic.false_alarms)),
        ("misses a day", daily_text(traffic.misses)),
        ("right alarms among all", percent(traffic.precision)),
        *(() if traffic.cost is None else (("cost of judges a day", money_text(traffic.cost)),)),
    )
    unknown = [
        name for name, daily in (("false alarms", traffic.false_alarms), ("misses", traffic.misses)) if daily.needed
    ]
    notes = (f"There are too few rows to know the {' and '.join(unknown)} a day; see {COLLECT}.",) if unknown else ()
    title = f"A day with {traffic.rows:,} rows, of which {percent(traffic.base_rate)} have something to find"
    return Section(title, ("figure", "value (95 % interval)"), lines, notes)


def _comparison(made: Evaluation) -> Section:
    each = made.comparison
    assert each is not None, "the caller has looked"  # noqa: S101
    now, before = made.whole.verdicts, each.verdicts
    lines = [
        ("rows that only this workflow flags", f"{each.flagged_now:,}"),
        ("rows that only the baseline flags", f"{each.passed_now:,}"),
    ]
    if made.rows.labelled:
        lines += [
            ("rows that are right now", f"{each.better:,}"),
            ("rows that are wrong now", f"{each.worse:,}"),
            ("recall", f"{share_text(before.recall)} → {share_text(now.recall)}"),
            ("false alarms", f"{share_text(before.false_alarms)} → {share_text(now.false_alarms)}"),
        ]
    lines.append(("p-value (exact McNemar)", f"{each.p_value:.3g}"))
    return Section(f"Compared with {each.baseline}", ("figure", "value"), tuple(lines))


def _steps(made: Evaluation) -> Section:
    labelled = made.rows.labelled > 0
    lines = tuple(
        (
            part.path,
            f"{part.rows:,}",
            share_text(part.flagged),
            *_figures(part.verdicts, labelled=labelled),
            *(
                (NOTHING if part.scores is None or part.scores.auc is None else f"{part.scores.auc:.4f}",)
                if labelled
                else ()
            ),
            NOTHING if part.latency is None else _ms(part.latency.p95),
        )
        for part in made.steps
    )
    columns = ("step", "rows", "flagged", *((*LABELLED, "AUC") if labelled else ()), "p95")
    failed = tuple(f"{part.path} failed on {part.failed:,} rows." for part in made.steps if part.failed)
    return Section("Steps", columns, lines, failed)


LABELLED = ("recall", "precision", "false alarms")
"""The columns that only labelled rows have."""


def _figures(each: Verdicts | SweptThreshold, *, labelled: bool) -> tuple[str, ...]:
    shares = (each.recall, each.precision, each.false_alarms)
    return tuple(map(share_text, shares)) if labelled else ()


def recommendation_text(each: Recommendation) -> str:
    """Return which threshold to take, in words."""
    if each.threshold is None or each.reported is None:
        return f"No threshold is recommended: {each.problem}; see {COLLECT}."
    if each.basis == "rate":
        return (
            f"A threshold of {each.threshold:g} flags {share_text(each.reported.flagged)} of the rows. It is chosen by "
            f"the rate alone: nobody knows how many of these rows have something to find. {HALVES}"
        )
    return (
        f"A threshold of {each.threshold:g} is recommended for false alarms of at most {percent(each.rate)}: it has a "
        f"recall of {share_text(each.reported.recall)} and false alarms of {share_text(each.reported.false_alarms)}. "
        f"{HALVES}"
    )


def _sweep(part: PartFigures) -> Section:
    scores = part.scores
    assert scores is not None, "the caller has looked"  # noqa: S101
    labelled = bool(scores.curve)
    lines = tuple(
        (f"{each.threshold:g}", share_text(each.flagged), *_figures(each, labelled=labelled))
        for each in scores.sweep[::SWEPT]
    )
    if scores.limits:
        lines = ((IN_FORCE, share_text(part.flagged), *_figures(part.verdicts, labelled=labelled)), *lines)
    negatives = part.verdicts.wrong + part.verdicts.passed
    notes = tuple(
        f"At false alarms of {percent(each.rate)} the recall is {share_text(each.recall)}."
        for each in scores.recall_at
        if negatives >= rows_needed(0.0, each.rate)  # of fewer, none flagged would not show that the rate is kept
    )
    told = (f"In force: {_limits(scores.limits)}.",) if scores.limits else ()
    columns = ("threshold", "flagged", *(LABELLED if labelled else ()))
    return Section(
        f"{THRESHOLDS} {part.path}", columns, lines, (*told, recommendation_text(scores.recommendation), *notes)
    )


def _limits(limits: Mapping[str, float]) -> str:
    """Return the thresholds in force in words: one for all categories, or each."""
    if len(set(limits.values())) == 1:
        return f"a threshold of {next(iter(limits.values())):g}"
    return ", ".join(f"{value:g} for {name}" for name, value in limits.items())


def _slices(part: PartFigures, *, labelled: bool) -> Iterator[Section]:
    for column in dict.fromkeys(each.column for each in part.slices):
        found = [each for each in part.slices if each.column == column]
        lines = tuple(_slice(each, labelled=labelled) for each in found[:SLICES])
        more = (f"{len(found) - SLICES} more slices are not shown.",) if len(found) > SLICES else ()
        columns = (column, "rows", "flagged", *(LABELLED if labelled else ()))
        yield Section(f"By {column}, the worst first", columns, lines, more)


def _slice(each: SliceFigures, *, labelled: bool) -> tuple[str, ...]:
    return each.value, f"{each.rows:,}", share_text(each.flagged), *_figures(each.verdicts, labelled=labelled)


def _finds(part: PartFigures) -> bool:
    """Return whether a step found any span."""
    return any(each.touching.right or each.touching.wrong for each in part.spans)


def _spans(part: PartFigures) -> Section:
    lines = tuple(
        (
            each.type or "all, whatever their types",
            f"{each.half.right + each.half.missed:,}",
            *_fit(each.half),
            share_text(each.exact.f1),
            share_text(each.touching.f1),
        )
        for each in part.spans
    )
    columns = ("type", "labelled", "recall", "precision", "F1", "F1 exact", "F1 touching")
    title = f"Spans of {part.path}" if part.path else "Spans"
    return Section(title, columns, lines, ("Spans match if they share half of their common stretch.",))


def _fit(each: SpanFit) -> tuple[str, str, str]:
    return share_text(each.recall), share_text(each.precision), share_text(each.f1)


def _categories(part: PartFigures) -> Section:
    lines = tuple((each.label or "(nothing)", each.found or "(nothing)", f"{each.rows:,}") for each in part.categories)
    return Section("Categories", ("label", "found", "rows"), lines)


def _judges(made: Evaluation) -> Section:
    lines = tuple(
        (
            *(each.model, f"{each.verdicts:,}", f"{each.cached:,}", f"{each.calls:,}"),
            *(f"{each.input_tokens:,}", f"{each.output_tokens:,}", money_text(each.cost)),
        )
        for each in made.judges
    )
    notes: tuple[str, ...] = ()
    if made.repeats is not None:
        spread = ", ".join(map(percent, made.repeats.flagged))
        unstable = count_text(made.repeats.unstable)
        notes = (f"The verdicts of {made.repeats.runs} runs differ on {unstable} rows. Flagged: {spread}.",)
    columns = ("judge", "verdicts", "from cache", "calls", "tokens read", "tokens written", "cost") if lines else ()
    return Section("Judges and repeats", columns, lines, notes)


def score_text(score: float | None) -> str:
    """Return a score with four digits."""
    return NOTHING if score is None else f"{score:.4f}"


def row_text(row: ExampleRow) -> str:
    """Return where a row stands."""
    where = f"{row.file}, line {row.line}" if row.file else f"line {row.line}"
    return where if row.id is None else f"{where}, id {row.id}"


def _examples(made: Evaluation) -> Iterator[Section]:
    changed = () if made.comparison is None else made.comparison.changed
    parts = [part for part in made.steps if part.scores is not None] or [made.whole]
    kinds = [("Rows with another verdict than the baseline's", changed)]
    for part in parts:
        of = f" of {part.path}" if part.path else ""
        kinds += [(f"False alarms{of}", part.false_alarms), (f"Misses{of}", part.misses)]
    for title, rows in kinds:
        texts = any(row.text is not None for row in rows)
        lines = tuple(
            (row_text(row), row.label, row.found, score_text(row.score)) + ((row.text or "",) if texts else ())
            for row in rows[:EXAMPLES]
        )
        if lines:
            yield Section(title, ("row", "label", "found", "score", *(("text",) if texts else ())), lines)
