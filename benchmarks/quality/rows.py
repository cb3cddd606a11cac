"""Labelled rows as they come from files: ``DIR/*/SPLIT.jsonl``; it knows no detector and no figure.

A row is a JSON object with ``id`` and ``text``, and with one of ``spans`` (what stands where), ``labels`` (what the
text is) or ``lang`` (its language). What is wrong with a row is told with its file and line, and the row left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from penstock.detection.spans import Span


class DataError(Exception):
    """There is nothing to measure: no such folder, or no such file in any of its folders."""


class RowError(ValueError):
    """A value is no row; says why, without the text."""


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text.

    Attributes:
        id: its name within its set.
        text: what a detector reads.
        spans: what stands where, in code points; None if the set does not say.
        labels: what the text is, by label: 0, 1 or a word. A label that is missing is unknown.
        lang: its language, ISO 639-1.
        target: the only type that the row says anything about; None if it speaks of all.
    """

    id: str
    text: str
    spans: tuple[Span, ...] | None = None
    labels: Mapping[str, object] = field(default_factory=dict[str, object])
    lang: str | None = None
    target: str | None = None

    def flag(self, label: str) -> bool | None:
        """Return whether a label holds; None if that is unknown."""
        value = self.labels.get(label)
        return bool(value) if isinstance(value, (int, float)) else None


@dataclass(frozen=True, slots=True)
class DataSet:
    """The rows of one file.

    Attributes:
        name: the folder's.
        rows: in the file's order.
    """

    name: str
    rows: tuple[Row, ...]

    def where(self, wanted: Callable[[Row], bool]) -> DataSet:
        """Return the set with those rows only."""
        return DataSet(self.name, tuple(filter(wanted, self.rows)))


@dataclass(frozen=True, slots=True)
class Data:
    """All sets of a split.

    Attributes:
        sets: in the order of their names; none is empty.
        notes: what was left out, a line each.
        folder: where they were read from, which may hold rows of another form, too; None for made-up data.
    """

    sets: tuple[DataSet, ...]
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    def where(self, wanted: Callable[[Row], bool], prefix: str = "") -> tuple[DataSet, ...]:
        """Return the sets whose names begin so, with those rows only, without the ones that are empty then."""
        kept = (each.where(wanted) for each in self.sets if each.name.startswith(prefix))
        return tuple(each for each in kept if each.rows)


def pooled(sets: Iterable[DataSet]) -> list[Row]:
    """Return the rows of several sets as one list."""
    return [row for each in sets for row in each.rows]


def load(folder: Path, split: str) -> Data:
    """Return the rows of ``folder/*/split.jsonl``.

    Raises:
        DataError: if there are none.
    """
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}. Name one with --data: its folders hold {split}.jsonl each.")
    files = sorted(folder.glob(f"*/{split}.jsonl"))
    notes: list[str] = []
    sets = [DataSet(file.parent.name, tuple(_rows(file, notes))) for file in files]
    if not any(each.rows for each in sets):
        raise DataError(f"No folder of {folder} has rows in a file {split}.jsonl. Is the split named right?")
    return Data(tuple(each for each in sets if each.rows), tuple(notes), folder)


def _rows(file: Path, notes: list[str]) -> Iterator[Row]:
    """Read a file, and note what is no row."""
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield row_of(json.loads(line))
            except ValueError as wrong:
                notes.append(f"{file.parent.name}/{file.name}, line {number}, is left out: {wrong}")


def row_of(given: object) -> Row:
    """Return the row that a JSON value stands for.

    Raises:
        RowError: if it is none; says what is wrong without quoting the text.
    """
    if not isinstance(given, dict):
        raise RowError("it is no JSON object")
    values = cast("dict[str, object]", given)
    text = values.get("text")
    if not isinstance(text, str):
        raise RowError("it has no text")
    labels = values.get("labels", {})
    if not isinstance(labels, dict):
        raise RowError("its labels are no object")
    return Row(
        str(values.get("id", "")),
        text,
        _spans(values["spans"], text) if "spans" in values else None,
        cast("dict[str, object]", labels),
        _word(values, "lang"),
        _word(values, "target"),
    )


def _word(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _spans(given: object, text: str) -> tuple[Span, ...]:
    """Return the spans, each within the text."""
    if not isinstance(given, list):
        raise RowError("its spans are no list")
    return tuple(_span(each, len(text)) for each in cast("list[object]", given))


def _span(given: object, length: int) -> Span:
    values = cast("dict[str, object]", given) if isinstance(given, dict) else {}
    start, end, kind = (values.get(name) for name in ("start", "end", "type"))
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(kind, str) and 0 <= start < end <= length):
        raise RowError("one of its spans has no type, or lies outside the text")
    return Span(start, end, kind)
