"""The fields of a request or an answer beside its messages: definitions of tools, schemas, parameters, copies, reports.

Guards read it as data of one more message, and edit it there. Words of the protocol are left out: the name of a model,
an id, a reason, where they have the form of such. Anything else that holds text is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, Message
from penstock.engine.values.terms import TOKEN_KEYS, is_code, is_model, is_word
from penstock.formats.wire import is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.formats.wire import Json, Value

NAME = "beside"
"""The name of the data part."""

_TERMS: Mapping[str, Callable[[str], bool]] = {
    "model": is_model,
    "id": is_code,
    "object": is_code,
    "type": is_word,
    "role": is_word,
    "finish_reason": is_word,
    "stop_reason": is_word,
    "status": is_word,
    "tool_choice": is_word,
    "service_tier": is_word,
    "system_fingerprint": is_code,
    "reasoning_effort": is_word,
    "verbosity": is_word,
    "encoding_format": is_word,
    "truncation": is_word,
}
"""Keys whose values are words of the protocol, with the form that such a word has."""


def beside_of(body: Json, read: Collection[str], *, tokens: bool = False) -> Json:
    """Return the fields of a body that hold text for guards.

    Args:
        body: the body.
        read: the fields that are read otherwise.
        tokens: whether fields that repeat an answer token by token are read, too.
    """
    bare: Json = body if tokens else _without_tokens(body)
    return {key: value for key, value in bare.items() if key not in read and _says_something(key, value)}


def _without_tokens(value: Value) -> Value:
    if is_object(value):
        return {key: _without_tokens(item) for key, item in value.items() if key not in TOKEN_KEYS}
    return [_without_tokens(item) for item in value] if is_array(value) else value


def _says_something(key: str, value: Value) -> bool:
    return not is_word(key) or _says(value, _TERMS.get(key))


def _says(value: Value, is_term: Callable[[str], bool] | None = None) -> bool:
    if isinstance(value, str):
        return bool(value) and not (is_term is not None and is_term(value))
    if is_object(value):
        return any(_says_something(str(name), item) for name, item in value.items())
    return any(map(_says, value)) if is_array(value) else False


def as_message(beside: Json) -> Message:
    """Return fields as data of a client's message."""
    return Message("user", (DataPart(NAME, beside),), from_client=True)


def left_of(message: Message | None, beside: Json) -> Json | None:
    """Return the fields as a check has left them in its message; None if it has removed them."""
    if message is None:
        return None if beside else {}
    data = next((part.data for part in message.parts if isinstance(part, DataPart)), None)
    left: Value = thaw(data)
    return left if is_object(left) else None
