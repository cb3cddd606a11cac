"""Splits: parts of input files that are checked one by one, on any machine; lines are numbered as in the file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import IO, TYPE_CHECKING, TypeAlias, cast

from penstock.workflows.rows.files import is_url, open_local
from penstock.workflows.rows.reading import RowsError, RowSource
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.workflows.rows.reading import LineFormat, RawRow

SPLIT_BYTES = 4 * 1024 * 1024
"""The size of a split: seconds of work, which is what is done again when a machine is lost."""

MOST_SPLITS = 10_000
"""Larger inputs have larger splits."""

_PIECE = 1024 * 1024  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class LineSplit:
    """The lines of a plain file that begin in a range of bytes.

    Attributes:
        name: the file.
        form: the format of its lines.
        start: where the range begins.
        end: where the next one begins.
        before: how many line ends there are before ``start``.
        file: the name of the file in each row, if there are several files.
        after: the number of the line behind which it begins.
    """

    name: str
    form: LineFormat
    start: int
    end: int
    before: int
    file: str | None = None
    after: int = 0

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.end - self.start

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield its rows.

        Raises:
            RowsError: the file cannot be read.
        """
        with open_local(self.name) as stream:
            lines = _Lines(stream, self.start, self.end)
            source = RowSource(cast("IO[bytes]", lines), self.form, self.file, before=self.before + lines.skipped)
            yield from _behind(source.raw_rows(), self.after)


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A whole file, or some row groups of a Parquet file.

    Attributes:
        files: the input that it belongs to; not opened.
        name: the file.
        size: how many bytes it has.
        groups: the row groups; None: all of the file.
        after: the number of the row behind which it begins.
    """

    files: RowFiles
    name: str
    size: int
    groups: range | None = None
    after: int = 0

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield its rows. See `LineSplit.raw_rows`."""
        return _behind(self.files.rows_of(self.name, self.groups), self.after)


Split: TypeAlias = LineSplit | FileSplit
"""A part of the input. It can be pickled, and read wherever its file can be opened."""


def _behind(rows: Iterator[RawRow], after: int) -> Iterator[RawRow]:
    return (raw for raw in rows if raw.line > after) if after else rows


class _Lines:
    """A stream of the lines that begin in a range of bytes.

    Attributes:
        skipped: 1 if the range begins within a line, and another line begins in it; else 0.
    """

    def __init__(self, stream: IO[bytes], start: int, end: int) -> None:
        self._stream = stream
        self._end = end
        self._at = max(start - 1, 0)
        self.skipped = 0
        self._begins = True  # whether a line begins here
        stream.seek(self._at)
        if start:
            self._begins = False
            while not self._begins and self._at < end and self.readline(min(_PIECE, end - self._at)):
                pass
            self.skipped = int(self._begins and self._at > start)
            self._begins = True  # if no line begins in the range, the next one is beyond it

    def readline(self, limit: int = -1, /) -> bytes:
        """Return the next line, or so many bytes of it; nothing where a line begins beyond the range."""
        if self._begins and self._at >= self._end:
            return b""
        line = self._stream.readline(limit)
        self._at += len(line)
        self._begins = line.endswith(b"\n")
        return line


def splits_of(files: RowFiles, size: int = SPLIT_BYTES) -> list[Split]:
    """Return the splits of an input. Plain files of lines are read once, to count the lines.

    Args:
        files: the input, opened. Rows up to the last that is done are left out.
        size: the size of a split in bytes. A row group of Parquet, a compressed file and one of CSV are not divided.

    Raises:
        RowsError: a file cannot be read.
    """
    unopened = RowFiles(files.names, files.form, files.columns, files.stage, _nothing, files.as_json)
    size = max(size, (files.size or 0) // MOST_SPLITS)
    done = files.done
    begun = 0 if done is None or done.file is None else files.names.index(done.file)
    made: list[Split] = []
    for at, name in enumerate(files.names[begun:]):
        splits = _file_splits(files, unopened, name, size, quiet=at == 0)
        made += splits if done is None or at else _behind_line(splits, done.line)
    return made


def _behind_line(splits: Sequence[Split], line: int) -> list[Split]:
    """Return the splits of a file without the rows up to a line."""
    ends = [split.before + 1 if isinstance(split, LineSplit) else line + 1 for split in splits[1:]]
    return [replace(split, after=line) for split, last in zip(splits, [*ends, line + 1], strict=True) if last > line]


def _nothing(sentence: str) -> None:
    """Say nothing: notes about a file were given when it was divided."""


def _file_splits(files: RowFiles, unopened: RowFiles, name: str, size: int, *, quiet: bool) -> Sequence[Split]:
    try:
        with files.reading(name, quiet=quiet) as one:
            if isinstance(one.rows, RowSource) and not one.opened.compressed and not is_url(name):
                return line_splits(name, one.rows.form, one.file, size)
            if one.row_groups is not None:
                return [FileSplit(unopened, name, *part) for part in _grouped(one.row_groups.group_sizes, size)]
            return [FileSplit(unopened, name, one.opened.size or 0)]
    except RowsError:
        if len(files.names) == 1:
            raise
        return [FileSplit(unopened, name, 0)]  # whose row says so, where it stands


def _grouped(sizes: Sequence[int], least: int) -> Iterator[tuple[int, range]]:
    """Yield ranges of row groups that have so many bytes together, and how many they have."""
    start = total = 0
    for group, size in enumerate(sizes):
        total += size
        if total >= least or group == len(sizes) - 1:
            yield total, range(start, group + 1)
            start, total = group + 1, 0


def line_splits(name: str, form: LineFormat, file: str | None, size: int) -> list[LineSplit]:
    """Return the splits of a plain file of lines.

    Raises:
        RowsError: the file cannot be read.
    """
    with open_local(name) as stream:
        total = stream.seek(0, 2)
        starts = [*range(0, total, size), total]
        stream.seek(0)
        made: list[LineSplit] = []
        before = 0
        for start, end in pairwise(starts):
            made.append(LineSplit(name, form, start, end, before, file))
            left = end - start
            while left > 0 and (piece := stream.read(min(left, _PIECE))):
                left -= len(piece)
                before += piece.count(b"\n")
    return made
