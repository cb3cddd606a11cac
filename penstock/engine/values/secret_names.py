"""Secrets by their names: values and representations of objects with ``***`` in place of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

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


def is_secret(name: str) -> bool:
    """Return whether strings of this name may be secrets."""
    return _SECRET.search(name) is not None


def without_password(text: str) -> str:
    """Return a text without the password of a URL in it."""
    return _LOGIN.sub(rf"\1:{HIDDEN}@", text)


def holds_secret(value: object, *, secret: bool = False) -> bool:
    """Return whether `masked_value` hides something of a value; ``secret`` as there."""
    if isinstance(value, str):
        return value != "" and masked_value(value, secret=secret) != value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return any(holds_secret(one, secret=secret or is_secret(str(name))) for name, one in items)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(holds_secret(one, secret=secret) for one in cast("Iterable[object]", value))
    return False


def masked_code(code: str) -> str:
    """Return code, or a ``repr``, without strings whose names are those of secrets, and without passwords of URLs."""
    return without_password(_NAMED.sub(rf"\1'{HIDDEN}'", code))


def masked_value(value: object, *, secret: bool = False) -> object:
    """Return a value as a JSON value without secrets; an object that is none is shown as its class.

    Args:
        value: the value.
        secret: whether its name, or that of something around it, is that of a secret; then no string of it is shown.
    """
    if isinstance(value, str):
        return HIDDEN if secret else without_password(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [masked_value(one, secret=secret) for one in cast("Iterable[object]", value)]
    if isinstance(value, (set, frozenset)):
        return sorted((masked_value(one, secret=secret) for one in cast("Iterable[object]", value)), key=repr)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(name): masked_value(one, secret=secret or is_secret(str(name))) for name, one in items}
    return {"class": type(value).__qualname__}
