"""The presets, as contestants: the whole workflow, normaliser and all; what it stops scores one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import Workflow


class Stopping:
    """One if the workflow blocks a text, else nought."""

    thresholds: Mapping[str, float] = {"any": 1.0}

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow

    def scores(self, text: str) -> dict[str, float]:
        """Return whether it is blocked."""
        return {"any": float(self._workflow.check_sync(text, records=False).blocked)}


def injection() -> Stopping:
    """Return the preset ``injection``."""
    from penstock.workflows.presets import injection as preset

    return Stopping(preset())


def moderation() -> Stopping:
    """Return the preset ``moderation``, told to block, so that one sees what it would flag."""
    from penstock.workflows.presets import moderation as preset

    return Stopping(preset(strategy="block"))


def privacy() -> Callable[[str], str]:
    """Return what the preset ``privacy`` makes of a text."""
    from penstock.workflows.presets import privacy as preset

    workflow = preset()
    return lambda text: workflow.check_sync(text, records=False).text
