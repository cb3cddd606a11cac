"""`Labels`: the columns of a row with labels; `RowLabel`: the label of one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.detection.spans import Span
from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import EMPTY, is_items, is_mapping
from penstock.workflows.evaluation.span_types import own_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NEGATIVES = ("none", "ok", "safe", "benign", "clean", "harmless", "negative", "pass", "allowed", "ham")
"""The categories that say that there is nothing to find."""

YES = ("true", "yes", "1", "y", "t")
NO = ("false", "no", "0", "n", "f")

UNLABELLED = ("", "?", "n/a", "nan", "null")
"""The texts that say that a row has no label."""

NO_VALUE = "(none)"
"""The slice of rows that have no value in a column."""

OTHER = "(other)"
"""The slice of rows with a value beyond `MOST_SLICES`."""

LONGEST_SLICE = 60
"""The length at which the name of a slice is cut, in characters."""


class LabelError(PenstockError):
    """A label that cannot be read. The text says in which column, and why."""


class RowLabel(NamedTuple):
    """The label of a row.

    Attributes:
        truth: whether there is something to find; None: the row does not say.
        category: the label, if it is a category; else None.
        by_step: the same for single steps that have a label of their own.
        spans: the labelled spans; None: the row does not say.
        wanted: the text that should leave; None: the row does not say.
        slices: the value of each column of ``by``.
    """

    truth: bool | None = None
    category: str | None = None
    by_step: Mapping[str, bool | None] = EMPTY
    spans: tuple[Span, ...] | None = None
    wanted: str | None = None
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Labels:
    """The columns of a row with labels. It can be pickled.

    A column may be a path, ``labels.injection``: the field of an object.

    Attributes:
        label: the column that says whether there is something to find: true or false, 1 or 0, yes or no; or a category,
            where `NEGATIVES` and ``negative`` say that there is nothing. Null and `UNLABELLED`: not labelled.
        steps: columns with labels for single steps, by the path of the step or the id of its processor.
        triggers: the column with an object of labels by name; the row is positive if any of them is.
        spans: the column with the list of spans: ``start``, ``end`` and ``type`` of each, in code points.
        wanted: the column with the text that should leave.
        by: the columns whose values are slices.
        negative: further categories that say that there is nothing to find, in lower case.
        types: the type of a label by its name in the rows, where that is another one.
    """

    label: str | None = None
    steps: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    triggers: str | None = None
    spans: str | None = None
    wanted: str | None = None
    by: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with labels, without slices."""
        named = (self.label, self.triggers, self.spans, self.wanted, *self.steps.values())
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def of(self, value: object) -> RowLabel:
        """Return the label of a row.

        Raises:
            LabelError: a label is there, but cannot be read.
        """
        truth, category = self._truth(value, self.label)
        by_step = {step: self._truth(value, column)[0] for step, column in self.steps.items()}
        triggers = found(value, self.triggers)
        if is_mapping(triggers):
            by_step = {**{str(name): self._read(each, str(name))[0] for name, each in triggers.items()}, **by_step}
        elif triggers is not None:
            raise LabelError(f"{self.triggers!r} is no object of labels by name")
        spans = self._spans(found(value, self.spans))
        wanted = found(value, self.wanted)
        if wanted is not None and not isinstance(wanted, str):
            raise LabelError(f"{self.wanted!r} is no text")
        if truth is None and by_step:
            truth = _any(by_step.values())
        if truth is None and spans is not None:
            truth = bool(spans)
        return RowLabel(
            truth, category, by_step, spans, wanted, tuple(slice_of(found(value, name)) for name in self.by)
        )

    def _truth(self, value: object, column: str | None) -> tuple[bool | None, str | None]:
        return (None, None) if column is None else self._read(found(value, column), column)

    def _read(self, label: object, column: str) -> tuple[bool | None, str | None]:
        """Return whether a label says that there is something to find, and its category."""
        if label is None:
            return None, None
        if isinstance(label, bool):
            return label, None
        if isinstance(label, int | float) and label in (0, 1):
            return bool(label), None
        if is_items(label):
            read = [self._read(each, column) for each in label]
            return any(truth for truth, _ in read), next((name for truth, name in read if truth and name), None)
        if not isinstance(label, str):
            raise LabelError(f"{column!r} is neither true or false nor a category")
        word = label.strip().lower()
        if word in UNLABELLED:
            return None, None
        if word in YES or word in NO:
            return word in YES, None
        if _is_number(word):
            return self._read(float(word), column)
        return (False, None) if word in NEGATIVES or word in self.negative else (True, label.strip()[:LONGEST_SLICE])

    def _spans(self, given: object) -> tuple[Span, ...] | None:
        if given is None or given == "":
            return None
        if isinstance(given, str):  # a table of CSV
            import json

            try:
                given = cast("object", json.loads(given))
            except ValueError:
                raise LabelError(f"{self.spans!r} is no list of spans") from None
        if not is_items(given):
            raise LabelError(f"{self.spans!r} is no list of spans")
        return tuple(self._span(each) for each in given)

    def _span(self, given: object) -> Span:
        if is_mapping(given):
            start, end = (_first(given, names) for names in (("start", "start_position"), ("end", "end_position")))
            kind = _first(given, ("type", "entity_type", "label"))
            if isinstance(start, int) and isinstance(end, int) and isinstance(kind, str) and 0 <= start < end:
                return Span(start, end, self.types.get(kind) or own_type(kind))
        raise LabelError(f"a span in {self.spans!r} lacks start, end or type")


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).removeprefix("-").isdecimal()


def _first(given: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((given[name] for name in names if name in given), None)


def _any(truths: Iterable[bool | None]) -> bool | None:
    known = [truth for truth in truths if truth is not None]
    return any(known) if known else None


def found(value: object, column: str | None) -> object:
    """Return the field of a row that a column names: by its name, or by a path of names joined by dots."""
    if column is None or not is_mapping(value):
        return None
    if column in value:
        return value[column]
    head, _, rest = column.partition(".")
    return found(value.get(head), rest) if rest else None


def slice_of(value: object) -> str:
    """Return the name of the slice that a value stands for."""
    if value is None or value == "":
        return NO_VALUE
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text[:LONGEST_SLICE]
