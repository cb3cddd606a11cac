"""`KnownValues`: a value that was hidden once in a session is hidden everywhere in it, also without a label."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine.values.texts import KeyText, leaves
from penstock.formats.wire import is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.values.texts import Path
    from penstock.formats.wire import Value

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_-]{0,60}\]")
_MOST = 1_000
_LEAST, _LEAST_WITHOUT_DIGITS = 8, 16  # characters of a value that is no ordinary word


class KnownValues:
    """The values that guards have replaced by placeholders in the results of a session."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}

    def learn(self, before: Value, after: Value) -> None:
        """Note the values that have placeholders in another version of a result."""
        left = dict(_texts(after))
        for path, text in _texts(before):
            changed = left.get(path, text)
            if changed != text:
                self._note(dict(_replaced(text, changed)))

    def hidden(self, value: Value, more: Mapping[str, str]) -> Value:
        """Return a JSON value with placeholders in place of known values.

        Args:
            value: the value.
            more: further values with their placeholders, of any length.
        """
        known = {**self._placeholders, **more}
        return _hidden(value, sorted(known.items(), key=lambda item: -len(item[0]))) if known else value

    def _note(self, found: Mapping[str, str]) -> None:
        for value, placeholder in found.items():
            least = _LEAST if any(char.isdigit() for char in value) else _LEAST_WITHOUT_DIGITS
            if len(value) >= least and len(self._placeholders) < _MOST:
                self._placeholders[value] = placeholder


def _texts(value: Value) -> Iterator[tuple[Path, str]]:
    return ((path, text) for path, text in leaves(value) if not path or not isinstance(path[-1], KeyText))


def _replaced(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield each value with the placeholder that stands for it, as long as the text around them is the same."""
    new = [found for found in _PLACEHOLDER.finditer(after) if found.group() not in before]
    placeholders = [found.group() for found in new]
    bounds = [0, *(place for found in new for place in found.span()), len(after)]
    parts = [after[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    if not before.startswith(parts[0]):
        return
    at = len(parts[0])
    for index, placeholder in enumerate(placeholders):
        following = parts[index + 1]
        is_last = index == len(placeholders) - 1
        end = len(before) - len(following) if is_last else before.find(following, at + 1)
        if end < at or (not following and not is_last) or before[end : end + len(following)] != following:
            return
        if before[at:end] != placeholder:
            yield before[at:end], placeholder
        at = end + len(following)


def _hidden(value: Value, known: list[tuple[str, str]]) -> Value:
    if isinstance(value, str):
        for one, placeholder in known:
            if one in value:
                value = value.replace(one, placeholder)
        return value
    if is_object(value):
        return {key: _hidden(item, known) for key, item in value.items()}
    return [_hidden(item, known) for item in value] if is_array(value) else value
