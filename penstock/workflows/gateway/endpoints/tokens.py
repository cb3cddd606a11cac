"""Tokens beside a text (``logprobs``): the text that they spell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.formats.wire import is_array, is_object

if TYPE_CHECKING:
    from penstock.formats.wire import Value

_KEYS = frozenset({"token", "logprob", "bytes", "top_logprobs"})


def spelled(tokens: Value) -> str | None:
    """Return the text that a list of tokens spells; None if it holds other words, or is malformed.

    A token that ends within a character has no text of its own: its bytes count, and its name spells them.
    """
    if not is_array(tokens):
        return None
    pieces = [_bytes_of(token) for token in tokens]
    try:
        return b"".join(piece for piece in pieces if piece is not None).decode() if None not in pieces else None
    except UnicodeDecodeError:
        return None


def _bytes_of(token: Value) -> bytes | None:
    if not is_object(token) or not set(token) <= _KEYS or not isinstance(token.get("logprob", 0), (int, float)):
        return None
    text, numbers = token.get("token"), token.get("bytes")
    alternatives: Value = token.get("top_logprobs") or []
    if not isinstance(text, str) or any(not is_object(one) or one.get("token") != text for one in alternatives):
        return None
    if numbers is None:
        return text.encode(errors="replace")
    try:
        given = bytes(numbers)
    except (TypeError, ValueError):
        return None
    escaped = "".join(f"\\x{number:02x}" for number in given)
    same = given == text.encode(errors="replace") or text.removeprefix("bytes:") == escaped
    return given if same else None
