"""The time limit of the presets' guards that ask a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Policy

if TYPE_CHECKING:
    from penstock.engine.graph.builder import PolicyOptions

JUDGE_TIMEOUT = 60.0
"""How many seconds a step that asks a model may take by default, with all of its attempts and waiting."""


def time_limit(model: object, timeout: float | None) -> PolicyOptions:
    """Return the policy of steps that ask a model; an empty one if there is no model, so that sync steps stay quick.

    Raises:
        OptionError: it is not a number of seconds above 0, or None.
    """
    limit = Policy(timeout=timeout)
    return {} if model is None else {"timeout": limit.timeout}
