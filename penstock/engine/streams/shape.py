"""What leaves a stream, in good shape: no empty texts, and an account of what is out. It knows chunks only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.answers import Assembly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.values.chunks import Chunk

_STARTS = {"text-start": "text-delta", "reasoning-start": "reasoning-delta"}
_ENDS = {"text-end": "text-delta", "reasoning-end": "reasoning-delta"}
_DELTAS = frozenset(_STARTS.values())


class Shape:
    """The last station of a stream. A text's start waits for its first piece; an empty text leaves nothing.

    Attributes:
        answer: what has left so far.
    """

    __slots__ = ("_begun", "answer")

    def __init__(self) -> None:
        self.answer = Assembly()
        self._begun: dict[tuple[str, str], Chunk] = {}  # starts that wait

    @property
    def at_hand(self) -> tuple[str | None, Callable[[str], object]]:
        """The id of the text that is being written, and what takes in a piece of it; no id where none is."""
        return (None, _nothing) if self._begun else self.answer.at_hand

    def leaving(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return chunks as they leave."""
        out: list[Chunk] = []
        for chunk in chunks:
            type = chunk.type
            if type in _DELTAS:
                if not chunk.text:
                    continue
                if self._begun:
                    start = self._begun.pop((type, chunk.id), None)
                    if start is not None:
                        self.answer.add(start)
                        out.append(start)
            elif type in _STARTS:
                self._begun[_STARTS[type], chunk.id] = chunk
                continue
            elif type in _ENDS and self._begun.pop((_ENDS[type], chunk.id), None) is not None:
                continue
            self.answer.add(chunk)
            out.append(chunk)
        return out


def _nothing(text: str) -> None:
    """Take in nothing."""
