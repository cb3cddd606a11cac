"""Find and replace texts within JSON values and parts, and the place of a text in a list (`TextPlace`).

A path leads from a part or a JSON value to one string. The key of a mapping is text too: its path ends with `KeyText`.
The digits of a number are a text that is replaced as a whole: by another text, or by None if the new text is empty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.messages import TextPart
from penstock.engine.values.terms import SEAL_KEYS, without_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Layer, Value
    from penstock.engine.values.messages import Part

Path = tuple[Any, ...]


class KeyText(NamedTuple):
    """The end of a path that leads to the key of a mapping itself, not to the value under it."""

    key: str


class TextPlace(NamedTuple):
    """Where a text is: the key for texts in lists, edits, merges and records.

    Attributes:
        message_id: the message's id; empty for a text in a field of the stage (a tool's arguments or result).
        part: the index of the message's part; 0 for a field.
        path: the path within the part, which begins with a field of the part; or the path from the stage's field down.
    """

    message_id: str
    part: int
    path: Path = ("text",)


class KnownEdits(NamedTuple):
    """The edits of texts that were recorded since some moment.

    Attributes:
        texts: the edits by the place of their text, in positions of the text at that moment. Where a message was
            replaced since then, they may not lead to its texts, but still tell that text was hidden in it.
        complete: whether nothing else in the messages has changed since then.
    """

    texts: Mapping[TextPlace, Edits]
    complete: bool


NO_KNOWN_EDITS = KnownEdits({}, complete=False)
"""Nothing is known: what changed has to be found by comparing. The mapping is shared; do not write to it."""

NOTHING_EDITED = KnownEdits({}, complete=True)
"""It is known that nothing changed. The mapping is shared; do not write to it."""


LEAST_NUMBER, _MOST_NUMBER = 10**6, 10**30  # numbers whose digits may be personal data, such as a phone number


def number_text(value: object, least: int = LEAST_NUMBER) -> str:
    """Return the digits of a number before its point; an empty text for a number below ``least``, and for other values.

    Args:
        value: the value.
        least: the smallest number that counts, without its sign.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= abs(value) < _MOST_NUMBER:
        return ""
    return str(abs(int(value)))


def editable_text(value: object) -> str | None:
    """Return a string itself, and the digits of a number; None for other values."""
    return value if isinstance(value, str) else number_text(value, 0) or None


def replaced(value: object, text: str) -> str | None:
    """Return the JSON value that stands for a string or a number after its text was edited."""
    return text if isinstance(value, str) else text or None


def leaves(value: Layer, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every string of a JSON value (keys of mappings included) with the path to it."""
    found: list[tuple[Path, str]] = []  # a list is filled at a third of the cost of generators within generators
    _add_leaves(value, path, found)
    return iter(found)


def _add_leaves(value: Layer, path: Path, found: list[tuple[Path, str]]) -> None:
    if isinstance(value, str):
        found.append((path, value))
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                found.append(((*path, KeyText(key)), key))
            if type(item) not in _NO_TEXT:
                _add_leaves(item, (*path, key), found)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            if type(item) not in _NO_TEXT:
                _add_leaves(item, (*path, index), found)


_NO_TEXT = frozenset({int, float, bool, type(None)})


def numbers(value: Layer, path: Path = (), least: int = LEAST_NUMBER) -> Iterator[tuple[Path, str]]:
    """Yield the digits of every number of a JSON value that is not below ``least``, with the path to it."""
    found: list[tuple[Path, str]] = []
    _add_numbers(value, path, least, found)
    return iter(found)


def _add_numbers(value: Layer, path: Path, least: int, found: list[tuple[Path, str]]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if type(item) not in _NO_NUMBER:
                _add_numbers(item, (*path, key), least, found)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            if type(item) not in _NO_NUMBER:
                _add_numbers(item, (*path, index), least, found)
    elif digits := number_text(value, least):
        found.append((path, digits))


_NO_NUMBER = frozenset({str, bool, type(None)})


def editable_texts(value: Layer, path: Path = (), least: int = 0) -> Iterator[tuple[Path, str]]:
    """Yield every text of a JSON value that can be edited: its strings, keys included, and the digits of its numbers.

    Args:
        value: the value.
        path: the path to the value itself.
        least: the smallest number whose digits are yielded.
    """
    yield from leaves(value, path)
    yield from numbers(value, path, least)


def rewrite(value: Layer, texts: Mapping[Path, str], path: Path = ()) -> Value:
    """Return the JSON value with the texts at the given paths replaced.

    A number at such a path becomes the text, or None if that is empty. Two keys that become equal are numbered.
    """
    if isinstance(value, str):
        return texts.get(path, value)
    if isinstance(value, dict):
        made: dict[Value, Value] = {}
        keys = UniqueKeys()
        for key, item in value.items():
            renamed = texts.get((*path, KeyText(key)), key) if isinstance(key, str) else key
            made[keys.unique(renamed)] = rewrite(item, texts, (*path, key))
        return FrozenDict(made)
    if isinstance(value, (tuple, list)):
        return tuple(rewrite(item, texts, (*path, index)) for index, item in enumerate(value))
    return replaced(value, texts[path]) if path in texts else value


class UniqueKeys:
    """The keys of a mapping that is being made. Keys that become equal are numbered, so that no value is lost."""

    __slots__ = ("_numbers", "_taken")

    def __init__(self) -> None:
        self._taken: set[Value] = set()
        self._numbers: dict[Value, int] = {}  # by key, the next number: it is not looked for again from 2 on

    def unique(self, key: Value) -> Value:
        """Return the key, with a number if it is taken: ``a``, ``a (2)``, ``a (3)``."""
        made = key
        if key in self._taken:
            number = self._numbers.get(key, 2)
            while (made := f"{key} ({number})") in self._taken:
                number += 1
            self._numbers[key] = number + 1
        self._taken.add(made)
        return made


def part_texts(
    part: Part, walk: Callable[[Layer, Path], Iterator[tuple[Path, str]]] = leaves
) -> Iterator[tuple[Path, str]]:
    """Yield every text of a part with its path, which begins with the name of a field.

    Args:
        part: the part.
        walk: yields the texts of a JSON value; `editable_texts` yields numbers, too.
    """
    for name in part.texts:
        value = getattr(part, name)
        if isinstance(value, str):
            yield (name,), value
        else:
            yield from walk(value, (name,))


def text_at(part: Part, path: Path) -> str | None:
    """Return the text of a part at a path, as `part_texts` yields it, numbers included; None if there is none."""
    if not path or path[0] not in part.texts:
        return None
    value: Layer = getattr(part, path[0])
    for key in path[1:]:
        if isinstance(value, dict):
            value = (key.key if key.key in value else None) if isinstance(key, KeyText) else value.get(key)
        elif isinstance(value, tuple) and isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        else:
            return None
    return editable_text(value)


def with_part_texts(part: Part, texts: Mapping[Path, str]) -> Part:
    """Return the part with the texts at the given paths replaced; signatures, which hold for the text before, go."""
    metadata = without_keys(part.metadata, SEAL_KEYS) if part.metadata else part.metadata
    if type(part) is TextPart:  # by far the most frequent
        return TextPart(texts.get(("text",), part.text), metadata)
    names = {path[0] for path in texts}
    changes = {name: rewrite(getattr(part, name), texts, (name,)) for name in part.texts if name in names}
    return replace(part, metadata=metadata, **changes)
