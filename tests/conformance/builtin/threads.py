"""What families about a thread's memory share: the store of a row, whose thread it is about, and whose may be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio

from penstock.engine.values.errors import OptionError, StepFailedError
from penstock.engine.values.protocols import Storage
from penstock.engine.values.stored import Thread
from penstock.testing import InMemoryStorage
from tests.conformance.builtin.frame import Fields, Given
from tests.conformance.builtin.shapes import options_named, read


def context_of(given: Fields) -> dict[str, Any]:
    """Return the request context of a row."""
    said: Fields = given.get("context") or {}
    info: Fields = given.get("message_list_memory_info") or {}
    thread: Fields = said.get("thread") or {}
    config: Fields = said.get("config") or {}
    found: Fields = {
        "thread_id": thread.get("id") or info.get("threadId"),
        "resource_id": said.get("resource") or info.get("resourceId"),
        "read_only": config.get("readOnly"),
    }
    return {name: value for name, value in found.items() if value is not None}


def ran(played: Callable[[Given], Awaitable[Fields]], given: Given, options: Sequence[str]) -> Fields:
    """Return what came of a row, or the error: which of the options is wrong, or of which class it is."""
    try:
        return anyio.run(played, given)
    except OptionError as error:
        return {"error": options_named(str(error), options)}
    except StepFailedError as error:
        return {"error": type(error.__cause__).__name__}


async def store_of(given: Fields) -> Storage:
    """Return a store that holds the row's messages; a thread is the asker's, if any of its messages is.

    What a row has of others' in such a thread is left out: no store takes it.
    """
    storage = InMemoryStorage()
    asker = context_of(given).get("resource_id")
    messages = [message for message in read(given.get("stored") or []) if message.thread_id]
    owners: dict[str, str] = {}
    for message in messages:
        thread, owner = str(message.thread_id), str(message.resource_id or message.thread_id)
        owners[thread] = owner if owner == asker else owners.get(thread, owner)
    for thread, owner in owners.items():
        await storage.create_thread(Thread(thread, owner))
    await storage.save_messages([one for one in messages if one.resource_id in (None, owners[str(one.thread_id)])])
    return storage


def threads_of_others_are_refused(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A request that names another's thread fails: with an empty history it would go on as if nothing were there."""
    context: Fields = given.get("context") or {}
    asker, there = context.get("resource"), given.get("thread_exists")
    thread = (context.get("thread") or {}).get("id")
    rows = [row for row in given.get("stored") or [] if row.get("threadId") == thread]
    owners = {row.get("resourceId") or thread for row in rows}
    owners |= {expected["thread"]["resourceId"]} if there and expected.get("thread") else set()
    return {"error": "OwnershipError"} if thread and asker and owners and asker not in owners else None
