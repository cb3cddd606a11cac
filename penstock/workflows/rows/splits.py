"""Splits: parts of input files that are checked one by one, on any machine; lines are numbered as in the file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from penstock.workflows.rows.reading import RowsError, RowSource

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock.workflows.rows.reading import LineFormat

SPLIT_BYTES = 4 * 1024 * 1024
"""The size of a split: seconds of work, which is what is done again when a machine is lost."""

MOST_SPLITS = 10_000
"""Larger inputs have larger splits."""

_PIECE = 1024 * 1024  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class Split:
    """The lines of a file that begin in a range of bytes.

    Attributes:
        name: the file.
        form: the format of its lines.
        start: where the range begins.
        end: where the next one begins.
        before: how many line ends there are before ``start``.
        file: the name of the file in each row, if there are several files.
    """

    name: str
    form: LineFormat
    start: int
    end: int
    before: int
    file: str | None = None

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.end - self.start

    @contextmanager
    def opened(self) -> Generator[RowSource]:
        """Open the file at the first line of the split.

        Raises:
            RowsError: it cannot be read.
        """
        with _opened(self.name) as stream:
            lines = _Lines(stream, self.start, self.end)
            yield RowSource(cast("IO[bytes]", lines), self.form, self.file, before=self.before + lines.skipped)


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


def splits_of(name: str, form: LineFormat, file: str | None = None, size: int = SPLIT_BYTES) -> list[Split]:
    """Return the splits of a file. The file is read once, to count its lines.

    Args:
        name: the file.
        form: the format of its lines; not ``auto``.
        file: the name of the file in each row, if there are several files.
        size: the size of a split in bytes.

    Raises:
        RowsError: the file cannot be read.
    """
    with _opened(name) as stream:
        total = stream.seek(0, 2)
        starts = [*range(0, total, max(size, -(-total // MOST_SPLITS))), total]
        stream.seek(0)
        made: list[Split] = []
        before = 0
        for start, end in pairwise(starts):
            made.append(Split(name, form, start, end, before, file))
            before += sum(piece.count(b"\n") for piece in _pieces(stream, end - start))
    return made


def _pieces(stream: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := stream.read(min(size, _PIECE))):
        size -= len(piece)
        yield piece


def _opened(name: str) -> IO[bytes]:
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise RowsError(f"cannot read {name}: {error.strerror or type(error).__name__}") from error
