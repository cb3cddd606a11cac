"""Thoughts that stand in the text between ``<think>`` and ``</think>``, told apart as they stream; it knows no chunks.

So send them servers that were not told how their model thinks: DeepSeek R1 and Qwen on vLLM or Hugging Face.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """Parts one answer's text. Only a tag that begins the answer counts; blanks behind its end are left out."""

    __slots__ = ("_at", "_held")

    def __init__(self) -> None:
        self._at = "start"
        self._held = ""

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield field and text of what is certain: ``think`` for a thought, ``content`` for the rest."""
        text, self._held = self._held + text, ""
        if self._at == "start":
            begun = text.lstrip()
            if _OPEN.startswith(begun):
                self._held = text
                return
            self._at = "thought" if begun.startswith(_OPEN) else "text"
            text = begun.removeprefix(_OPEN) if self._at == "thought" else text
        if self._at == "thought":
            thought, found, text = text.partition(_CLOSE)
            self._held = "" if found else _beginning_of_the_end(thought)
            yield "think", thought.removesuffix(self._held)
            self._at = "behind" if found else "thought"
        if self._at == "behind":
            text = text.lstrip()
            self._at = "text" if text else "behind"
        if self._at == "text":
            yield "content", text

    def end(self) -> Iterator[tuple[str, str]]:
        """Yield what was held, when nothing more comes."""
        held, self._held = self._held, ""
        yield ("think" if self._at == "thought" else "content"), held


def _beginning_of_the_end(text: str) -> str:
    """Return the longest end of a text with which the closing tag could begin."""
    sizes = range(min(len(text), len(_CLOSE) - 1), 0, -1)
    return next((_CLOSE[:size] for size in sizes if text.endswith(_CLOSE[:size])), "")
