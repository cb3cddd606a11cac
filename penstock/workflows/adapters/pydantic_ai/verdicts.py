"""`GuardBlockedError`: a verdict, as pydantic-ai's users know it."""

from __future__ import annotations

from pydantic_ai import exceptions

from penstock.engine.values.tripwire import BlockedError


class GuardBlockedError(BlockedError, exceptions.ContentFilterError):
    """A guard stopped a run. It is pydantic-ai's error for filtered content, and carries the verdict.

    Attributes:
        tripwire: the verdict.
    """
