"""`raised_as`: a verdict, raised as the error that a framework's users know."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.engine.values.tripwire import BlockedError

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def raised_as(kind: type[BlockedError]) -> Generator[None]:
    """Raise a verdict as an error of this kind, which is also one of the framework's.

    Raises:
        BlockedError: of that kind: a guard stopped the request.
    """
    try:
        yield
    except kind:
        raise
    except BlockedError as blocked:
        raise kind(blocked.tripwire) from blocked.__cause__
