"""`RowFacts`: the part of a row's result that an evaluation needs, made where the row is checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.graph.nodes import resolve, steps_of
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.workflows.evaluation.halves import is_second_half
from penstock.workflows.evaluation.labels import LabelError, Labels, RowLabel
from penstock.workflows.evaluation.span_counts import SpanCounts, span_counts
from penstock.workflows.rows.reading import COLUMNS, TOOL_VALUES, Columns, is_object
from penstock.workflows.rows.results import RowForm, error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from penstock.detection.spans import Span
    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.values.tripwire import Record
    from penstock.engine.workflow import Workflow
    from penstock.workflows.evaluation.heard_spans import HeardSpans
    from penstock.workflows.rows.results import RowChecked

SHOWN_CHARS = 300
"""How much of a text is kept of a row that is shown."""


class StepFacts(NamedTuple):
    """The verdict of one step on a row.

    Attributes:
        path: the path of the step.
        truth: whether there was something for it to find; None: not labelled.
        flagged: whether it stopped, edited or flagged the row; None: it failed.
        score: its highest score; None: it gives none.
        found: the name of its finding, the most certain first; empty: nothing.
        seconds: how long it took.
        spans: how its spans fit the labelled ones; empty if the row has none.
    """

    path: str
    truth: bool | None
    flagged: bool | None
    score: float | None
    found: str
    seconds: float
    spans: Mapping[str, SpanCounts] = EMPTY


class RowFacts(NamedTuple):
    """The part of a row's result that an evaluation needs. It can be pickled.

    Attributes:
        file: the name of its file, if there are several.
        line: the number of its line.
        id: the row's own id, if it has one.
        problem: why it could not be evaluated; None: it was.
        second: whether it belongs to the second half of the rows.
        label: its label.
        flagged: whether the workflow stopped, edited or flagged it.
        as_wanted: whether the text that left is the wanted one; None: the row does not say.
        found: the name of the finding, the most certain first; empty: nothing.
        seconds: how long it took.
        steps: the verdicts of the steps that ran.
        spans: how the spans of all guards fit the labelled ones.
        judges: the calls and tokens of judges, by model and by name.
        text: the beginning of the row's text, if texts are shown; else None.
        input: the row as it came, if unlabelled rows are kept; else None.
        released: how many characters of a streamed row had left before it was blocked; None: it was not.
    """

    file: str | None
    line: int
    id: str | int | None
    problem: str | None
    second: bool
    label: RowLabel
    flagged: bool
    as_wanted: bool | None
    found: str
    seconds: float
    steps: tuple[StepFacts, ...]
    spans: Mapping[str, SpanCounts]
    judges: Mapping[str, Mapping[str, int]]
    text: str | None
    input: object
    released: int | None = None


NO_LABEL = RowLabel()


@dataclass(frozen=True, slots=True)
class EvaluationRows(RowForm):
    """Makes the facts of each row.

    Attributes:
        labels: the columns with labels.
        columns: which columns of a row are used.
        stage: the stage that runs.
        texts: whether the beginning of each text is kept.
        inputs: whether unlabelled rows are kept as they came.
        heard: takes the findings of the guards; None: nobody does. See `EvaluationJob`.
    """

    labels: Labels
    columns: Columns = COLUMNS
    stage: str = "process_input"
    texts: bool = False
    inputs: bool = False
    heard: HeardSpans | None = None

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], RowFacts]:
        """Return what makes them."""
        roles = {step.path: step.claims.role for step in steps_of(resolve(workflow.root))}
        return _FactsMaker(self, roles).facts


class _FactsMaker:
    """Makes facts in one process."""

    def __init__(self, form: EvaluationRows, roles: Mapping[str, str]) -> None:
        self._form = form
        self._labels = form.labels
        self._columns = form.columns
        self._roles = roles
        self._heard = form.heard

    def facts(self, checked: RowChecked) -> RowFacts:
        """Return the facts of a result."""
        row, outcome = checked.item, checked.outcome
        id = self._columns.id_of(row.value)
        body = _text_of(row.value, self._columns, self._form.stage)
        problem: str | None = None
        label = NO_LABEL
        if outcome is None or outcome.failure is not None:
            problem = "a step failed" if checked.error is None else error_text(checked.error)
        else:
            try:
                label = self._labels.of(row.value)
            except LabelError as error:
                problem = str(error)
        as_wanted: bool | None = None
        if label.wanted is not None and outcome is not None:
            as_wanted = not outcome.blocked and _left(outcome, body) == label.wanted
            if label.truth is None and body is not None:
                label = label._replace(truth=body != label.wanted)
        spans = self._spans(checked, body)
        ran = _ran(checked.records)
        steps = tuple(self._step(record, label, spans) for record in ran)
        acting = [each for each, record in zip(steps, ran, strict=True) if self._acts(each, record)]
        flagged = bool(acting) or checked.status == "blocked"
        whole = {span for each in acting for span in spans.get(each.path, ())} if spans else ()
        shown = body if body is not None or not self._form.texts else json.dumps(row.value, ensure_ascii=False)
        keep = self._form.inputs and label.truth is None
        return RowFacts(
            row.file,
            row.line,
            id,
            problem,
            is_second_half(id, "" if id is not None else body or repr(row.value)),
            label,
            flagged,
            as_wanted,
            max(acting, key=lambda each: each.score or 0.0).found if acting else "",
            checked.seconds,
            (*steps, *_categories(checked.records, label)) if label.by_step else steps,
            EMPTY if label.spans is None or body is None else span_counts(sorted(whole), label.spans),
            _judges(checked.records),
            shown[:SHOWN_CHARS] if self._form.texts and shown is not None else None,
            row.value if keep else None,
            checked.released if checked.status == "blocked" else None,
        )

    def _acts(self, step: StepFacts, record: Record) -> bool:
        """Return whether a step decides about the row: one in shadow does not, nor an edit of a transform."""
        if record.shadow or not step.flagged:
            return False
        return record.status == "tripped" or bool(record.flagged) or self._roles.get(step.path) == "guard"

    def _step(self, record: Record, label: RowLabel, spans: Mapping[str, tuple[Span, ...]]) -> StepFacts:
        flagged = None if record.status == "failed" else record.status in ("tripped", "edited") or bool(record.flagged)
        if record.status == "edited" and self._roles.get(record.step) != "guard":
            flagged = bool(record.flagged)
        scores: object = record.details.get("scores")
        known = [float(each) for each in scores.values()] if is_mapping(scores) else []
        score = max(known, default=None)
        truth = _truth_of(label, record)
        fits: Mapping[str, SpanCounts] = EMPTY
        if label.spans is not None and self._heard is not None:
            fits = span_counts(spans.get(record.step, ()), label.spans)
        return StepFacts(record.step, truth, flagged, score, _name_of(record) if flagged else "", record.seconds, fits)

    def _spans(self, checked: RowChecked, body: str | None) -> Mapping[str, tuple[Span, ...]]:
        """Return the findings of each step in a row that is a text."""
        if self._heard is None:
            return EMPTY
        message_id = "" if self._form.stage in TOOL_VALUES else f"line-{checked.item.line}-1"
        return EMPTY if body is None else self._heard.taken(message_id, checked.records)


def _ran(records: tuple[Record, ...]) -> list[Record]:
    """Return a record for each step that ran. Of a streamed answer, later stages may have asked a step again."""
    by_step: dict[str, Record] = {}
    for record in records:
        if record.status != "skipped":
            first = by_step.get(record.step)
            by_step[record.step] = record if first is None else _joined(first, record)
    return list(by_step.values())


_RANKED = ("passed", "edited", "tripped", "failed")
"""The ways in which a step ends; of two, the last of them counts."""


def _joined(first: Record, later: Record) -> Record:
    """Return the reports of one step in two stages as one."""
    worse = max(first, later, key=lambda each: _RANKED.index(each.status))
    return replace(
        worse,
        seconds=first.seconds + later.seconds,
        details=first.details if worse is first else {**first.details, **later.details},
        flagged=tuple(dict.fromkeys((*first.flagged, *later.flagged))),
    )


def _categories(records: tuple[Record, ...], label: RowLabel) -> Iterator[StepFacts]:
    """Yield the verdicts about single categories of a step, of those that have a label: ``moderation.hate``."""
    for record in _ran(records):
        for name, truth in label.by_step.items():
            step, dot, category = name.rpartition(".")
            scores: object = record.details.get("scores")
            if dot and step in (record.step, record.processor_id) and is_mapping(scores) and category in scores:
                flagged = None if record.status == "failed" else category in _names_of(record)
                score = float(scores[category])
                yield StepFacts(name, truth, flagged, score, category if flagged else "", record.seconds)


def _names_of(record: Record) -> Collection[str]:
    """Return the categories for which a step stopped the run, or which it flagged."""
    categories: object = None if record.tripwire is None else record.tripwire.metadata.get("categories")
    return (*record.flagged, *categories) if is_mapping(categories) else record.flagged


def _truth_of(label: RowLabel, record: Record) -> bool | None:
    """Return the label for a step: its own by path, id or name, else that of the row."""
    if label.by_step:
        for name in (record.step, record.processor_id):
            if name in label.by_step:
                return label.by_step[name]
        own = _plain(record.processor_id)
        for name, truth in label.by_step.items():
            if _plain(name) == own:
                return truth
    return label.truth


def _plain(name: str) -> str:
    """Return a name without case and signs: ``Prompt Injection Detection`` and ``prompt-injection`` are near."""
    letters = "".join(each for each in name.lower() if each.isalnum())
    for ending in ("detection", "detector", "guard", "processor"):
        letters = letters.removesuffix(ending)
    return letters


def _name_of(record: Record) -> str:
    """Return the name of a step's finding, the most certain first."""
    scores: object = record.details.get("scores")
    metadata: Mapping[str, object] = EMPTY if record.tripwire is None else record.tripwire.metadata
    categories = metadata.get("categories")
    if is_mapping(categories) and categories:
        return str(max(categories, key=lambda name: float(categories[name] or 0.0)))
    if record.flagged:
        known: Mapping[str, float] = scores if is_mapping(scores) else EMPTY
        return max(record.flagged, key=lambda name: known.get(name, 0.0))
    found: object = record.details.get("found")
    return str(next(iter(found))) if is_mapping(found) and found else record.processor_id


def _judges(records: tuple[Record, ...]) -> Mapping[str, Mapping[str, int]]:
    """Return the calls and tokens of judges, by model."""
    sums: dict[str, dict[str, int]] = {}
    for record in records:
        for model, counts in (record.details.get("judge") or EMPTY).items():
            mine = sums.setdefault(str(model), {})
            for name, count in counts.items():
                mine[str(name)] = mine.get(str(name), 0) + int(count)
    return sums


def _left(outcome: Outcome, body: str | None) -> object:
    """Return the text that left: that of the messages, or the value of a tool."""
    name = TOOL_VALUES.get(outcome.stage)
    return outcome.text if name is None else outcome.overrides.get(name, body)


def _text_of(value: object, columns: Columns, stage: str) -> str | None:
    """Return the text of a row that is one; None of a conversation, and of a tool's value that is no text."""
    if isinstance(value, str):
        return value
    if not is_object(value):
        return None
    usual = (TOOL_VALUES[stage],) if stage in TOOL_VALUES else ("text", "content")
    names = usual if columns.text is None else (columns.text,)
    found = next((value[name] for name in names if isinstance(value.get(name), str)), None)
    return found if isinstance(found, str) and "messages" not in value else None
