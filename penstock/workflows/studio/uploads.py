"""Uploaded files: streamed to disk, looked through, and deleted when the studio ends."""

from __future__ import annotations

import secrets
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.rows.reading import RowsError, parse_row
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.row_file import ending_of, raw_text, row_file

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from penstock.workflows.rows.reading import InputRow
    from penstock.workflows.studio.protocol import Json

MOST_FILES = 20
_MOST_PROBLEMS = 100
_PREVIEW = 20
_PREVIEW_CHARACTERS = 500
_MOST_NAME = 200
_OF_RUN = "name the one to check with --text COLUMN"
_HERE = "rename the one to check to 'text'"  # there is no such option in the page


@dataclass(slots=True)
class Upload:
    """An uploaded file.

    Attributes:
        id: its id.
        name: the name that the client gave it; never used as a path.
        path: where it is.
        size: its size in bytes.
        rows: how many rows it has.
        problems: the first lines that cannot be read, with why.
        problem_count: how many such lines there are.
        preview: the first rows.
        used: how many runs read it now.
    """

    id: str
    name: str
    path: Path
    size: int = 0
    rows: int = 0
    problems: list[Json] = field(default_factory=list["Json"])
    problem_count: int = 0
    preview: list[Json] = field(default_factory=list["Json"])
    used: int = 0

    def to_json(self, *, preview: bool = False) -> Json:
        """Return it as data."""
        made: Json = {"id": self.id, "name": self.name, "bytes": self.size, "rows": self.rows}
        made |= {"problems": self.problems, "problem_count": self.problem_count}
        return {**made, "preview": self.preview} if preview else made


class Uploads:
    """The uploaded files of a studio. Lives as long as the studio."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-studio-", ignore_cleanup_errors=True)
        self._files: OrderedDict[str, Upload] = OrderedDict()

    @property
    def folder(self) -> Path:
        """A folder for files that end with the studio."""
        return Path(self._folder.name)

    def close(self) -> None:
        """Delete everything."""
        self._folder.cleanup()

    def all(self) -> list[Json]:
        """Return all files, the newest first."""
        return [each.to_json() for each in reversed(self._files.values())]

    def get(self, id: str) -> Upload:
        """Return a file.

        Raises:
            StudioError: there is none.
        """
        found = self._files.get(id)
        if found is None:
            raise StudioError("not_found", f"there is no uploaded file {id[:100]!r}; upload it again")
        return found

    async def add(self, name: str, body: AsyncIterable[bytes]) -> Upload:
        """Write a file as it comes, and look through its rows.

        Raises:
            StudioError: it is too large, or no rows can be read from it.
        """
        id = secrets.token_urlsafe(9)
        upload = Upload(id, _shown_name(name), self.folder / f"{id}{ending_of(name)}")
        try:
            await self._write(upload, body)
            await to_thread.run_sync(_look_through, upload)
        except (RowsError, MissingExtraError) as error:
            await _remove(upload)
            message = str(error).replace(str(upload.path), upload.name).replace(_OF_RUN, _HERE)
            raise StudioError("bad_request", message, field="body") from error
        except BaseException:
            await _remove(upload)
            raise
        self._files[id] = upload
        unused = [each for each in self._files.values() if not each.used]
        for old in unused[: max(0, len(self._files) - MOST_FILES)]:
            await self.delete(old.id)
        return upload

    async def _write(self, upload: Upload, body: AsyncIterable[bytes]) -> None:
        async with await anyio.open_file(upload.path, "wb") as file:
            async for piece in body:
                upload.size += len(piece)
                if upload.size > self._limit:
                    raise StudioError.too_large(self._limit, "the file", "--max-upload")
                await file.write(piece)

    async def delete(self, id: str) -> None:
        """Delete a file.

        Raises:
            StudioError: there is none, or a run reads it.
        """
        upload = self.get(id)
        if upload.used:
            raise StudioError("conflict", "a run reads this file; cancel it first")
        del self._files[id]
        await _remove(upload)


async def _remove(upload: Upload) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.Path(upload.path).unlink(missing_ok=True)


def _shown_name(name: str) -> str:
    """Return the last part of a name without control characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(each for each in last if each.isprintable())[:_MOST_NAME] or "rows.jsonl"


def _look_through(upload: Upload) -> None:
    """Count the rows, note those that cannot be read, and keep the first."""
    with row_file(upload.path).started() as rows:
        for raw in rows.raw_rows():
            row = parse_row(raw)
            upload.rows += 1
            if len(upload.preview) < _PREVIEW:
                upload.preview.append({"line": row.line, "text": raw_text(raw)[:_PREVIEW_CHARACTERS]})
            if row.problem is not None:
                upload.problem_count += 1
                if len(upload.problems) < _MOST_PROBLEMS:
                    upload.problems.append({"line": row.line, "problem": row.problem})


def row_at(upload: Upload, line: int) -> tuple[InputRow, str]:
    """Return one row of a file, and its text as it stands there.

    Raises:
        StudioError: there is no such row.
    """
    with row_file(upload.path).started() as rows:
        for raw in rows.raw_rows():
            if raw.line == line:
                return parse_row(raw), raw_text(raw)
            if raw.line > line:
                break
    raise StudioError("not_found", f"{upload.name} has no row in line {line}")
