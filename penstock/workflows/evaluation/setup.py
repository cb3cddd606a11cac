"""`Setup`: which columns an evaluation reads, found by the user's options and the shape of the first rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.workflows.evaluation.labels import Labels
from penstock.workflows.evaluation.shapes import BY_NAME, SHAPES, has_column, shape_of
from penstock.workflows.rows.reading import Columns, RowsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """The columns as the user named them. None: that of the shape, if a row has it.

    Attributes:
        label: the column that says whether there is something to find.
        steps: columns with labels for single steps, by the path of the step or the id of its processor.
        spans: the column with spans.
        wanted: the column with the text that should leave.
        by: the columns whose values are slices.
        negative: further categories that say that there is nothing to find.
        types: the type of a label by its name in the rows.
        text: the column with the text to check.
        id: the column with the id of a row.
        shape: the name of the shape; None: that of the first rows.
    """

    label: str | None = None
    steps: Mapping[str, str] = EMPTY
    spans: str | None = None
    wanted: str | None = None
    by: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    types: Mapping[str, str] = EMPTY
    text: str | None = None
    id: str | None = None
    shape: str | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """Which columns an evaluation reads.

    Attributes:
        labels: the columns with labels.
        columns: the columns with the text and the id.
        shape: the name of the shape.
    """

    labels: Labels
    columns: Columns
    shape: str


def setup_of(first: Sequence[object], options: LabelOptions) -> Setup:
    """Return which columns to read.

    Args:
        first: the values of the first rows.
        options: the columns that the user named.

    Raises:
        RowsError: there is no such shape, or none of these rows has a column that the user named.
    """
    if options.shape is not None and options.shape not in BY_NAME:
        raise RowsError(
            f"there is no shape {options.shape!r}; the shapes are {', '.join(each.name for each in SHAPES)}"
        )
    shape = shape_of(first) if options.shape is None else BY_NAME[options.shape]
    named = (options.label, options.spans, options.wanted, *options.steps.values(), *options.by)
    for column in named:
        if column is not None and first and not has_column(first, column):
            rows = f"none of the first {len(first):,} rows has" if len(first) > 1 else "the only row does not have"
            raise RowsError(f"{rows} the column {column!r}; the first has {_columns_of(first[0])}")

    def usual(own: str | None, of_shape: str | None) -> str | None:
        return own if own is not None or of_shape is None or not has_column(first, of_shape) else of_shape

    labels = Labels(
        usual(options.label, None if options.steps else shape.label),
        options.steps,
        None if options.label is not None else shape.triggers,
        usual(options.spans, shape.spans),
        usual(options.wanted, shape.wanted),
        options.by,
        tuple(each.lower() for each in options.negative),
        options.types,
    )
    aside = tuple(dict.fromkeys((*labels.columns, *labels.by, "review")))
    columns = Columns(options.text or shape.text, options.id or shape.id, aside=aside)
    return Setup(labels, columns, shape.name)


def _columns_of(value: object) -> str:
    return ", ".join(map(repr, value)) if is_mapping(value) else "none: it is no object"
