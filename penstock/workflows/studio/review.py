"""`ReviewFile`: rows to label, one after the other; each label is written into the file of the rows at once.

The rows are those of ``penstock eval --undecided``, or any JSON Lines. `penstock eval` reads the file with its labels.
"""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, cast

from penstock.workflows.rows.reading import is_object
from penstock.workflows.studio.errors import StudioError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from penstock.workflows.studio.protocol import Json

MOST_ROWS = 10_000
"""How many rows a file may have: nobody labels more by hand."""

MOST_BYTES = 64 * 1024 * 1024
"""How large the file may be."""

LABEL = "label"
"""The column of the label: true (there is something to find), false (nothing) or null (not labelled)."""


class ReviewFile:
    """A file of rows to label. It may be used by several threads.

    Args:
        path: the file, JSON Lines.

    Raises:
        StudioError: the file cannot be read, is too large, or has a line that is no JSON object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read()

    def to_json(self) -> Json:
        """Return the rows as the page shows them, and the name of the file."""
        return {"file": str(self.path), "rows": [_shown(number, row) for number, row in enumerate(self._read())]}

    def label(self, number: int, id: object, label: bool | None) -> Json:  # noqa: FBT001 - the label itself
        """Write the label of a row into the file; return how many rows have none yet.

        Args:
            number: which row, from 0.
            id: its id, as the page knows it: the file may have changed since.
            label: whether there is something to find; None takes a label away.

        Raises:
            StudioError: the file has no such row any more, or cannot be written.
        """
        with self._lock:
            rows = self._read()
            if not 0 <= number < len(rows) or rows[number].get("id") != id:
                raise StudioError("conflict", f"{self.path.name} has changed on disk; open the page again")
            rows[number] = {**rows[number], LABEL: label}
            self._write(rows)
        return {"left": sum(row.get(LABEL) is None for row in rows)}

    def _read(self) -> list[Mapping[str, object]]:
        try:
            if self.path.stat().st_size > MOST_BYTES:
                raise StudioError("too_large", f"{self.path} is larger than {MOST_BYTES // 1024 // 1024} MB")
            lines = self.path.read_text("utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise StudioError("not_found", f"{self.path} cannot be read: {error}") from error
        return [_row(line, number, self.path) for number, line in enumerate(_some(lines, self.path), 1)]

    def _write(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Replace the file as a whole, so that a crash leaves the old one or the new one."""
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        beside = self.path.with_name(f".{self.path.name}.new")
        try:
            beside.write_text(text, "utf-8")
            beside.chmod(self.path.stat().st_mode & 0o777)
            os.replace(beside, self.path)  # noqa: PTH105 - the same
        except OSError as error:
            raise StudioError("internal", f"the label cannot be written into {self.path}: {error}") from error


def _some(lines: list[str], path: Path) -> list[str]:
    found = [line for line in lines if line.strip()]
    if len(found) > MOST_ROWS:
        raise StudioError("too_large", f"{path} has more than {MOST_ROWS:,} rows; label a part of them")
    return found


def _row(line: str, number: int, path: Path) -> Mapping[str, object]:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not is_object(value):
        raise StudioError("bad_request", f'row {number} of {path} is no JSON object; write {{"text": …}}')
    return value


def _shown(number: int, row: Mapping[str, object]) -> Json:
    """Return a row as the page shows it: its texts with their roles, and why it was chosen."""
    return {
        "number": number,
        "id": row.get("id"),
        "label": row.get(LABEL),
        "texts": _texts(row),
        "review": row.get("review") if is_object(row.get("review")) else {},
    }


def _texts(row: Mapping[str, object]) -> list[Json]:
    messages = row.get("messages")
    if isinstance(messages, list) and messages:
        listed = cast("list[object]", messages)
        return [
            {"role": str(one.get("role", "")), "text": _text(one.get("content"))} if is_object(one) else _plain(one)
            for one in listed
        ]
    named = next((row[name] for name in ("text", "content", "result", "args", "input", "data") if name in row), None)
    rest = {name: value for name, value in row.items() if name not in ("id", LABEL, "review")}
    return [_plain(rest if named is None else named)]


def _plain(value: object) -> Json:
    return {"role": "", "text": _text(value)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
