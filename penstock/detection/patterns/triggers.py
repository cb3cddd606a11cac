r"""`Triggers`: tells which of many triggers stand in a text, and at one look whether any does.

The patterns are sorted by the ASCII characters that they begin with. A text is asked only for those that begin with one
of its characters. For a short text one look comes before that: a class of the characters that are a trigger by
themselves, and one pattern of all others. Every second character of prose is a letter that begins some trigger, so this
pattern leaves out letters whose triggers are known by more letters (`_Spelled`): a plain search finds those quicker.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.detection.deferred import deferred
from penstock.detection.long_texts import is_long, matches_somewhere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")

SHORT = 400
"""Characters up to which one look at a text is cheaper than to ask for each trigger."""

_ASCII = [chr(code) for code in range(128)]
_HEAD = deferred(r"\\[dDwWsS]|\\[^A-Za-z0-9]|\[[^\]\\]*(?:\\.[^\]\\]*)*\]|[^\\\[\](){}.^$|?*+]")
_REPEATED = deferred(r"[?*+{]")
_TOKEN = deferred(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]|.", re.DOTALL)
_ONLY_ASCII = deferred(r"\[(?!\^)[ -\[\]-~]*\]|\\[^A-Za-z]|[ -~]")
_NEVER = deferred("(?!)")
_LITERAL = deferred(r"(?:[A-Za-z0-9_:/=~-]|\\[^A-Za-z0-9])+(?![?*+{])")  # what a pattern begins with
_NOT_BEHIND = r"(?:\(\?<!\[[^\]\\]*\]\.+\))?"
_ANY_CASE = deferred(rf"\[([A-Za-z]+)\]{_NOT_BEHIND}\(\?i:([a-z]+(?:\|[a-z]+)*)\){_NOT_BEHIND}")
_WORDS = r"[^\W\d_]+(?:\|[^\W\d_]+)*"
_SPELLED = deferred(rf"{_NOT_BEHIND}(?:\(\?i:({_WORDS})\)|([^\W\d_]+)(?:\(\?:({_WORDS})\))?)(?![?*+{{|])")
_FEW = 48
"""Characters up to which one pattern of all triggers is quicker than to search for what they are spelled with."""


class _Branch:
    """One alternative of a trigger.

    Attributes:
        trigger: the trigger.
        pattern: the alternative.
        is_one: whether its first character is all of it, so that it stands wherever that does.
        literal: the beginning of each match; a plain search finds it quicker than the pattern. Empty if unknown.
        words: words in small letters, of which one, in any case, stands in each match; empty if it has another form.
    """

    __slots__ = ("is_one", "literal", "pattern", "trigger", "words")

    def __init__(self, trigger: str, pattern: str) -> None:
        self.trigger = trigger
        self.is_one = not pattern
        self.pattern = deferred(pattern)
        begun = _LITERAL.match(pattern)
        self.literal = begun.group().replace("\\", "") if begun else ""
        found = _ANY_CASE.fullmatch(pattern)
        first = {*found.group(1).lower()} if found else set[str]()
        before = first.pop() if len(first) == 1 else ""
        self.words = [before + word for word in found.group(2).split("|")] if found else []


class _Spelled:
    """The triggers that begin with one letter, if all of them are known by more letters.

    Attributes:
        letter: the letter.
        begun: the pattern of them.
        words: in small letters, what a match begins with in some case.
    """

    __slots__ = ("begun", "letter", "words")

    def __init__(self, letter: str, begun: str, words: Iterable[str]) -> None:
        self.letter = letter
        self.begun = deferred(begun)
        self.words = words

    @classmethod
    def of(cls, letter: str, rests: Iterable[str]) -> _Spelled | None:
        """Return those of a letter by the patterns behind it; None if some of them may go on with anything."""
        read = [_SPELLED.match(rest) for rest in rests]
        known = [found.groups() for found in read if found is not None]
        if len(known) < len(read):
            return None
        ways = [[f"{said or ''}{end}" for end in (ends or any_case or "").split("|")] for any_case, said, ends in known]
        words = {f"{letter}{way}".lower() for each in ways for way in each}
        return cls(letter, _begun(letter, rests), sorted(words))


def _begun(char: str, rests: Iterable[str]) -> str:
    """Return the pattern of a character with one of some patterns behind it."""
    return f"{re.escape(char)}(?={'|'.join(rests)})"


class Triggers(Generic[T]):
    """Many triggers, each with what belongs to it."""

    __slots__ = ("_alone", "_anywhere", "_begun", "_beyond", "_by_char", "_seldom", "_spelled", "_values")

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
            for char in _chars_of(head) if head else ():
                rests.setdefault(char, {})[rest] = None
                self._by_char.setdefault(char, []).append(one)
        alone = [re.escape(char) for char, after in rests.items() if "" in after]
        begun = {char: tuple(after) for char, after in rests.items() if "" not in after}
        spelled = {char: _Spelled.of(char, after) for char, after in begun.items() if char.islower()}
        self._spelled = [(word, one) for one in spelled.values() if one is not None for word in one.words]
        seldom = [_begun(char, after) for char, after in begun.items() if spelled.get(char) is None]
        self._alone = re.compile(f"[{''.join(alone)}]") if alone else _NEVER
        self._seldom = re.compile("|".join(seldom)) if seldom else _NEVER
        self._begun = deferred("|".join(_begun(*each) for each in begun.items())) if begun else _NEVER

    def none_in(self, text: str, start: int) -> bool:
        """Return whether one look shows that no trigger stands in a text from a place on; False if it is too long."""
        return (
            len(text) - start <= SHORT
            and self._alone.search(text, start) is None
            and not self._begins_in(text, start)
            and (not self._anywhere or not any(branch.pattern.search(text, start) for branch in self._anywhere))
            and (
                text.isascii()
                or text[start:].isascii()
                or not any(branch.pattern.search(text, start) for branch in self._beyond)
            )
        )

    def _begins_in(self, text: str, start: int) -> bool:
        """Return whether a trigger of more than one character stands in a text from a place on."""
        if len(text) - start <= _FEW or not text.isascii():
            return self._begun.search(text, start) is not None
        if self._seldom.search(text, start) is not None:
            return True
        return any(self._spelled_in(text, start))

    def _beginning_in(self, text: str, start: int) -> Iterable[str]:
        """Return the characters that such triggers begin with; some of them twice."""
        if len(text) - start <= _FEW or not text.isascii():
            return self._begun.findall(text, start)
        return [*self._seldom.findall(text, start), *self._spelled_in(text, start)]

    def _spelled_in(self, text: str, start: int) -> Iterator[str]:
        """Yield the letters that those triggers begin with which are known by more letters, in a text of ASCII."""
        small = text[start:].lower()
        for one in dict.fromkeys([one for word, one in self._spelled if word in small]):
            if one.begun.search(text, start) is not None:
                yield one.letter

    def standing_in(self, text: str, start: int) -> Iterator[T]:
        """Yield what belongs to those triggers that stand in a text from a place on."""
        rest = text[start:] if start else text
        if len(rest) > SHORT:
            branches = [branch for char, begun in self._by_char.items() if char in rest for branch in begun]
        else:
            chars = dict.fromkeys([*self._alone.findall(rest), *self._beginning_in(text, start)])
            branches = [branch for char in chars for branch in self._by_char.get(char, ())]
        branches += self._anywhere if rest.isascii() else [*self._anywhere, *self._beyond]
        plain = rest.lower() if rest.isascii() else None
        long = is_long(text, start)
        known: set[str] = set()
        for branch in dict.fromkeys(branches):
            if branch.trigger in known or branch.literal not in rest:
                continue
            if branch.words and plain is not None and not any(map(plain.__contains__, branch.words)):
                continue
            pattern = branch.pattern
            if branch.is_one or (matches_somewhere(pattern, text, start) if long else pattern.search(text, start)):
                known.add(branch.trigger)
                yield self._values[branch.trigger]


def _chars_of(head: str) -> Iterable[str]:
    """Return the ASCII characters that a pattern of one character matches."""
    if len(head) == 1:
        return head if head.isascii() else ()
    return filter(re.compile(head).fullmatch, _ASCII)


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
