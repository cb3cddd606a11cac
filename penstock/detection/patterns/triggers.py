r"""`Triggers`: tells which of many triggers stand in a text, and at one look whether any does.

The patterns are sorted by the ASCII characters that they begin with. A text is asked only for those that begin with one
of its characters. For a short text one look comes before that: a class of the characters that are a trigger by
themselves, and one pattern of all others. Few characters of prose begin a trigger, so the look costs little more than
reading the text once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.detection.long_texts import is_long, matches_somewhere

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")

SHORT = 400
"""Characters up to which one look at a text is cheaper than to ask for each trigger."""

_ASCII = [chr(code) for code in range(128)]
_HEAD = re.compile(r"\\[dDwWsS]|\\[^A-Za-z0-9]|\[[^\]\\]*(?:\\.[^\]\\]*)*\]|[^\\\[\](){}.^$|?*+]")
_REPEATED = re.compile(r"[?*+{]")
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]|.", re.DOTALL)
_ONLY_ASCII = re.compile(r"\[(?!\^)[ -\[\]-~]*\]|\\[^A-Za-z]|[ -~]")
_NEVER = re.compile("(?!)")
_SEARCH = re.Pattern[str].search
_LITERAL = re.compile(r"(?:[A-Za-z0-9_:/=~-]|\\[^A-Za-z0-9])+(?![?*+{])")  # what a pattern begins with
_NOT_BEHIND = r"(?:\(\?<!\[[^\]\\]*\]\.+\))?"
_ANY_CASE = re.compile(rf"\[([A-Za-z]+)\]{_NOT_BEHIND}\(\?i:([a-z]+(?:\|[a-z]+)*)\){_NOT_BEHIND}")


class _Branch:
    """One alternative of a trigger.

    Attributes:
        trigger: the trigger.
        pattern: the alternative; one that always matches if its first character is all of it.
        literal: the beginning of each match; a plain search finds it quicker than the pattern. Empty if unknown.
        words: words in small letters, of which one, in any case, stands in each match; empty if it has another form.
    """

    __slots__ = ("literal", "pattern", "trigger", "words")

    def __init__(self, trigger: str, pattern: str) -> None:
        self.trigger = trigger
        self.pattern = re.compile(pattern)
        begun = _LITERAL.match(pattern)
        self.literal = begun.group().replace("\\", "") if begun else ""
        found = _ANY_CASE.fullmatch(pattern)
        first = {*found.group(1).lower()} if found else set[str]()
        before = first.pop() if len(first) == 1 else ""
        self.words = [before + word for word in found.group(2).split("|")] if found else []


class Triggers(Generic[T]):
    """Many triggers, each with what belongs to it."""

    __slots__ = ("_alone", "_anywhere", "_begun", "_beyond", "_by_char", "_values")

    def __init__(self, values: Mapping[str, T], unread: str = "") -> None:
        """Sort the triggers, which are patterns. A look also sees the characters ``unread``, which are ASCII."""
        self._values = dict(values)
        rests: dict[str, dict[str, None]] = {char: {"": None} for char in unread}
        self._by_char: dict[str, list[_Branch]] = {}
        self._beyond: list[_Branch] = []  # those that may begin with a character beyond ASCII
        self._anywhere: list[_Branch] = []  # those of which it cannot be told what they begin with
        for trigger, branch in ((one, branch) for one in values for branch in alternatives(one)):
            head, rest = _parted(branch)
            if head is None or _ONLY_ASCII.fullmatch(head) is None:
                (self._beyond if head else self._anywhere).append(_Branch(trigger, branch))
            one = _Branch(trigger, branch if rest else "")
            for char in filter(re.compile(head).fullmatch, _ASCII) if head else ():
                rests.setdefault(char, {})[rest] = None
                self._by_char.setdefault(char, []).append(one)
        alone = [re.escape(char) for char, after in rests.items() if "" in after]
        begun = [f"{re.escape(char)}(?={'|'.join(after)})" for char, after in rests.items() if "" not in after]
        self._alone = re.compile(f"[{''.join(alone)}]") if alone else _NEVER
        self._begun = re.compile("|".join(begun)) if begun else _NEVER

    def none_in(self, text: str, start: int) -> bool:
        """Return whether one look shows that no trigger stands in a text from a place on; False if it is too long."""
        return (
            len(text) - start <= SHORT
            and self._alone.search(text, start) is None
            and self._begun.search(text, start) is None
            and (not self._anywhere or not any(branch.pattern.search(text, start) for branch in self._anywhere))
            and (
                text.isascii()
                or text[start:].isascii()
                or not any(branch.pattern.search(text, start) for branch in self._beyond)
            )
        )

    def standing_in(self, text: str, start: int) -> Iterator[T]:
        """Yield what belongs to those triggers that stand in a text from a place on."""
        rest = text[start:] if start else text
        if len(rest) > SHORT:
            branches = [branch for char, begun in self._by_char.items() if char in rest for branch in begun]
        else:
            chars = dict.fromkeys([*self._alone.findall(rest), *self._begun.findall(text, start)])
            branches = [branch for char in chars for branch in self._by_char.get(char, ())]
        branches += self._anywhere if rest.isascii() else [*self._anywhere, *self._beyond]
        plain = rest.lower() if rest.isascii() else None
        stands = matches_somewhere if is_long(text, start) else _SEARCH
        known: set[str] = set()
        for branch in dict.fromkeys(branches):
            if branch.trigger in known or branch.literal not in rest:
                continue
            if branch.words and plain is not None and not any(map(plain.__contains__, branch.words)):
                continue
            if stands(branch.pattern, text, start):
                known.add(branch.trigger)
                yield self._values[branch.trigger]


def alternatives(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern."""
    depth = begun = 0
    for token in _TOKEN.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if token.group() == "|" and not depth:
            yield pattern[begun : token.start()]
            begun = token.end()
    yield pattern[begun:]


def _parted(pattern: str) -> tuple[str | None, str]:
    """Return the part of a pattern that matches its first character, and the rest; None if that cannot be told."""
    head = _HEAD.match(pattern)
    if head is None or _REPEATED.match(pattern, head.end()):
        return None, pattern
    return head.group(), pattern[head.end() :]
