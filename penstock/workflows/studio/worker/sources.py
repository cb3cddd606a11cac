"""The sources that a workflow was loaded from: recorded while they are read, and played back for an earlier version.

They are modules and policy files. So an earlier version can be run again in a new process, although its file has
changed since.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING

from penstock.workflows.policies.files import read_by, read_file
from penstock.workflows.studio.worker.problems import is_own, note_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.workflows.policies.files import FileState

_MOST = 16 * 1024 * 1024  # bytes of recorded sources


class StudioSources:
    """Records the modules of the user that this process reads. Lives as long as the process.

    Modules of the Python installation and of penstock are none of them.

    Args:
        given: the sources of an earlier version by path, which are read in place of the files; empty for the files.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self.read: dict[str, str] = {}
        self._given = given

    def install(self) -> None:
        """Let imports read their sources through this object."""
        get_data, path_stats = SourceFileLoader.get_data, SourceFileLoader.path_stats
        sources = self

        def read(self: SourceFileLoader, path: str) -> bytes:
            if not is_own(path):
                return get_data(self, path)
            given = sources._given.get(os.path.realpath(path))
            return sources._noted(path, get_data(self, path) if given is None else given.encode("latin-1"))

        def stats(self: SourceFileLoader, path: str) -> Mapping[str, object]:
            if is_own(path):
                raise OSError("read the source itself, not the bytecode beside it")
            return path_stats(self, path)

        SourceFileLoader.get_data = read  # type: ignore[method-assign, assignment]
        SourceFileLoader.path_stats = stats  # type: ignore[method-assign]
        read_by(self._policy_file)

    def _policy_file(self, name: str) -> tuple[bytes, FileState]:
        """Return a policy file, as `read_file` does. It counts as a source, whoever wrote it."""
        path = os.path.realpath(name)
        given = self._given.get(path)
        data, state = read_file(name) if given is None else (given.encode("latin-1"), (0, 0, len(given), 0))
        return self._noted(path, data), state

    def _noted(self, path: str, data: bytes) -> bytes:
        note_source(path, data.decode("utf-8", "replace"))
        if sum(map(len, self.read.values())) + len(data) <= _MOST:
            self.read[os.path.realpath(path)] = data.decode("latin-1")  # any bytes come back as they were
        return data

    def forget_modules(self) -> None:
        """Let the next import read the user's modules again."""
        for name, module in [*sys.modules.items()]:
            file = getattr(module, "__file__", None)
            if name != "__main__" and isinstance(file, str) and is_own(file):
                del sys.modules[name]

    def play(self, given: Mapping[str, str]) -> None:
        """Read these sources from now on in place of the files."""
        self._given = given
