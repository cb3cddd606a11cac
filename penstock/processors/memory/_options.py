"""Options that the memory processors share, and the thread and resource of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.processor.processor import ErrorPolicy, one_of
from penstock.engine.values.errors import OptionError, OwnershipError, UsageError
from penstock.engine.values.protocols import Storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.stored import Thread

KeepInput = Literal["accepted", "answered"]
"""When the input is stored.

- ``accepted``: as soon as its guards have let it pass, also if there is no answer
- ``answered``: only together with an accepted answer
"""

ReadOnly: TypeAlias = "bool | Callable[[dict[str, Value]], bool]"
"""Whether nothing is stored: a bool, or a function from the request context to a bool."""


def checked_storage(owner: str, given: object) -> Storage:
    """Return the option ``storage``.

    Raises:
        OptionError: it is not a `Storage`.
    """
    if not isinstance(given, Storage):
        raise OptionError(owner, "storage", type(given).__name__, "a store: an object with the methods of Storage")
    return given


def checked_policy(owner: str, given: object) -> ErrorPolicy:
    """Return the option ``on_error``.

    Raises:
        OptionError: it is not ``raise``, ``block`` or ``allow``.
    """
    return cast("ErrorPolicy", one_of(owner, "on_error", given, get_args(ErrorPolicy)))


def thread_id_of(ctx: AnyContext) -> str | None:
    """Return the id of the current thread; None if the caller has given none.

    Raises:
        UsageError: thread or resource id in the request context is not a str, or the resource id is empty.
    """
    checked_resource_id(ctx.resource_id)
    return checked_thread_id(ctx.thread_id)


def checked_thread_id(given: object) -> str | None:
    """Return the thread id of a request context. An empty one counts as none.

    Raises:
        UsageError: it is not a str.
    """
    if given is not None and not isinstance(given, str):
        raise UsageError(f"thread_id in the request context must be a str, not {type(given).__name__}")
    return given or None


def checked_resource_id(given: object) -> str | None:
    """Return the resource id of a request context.

    Raises:
        UsageError: it is not a str, or empty. An empty id, as of an unknown user, does not count as none: requests
            without a resource id may read any thread.
    """
    if given is not None and not isinstance(given, str):
        raise UsageError(f"resource_id in the request context must be a str, not {type(given).__name__}")
    if given == "":
        raise UsageError("resource_id in the request context is empty; leave it out if threads have no owner")
    return given


def check_owner(storage: Storage, thread: Thread | None, resource_id: str | None) -> Thread | None:
    """Return the thread, or None if there is none.

    Raises:
        OwnershipError: it belongs to another resource.
    """
    if thread is not None and resource_id is not None and thread.resource_id != resource_id:
        raise OwnershipError(
            type(storage).__name__,
            "the thread belongs to another resource; pass its own resource_id, or another thread_id",
        )
    return thread


def checked_read_only(owner: str, given: ReadOnly) -> ReadOnly:
    """Return the option ``read_only``.

    Raises:
        OptionError: it is neither a bool nor a function.
    """
    if not isinstance(given, bool) and not callable(cast("object", given)):
        raise OptionError(owner, "read_only", given, "True, False, or a function of the request context")
    return given
