"""Secrets in values and in representations of objects, with ``***`` in place of each.

They are known by their names, or by their shape, as the rules of `penstock.detection.secrets` find them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from penstock.lazy import by_name

if TYPE_CHECKING:
    from collections.abc import Callable

HIDDEN = "***"
"""Stands for what is not shown."""

_WORDS = "key|token|secret|passw|credential|auth|cookie|header"
_SECRET = re.compile(_WORDS, re.IGNORECASE)
_LOGIN = re.compile(r"(://[^/\s:@]*):[^/\s@]+@")
"""The user in a URL, with a password."""

_STRING = r"""b?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_OPTION = rf"\b\w*(?:{_WORDS})\w*=(?!=)\s*"
_ENTRY = rf"(?P<quote>['\"])[^'\"]*(?:{_WORDS})[^'\"]*(?P=quote):\s*"
_NAMED = re.compile(rf"({_OPTION}|{_ENTRY}){_STRING}", re.IGNORECASE)
"""A string with a name that is a secret's, as in ``Check(api_key='…')`` and ``{'api_key': '…'}``."""

_ASSIGNED = re.compile(
    rf"((?<![\w.-])[\w.-]{{0,64}}(?:{_WORDS}|pwd|sig(?:nature)?(?==))[\w.-]{{0,64}}=)[^\s&;,'\"#]+", re.IGNORECASE
)
_FLAG = re.compile(rf"--?[\w-]*(?:{_WORDS}|pwd)[\w-]*", re.IGNORECASE)
_FLAGGED = re.compile(rf"((?<!\S){_FLAG.pattern}\s+)[^\s-]\S*", re.IGNORECASE)
"""A value with a name that is a secret's: in a query or a connection string, and behind an option of a command."""
_SHORTEST = 8  # characters: a shorter text is searched by the names in it alone


def is_secret(name: str) -> bool:
    """Return whether strings of this name may be secrets."""
    return _SECRET.search(name) is not None


def without_secrets(text: str) -> str:
    """Return a text without the secrets in it: tokens, keys and passwords, by their shape or by a name before them."""
    return str(items_without_secrets([text])[0])


def items_without_secrets(items: Sequence[object]) -> list[object]:
    """Return items with each string as `without_secrets` returns it; the others stay.

    A string may name the next one, as in ``["--password", "…"]``.
    """
    texts = [one if isinstance(one, str) else "" for one in items]
    found = _secret_places(" ".join(texts))
    made: list[object] = []
    start = 0
    for index, (item, text) in enumerate(zip(items, texts, strict=True)):
        inside = [(low - start, high - start) for low, high in found if low < start + len(text) and high > start]
        named = text and index and _FLAG.fullmatch(texts[index - 1]) is not None
        made.append(HIDDEN if named else _without_named(_cut_out(text, inside)) if text else item)
        start += len(text) + 1
    return made


def _without_named(text: str) -> str:
    text = _FLAGGED.sub(rf"\1{HIDDEN}", _ASSIGNED.sub(rf"\1{HIDDEN}", _NAMED.sub(rf"\1'{HIDDEN}'", text)))
    return _LOGIN.sub(rf"\1:{HIDDEN}@", text)


def _cut_out(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Return a text with ``***`` in place of each place; the places are sorted, and may overlap."""
    made: list[str] = []
    at = 0
    for low, high in places:
        if low >= at:
            made += (text[at : max(low, 0)], HIDDEN)
        at = max(at, high)
    return "".join([*made, text[at:]])


def _secret_places(text: str) -> list[tuple[int, int]]:
    """Return the places of secrets that the detector finds."""
    if len(text) < _SHORTEST:
        return []
    places: Callable[[str], list[tuple[int, int]]] = by_name("penstock.detection.secrets.places", "secret_places")
    return places(text)


def holds_secret(value: object, *, secret: bool = False) -> bool:
    """Return whether `masked_value` hides something of a value; ``secret`` as there."""
    if isinstance(value, str):
        return value != "" and masked_value(value, secret=secret) != value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return any(holds_secret(one, secret=secret or is_secret(str(name))) for name, one in items)
    if isinstance(value, (list, tuple)) and not secret:
        ones = list(cast("Sequence[object]", value))
        return items_without_secrets(ones) != ones or any(holds_secret(one) for one in ones if type(one) is not str)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(holds_secret(one, secret=secret) for one in cast("Iterable[object]", value))
    return False


def masked_code(code: str) -> str:
    """Return code, or a ``repr``, without secrets: strings with such names, and all that the detector finds."""
    return _LOGIN.sub(rf"\1:{HIDDEN}@", _NAMED.sub(rf"\1'{HIDDEN}'", _cut_out(code, _secret_places(code))))


def masked_value(value: object, *, secret: bool = False) -> object:
    """Return a value as a JSON value without secrets; an object that is none is shown as its class.

    Args:
        value: the value.
        secret: whether its name, or that of something around it, is that of a secret; then no string of it is shown.
    """
    if isinstance(value, str):
        return HIDDEN if secret else without_secrets(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        ones = list(cast("Sequence[object]", value))
        ones = ones if secret else items_without_secrets(ones)
        return [one if isinstance(one, str) and not secret else masked_value(one, secret=secret) for one in ones]
    if isinstance(value, (set, frozenset)):
        return sorted((masked_value(one, secret=secret) for one in cast("Iterable[object]", value)), key=repr)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {
            without_secrets(str(name)): masked_value(one, secret=secret or is_secret(str(name))) for name, one in items
        }
    return {"class": type(value).__qualname__}
