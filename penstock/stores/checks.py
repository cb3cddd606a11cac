"""What every store checks of what its callers give, before it asks its database; it knows no database."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, get_args

from penstock.engine.values.errors import MessageError, OwnershipError, UsageError
from penstock.engine.values.frozen import Value, is_items
from penstock.engine.values.stored import MemoryScope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message


def cursor(kind: str, *place: str | int) -> str:
    """Return the text for a place in a list of that kind."""
    written = json.dumps([kind, *place], separators=(",", ":"))
    return urlsafe_b64encode(written.encode()).decode().rstrip("=")


def place(kind: str, text: str, *types: type[str | int]) -> list[Value]:
    """Return the place that `cursor` was given for such a list; ``types``: what it consists of.

    Raises:
        UsageError: the text is no such place.
    """
    try:
        found: Value = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError):
        found = None
    if not is_items(found) or [type(item) for item in found] != [str, *types] or found[0] != kind:
        raise UsageError("that is no place to go on from here: give a page's `following`, and ask in the same order")
    return list(found[1:])


MOST_OF_A_PAGE = 10_000
"""How many items a page has at most."""

SCOPES: tuple[str, ...] = get_args(MemoryScope)


def check_limit(limit: int, name: str = "limit", least: int = 1) -> None:
    """Refuse a number of items that cannot be.

    Raises:
        UsageError: it is no int, less than ``least``, or more than `MOST_OF_A_PAGE`.
    """
    if type(limit) is not int or not least <= limit <= MOST_OF_A_PAGE:
        raise UsageError(f"{name} is {limit!r}, but must be an int, {least} to {MOST_OF_A_PAGE:,}")


def check_version(expected: int | None) -> None:
    """Refuse a version that cannot be.

    Raises:
        UsageError: it is neither None nor an int of 0 or more.
    """
    if expected is not None and (type(expected) is not int or expected < 0):
        raise UsageError(f"expected is {expected!r}, but must be a version, an int of 0 or more, or None")


def check_scope(scope: str) -> None:
    """Refuse a scope that there is not.

    Raises:
        UsageError: it is none of `SCOPES`.
    """
    if scope not in SCOPES:
        raise UsageError(f"scope is {scope!r}, but must be one of {', '.join(SCOPES)}")


def check_name(name: object, what: str) -> None:
    """Refuse what cannot name anything.

    Raises:
        UsageError: it is no str, or empty. The message does not quote it.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"{what} must be a str that is not empty")


def owners(messages: Sequence[Message], store: str) -> dict[str, str | None]:
    """Return the threads of messages that are to be stored together, each with the resource that they say is theirs.

    Raises:
        MessageError: one has no id or no thread.
        OwnershipError: two of one thread are of different resources, or two of different threads have one id.
    """
    found: dict[str, str | None] = {}
    threads: dict[str, str] = {}
    for index, message in enumerate(messages):
        thread = _thread_of(message, f"messages[{index}]")
        if threads.setdefault(message.id, thread) != thread:
            raise OwnershipError(store, "messages of different threads have one id; nothing was stored")
        owner = found.setdefault(thread, message.resource_id)
        if owner is None:
            found[thread] = message.resource_id
        elif message.resource_id not in {None, owner}:
            raise OwnershipError(store, "messages of one thread are of different resources; nothing was stored")
    return found


def _thread_of(message: Message, place: str) -> str:
    if not message.id:
        raise MessageError(f"{place}.id", "a message that is stored needs an id; one in a `MessageList` has one")
    if not message.thread_id:
        raise MessageError(f"{place}.thread_id", "a message that is stored needs a thread")
    if "\0" in message.id or "\0" in message.thread_id:
        raise MessageError(place, "an id holds the character 0, which stores have no place for")
    return message.thread_id
