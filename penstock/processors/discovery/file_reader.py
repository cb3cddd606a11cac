"""`FileReader`: how files are read that are not on this disk. It knows nothing of what stands in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True, slots=True)
class FileReader:
    """How files are read that are not on this disk: a sandbox's, a repository's, those of a test.

    Paths are written with ``/``. A plain function is called in a worker thread, an async one on the event loop.

    Attributes:
        path_exists: whether there is something at a path.
        is_directory: whether it is a directory.
        read_file: what a file holds; None, or an `OSError`, if it cannot be read.
    """

    path_exists: Callable[[str], bool | Awaitable[bool]]
    is_directory: Callable[[str], bool | Awaitable[bool]]
    read_file: Callable[[str], str | bytes | Awaitable[str | bytes | None] | None]
