"""A verdict as the framework's error."""

from __future__ import annotations

from agent_framework import MiddlewareFailure
from agent_framework.exceptions import AgentContentFilterException

from penstock.engine.values.tripwire import BlockedError


class GuardBlockedError(BlockedError, MiddlewareFailure, AgentContentFilterException):
    """A guard stopped a run. It is the framework's error for filtered content, and carries the verdict.

    Attributes:
        tripwire: the verdict.
    """
