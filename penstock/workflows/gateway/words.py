"""`is_usual_word`: tells words of a provider from texts, and keeps the words that it has seen."""

from __future__ import annotations

from penstock.engine.values.terms import is_word

_MOST = 512
_seen: set[str] = set()


def is_usual_word(text: str) -> bool:
    """Return whether a text is a word. Providers send the same few again and again; any other text is not kept."""
    if text in _seen:
        return True
    if not is_word(text):
        return False
    if len(_seen) >= _MOST:
        _seen.clear()
    _seen.add(text)
    return True
