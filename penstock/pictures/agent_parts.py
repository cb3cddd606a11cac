"""`AgentParts`: the parts of an agent that a picture shows beside its processor lists."""

from __future__ import annotations

from typing import NamedTuple


class AgentParts(NamedTuple):
    """The parts of an agent beside its processor lists.

    Attributes:
        tools: the names of the tools that its model calls.
        memory: the processors that its memory adds.
    """

    tools: tuple[str, ...] = ()
    memory: tuple[object, ...] = ()


NO_PARTS = AgentParts()
