"""`withheld`: a result of which the model reads only a notice, in the shape of the original.

The client imports it as a file, without the package.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import TypeIs

    from penstock.formats.wire import Json, Value

_SELECTORS = frozenset({"type", "status", "mode", "kind", "format", "media_type", "mimeType"})
_WORD = re.compile(r"[A-Za-z]{1,16}([_/-][A-Za-z]{1,16}){0,2}")


_SHOWN = ("content", "stdout", "text", "result", "output", "error", "message")
"""The keys whose texts products show to the model, best first."""


def withheld(value: Value, notice: str) -> Value:
    """Return a JSON value with the notice in place of a text that the model reads, and without all other texts.

    Words that select a shape, such as ``"type": "text"``, and values that are no texts stay, since products take the
    original for a result of another shape.

    Args:
        value: the result.
        notice: the text for the model.
    """
    keys = list(_text_keys(value, ""))
    if not keys:
        return _with_notice(value, notice)
    best = next((key for key in _SHOWN if key in keys), keys[0])
    return _without_texts(value, "", best, [notice])


def _text_keys(value: Value, key: str) -> Iterator[str]:
    """Yield the key of each text that may be replaced."""
    if isinstance(value, str):
        if not (key in _SELECTORS and _WORD.fullmatch(value)):
            yield key
    elif _is_object(value):
        for name, item in value.items():
            yield from _text_keys(item, name)
    elif _is_array(value):
        for item in value:
            yield from _text_keys(item, key)


def _without_texts(value: Value, key: str, best: str, given: list[str]) -> Value:
    if isinstance(value, str):
        if key in _SELECTORS and _WORD.fullmatch(value):
            return value
        return given.pop() if given and key == best else ""
    if _is_object(value):
        return {name: _without_texts(item, name, best, given) for name, item in value.items()}
    if _is_array(value):
        return [_without_texts(item, key, best, given) for item in value]
    return value


def _with_notice(made: Value, notice: str) -> Value:
    """Return a value without a place for the notice; a list of blocks gets one for it."""
    return [{"type": "text", "text": notice}] if _is_array(made) else made


def _is_object(value: Value) -> TypeIs[Json]:
    return isinstance(value, dict)


def _is_array(value: Value) -> TypeIs[list[Value]]:
    return isinstance(value, list)
