"""`PolicyFile`: a policy file that is read again when it changes, and that keeps the last good workflow."""

from __future__ import annotations

import logging
import os
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from penstock.workflows.policies.files import state_of
from penstock.workflows.policies.problems import PolicyError
from penstock.workflows.policies.reading import read_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.workflow import Workflow
    from penstock.workflows.policies.files import FileState
    from penstock.workflows.policies.reading import PolicyDocument

_log = logging.getLogger(__name__)

LOOK_AFTER = 1.0
"""How long a look at the files lasts, in seconds."""

_State: TypeAlias = "dict[str, FileState | None]"


class PolicyFile:
    """A policy file whose workflow follows the file. It may be used by several threads at once.

    A run keeps the workflow that it began with; `current` gives the newest one to the next run. A file that cannot be
    read, or has problems, changes nothing: the last good workflow stays, the problems are logged once, and `error`
    holds them until the file is good again.

    Editors and Kubernetes replace a file (Kubernetes by a link ``..data`` that is swapped), so that its inode, size or
    time changes; each look compares those of the file, and of the files that it includes, behind all links.

    Args:
        path: the file.
        profile: as for `load_policy`.
        environment: as for `load_policy`.
        look_after: seconds between two looks at the files; 0: at each call.

    Attributes:
        path: the file.

    Raises:
        PolicyError: the file has problems when it is read for the first time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        profile: str | None = None,
        environment: Mapping[str, str] | None = None,
        look_after: float = LOOK_AFTER,
    ) -> None:
        self.path = os.fspath(path)
        self._profile = profile
        self._environment = environment
        self._look_after = look_after
        self._lock = Lock()
        self._error: PolicyError | None = None
        self._document = self._read()
        self._seen: _State = dict(self._document.files)
        self._looked = monotonic()

    @property
    def current(self) -> Workflow:
        """The workflow of the file as it is now, or of the last good one."""
        return self.document.workflow

    @property
    def document(self) -> PolicyDocument:
        """The file as it is now, or the last good one: its workflow, tests and profiles."""
        if monotonic() - self._looked >= self._look_after and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._document

    @property
    def error(self) -> PolicyError | None:
        """The problems of the file as it is now; None if it is in use."""
        _ = self.document
        return self._error

    def _look(self) -> None:
        """Read the file again if it has changed. The document in use changes in one assignment."""
        found: _State = {file: file_state(file) for file in self._seen}
        self._looked = monotonic()
        if found == self._seen:
            return
        try:
            document = self._read()
        except PolicyError as error:
            self._seen = {**found, **error.files}
            if self._error is None or error.problems != self._error.problems:
                _log.error("%s has problems; the last good one stays in use:\n%s", self.path, error)
            self._error = error
            return
        self._seen = dict(document.files)
        self._error = None
        if document.workflow != self._document.workflow:
            _log.info("%s was read again", self.path)
        self._document = document

    def _read(self) -> PolicyDocument:
        return read_policy(self.path, profile=self._profile, environment=self._environment)


def file_state(file: str) -> FileState | None:
    """Return the state of a file, behind all links; None if it is not there."""
    try:
        return state_of(os.stat(file))  # noqa: PTH116 - of a name
    except OSError:
        return None
