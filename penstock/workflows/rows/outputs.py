"""Outputs of a result, made where its row is checked: a line of JSON or of CSV, and of rows that could not be checked.

Dead letters are those rows as they came, so that they can be looked at and run again.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple

from penstock.workflows.rows.reading import COLUMNS, Columns
from penstock.workflows.rows.results import (
    UNFIT,
    RowForm,
    as_json,
    as_line,
    error_fields,
    error_text,
    kept_name,
    value_as_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.results import ResultFields, RowChecked
    from penstock.workflows.rows.sources import RowFiles


class Written(NamedTuple):
    """A result as it is written to the output, and the line about its problem for stderr, if it has one."""

    made: object
    problem: str | None


def written_of(checked: RowChecked, made: object) -> Written:
    """Return a result as it is written, with the line about its problem."""
    if checked.error is None:
        return Written(made, None)
    where = "" if checked.item.file is None else f"{checked.item.file}: "
    return Written(made, f"{where}line {checked.item.line}: {checked.status}: {error_text(checked.error)}")


@dataclass(frozen=True, slots=True)
class JsonLines(RowForm):
    """Makes a line of JSON of each result."""

    fields: ResultFields

    def make(self, checked: RowChecked) -> Written:
        """Return the output for a result."""
        return written_of(checked, f"{as_json(checked, self.fields)}\n")


@dataclass(frozen=True, slots=True)
class KeptColumns:
    """Which kept columns a table of results has.

    Attributes:
        names: their names in the input.
        guessed: whether rows may have others: those stand in the column `UNFIT`.
    """

    names: tuple[str, ...]
    guessed: bool

    def unfit(self, result: Mapping[str, object], there: Iterable[str]) -> str | None:
        """Return the fields of a result that have no column, as JSON."""
        left = {name: result[name] for name in result.keys() - set(there)}
        return value_as_json({name: left[name] for name in result if name in left}) if left else None


def kept_columns(source: RowFiles, columns: Columns) -> KeptColumns:
    """Return the kept columns: those that are asked for, those of a table, or those of the first rows."""
    if columns.keep is not None:
        return KeptColumns(columns.keep, guessed=False)
    if source.table_columns is not None:
        return KeptColumns(tuple(columns.kept_of(dict.fromkeys(source.table_columns))), guessed=False)
    rows = source.first_rows()
    names = dict.fromkeys(name for row in rows for name in columns.kept_of(row.value))
    return KeptColumns(tuple(names), guessed=True)


@dataclass(frozen=True, slots=True)
class CsvLines(RowForm):
    """Makes a line of CSV from each result. Nested values are JSON, and null is an empty field.

    Attributes:
        fields: the fields of a row's result.
        own: the names of the columns of a result itself.
        kept: the columns that are kept.
        delimiter: what separates the columns.
    """

    fields: ResultFields
    own: tuple[str, ...]
    kept: KeptColumns
    delimiter: str = ","

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self._named, UNFIT) if self.kept.guessed else self._named

    @property
    def header(self) -> str:
        """The first line."""
        return _csv_line(self.columns, self.delimiter)

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], Written]:  # noqa: ARG002 - as every form
        """Return what makes it."""
        named = self._named

        def make(checked: RowChecked) -> Written:
            result = self.fields.of(checked)
            cells = [cell(result.get(name)) for name in named]
            if self.kept.guessed:
                cells.append(self.kept.unfit(result, named) or "")
            return written_of(checked, _csv_line(cells, self.delimiter))

        return make

    @property
    def _named(self) -> tuple[str, ...]:
        return (*self.own, *map(kept_name, self.kept.names))


def cell(value: object) -> str:
    """Return a value as it stands in CSV: text as it is, null as nothing, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else value_as_json(value)


def _csv_line(cells: Iterable[str], delimiter: str) -> str:
    out = io.StringIO()
    # With CR and LF as line end, the writer quotes fields that hold either of them.
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return f"{out.getvalue()[:-2]}\n"


@dataclass(frozen=True, slots=True)
class DeadLetters(RowForm):
    """Makes a line of JSON of each row that is failed or invalid; None of all others.

    It holds the row as ``input``, or if it could not be parsed, its line as ``raw`` (without either: it was too long
    to be read). ``--text input`` runs the rows of such a file again.
    """

    columns: Columns = COLUMNS

    def make(self, checked: RowChecked) -> str | None:
        """Return the output for a result."""
        row, error = checked.item, checked.error
        if error is None:
            return None
        fields: dict[str, object] = {} if row.file is None else {"file": row.file}
        fields |= {"line": row.line, "id": self.columns.id_of(row.value), "status": checked.status}
        fields["error"] = error_fields(error)
        if row.raw is not None:
            fields["raw"] = row.raw.decode("utf-8", "backslashreplace")
        elif row.value is not None:
            fields["input"] = row.value
        return as_line(fields)


class DeadLettersWriter:
    """Writes dead letters to a file."""

    def __init__(self, out: IO[str], form: DeadLetters) -> None:
        self.form = form
        self._out = out

    def add(self, made: str | None) -> None:
        """Write a line, if there is one."""
        if made is not None:
            self._out.write(f"{made}\n")
            self._out.flush()
