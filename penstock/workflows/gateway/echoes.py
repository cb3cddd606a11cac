"""Fields of a request that an answer repeats: the client gets its own back, not what guards made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.terms import is_word
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.tables import is_term

if TYPE_CHECKING:
    from penstock.formats.wire import Value


def agrees(echo: Value, sent: Value) -> bool:
    """Return whether an echo repeats the request as it was sent, and adds only defaults: words, numbers, nothing.

    Args:
        echo: the field in the answer.
        sent: the field as it was sent to the provider; None if it was not.
    """
    if echo == sent:
        return True
    if is_object(echo):
        known = sent if is_object(sent) else {}
        return all((key in known or is_word(key)) and agrees(item, known.get(key)) for key, item in echo.items())
    if is_array(echo):
        entries = sent if is_array(sent) and len(sent) == len(echo) else [None] * len(echo)
        return all(map(agrees, echo, entries))
    return is_term(echo)


def given_back(echo: Value, sent: Value, own: Value) -> Value:
    """Return an echo of the request as it was sent, rewritten as one of the client's own request.

    Args:
        echo: the field in the answer.
        sent: the field as it was sent to the provider.
        own: the field as the client sent it.
    """
    if own == sent:
        return echo
    if is_object(echo) and is_object(sent) and is_object(own):
        return {key: given_back(item, sent.get(key), own.get(key)) for key, item in echo.items()}
    if is_array(echo) and is_array(sent) and is_array(own) and len(echo) == len(sent) == len(own):
        return list(map(given_back, echo, sent, own))
    return own
