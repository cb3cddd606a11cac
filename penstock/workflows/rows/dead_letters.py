"""Dead letters: the rows that could not be checked, as they came, so that they can be looked at and run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.workflows.rows.reading import COLUMNS, Columns
from penstock.workflows.rows.results import RowForm, as_line, error_fields

if TYPE_CHECKING:
    from typing import IO

    from penstock.workflows.rows.results import RowChecked


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
