"""`RowFiles`: the rows of one or several files of any format, one after another."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

from penstock.workflows.rows.csv_rows import CsvRows
from penstock.workflows.rows.files import delimiter_of, extra_module, format_of, opened
from penstock.workflows.rows.reading import (
    BODIES,
    TOOL_VALUES,
    RawRow,
    RowsError,
    RowSource,
    Unreadable,
    is_json,
    parse_row,
    wide_encoding,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from penstock.workflows.rows.files import FileFormat, OpenedFile
    from penstock.workflows.rows.parquet_rows import ParquetRows
    from penstock.workflows.rows.reading import Columns, InputRow

InputFormat = Literal["auto", "jsonl", "text", "csv", "parquet"]

FIRST_ROWS = 1000
FIRST_BYTES = 16 * 1024 * 1024
"""How many rows are read ahead where the columns of an output are chosen by them: so many, or fewer long ones."""


@dataclass(slots=True)
class RowFiles:
    """The rows of files, one after another. Lives as long as they are read.

    Attributes:
        names: the files; ``-`` is stdin.
        form: their format; ``auto``: that of the name of each.
        columns: which columns of a row are used.
        stage: the stage that runs on them.
        note: takes a sentence about an unexpected file.
        as_json: whether values of Parquet that JSON cannot hold become strings.
        size: the size of all files as they are stored, in bytes; None if it is not known.
        table_columns: the names of the columns if all files are tables, else None.
        done: the last row that needs not be checked again; None: none was.
        table_schema: their Arrow schema if all files have one, else None; and whether a column has several types.
        lenient: whether a table may lack the columns that are checked, because its rows are only looked at.
    """

    names: tuple[str, ...]
    form: InputFormat
    columns: Columns
    stage: str
    note: Callable[[str], None]
    as_json: bool = True
    size: int | None = None
    table_columns: tuple[str, ...] | None = None
    done: RawRow | None = None
    table_schema: tuple[Any, bool] = (None, False)
    lenient: bool = False
    _first: Reading | None = None
    _current: Reading | None = None
    _before: int = 0
    _rows: Iterator[RawRow] | None = None
    _kept_open: dict[str, Reading] = field(default_factory=dict[str, "Reading"])

    @property
    def taken(self) -> int:
        """How many bytes of the files were read so far, as they are stored."""
        return self._before if self._current is None else self._before + self._current.taken

    @contextmanager
    def started(self) -> Generator[RowFiles]:
        """Open the first file, and look at all others.

        Raises:
            RowsError: a file cannot be read, or is a table without the columns that are needed.
            MissingExtraError: what reads it is not installed.
        """
        with ExitStack() as stack:
            self._first = stack.enter_context(self.reading(self.names[0]))
            sizes, tables = [self._first.opened.size], [self._first.table]
            for name in self.names[1:]:
                with ExitStack() as look:
                    one = look.enter_context(self.reading(name, quiet=True))
                    sizes.append(one.opened.size)
                    tables.append(one.table)
                    if one.opened.once:
                        self._kept_open[name] = one
                        stack.push(look.pop_all())
            self.size = sum(size for size in sizes if size is not None) if None not in sizes else None
            found = [table.columns for table in tables if table is not None]
            if len(found) == len(tables):
                self.table_columns = tuple(dict.fromkeys(chain.from_iterable(found)))
                self.table_schema = _one_schema([getattr(table, "schema", None) for table in tables])
            yield self

    def count(self, size: int) -> None:
        """Count bytes that were read elsewhere."""
        self._before += size

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the rows as they were read. See `parse_row`.

        The rest of a file that cannot be read is one row that says so.

        Raises:
            RowsError: the only file cannot be read at all.
        """
        if self._rows is None:
            self._rows = chain.from_iterable(self._files())
        return self._rows

    def first_rows(self) -> list[InputRow]:
        """Return the first rows that are left; `raw_rows` yields them again."""
        rows = self.raw_rows()
        ahead: list[RawRow] = []
        size = 0
        for raw in islice(rows, FIRST_ROWS):
            ahead.append(raw)
            size += len(raw.data) if isinstance(raw.data, bytes | str) else 0
            if size >= FIRST_BYTES:
                break
        self._rows = chain(ahead, rows)
        return [parse_row(raw) for raw in ahead]

    def _files(self) -> Iterator[Iterator[RawRow]]:
        """Yield the rows of each file, which is open until the next is asked for."""
        assert self._first is not None, "started() was not entered"  # noqa: S101
        yield self._rows_of(self._first)
        for name in self.names[1:]:
            yield self.rows_of(name, quiet=False)

    def rows_of(self, name: str, groups: range | None = None, *, quiet: bool = True) -> Iterator[RawRow]:
        """Yield the rows of one of the files, or of some row groups of a Parquet file. See `raw_rows`."""
        with ExitStack() as stack:
            try:
                one = self._kept_open.get(name) or stack.enter_context(self.reading(name, quiet=quiet))
            except RowsError as error:
                if len(self.names) == 1:
                    raise
                yield RawRow(1, Unreadable(str(error)), name)  # it was there when the run began
                return
            yield from self._rows_of(one, groups)

    def _rows_of(self, one: Reading, groups: range | None = None) -> Iterator[RawRow]:
        self._current = one
        try:
            yield from one.rows.raw_rows() if groups is None else one.row_groups.raw_rows_of(groups)
        except RowsError as error:
            if len(self.names) == 1:
                raise
            yield RawRow(1, Unreadable(str(error)), one.file)
        self._before += one.taken
        self._current = None

    @contextmanager
    def reading(self, name: str, *, quiet: bool = False) -> Generator[Reading]:
        """Open one of the files."""
        file = name if len(self.names) > 1 else None
        with opened(name) as one:
            notes: list[str] = [] if one.unexpected is None else [one.unexpected]
            form = self.form if self.form != "auto" else format_of(name)
            if form is None and name != "-":
                form = "jsonl"
            seen = _mismatch(one, form, name)
            table: CsvRows | ParquetRows | None = None
            rows: RowSource | CsvRows | ParquetRows
            if form == "csv":
                rows = table = CsvRows(one.stream, delimiter_of(name), file, shown(name))
            elif form == "parquet":
                from penstock.workflows.rows.parquet_rows import ParquetRows

                rows = table = ParquetRows(one.stream, self.columns, file, shown(name), as_json=self.as_json)
            else:
                rows = RowSource(one.stream, form or "auto", file)
            notes += [seen] if seen else []
            if table is not None:
                notes += [] if table.unexpected is None else [table.unexpected]
                self._check_columns(table, name, seen)
            for note in notes if not quiet or one.once else ():
                self.note(note)
            yield Reading(rows, table, one, file)

    def _check_columns(self, table: CsvRows | ParquetRows, name: str, seen: str) -> None:
        """Check that a table has the columns that are checked."""
        wanted = needed_columns(self.columns, self.stage)
        used = [each for each in wanted if each in table.columns]
        if not table.columns or self.lenient:
            return  # it is empty, or nothing is checked
        if not used:
            there = ", ".join(map(repr, table.columns))
            lacks = f"no column {wanted[0]!r}" if len(wanted) == 1 else f"none of the columns {', '.join(wanted)}"
            cure = seen or "name the one to check with --text COLUMN"
            raise RowsError(f"{shown(name)} has {lacks}; it has {there}; {cure}")
        doubled = table.doubled.intersection((*used, self.columns.id))
        if doubled:
            raise RowsError(f"{shown(name)} has several columns {min(doubled)!r}; rename all but one")


def _one_schema(schemas: list[Any]) -> tuple[Any, bool]:
    """Return a schema with the columns of all; the first type of each; and whether one has several types."""
    if all(schema is None for schema in schemas):
        return None, False
    if any(schema is None for schema in schemas):
        raise RowsError("Parquet and CSV are given together; give the files of one format, and then those of the other")
    fields: dict[str, Any] = {}
    mixed = False
    for schema in schemas:
        for one in schema:
            mixed |= not fields.setdefault(one.name, one).type.equals(one.type)
    return extra_module("pyarrow", "Parquet").schema(list(fields.values())), mixed


@dataclass(slots=True)
class Reading:
    """A file that is read.

    Attributes:
        rows: its rows.
        table: the same, if it is a table.
        opened: the file.
        file: its name in each row.
    """

    rows: RowSource | CsvRows | ParquetRows
    table: CsvRows | ParquetRows | None
    opened: OpenedFile
    file: str | None

    @property
    def row_groups(self) -> Any:
        """The file as `ParquetRows`; None if it is of another format."""
        return self.table if hasattr(self.table, "raw_rows_of") else None

    @property
    def taken(self) -> int:
        """How many bytes were read so far, as they are stored."""
        return self.opened.taken(self.rows.taken)


def needed_columns(columns: Columns, stage: str) -> tuple[str, ...]:
    """Return the columns of which a table needs one."""
    if columns.text is not None:
        return (columns.text,)
    return (TOOL_VALUES[stage],) if stage in TOOL_VALUES else BODIES


def shown(name: str) -> str:
    """Return the name of an input for people."""
    return "stdin" if name == "-" else name


def _mismatch(one: OpenedFile, form: FileFormat | None, name: str) -> str:
    """Return a sentence with a cure if a file does not look like its format; else an empty string."""
    if form in (None, "text", "parquet"):
        return ""
    start = one.glance()
    if wide_encoding(start) is not None:
        return ""  # whoever reads it says so
    found = looks_like(start)
    if form == "csv":
        return f"{shown(name)} looks like JSON lines, not like CSV: --input-format jsonl" if found == "jsonl" else ""
    cures = {
        "csv": "looks like CSV, not like JSON lines: --input-format csv",
        "document": f"looks like one JSON document, not like one row a line: jq -c '.[]' {shown(name)}",
        "text": "looks like text, not like JSON lines: --input-format text",
        "parquet": "looks like Parquet, not like JSON lines: --input-format parquet",
    }
    return f"{shown(name)} {cures[found]}" if found in cures else ""


def looks_like(start: bytes) -> Literal["jsonl", "document", "csv", "text", "parquet", "nothing"]:
    """Guess the format of an input from its first bytes, for a note to people."""
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"PAR1"):
        return "parquet"
    line, ended, rest = text.partition(b"\n")
    line = line.strip()
    if not line:
        return "nothing"
    if is_json(line):
        messages = b'"role"' in line
        return "document" if line.startswith(b"[{") and not rest.strip() and not messages else "jsonl"
    if line[:1] in b"[{":
        return "document" if ended and line in (b"[", b"{", b"[{") else "jsonl"
    if line[:1] == b'"' and not ended:
        return "jsonl"
    second = rest.partition(b"\n")[0].rstrip()
    counts = [(line.count(each), second.count(each)) for each in (b",", b"\t", b";")]
    return "csv" if any(one and one == other for one, other in counts) else "text"
