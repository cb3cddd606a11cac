"""Options that processors of a memory have in common; it knows no processor."""

from __future__ import annotations

from typing import cast, get_args

from penstock.engine.processor.processor import ErrorPolicy, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.ports import Storage


def checked_storage(owner: str, given: object) -> Storage:
    """Return the option if it is a store.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(given, Storage):
        raise OptionError(owner, "storage", type(given).__name__, "a store: something with the methods of Storage")
    return given


def checked_policy(owner: str, given: object) -> ErrorPolicy:
    """Return the option if it is what an error may mean.

    Raises:
        OptionError: it is not.
    """
    return cast("ErrorPolicy", one_of(owner, "on_error", given, get_args(ErrorPolicy)))
