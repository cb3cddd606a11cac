"""Read JSON objects from text that models write.

Accepted beyond JSON: prose and fences around an object, trailing commas, comments, single quotes, keys without quotes,
the words True, False and None, line ends inside strings. Refused: an object that is cut off, a key that appears twice,
NaN and infinite numbers.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

DEEPEST = 64
"""How many levels an answer may nest."""

_BLANK = re.compile(r"(?:\s++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
_BEGINS = re.compile(r"\{\s*+(?:[\"'}]|//|/\*|[A-Za-z_]\w*+\s*+:)")
_STRING = re.compile(r"\"([^\"\\]*+(?:\\.[^\"\\]*+)*+)\"|'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]\w*+")
_INNER = re.compile(r"\\.|\"", re.DOTALL)
_WORDS: dict[str, Value] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


class UnreadableError(ValueError):
    """An answer that is not a verdict. The text says why, without quoting the answer."""


def objects(text: str) -> list[dict[str, Value]]:
    """Return the outermost JSON objects of a text, in order.

    Raises:
        UnreadableError: an object begins, but cannot be read.
    """
    found: list[dict[str, Value]] = []
    at = begin_of_object(text, 0)
    while at is not None:
        value, end = object_at(text, at)
        found.append(value)
        at = begin_of_object(text, end)
    return found


def begin_of_object(text: str, at: int) -> int | None:
    """Return where the next object begins; None if none does. A brace in prose is none."""
    at = text.find("{", at)
    while at >= 0:
        if _BEGINS.match(text, at):
            return at
        at = text.find("{", at + 1)
    return None


def object_at(text: str, at: int) -> tuple[dict[str, Value], int]:
    """Return the object that begins at a place, and where it ends.

    Raises:
        UnreadableError: it cannot be read.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return _Reader(text).mapping(at, 0)


def _once(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise UnreadableError("an object has the same key twice")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnreadableError("a number is too large")
    return number


def _refuse(word: str) -> NoReturn:
    raise UnreadableError(f"{word} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)


class _Reader:
    """Reads one value of a text. Methods take the index where it begins, and return it with the index where it ends."""

    def __init__(self, text: str) -> None:
        self.text = text

    def mapping(self, at: int, depth: int) -> tuple[dict[str, Value], int]:
        pairs: list[tuple[str, Value]] = []
        at = self.skip(at + 1)
        while self.peek(at) != "}":
            key, at = self.key(at)
            value, at = self.value(self.expect(":", at), depth + 1)
            pairs.append((key, value))
            at = self.separator(at, "}")
        return _once(pairs), at + 1

    def items(self, at: int, depth: int) -> tuple[list[Value], int]:
        found: list[Value] = []
        at = self.skip(at + 1)
        while self.peek(at) != "]":
            value, at = self.value(at, depth + 1)
            found.append(value)
            at = self.separator(at, "]")
        return found, at + 1

    def value(self, at: int, depth: int) -> tuple[Value, int]:
        if depth > DEEPEST:
            raise UnreadableError(f"it nests deeper than {DEEPEST} levels")
        at = self.skip(at)
        first = self.peek(at)
        if first == "{":
            return self.mapping(at, depth)
        if first == "[":
            return self.items(at, depth)
        return self.string(at) if first in "\"'" else self.scalar(at)

    def scalar(self, at: int) -> tuple[Value, int]:
        number = _NUMBER.match(self.text, at)
        if number is not None:
            return _number(number[0]), number.end()
        word = _WORD.match(self.text, at)
        if word is None or word[0] not in _WORDS:
            raise UnreadableError("a value is not a JSON value")
        return _WORDS[word[0]], word.end()

    def key(self, at: int) -> tuple[str, int]:
        word = _WORD.match(self.text, at)
        return (word[0], word.end()) if word is not None else self.string(at)

    def string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise UnreadableError("a string is cut off, or a key is missing")
        inner = found[1] if found[1] is not None else _INNER.sub(_double_quoted, found[2])
        try:
            return str(json.loads(f'"{inner}"', strict=False)), found.end()
        except ValueError:
            raise UnreadableError("a string has an escape that JSON does not have") from None

    def separator(self, at: int, end: str) -> int:
        """Skip a comma with blanks around it, or stop at the closing sign; a trailing comma is allowed."""
        at = self.skip(at)
        return at if self.peek(at) == end else self.skip(self.expect(",", at))

    def expect(self, sign: str, at: int) -> int:
        at = self.skip(at)
        if self.peek(at) != sign:
            raise UnreadableError(f"{sign!r} is missing")
        return at + 1

    def peek(self, at: int) -> str:
        if at >= len(self.text):
            raise UnreadableError("it is cut off")
        return self.text[at]

    def skip(self, at: int) -> int:
        """Skip blanks and comments."""
        found = _BLANK.match(self.text, at)
        return at if found is None else found.end()


def _double_quoted(found: re.Match[str]) -> str:
    """Rewrite a piece of a single-quoted string for a double-quoted one."""
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return _finite(text)
