"""The presets of built-in rules by name; their tables are imported when they are asked for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.processors.text.patterns import BuiltIn

PRESETS: tuple[str, ...] = ("pii", "secrets", "urls")


@cache
def preset(name: str) -> tuple[BuiltIn, ...]:
    """Return the rules of a preset; see `PRESETS`."""
    if name == "pii":
        from penstock.processors.text.patterns_pii import PII

        return PII
    if name == "secrets":
        from penstock.processors.text.patterns_secrets import SECRETS

        return SECRETS
    from penstock.processors.text.patterns_urls import URLS

    return URLS
