"""The values that guards read in a message of the protocol, and how the guarded version is put back.

Numbers, and strings that only software reads (ids, tokens, cursors, versions), are not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.engine.values.frozen import is_mapping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp.shared.message import SessionMessage

    from penstock.formats.wire import Json, Value


class MessageSource(Protocol):
    """The messages that come from one side."""

    def __aiter__(self) -> AsyncIterator[SessionMessage | Exception]:
        """Return the messages, and errors in the place of malformed ones."""
        ...


class MessageSink(Protocol):
    """Takes the messages for one side."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        ...


Streams: TypeAlias = tuple[MessageSource, MessageSink]
"""The two streams of a transport."""

_TOKENS = ("cursor", "nextCursor", "progressToken", "requestId", "requestState")
_WORDS = ("cacheScope", "protocolVersion", "resultType")
_TOKEN = re.compile(r"[\w+/=.:~%|-]*", re.ASCII)
_WORD = re.compile(r"[\w./-]{1,64}", re.ASCII)
_SOFTWARES = dict.fromkeys(_TOKENS, _TOKEN) | dict.fromkeys(_WORDS, _WORD)
"""The keys of strings that only software reads, with how these look. Others under such a key are read as text."""

_OPAQUE_META = frozenset({"progressToken", "io.modelcontextprotocol/subscriptionId"})
_CLIENT_META = re.compile(r"io\.modelcontextprotocol/.*|progressToken|traceparent|tracestate|baggage")
_COUNTS = frozenset(_TOKENS) | {"progress", "total"}


def is_clients_own(key: str, item: object) -> bool:
    """Return whether a value of ``_meta`` is the client's software's own."""
    del item
    return _CLIENT_META.fullmatch(key) is not None


def is_servers_own(key: str, item: object) -> bool:
    """Return whether a value of ``_meta`` is a token of the server's software."""
    is_token = isinstance(item, int) or (isinstance(item, str) and _TOKEN.fullmatch(item) is not None)
    return key in _OPAQUE_META and is_token


def is_opaque(key: str, item: object) -> bool:
    """Return whether only software reads it: flags, numbers of progress, tokens, and words of the protocol."""
    if isinstance(item, str):
        return key in _SOFTWARES and _SOFTWARES[key].fullmatch(item) is not None
    return isinstance(item, (bool, float)) or (isinstance(item, int) and key in _COUNTS)


def shown_of(value: Json, own: Callable[[str, object], bool]) -> Json:
    """Return the part of an object that guards read: no tokens, and no keys of ``_meta`` that are the sender's own."""
    shown = {key: item for key, item in value.items() if not is_opaque(key, item)}
    meta = shown.get("_meta")
    if is_mapping(meta):
        shown["_meta"] = {key: item for key, item in meta.items() if not own(key, item)}
    return {key: item for key, item in shown.items() if key != "_meta" or item}


def merged(value: Json, left: Json, own: Callable[[str, object], bool]) -> Json:
    """Return an object with the guarded version of `shown_of`, and with the values that they did not read."""
    kept = {key: item for key, item in value.items() if is_opaque(key, item)}
    meta = value.get("_meta")
    unread = {key: item for key, item in meta.items() if own(key, item)} if is_mapping(meta) else {}
    made = {key: left[key] if key in left else kept[key] for key in value if key in left or key in kept}
    made |= {key: item for key, item in left.items() if key not in made}
    if unread:
        said = left.get("_meta")
        made["_meta"] = {**unread, **(said if is_mapping(said) else {})}
    return made


def as_object(value: Value) -> Json:
    """Return the guarded version, if it is an object.

    Raises:
        TypeError: a processor has put something else into its place.
    """
    if not is_mapping(value):
        raise TypeError(f"a processor left {type(value).__name__} in the place of an object")
    return value
