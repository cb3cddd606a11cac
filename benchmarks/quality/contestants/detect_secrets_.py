"""detect-secrets with its plugins for known kinds of keys; without those for entropy and keywords, which flag prose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.spans import Span

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

LOOSE = ("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector", "IPPublicDetector")
"""Its plugins that flag nearly every prompt, and the one that is about no key."""


class DetectSecrets:
    """Every other plugin, line by line."""

    def __init__(self, plugins: list[BasePlugin]) -> None:
        self._plugins = plugins

    def find(self, text: str) -> list[Span]:
        """Return the lines in which a plugin finds a key; it tells no columns."""
        spans: list[Span] = []
        start = 0
        for line in text.splitlines(keepends=True):
            if any(plugin.analyze_line(filename="", line=line) for plugin in self._plugins):
                spans.append(Span(start, start + len(line), "api-key"))
            start += len(line)
        return spans


def make() -> DetectSecrets:
    """Return it with every plugin that it ships but the loose ones."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    kinds = get_mapping_from_secret_type_to_class().values()
    return DetectSecrets([kind() for kind in kinds if kind.__name__ not in LOOSE])
