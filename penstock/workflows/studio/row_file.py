"""`row_file`: an uploaded file as rows, in every format that ``penstock run`` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from penstock.workflows.rows.files import compression_of, format_of
from penstock.workflows.rows.reading import COLUMNS, Unreadable
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    from penstock.workflows.rows.reading import RawRow


def row_file(path: Path, stage: str = "process_input") -> RowFiles:
    """Return the reader of a file, by the ending of its name. Enter its `started` before you read."""
    return RowFiles((str(path),), "auto", COLUMNS, stage, _ignore)


def ending_of(name: str) -> str:
    """Return the ending under which an uploaded file is stored; that of JSON Lines if its name says no format."""
    if format_of(name) is None:
        return ".jsonl"
    endings = Path(name).suffixes
    return "".join(endings[-1 if compression_of(name) is None else -2 :]).lower()


def raw_text(raw: RawRow) -> str:
    """Return a row as it stands in its file; that of a table as JSON."""
    data = cast("object", raw.data)
    if isinstance(data, Unreadable):
        data = data.raw or b""
    if isinstance(data, bytes):
        return data.decode("utf-8", "replace")
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)


def _ignore(_note: str) -> None:
    """Do nothing with a note: the page shows the rows."""
