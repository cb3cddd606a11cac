"""Checks of the arguments of every store, and cursors: the opaque texts by which pages continue."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, get_args

from penstock.engine.values.errors import MessageError, OptionError, OwnershipError, UsageError
from penstock.engine.values.frozen import Value, is_items
from penstock.engine.values.stored import MemoryScope, RunStatus
from penstock.stores.encoding import write_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message
    from penstock.engine.values.stored import StoredRun


def cursor(kind: str, *place: str | int) -> str:
    """Return the text of a place in a list.

    Args:
        kind: names the list and its order.
        place: the values that identify the place.
    """
    written = json.dumps([kind, *place], separators=(",", ":"))
    return urlsafe_b64encode(written.encode()).decode().rstrip("=")


def place(kind: str, text: str, *types: type[str | int]) -> list[Value]:
    """Return the place that a cursor stands for.

    Args:
        kind: the list that the cursor must be of.
        text: the cursor.
        types: the types of the place's values.

    Raises:
        UsageError: the text is not such a cursor.
    """
    try:
        found: Value = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError, RecursionError):
        found = None
    if not is_items(found) or [type(item) for item in found] != [str, *types] or found[0] != kind:
        raise UsageError(
            "that is not a cursor of this list: pass the `following` of a page that was read in the same order"
        )
    return list(found[1:])


_SHORTEST_PERIOD, _LONGEST_PERIOD = 0.001, 366 * 86_400.0


def check_rate(owner: str, requests: int, per: float) -> None:
    """Check a limit of requests.

    Raises:
        OptionError: a figure is not allowed.
    """
    if type(requests) is not int or requests < 1:
        raise OptionError(owner, "requests", requests, "an int, 1 or more")
    _check_period(owner, "per", per)


def check_breaker(owner: str, failures: int, within: float, pause: float) -> None:
    """Check the options of a circuit breaker.

    Raises:
        OptionError: a figure is not allowed.
    """
    if type(failures) is not int or failures < 1:
        raise OptionError(owner, "failures", failures, "an int, 1 or more")
    _check_period(owner, "within", within)
    _check_period(owner, "pause", pause)


def _check_period(owner: str, option: str, given: object) -> None:
    if isinstance(given, bool) or not (
        isinstance(given, (int, float)) and _SHORTEST_PERIOD <= given <= _LONGEST_PERIOD
    ):
        raise OptionError(owner, option, given, "a number of seconds from 0.001 on, at most 366 days")


class _HiddenValue:
    """Stands for a value that must not be shown."""

    def __repr__(self) -> str:
        return "a text that is not shown (it may hold a password)"


HIDDEN = _HiddenValue()
"""What errors show in place of an address."""

_FOREVER = 1_000_000


def check_connections(owner: str, max_connections: int, timeout: object, retry_for: object) -> None:
    """Check the limits of connections to a server.

    Raises:
        OptionError: one of them is not allowed.
    """
    if type(max_connections) is not int or max_connections < 1:
        raise OptionError(owner, "max_connections", max_connections, "an int, 1 or more")
    for option, value, least in (("timeout", timeout, 0.001), ("retry_for", retry_for, 0.0)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < _FOREVER:
            raise OptionError(owner, option, value, f"a number of seconds, {least:g} or more and below {_FOREVER:,}")


MOST_OF_A_PAGE = 10_000
"""The most items of a page."""

SCOPES: tuple[str, ...] = get_args(MemoryScope)

STATUSES: tuple[str, ...] = get_args(RunStatus)

_LAST_VERSION = 2**63 - 1
"""The largest version that every store can keep."""


def check_limit(limit: int, name: str = "limit", least: int = 1) -> None:
    """Check a number of items.

    Raises:
        UsageError: it is not an int from ``least`` to `MOST_OF_A_PAGE`.
    """
    if type(limit) is not int or not least <= limit <= MOST_OF_A_PAGE:
        raise UsageError(f"{name} is {limit!r}, but must be an int, {least} to {MOST_OF_A_PAGE:,}")


def check_version(expected: int | None) -> None:
    """Check an expected version.

    Raises:
        UsageError: it is neither None nor an int of 0 or more.
    """
    if expected is not None and (type(expected) is not int or expected < 0):
        raise UsageError(f"expected is {expected!r}, but must be a version (an int of 0 or more) or None")


def check_scope(scope: str) -> None:
    """Check a scope of working memory.

    Raises:
        UsageError: it is not one of `SCOPES`.
    """
    if scope not in SCOPES:
        raise UsageError(f"scope is {scope!r}, but must be one of {', '.join(SCOPES)}")


def check_name(name: object, what: str) -> None:
    """Check a name or an id.

    Raises:
        UsageError: it is not a str, or empty. The message does not quote it.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"{what} must be a non-empty str")


def check_runs(status: str | None, limit: int) -> None:
    """Check the request for a page of runs.

    Raises:
        UsageError: the status is neither None nor one of `STATUSES`, or the limit is not allowed; see `check_limit`.
    """
    check_limit(limit)
    if status is not None:
        _check_status(status)


def _check_status(status: str) -> None:
    if status not in STATUSES:
        raise UsageError(f"status is {status!r}, but must be one of {', '.join(STATUSES)}")


def check_run(run: StoredRun) -> None:
    """Check the fields of a run that is to be stored, but not its body.

    Raises:
        UsageError: a name or an id is empty, or the status, the version or the time is not allowed.
    """
    check_name(run.id, "the id of a run")
    check_name(run.agent, "the agent of a run")
    for given, what in ((run.thread_id, "the thread of a run"), (run.resource_id, "the resource of a run")):
        if given is not None:
            check_name(given, f"{what}, if it is not None,")
    _check_status(run.status)
    if type(run.version) is not int or not 0 <= run.version < _LAST_VERSION:
        raise UsageError(f"the version of a run is {run.version!r}, but must be the one that was read, or 0")
    try:
        if run.due_at is not None:
            write_time(run.due_at)
    except OverflowError:
        raise UsageError("the due_at of a run is not in the years 1 to 9999 of UTC") from None


def owners(messages: Sequence[Message], store: str) -> dict[str, str | None]:
    """Return the threads of messages that are to be stored, each with the resource that its messages name, or None.

    Raises:
        MessageError: a message has no id or no thread, or an empty resource.
        OwnershipError: messages of one thread name different resources, or messages of different threads have one id.
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
            raise OwnershipError(store, "messages of one thread name different resources; nothing was stored")
    return found


def _thread_of(message: Message, place: str) -> str:
    if not message.id:
        raise MessageError(f"{place}.id", "a message needs an id to be stored; messages in a `MessageList` have one")
    if not message.thread_id:
        raise MessageError(f"{place}.thread_id", "a message needs a thread_id to be stored")
    if message.resource_id == "":
        raise MessageError(f"{place}.resource_id", "it must not be empty; None stands for no owner")
    if "\0" in message.id or "\0" in message.thread_id:
        raise MessageError(place, "an id holds the character 0, which stores cannot keep")
    return message.thread_id
