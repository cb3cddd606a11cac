"""Splits: every line once, with its number, wherever the file is cut."""

import random
from pathlib import Path

import pytest

from penstock.workflows.rows import reading
from penstock.workflows.rows.reading import Columns, LineFormat, RawRow, RowsError, RowSource
from penstock.workflows.rows.sources import RowFiles
from penstock.workflows.rows.splits import line_splits, splits_of
from tests.laws import seeds

LINES = [b"", b"a", b"\r", b'{"text": "b"}', "ü€😀".encode(), b"\xff\xfe", b"\xef\xbb\xbfx", b"\0", b" " * 3, b"c" * 40]


def whole(path: Path, form: LineFormat) -> list[RawRow]:
    """Return the rows of a file that is read in one piece."""
    with path.open("rb") as stream:
        return list(RowSource(stream, form).raw_rows())


def in_splits(path: Path, form: LineFormat, size: int) -> list[RawRow]:
    """Return the rows of all splits, each read by itself."""
    made = []
    for split in line_splits(str(path), form, None, size):
        made += split.raw_rows()
    return made


@pytest.mark.parametrize("seed", seeds(range(60)))
def test_splits_are_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Lines of any length, longer ones than a split and than a row may be, with any line ends, and with none at all."""
    rng = random.Random(seed)  # noqa: S311 - a test
    monkeypatch.setattr(reading, "MAX_LINE", rng.choice([7, 30, 10_000]))
    lines = [rng.choice(LINES) for _ in range(rng.randrange(40))]
    first = rng.choice([b"", b"\xef\xbb\xbf", b"\n\n"])
    path = tmp_path / "rows"
    path.write_bytes(first + b"\n".join(lines) + rng.choice([b"", b"\n", b"\r\n"]))
    try:
        expected = whole(path, "text")
    except RowsError as error:
        with pytest.raises(RowsError, match=str(error)[:20]):
            in_splits(path, "text", 5)
        return
    for size in (1, 2, 3, 7, 16, 64, 10_000):
        assert in_splits(path, "text", size) == expected


def test_splits_behind_a_line(tmp_path: Path) -> None:
    """Only rows behind it, and no split that has none."""
    path = tmp_path / "rows.txt"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1, 201)))
    for done in (1, 7, 99, 199, 200):
        files = RowFiles((str(path),), "text", Columns(), "process_input", print)
        with files.started():
            files.done = RawRow(done, "")
            for size in (1, 5, 64, 10_000):
                splits = splits_of(files, size)
                assert [raw.line for split in splits for raw in split.raw_rows()] == list(range(done + 1, 201))
                assert len(splits) <= 2 + sum(split.size for split in splits) // size


def test_a_file_without_bytes_has_no_split(tmp_path: Path) -> None:
    """And one that is not there is an error."""
    (tmp_path / "rows").write_bytes(b"")
    assert line_splits(str(tmp_path / "rows"), "text", None, 10) == []
    with pytest.raises(RowsError, match="cannot read"):
        line_splits(str(tmp_path / "none"), "text", None, 10)
