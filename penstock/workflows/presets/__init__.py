"""Ready-made workflows, by name. Each is a function whose options are the choices that people make most often.

A preset is a workflow like any other: run it, draw it, or build on it with ``hygiene().then(...)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.presets.guards import injection, moderation, privacy, safety
from penstock.workflows.presets.hygiene import hygiene

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.workflow import Workflow

__all__ = ["PRESETS", "hygiene", "injection", "moderation", "privacy", "safety"]

PRESETS: Mapping[str, Callable[[], Workflow]] = {
    "hygiene": hygiene,
    "injection": injection,
    "moderation": moderation,
    "privacy": privacy,
    "safety": safety,
}
"""Every preset by its name on the command line."""
