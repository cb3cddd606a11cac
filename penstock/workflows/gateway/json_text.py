"""JSON from the wire: refused where two readers could read two things in it, and written as providers write it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from penstock.formats.wire import Json, Value


class AmbiguousJsonError(ValueError):
    """A JSON text that readers read differently: a key that stands there twice, or a number that is none."""


def read_json(text: bytes | str) -> Value:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is no JSON in UTF-8, or ambiguous (`AmbiguousJsonError`).
        RecursionError: it is nested too deeply.
    """
    return _decode(text.decode() if isinstance(text, bytes) else text)


def _mapping(pairs: list[tuple[str, Value]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise AmbiguousJsonError("a key stands twice in an object")
    return made


def _refused(word: str) -> NoReturn:
    raise AmbiguousJsonError(f"{word} is no number of JSON")


_decode = json.JSONDecoder(object_pairs_hook=_mapping, parse_constant=_refused).decode


def write_json(value: Value) -> bytes:
    """Return a value as one line of JSON. Half surrogate pairs stay escaped, as they came."""
    try:
        return _plain(value).encode()
    except UnicodeEncodeError:
        return _escaped(value).encode()


_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_escaped = json.JSONEncoder(separators=(",", ":")).encode
