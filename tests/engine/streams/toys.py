"""Toy guards of texts, the sources they judge, and how what leaves a stream is read; they know no graph."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import anyio.lowlevel

from penstock import Chunk, Edit, Message, TextPart
from penstock.engine import ReasoningPart
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.answer_builder import Assembly


class Rule(NamedTuple):
    """What a toy looks for: a word, perhaps only behind or before something, and what it does with it."""

    word: str
    act: str  # redact, replace, delete, before, after, block
    text: str = "*"
    behind: str = ""  # a set of characters, one of which must stand before the word
    ahead: str = ""  # a set of characters, one of which must follow the word

    @property
    def pattern(self) -> re.Pattern[str]:
        """The rule as a pattern."""
        behind = f"(?<=[{self.behind}])" if self.behind else ""
        ahead = f"(?=[{self.ahead}])" if self.ahead else ""
        return re.compile(f"{behind}{re.escape(self.word)}{ahead}")

    @property
    def reach(self) -> int:
        """How much of the text decides about one finding."""
        return len(self.word) + bool(self.ahead)

    def edit(self, start: int, end: int) -> Edit:
        """What is to be done where it was found."""
        if self.act == "before":
            return Edit(start, start, self.text, "insert")
        if self.act == "after":
            return Edit(end, end, self.text, "insert")
        if self.act == "delete":
            return Edit(start, end, "", "replace")
        return Edit(start, end, self.text, "replace" if self.act == "replace" else "redact")


class Toy(TextGuard):
    """Finds a word."""

    def __init__(self, rule: Rule, *, bounded: bool = True, lookback: int = 1, min_hold: int = 0) -> None:
        self.rule = rule
        self.bounded = bounded
        self.lookback = lookback
        self.min_hold = min_hold
        self.longest = 0
        self._pattern = rule.pattern

    def __repr__(self) -> str:
        """Show what it looks for."""
        return f"{type(self).__name__}({self.rule}, bounded={self.bounded}, min_hold={self.min_hold})"

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Find the word."""
        self.longest = max(self.longest, len(text))
        return [self.rule.edit(match.start(), match.end()) for match in self._pattern.finditer(text)]

    def hold(self, text: str, start: int) -> int:
        """Hold what the rule may reach, or all."""
        if not self.bounded:
            return start
        return max(start, len(text) - self.rule.reach + 1)

    def act(self, hits: Any, ctx: Any) -> Any:
        """Do what the rule says."""
        if self.rule.act == "block" and any(hit.found for hit in hits):
            ctx.abort("a word that is blocked")
        return super().act(hits, ctx)


class AsyncToy(Toy):
    """Finds a word, and lets others run before it does."""

    async def find(self, text: str, ctx: Any, *, final: bool) -> Any:  # type: ignore[override]
        """Wait a turn, and find the word."""
        await anyio.lowlevel.checkpoint()
        return super().find(text, ctx, final=final)


class TextToy(Toy):
    """Finds a word in texts only, not in reasoning."""

    kinds = ("text",)


def message_of(chunks: Iterable[Chunk]) -> Message:
    """The message that chunks make."""
    made = Assembly()
    for chunk in chunks:
        if chunk.text or not chunk.type.endswith("-delta"):
            made.add(chunk)
    return made.message


def texts_of(message: Message | None) -> list[tuple[str, str]]:
    """The texts of a message, part by part, without those that are empty."""
    parts = () if message is None else message.parts
    return [(part.type, part.text) for part in parts if isinstance(part, (TextPart, ReasoningPart)) and part.text]


def others_of(chunks: Iterable[Chunk]) -> list[str]:
    """The chunks that are no pieces of a text, in order."""
    return [chunk.type + chunk.id for chunk in chunks if not chunk.type.startswith(("text-", "reasoning-"))]


def recut(chunks: Iterable[Chunk], sizes: Iterator[int]) -> Iterator[Chunk]:
    """Cut what was one delta into pieces of those sizes (the last goes on to the end)."""
    for chunk in chunks:
        if not chunk.type.endswith("-delta") or chunk.type.startswith("tool"):
            yield chunk
            continue
        rest = chunk.text
        while rest:
            size = next(sizes, len(rest))
            yield chunk.with_text(rest[:size])
            rest = rest[size:]


def ill_formed(chunks: Iterable[Chunk]) -> str:
    """What is wrong with the starts and ends of texts; empty if all is well."""
    begun: dict[tuple[str, str], int] = {}
    for chunk in chunks:
        kind, _, what = chunk.type.rpartition("-")
        if kind not in ("text", "reasoning"):
            continue
        key = (kind, chunk.id)
        if what == "start":
            begun[key] = 0
        elif what == "delta":
            if not chunk.text:
                return f"an empty delta of {key}"
            if key in begun:
                begun[key] += 1
        elif begun.pop(key, 1) == 0:
            return f"nothing between start and end of {key}"
    return "".join(f"{key} has no text" for key, count in begun.items() if count == 0)


def every_cut(size: int) -> Iterator[tuple[int, ...]]:
    """Sizes for: whole, one character each, and cut in two at each place."""
    yield (size or 1,)
    yield (1,) * size
    yield from ((at, size) for at in range(1, size))


def sizes_of(cut: Iterable[int]) -> Iterator[int]:
    """The sizes again and again."""
    return itertools.cycle(cut)
