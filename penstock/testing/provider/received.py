"""`Received`: a request as the fake provider got it, with keys masked."""

from __future__ import annotations

import hmac
import json
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.frozen import Value, Values


def mapping(value: Value) -> Values:
    """Return the value if it is an object, else an empty one."""
    return cast("Values", value) if isinstance(value, dict) else {}


def items(value: Value) -> list[Value]:
    """Return the items of an array; none for any other value."""
    return list(cast("Sequence[Value]", value)) if isinstance(value, list) else []


def objects(value: Value) -> list[Values]:
    """Return the items of an array that are objects."""
    return [mapping(item) for item in items(value) if isinstance(item, dict)]


SECRET = frozenset({"authorization", "proxy-authorization", "api-key", "x-api-key", "x-goog-api-key", "cookie"})
"""The headers whose values are masked."""

MASK = "***"

_KEY_IN_QUERY = re.compile(r"([?&](?:api[-_]?)?key=)[^&]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """A request, and what happened to its answer.

    Attributes:
        method: the HTTP method.
        target: path and query, with keys masked.
        headers: the headers by lower-case name, with keys masked.
        body: the body, as it was sent.
        connection: the number of the connection, from 0.
        answered: set when the answer was sent, or cut as the script says.
        hung_up: set if the client closed the connection before the answer was complete.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    connection: int = 0
    answered: threading.Event = field(default_factory=threading.Event, repr=False)
    hung_up: threading.Event = field(default_factory=threading.Event, repr=False)
    _keys: tuple[str, ...] = field(default=(), repr=False)

    @property
    def path(self) -> str:
        """The path, without the query."""
        return urlsplit(self.target).path

    @property
    def json(self) -> Value:
        """The body as JSON; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def fields(self) -> Values:
        """The fields of the body; none if it is not a JSON object."""
        return mapping(self.json)

    @property
    def streamed(self) -> bool:
        """Whether the request asks for a stream."""
        return self.fields.get("stream") is True

    @property
    def text(self) -> str:
        """The text of the last message, or of all inputs, one a line."""
        messages = self._messages
        return _text(messages[-1].get("content") if messages else self.fields.get("input"))

    @property
    def all_text(self) -> str:
        """The text of all messages, or of all inputs, one a line."""
        return "\n".join(_text(message.get("content")) for message in self._messages) or self.text

    @property
    def _messages(self) -> list[Values]:
        return objects(self.fields.get("messages"))

    def has_key(self, key: str) -> bool:
        """Tell whether the request had this key, as a bearer token or in another header."""
        return any(hmac.compare_digest(sent.encode(), key.encode()) for sent in self._keys)


def received(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes, connection: int) -> Received:
    """Return a request with its keys masked."""
    given = [(name.lower(), value) for name, value in headers]
    keys = tuple(value.removeprefix("Bearer ") for name, value in given if name in SECRET)
    shown = {name: MASK if name in SECRET else value for name, value in given}
    return Received(method, _KEY_IN_QUERY.sub(rf"\1{MASK}", target), shown, body, connection, _keys=keys)


def _text(content: Value) -> str:
    return "\n".join(_texts(content))


def _texts(content: Value) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from _texts(mapping(content).get("text"))
    for item in items(content):
        yield from _texts(item)
