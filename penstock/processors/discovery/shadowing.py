"""Tools of a request that cannot be called, as a processor brings one of the same name: the log says so, once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

_LOG = logging.getLogger("penstock")


class Shadowing:
    """Says once which tools of a request's own a processor has taken the names of. Lives as long as the processor."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said = False

    def warn(self, processor: str, names: Iterable[str], given: Container[str]) -> None:
        """Say so, if the request has tools of these names."""
        taken = ", ".join(name for name in names if name in given)
        if taken and not self._said:
            self._said = True
            _LOG.warning(
                "%r brings tools named %s, so the request's own of that name cannot be called", processor, taken
            )

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is one, too: what it has said is no option."""
        return isinstance(other, Shadowing)

    __hash__ = None  # type: ignore[assignment]
