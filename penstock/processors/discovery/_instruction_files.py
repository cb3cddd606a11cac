"""Where instruction files stand, and what is in them: on disk or behind functions, within roots. It knows no message.

Everything here may wait for a disk, so it is called in a worker thread; functions of the user's that are async are run
on the event loop from there.
"""

from __future__ import annotations

import inspect
import os
import posixpath
import stat
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from penstock.processors.discovery.file_reader import FileReader

T = TypeVar("T")

_LONGEST_PATH = 4_096  # characters; the longest path that Linux takes
_SAFE = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")  # not all of them are everywhere
_OPENING = os.O_RDONLY | sum(cast("int", getattr(os, name, 0)) for name in _SAFE)


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of a file.

    Attributes:
        text: the text; empty if the file cannot be read, or is none of text.
        share: how much of the file that is, above 0 and up to 1.
    """

    text: str = ""
    share: float = 1.0


@dataclass
class Tree:
    """The directories below some roots, as one request sees them: where an instruction file stands is looked up once.

    What leads out of the roots is not there: ``..``, symbolic links, absolute paths.

    Attributes:
        roots: absolute paths.
        names: the names that instruction files have; the first that a directory has counts.
        reader: reads the files; None for the disk.
    """

    roots: Sequence[str]
    names: Sequence[str]
    reader: FileReader | None = None
    _starts: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _files: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    _contents: dict[str, Content] = field(default_factory=dict[str, Content])

    def files(self, path: str) -> Iterator[str]:
        """Yield the instruction files that apply to a path, the nearest first."""
        if path not in self._starts:
            self._starts[path] = self._start(path)
        directory = self._starts[path]
        while directory is not None and self._is_inside(directory):
            if directory not in self._files:
                self._files[directory] = self._file(directory)
            if (file := self._files[directory]) is not None:
                yield file
            parent = self._parent(directory)
            directory = parent if parent != directory else None

    def read(self, file: str, most: int) -> Content:
        """Return what a file holds, its first ``most`` bytes at the most; read once."""
        if file not in self._contents:
            try:
                self._contents[file] = self._read(file, most)
            except (OSError, ValueError):  # it went away, may not be read, or is no text
                self._contents[file] = Content()
        return self._contents[file]

    def normal(self, path: str) -> str:
        """Return the one way to write an absolute path: without dots, and on disk without symbolic links."""
        return posixpath.normpath(path) if self.reader else os.path.realpath(path)

    @cached_property
    def _real_roots(self) -> tuple[str, ...]:
        return tuple(self.normal(root) for root in self.roots)

    def _is_inside(self, path: str) -> bool:
        slash = "/" if self.reader else os.sep
        return any(_is_below(path, root, slash) for root in self._real_roots)

    def _start(self, path: str) -> str | None:
        """Return the directory where the search for a path begins; None if that is outside of the roots."""
        if "\0" in path or len(path) > _LONGEST_PATH:
            return None
        inside = [real for real in self._meant(path) if self._is_inside(real)]
        if not inside:
            return None
        real = next((real for real in inside if self._exists(real)), inside[0])  # of a relative path, there are several
        return real if self._is_directory(real) else self._parent(real)

    def _meant(self, path: str) -> Iterator[str]:
        """Yield what a path may mean; what is written as outside of the roots is not even looked at."""
        module = posixpath if self.reader else os.path
        for root in (*self._real_roots, *map(module.normpath, self.roots)):
            written = module.normpath(module.join(root, path))
            if _is_below(written, root, module.sep):
                yield self.normal(written)

    def _parent(self, path: str) -> str:
        return posixpath.dirname(path) if self.reader else os.path.dirname(path)  # noqa: PTH120 - a str throughout

    def _file(self, directory: str) -> str | None:
        """Return the instruction file of a directory, by the names in their order."""
        for name in self.names:
            real = self.normal(f"{directory.rstrip('/')}/{name}")
            same_kind = posixpath.splitext(real)[1] == posixpath.splitext(name)[1]  # a link to .env gives no notes
            if same_kind and self._is_inside(real) and self._exists(real) and not self._is_directory(real):
                return real
        return None

    def _exists(self, path: str) -> bool:
        return _called(self.reader.path_exists, path) if self.reader else os.path.exists(path)  # noqa: PTH110

    def _is_directory(self, path: str) -> bool:
        return _called(self.reader.is_directory, path) if self.reader else os.path.isdir(path)  # noqa: PTH112

    def _read(self, file: str, most: int) -> Content:
        if self.reader is None:
            data, size = _from_disk(file, most)
        else:
            given = _called(self.reader.read_file, file) or ""
            data = given.encode("utf-8", "replace") if isinstance(given, str) else given
            data, size = data[:most], len(data)
        if b"\0" in data:  # no text
            return Content()
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        return Content(text, min(1.0, len(data) / size) if size else 1.0)


def _is_below(path: str, root: str, slash: str) -> bool:
    return path == root or path.startswith(root.rstrip(slash) + slash)


def _from_disk(path: str, most: int) -> tuple[bytes, int]:
    """Return the first bytes of a file, and its size. What is no plain file is refused: a pipe would never end."""
    with os.fdopen(os.open(path, _OPENING), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a plain file")
        return file.read(most), status.st_size


def _called(function: Callable[[str], T | Awaitable[T]], path: str) -> T:
    """Return what a function of the user's gives; an async one runs on the event loop."""
    given = function(path)
    if not inspect.isawaitable(given):
        return given
    from anyio import from_thread

    return from_thread.run(_awaited, cast("Awaitable[T]", given))


async def _awaited(given: Awaitable[T]) -> T:
    return await given
