"""`CleanTexts`: the table of hashes of texts that one guard found clean, and whether it is still that of the guard.

A table belongs to one guard as it was when the table was made: its attributes, those of its search and its action, the
contents of lists, dicts and sets among them, and the code of their classes. If any of it changes, the guard begins with
an empty table.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from copy import copy
from operator import is_
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from penstock.engine.values.frozen import FrozenDict, is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.text_guards.components import Action, Search

Left: TypeAlias = "tuple[object, ...]"
"""Scores and the like that clean texts leave for the record of whoever comes upon them again; see `Search.left`."""

salt: bytes = os.urandom(16)
"""The key of all hashes; a test may set another before the first text is judged."""

_ENTRY = 200  # bytes that an entry takes at most, without what it leaves: the hash, and its share of the dict


class Guard(Protocol):
    """The part of a `TextGuard` that its table depends on."""

    search: Search
    action: Action
    judges_alone: bool
    judges_by_text: bool
    known_bytes: int


class CleanTexts:
    """The hashes of texts that one guard found clean, in a number of bytes. Those that were not used for long go first.

    Attributes:
        most: how many bytes it may take.
        is_used: whether the guard judges by text: as its class says, and with methods and components of such classes.
    """

    __slots__ = (
        "_classes",
        "_copies",
        "_lock",
        "_old",
        "_old_size",
        "_owner",
        "_salt",
        "_size",
        "_young",
        "is_used",
        "most",
    )

    def __init__(self, guard: Guard) -> None:
        self.most = guard.known_bytes
        self.is_used = judges_by_text(guard)
        number = id(guard)
        self._owner = weakref.ref(guard, lambda _: tables.pop(number, None))
        self._salt = salt
        self._classes = list(map(vars, _classes_of(guard)))
        self._copies = [_copied(dict(attributes)) for attributes in self._attributes_of(guard)]
        self._lock = threading.Lock()
        self._young: dict[bytes, Left] = {}
        self._old: dict[bytes, Left] = {}
        self._size = self._old_size = 0

    def _attributes_of(self, guard: Guard) -> list[Mapping[str, object]]:
        return [vars(guard), vars(guard.search), vars(guard.action), *self._classes]

    def is_of(self, guard: Guard) -> bool:
        """Return whether the table is that of a guard, and the guard is as it was when the table was made.

        An attribute may be replaced by an equal one only behind the back of `TextGuard.__setattr__`, which drops the
        table; so it is enough to compare, and identical attributes compare fast.
        """
        same = self._owner() is guard and self._salt is salt and self.most == guard.known_bytes
        return same and self._attributes_of(guard) == self._copies

    def size(self) -> int:
        """Return how many bytes it takes at most."""
        return self._size + self._old_size

    def get(self, key: bytes) -> Left | None:
        """Return the scores and the like that a clean text left for the record; None if it is not known."""
        left = self._young.get(key)
        if left is None and (left := self._old.get(key)) is not None:
            self.add(key, left)
        return left

    def add(self, key: bytes, left: Left) -> None:
        """Add a clean text."""
        size = _ENTRY + (sum(map(_size_of, left)) if left else 0)
        with self._lock:
            if size > self.most // 2 or key in self._young:
                return
            if self._size + size > self.most // 2:
                self._old, self._young, self._old_size, self._size = self._young, {}, self._size, 0
            self._young[key] = left
            self._size += size


def _size_of(left: object) -> int:
    inner = left.items() if is_mapping(left) else left if is_items(left) else ()
    return sys.getsizeof(left) + 24 + sum(map(sys.getsizeof, inner)) * 2


# What a guard goes by


def judges_by_text(guard: Guard) -> bool:
    """Return whether a guard judges by text and place alone, as far as can be seen.

    Its class must say so; no method may be set on the guard or on a component itself; the components must be ours, or
    whoever wrote them has said it of the guard; and no attribute may be where changes are not seen, in slots.
    """
    if not (guard.judges_alone and guard.judges_by_text):
        return False
    parts = (guard, guard.search, guard.action)
    said_by = next(one for one in type(guard).__mro__ if "judges_alone" in vars(one))
    return (
        all(_fits(said_by, type(part)) for part in parts[1:])
        and not any(callable(getattr(type(part), name, None)) for part in parts for name in vars(part))
        and not any(vars(one).get("__slots__") for one in _classes_of(guard))
    )


def _fits(said_by: type, component: type) -> bool:
    return not said_by.__module__.startswith("penstock.") or component.__module__.startswith("penstock.")


def _classes_of(guard: Guard) -> Iterator[type]:
    """Yield the classes of a guard and of its components, without those of the engine and the standard library's."""
    for part in (guard, guard.search, guard.action):
        yield from (one for one in type(part).__mro__ if not one.__module__.startswith(_CONSTANT))


_CONSTANT = ("penstock.engine.", "builtins", "typing", "abc")


def _copied(value: object) -> object:
    """Return a value with copies of the lists, dicts and sets in it; the same object if there are none."""
    kind = type(value)
    if kind is dict:
        return {key: _copied(item) for key, item in cast("dict[object, object]", value).items()}
    if kind is list:
        return [_copied(item) for item in cast("list[object]", value)]
    if kind is tuple:
        items = cast("tuple[object, ...]", value)
        made = tuple(map(_copied, items))
        return items if all(map(is_, items, made)) else made
    return copy(value) if issubclass(kind, _GROWING) and kind is not FrozenDict else value


_GROWING = (dict, list, set, deque, bytearray)


# The tables of this process

tables: dict[int, CleanTexts] = {}  # by the id of the guard
_making = threading.Lock()


def _begin_anew() -> None:
    """Forget all tables: in a child process, a thread that does not exist there may have held their locks."""
    global _making  # noqa: PLW0603 - the lock of this process
    _making = threading.Lock()
    tables.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def table_of(guard: Guard) -> CleanTexts:
    """Return the table of a guard; an empty one if anything on the guard has changed since its last one was made."""
    table = tables.get(id(guard))
    if table is None or not table.is_of(guard):
        with _making:
            table = tables.get(id(guard))
            if table is None or not table.is_of(guard):
                table = tables[id(guard)] = CleanTexts(guard)
    return table


def forget(guard: object) -> None:
    """Drop the table of a guard, on which something is set."""
    tables.pop(id(guard), None)
