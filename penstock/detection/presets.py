"""The presets of built-in rules by name; their tables are imported when they are asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.detection.patterns.built_in import BuiltInRule

PRESETS: tuple[str, ...] = ("pii", "secrets", "urls")


@cache
def preset(name: str) -> tuple[BuiltInRule, ...]:
    """Return the rules of a preset; see `PRESETS`."""
    if name == "pii":
        from penstock.detection.personal_data.pii import PII

        return PII
    if name == "secrets":
        from penstock.detection.secrets import SECRETS

        return SECRETS
    from penstock.detection.personal_data.links import URLS

    return URLS
