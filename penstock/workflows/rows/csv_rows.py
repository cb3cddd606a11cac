"""`CsvRows`: the rows of a CSV file. All values are strings, as they stand there."""

from __future__ import annotations

import csv
from typing import IO, TYPE_CHECKING

from penstock.workflows.rows import reading
from penstock.workflows.rows.reading import (
    RawRow,
    RowsError,
    Unreadable,
    not_utf8,
    rest_unreadable,
    too_long,
    without_mark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHERS = ("\t", ";", "|")
"""What separates columns in some files that are called CSV."""


class _TooLongError(Exception):
    """A row is too long to be read. It was skipped, to its end."""


class CsvRows:
    """Reads the rows of a CSV file, one at a time. The first row names the columns. Lives as long as it is read.

    Attributes:
        columns: the names of the columns.
        unexpected: a sentence about an unexpected header; or None.
        taken: the number of bytes read so far.

    Args:
        stream: the stream to read.
        delimiter: what separates the columns.
        file: the name of the file in each row, if there are several; else None.
        name: the name of the file in errors.

    Raises:
        RowsError: the header cannot be read.
    """

    def __init__(self, stream: IO[bytes], delimiter: str, file: str | None, name: str) -> None:
        self._lines = CsvText(stream, reading.MAX_LINE)
        self._file = file
        csv.field_size_limit(max(csv.field_size_limit(), reading.MAX_LINE))  # it holds for the whole process
        self.unexpected: str | None = None
        header = self._header(delimiter, name)
        if len(header) == 1 and (other := next((each for each in _OTHERS if each in header[0]), None)):
            delimiter = other
            self.unexpected = f"the columns of {name} are separated by {other!r}, not by commas"
            header = next(csv.reader(header, delimiter=other))
        self.columns = _unique(header)
        doubled = sorted({each for each in header if header.count(each) > 1})
        self.doubled = frozenset(doubled)
        if doubled:
            self.unexpected = (
                f"{name} has several columns called {', '.join(map(repr, doubled))}; "
                f"the later ones are called {', '.join(repr(one) for one in self.columns if one not in header)}"
            )
        self._reader = csv.reader(self._lines, delimiter=delimiter)

    @property
    def taken(self) -> int:
        """The number of bytes read so far."""
        return self._lines.taken

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the rows, numbered from 1 without the header. Empty lines are skipped."""
        lines, reader, columns, file = self._lines, self._reader, self.columns, self._file
        width = len(columns)
        number = 0
        while True:
            lines.start_row()
            try:
                fields = next(reader, None)
            except (csv.Error, _TooLongError) as error:
                number += 1
                yield RawRow(number, _problem(error), file)
                continue
            except Exception as error:  # noqa: BLE001 - of the disk, or of any library for remote files
                yield rest_unreadable(number + 1, error, file)
                return
            if fields is None:
                return
            if not fields:
                continue
            number += 1
            if lines.problem is not None or len(fields) != width:
                wrong = lines.problem or f"it has {len(fields)} fields, and the header has {width}"
                yield RawRow(number, Unreadable(wrong), file)
            else:
                yield RawRow(number, dict(zip(columns, fields, strict=True)), file)

    def _header(self, delimiter: str, name: str) -> list[str]:
        header: list[str] | None = []
        try:
            while header == []:
                self._lines.start_row()
                header = next(csv.reader(self._lines, delimiter=delimiter), None)
        except (csv.Error, _TooLongError) as error:
            if "new-line" in str(error):
                raise RowsError(
                    f"{name} cannot be read: its lines end with CR, not with LF: tr '\\r' '\\n' <{name}"
                ) from None
            raise RowsError(f"the header of {name} cannot be read: {_problem(error).problem}") from error
        if self._lines.problem is not None:
            raise RowsError(f"the header of {name} cannot be read: {self._lines.problem}")
        return header or []


def _problem(error: Exception) -> Unreadable:
    if isinstance(error, _TooLongError):
        return too_long("row")
    if "new-line" in str(error):
        return Unreadable("it has a line break (CR) outside of quotes")
    return Unreadable(f"it is not valid CSV: {error}")


def _unique(header: list[str]) -> tuple[str, ...]:
    """Return the names of the columns, each once: a later one of the same name gets a number."""
    names: dict[str, None] = {}
    taken = set(header)
    for place, given in enumerate(header, start=1):
        name = stem = given or f"column_{place}"
        number = 1
        while name in names or (number > 1 and name in taken):
            number += 1
            name = f"{stem}_{number}"
        names[name] = None
    return tuple(names)


class CsvText:
    """The lines of a CSV file, as its reader asks for them: one, and more of them within quotes.

    Attributes:
        taken: the number of bytes read so far.
        problem: why the row that began last cannot be used, or None.
        ended: whether the row that began last has a line end.

    Args:
        stream: the stream to read.
        longest: the length of the longest row, in bytes.
    """

    def __init__(self, stream: IO[bytes], longest: int) -> None:
        self.ended = True
        self.taken = 0
        self.problem: str | None = None
        self._stream = stream
        self._longest = longest
        self._size = 0

    def start_row(self) -> None:
        """Begin a row."""
        self._size = 0
        self.problem = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._stream.readline(self._longest + 1)
        if not line:
            if self._size:
                self.ended = False
                self.problem = "it ends within quotes: the file is not whole, or a quote is not closed"
            raise StopIteration
        if not self.taken:
            self.taken = len(line)
            line = without_mark(line)
        else:
            self.taken += len(line)
        self.ended = line[-1:] == b"\n"
        within = self._size > 0
        self._size += len(line)
        if self._size > self._longest:
            self._skip_row(line, within=within)
            raise _TooLongError
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            self.problem = not_utf8(error)
            return line.decode("utf-8", "replace")

    def _skip_row(self, piece: bytes, *, within: bool) -> None:
        """Read on to the end of the row: a line break that no quotes are around."""
        while piece:
            within ^= bool(piece.count(b'"') % 2)
            if piece.endswith(b"\n") and not within:
                return
            piece = self._stream.readline(self._longest)
            self.taken += len(piece)
