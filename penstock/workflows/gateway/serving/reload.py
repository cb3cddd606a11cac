"""`FollowedFiles`: the files of a gateway, read again when one of them changes; the last good ones stay in use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from penstock.workflows.policies.policy_file import file_state
from penstock.workflows.policies.problems import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.workflows.gateway.config.reading import GatewayDocument

_LOG = logging.getLogger("penstock.gateway")


class FollowedFiles:
    """The files of a gateway. A change of any of them is a change of all: they are read and used together.

    Args:
        read: reads the files.
        look_after: seconds between two looks at them.

    Attributes:
        document: the files as they are now, or the last good ones.
        error: the problems of the files as they are now; None if they are in use.

    Raises:
        PolicyError: the files have problems when they are read for the first time.
    """

    def __init__(self, read: Callable[[], GatewayDocument], *, look_after: float = 1.0) -> None:
        self._read = read
        self._look_after = look_after
        self._asked = False
        self.document = read()
        self.error: PolicyError | None = None
        self._seen = dict(self.document.files)

    def ask(self) -> None:
        """Read the files again at the next look, changed or not. Signal handlers and threads may call it."""
        self._asked = True

    async def follow(self, use: Callable[[GatewayDocument], None], failed: Callable[[], None]) -> None:
        """Look at the files again and again, until it is cancelled.

        Args:
            use: gets the files when they were read again without problems.
            failed: is called when they were read again and had problems.
        """
        while True:
            await anyio.sleep(self._look_after)
            asked, self._asked = self._asked, False
            try:
                await self._look(use, failed, asked=asked)
            except Exception as error:  # noqa: BLE001 - one look that failed must not be the last
                _LOG.error("the files of the gateway cannot be used: %s", type(error).__name__)

    async def _look(self, use: Callable[[GatewayDocument], None], failed: Callable[[], None], *, asked: bool) -> None:
        """Read the files if one of them changed. A file is looked at behind all links, as Kubernetes swaps those."""
        found = await anyio.to_thread.run_sync(lambda: {name: file_state(name) for name in self._seen})
        if found == self._seen and not asked:
            return
        try:
            document = await anyio.to_thread.run_sync(self._read)
        except PolicyError as error:
            self._seen = {**found, **error.files}
            if self.error is None or error.problems != self.error.problems:
                _LOG.error("the files have problems; the last good ones stay in use:\n%s", error)
            self.error = error
            failed()
            return
        use(document)
        self._seen = dict(document.files)
        self.document, self.error = document, None
