"""`LabelledRows`: labelled rows that can be read several times: of files, of documents, of stdin, or in memory."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING

from penstock.workflows.evaluation.documents import DocumentRows, documents
from penstock.workflows.rows.files import matched
from penstock.workflows.rows.reading import Columns, RawRow
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from penstock.workflows.rows.sources import InputFormat

FIRST = 1000
"""How many rows are looked at to find their shape and their columns."""


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Labelled rows, which are read once for each run over them.

    Attributes:
        first: the values of the first rows.
        names: the files; empty: the rows are in memory.
        form: the format of the files.
        memory: the rows in memory; None: they are in files.
    """

    first: tuple[object, ...]
    names: tuple[str, ...] = ()
    form: InputFormat = "auto"
    memory: tuple[RawRow, ...] | None = None

    @contextmanager
    def opened(self, columns: Columns, stage: str, note: Callable[[str], None]) -> Generator[RowFiles | DocumentRows]:
        """Open the rows to read them once.

        Raises:
            RowsError: a file cannot be read, or lacks the columns that are needed.
        """
        if self.memory is not None:
            yield DocumentRows(self.memory, len(self.memory))
            return
        with RowFiles(self.names, self.form, columns, stage, note).started() as source:
            yield source


def in_memory(rows: Iterable[object]) -> LabelledRows:
    """Return rows that are in memory: texts, and objects as in JSON."""
    raw = tuple(RawRow(line, value) for line, value in enumerate(rows, 1))
    return LabelledRows(tuple(row.data for row in raw[:FIRST]), memory=raw)


@contextmanager
def in_files(patterns: Sequence[str], form: InputFormat, stage: str) -> Generator[LabelledRows]:
    """Find the rows of files. Stdin (``-``) is copied to a temporary file, since rows may be read several times.

    Args:
        patterns: names of files, URLs and globs.
        form: their format.
        stage: the stage that is to run.

    Raises:
        RowsError: a file cannot be read.
    """
    with ExitStack() as stack:
        names = tuple(stack.enter_context(_copied_stdin()) if name == "-" else name for name in matched(patterns))
        held = documents(names) if form == "auto" else None
        if held is not None:
            yield LabelledRows(tuple(held.first_values()), memory=tuple(held.rows))
            return
        with RowFiles(names, form, Columns(), stage, _unheard, lenient=True).started() as source:
            first = tuple(row.value for row in source.first_rows()[:FIRST])
        yield LabelledRows(first, names, form)


def _unheard(_sentence: str) -> None:
    """Say nothing: the same is noted when the rows are read."""


@contextmanager
def _copied_stdin() -> Generator[str]:
    """Copy stdin to a temporary file, and remove it in the end; return its name."""
    stdin: IO[bytes] = sys.stdin.buffer
    with NamedTemporaryFile(prefix="penstock-", suffix=".jsonl", delete=False) as copied:
        shutil.copyfileobj(stdin, copied)
    try:
        yield copied.name
    finally:
        Path(copied.name).unlink()
