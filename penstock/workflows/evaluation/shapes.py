"""The shapes of labelled rows of other tools: which columns hold the text and the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_mapping
from penstock.workflows.evaluation.labels import found

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class RowShape:
    """A shape of labelled rows.

    Attributes:
        name: its name, as ``--shape`` takes it.
        needs: the columns by which it is recognised.
        text: the column with the text to check; None: the row says it itself, as for ``penstock run``.
        id: the column with the id of a row.
        label: the column that says whether there is something to find.
        triggers: the column with an object of labels by name.
        spans: the column with spans.
        wanted: the column with the text that should leave.
    """

    name: str
    needs: tuple[str, ...] = ()
    text: str | None = None
    id: str = "id"
    label: str | None = None
    triggers: str | None = None
    spans: str | None = None
    wanted: str | None = None

    def fits(self, value: object) -> bool:
        """Return whether a row has all its columns."""
        return is_mapping(value) and all(name in value for name in self.needs)


ROWS = RowShape("rows", label="label", spans="spans", wanted="wanted")
"""The shape of rows that no other fits: as for ``penstock run``, with ``label``, ``spans`` and ``wanted``."""

SHAPES = (
    RowShape("openai-guardrails", ("data", "expected_triggers"), "data", triggers="expected_triggers"),
    RowShape("presidio", ("full_text", "spans"), "full_text", spans="spans"),
    RowShape("inspect", ("input", "target"), "input", label="target"),
    RowShape("pydantic-evals", ("inputs",), "inputs", "name", label="expected_output"),
    ROWS,
)
"""All shapes; the first that fits is taken. Documents of promptfoo and pydantic-evals are read by `documents`."""

BY_NAME = {shape.name: shape for shape in SHAPES}


def shape_of(rows: Iterable[object]) -> RowShape:
    """Return the first shape that fits all of some rows; `ROWS` if none does, or if there are no rows."""
    values = list(rows)
    return next((shape for shape in SHAPES if values and all(map(shape.fits, values))), ROWS)


def has_column(rows: Iterable[object], column: str) -> bool:
    """Return whether any row has a column, or a field that a path names."""
    return any(found(value, column) is not None or (is_mapping(value) and column in value) for value in rows)
