"""`--resume`: the output of an interrupted run, how much of it is whole, and whether it belongs to the input."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.workflows.rows.csv_rows import CsvText
from penstock.workflows.rows.files import Decompressed, compression_of, is_url
from penstock.workflows.rows.outputs import cell
from penstock.workflows.rows.reading import RowsError, is_object, parse_row, reason_of
from penstock.workflows.rows.results import RESULT_NAMES, RowResult, RunCounts, StepDone, kept_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.workflows.rows.files import Compression
    from penstock.workflows.rows.reading import Columns, RawRow
    from penstock.workflows.rows.results import ResultFields
    from penstock.workflows.rows.sources import RowFiles

_LONGEST = 2**31 - 1
"""The length of the longest row of CSV that is read here, in bytes: a result is longer than its row."""


@dataclass(slots=True)
class Earlier:
    """The results that an earlier run has written.

    Attributes:
        name: their file.
        counts: what became of the rows.
        last: the fields of the last result; None: there is none.
        end: how many bytes of the file are whole results.
        half: whether half a result stands behind them.
    """

    name: str
    counts: RunCounts = field(default_factory=RunCounts)
    last: Mapping[str, object] | None = None
    end: int = 0
    half: bool = False

    def add(self, fields: Any) -> None:
        """Count a result.

        Raises:
            RowsError: it is none.
        """
        try:
            self.counts.add(result_from(fields))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self.no_result() from error
        self.last = fields
        self.counts.earlier += 1

    def no_result(self) -> RowsError:
        """Return the error for something else than a result."""
        where = f"{self.name}, result {self.counts.rows + 1}"
        return RowsError(f"{where}: this is no result of penstock; leave --resume out, or write to another file")

    def cut(self) -> None:
        """Cut an incomplete row off the end of the file."""
        if Path(self.name).exists():
            os.truncate(self.name, self.end)


def earlier_results(name: str, csv_columns: tuple[str, ...] | None = None, delimiter: str = ",") -> Earlier:
    """Read the results of a file of JSON lines or CSV, up to the last that is whole. The file is not changed.

    Args:
        name: the file. If there is none, there are no results.
        csv_columns: the columns that a file of CSV has; None: it has lines of JSON.
        delimiter: what separates them.

    Raises:
        RowsError: the file cannot be read, or holds something else than results.
    """
    if is_url(name) or name == "-":
        raise RowsError(f"{name} cannot be resumed; --resume needs a file on this machine")
    earlier = Earlier(name)
    if not Path(name).exists():
        return earlier
    try:
        with Path(name).open("rb") as file:
            compression = compression_of(name)
            if compression is None:
                _read(file, earlier, csv_columns, delimiter)
                return earlier
            whole = _whole_members(file, compression)
            members = Decompressed(_Head(file, whole), compression)
            _read(io.BufferedReader(members), earlier, csv_columns, delimiter)
    except OSError as error:
        raise RowsError(f"cannot read {name}: {reason_of(error)}") from error
    if earlier.half:  # our own members end where results end
        raise RowsError(f"{name} ends within a result; decompress it, and resume the plain file")
    earlier.end = whole
    return earlier


def _whole_members(file: IO[bytes], compression: Compression) -> int:
    """Return where the last whole member of a compressed file ends."""
    members = Decompressed(file, compression)
    piece = bytearray(64 * 1024)
    try:
        while members.readinto(piece):
            pass
    except RowsError:
        pass
    file.seek(0)
    return members.whole


class _Head:
    """The first bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _read(stream: IO[bytes], earlier: Earlier, csv_columns: tuple[str, ...] | None, delimiter: str) -> None:
    if csv_columns is None:
        _read_json(stream, earlier)
    else:
        _read_csv(stream, earlier, csv_columns, delimiter)


def _read_json(stream: IO[bytes], earlier: Earlier) -> None:
    for line in iter(stream.readline, b""):
        if not line.endswith(b"\n"):
            earlier.half = True
            return
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise earlier.no_result() from error
        earlier.add(fields)
        earlier.end += len(line)


def _read_csv(stream: IO[bytes], earlier: Earlier, columns: tuple[str, ...], delimiter: str) -> None:
    csv.field_size_limit(_LONGEST)
    text = CsvText(stream, _LONGEST)
    reader = csv.reader(text, delimiter=delimiter)
    while True:
        text.start_row()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise earlier.no_result() from error
        if not text.ended:
            earlier.half = True
            return
        if cells is None:
            return
        if not earlier.end:
            if tuple(cells) != columns:
                raise other_columns(earlier.name, sorted(set(cells) ^ set(columns)))
        elif len(cells) != len(columns):
            raise earlier.no_result()
        else:
            fields = dict(zip(columns, cells, strict=True))
            try:
                nested = {name: json.loads(fields[name] or "null") for name in _NESTED}
            except (ValueError, RecursionError) as error:
                raise earlier.no_result() from error
            earlier.add({**fields, **nested})
        earlier.end = text.taken


_NESTED = ("line", "flagged", "tripwire", "records")
"""The fields of a result that stand as JSON in CSV."""


def result_from(fields: Mapping[str, Any]) -> RowResult:
    """Return a result as it was counted, from its fields as they were written."""
    status, tripwire = fields["status"], fields["tripwire"]
    steps = tuple(
        StepDone(
            each["step"],
            each["status"],
            each["shadow"],
            len(each["edits"]),
            bool(each.get("flagged")),
            (each.get("ms") or 0) / 1000,
        )
        for each in fields["records"]
    )
    metadata: Any = None if tripwire is None else tripwire["metadata"]
    if isinstance(metadata, str):
        metadata = json.loads(metadata)
    broken = status == "blocked" and is_object(metadata) and metadata.get("failed") is True
    broken = broken and any(each.status == "failed" for each in steps)
    seconds = float(fields.get("ms") or 0) / 1000
    return RowResult(int(fields["line"]), status, broken, bool(fields["flagged"]), seconds, steps)


def skip_done(source: RowFiles, earlier: Earlier, columns: Columns) -> None:
    """Skip the rows that have results.

    Raises:
        RowsError: the results are not those of the first rows of this input.
    """
    count = earlier.counts.rows
    last: RawRow | None = None
    skipped = 0
    for raw in islice(source.raw_rows(), count):
        last = raw
        skipped += 1
    if skipped < count:
        raise RowsError(
            f"{earlier.name} holds {count:,} results, and the input has only {skipped:,} rows: they are not of this "
            "input; leave --resume out, or write to another file"
        )
    if last is None or earlier.last is None:
        return
    row = parse_row(last)
    expected = [cell(each) for each in (row.file, row.line, columns.id_of(row.value))]
    found = [cell(earlier.last.get(name)) for name in ("file", "line", "id")]
    if found != expected:
        raise RowsError(
            f"the last result in {earlier.name} is of {_place(found)}, and row {count:,} of the input is "
            f"{_place(expected)}: it is not of this input; leave --resume out, or write to another file"
        )
    source.done = last


def check_fields(source: RowFiles, earlier: Earlier, fields: ResultFields) -> None:
    """Check that the last result has the fields that this run would give it, since lines of JSON have no header.

    Raises:
        RowsError: the earlier run had other options.
    """
    if source.done is None or earlier.last is None:
        return
    chosen = {"ms": fields.times, "input": fields.show_input, "trace": fields.traced}
    kept = map(kept_name, fields.columns.kept_of(parse_row(source.done).value))
    wanted = {*kept, *(name for name, there in chosen.items() if there)}
    found = earlier.last.keys() - (set(RESULT_NAMES) - chosen.keys())
    if found != wanted:
        raise other_columns(earlier.name, sorted(found ^ wanted))


def other_columns(name: str, columns: Sequence[str]) -> RowsError:
    """Return the error for a file of a run with other options; ``columns``: those that only one of the runs has."""
    which = f" ({', '.join(columns)})" if columns else ""
    return RowsError(
        f"{name} has other columns than this run would write{which}; give the options of the earlier run, or write to "
        "another file"
    )


def _place(place: list[str]) -> str:
    file, line, own = place
    return f"line {line}{f' of {file}' if file else ''}{f' with the id {own!r}' if own else ''}"


def keep_letters(name: str, earlier: Earlier) -> int:
    """Cut a file of dead letters behind those of the earlier results; return how many of them it lacks.

    Raises:
        RowsError: the file cannot be cut.
    """
    if is_url(name) or compression_of(name) is not None:
        raise RowsError(f"{name} cannot be resumed; with --resume, dead letters need a plain file on this machine")
    count = earlier.counts.statuses["failed"] + earlier.counts.statuses["invalid"]
    end = kept = 0
    if Path(name).exists():
        with Path(name).open("rb") as file:
            for line in islice(file, count):
                if line.endswith(b"\n"):
                    end += len(line)
                    kept += 1
        os.truncate(name, end)
    return count - kept
