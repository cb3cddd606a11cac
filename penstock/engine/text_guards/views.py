"""Views of texts, such as their words or what codes in them say, made once for all guards of a stage.

A guard asks for ``view_of(text, make)``. While a stage runs (``with TextViews()``), the first that asks has the view
made, and the others get the same object. Views are found by the text itself, so guards share them whatever message,
part or window a text came from. Views of messages and values (``view_of_value``) are found by their identity. All are
forgotten when the stage ends, and no other request sees them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from typing import Self

T = TypeVar("T")
V = TypeVar("V")

MOST = 1_000_000
"""Characters that may be remembered, each counted once a view; then the views made so far are forgotten."""

_MISSING = object()


class TextViews:
    """The views of one stage; enter it to share them. If two threads make one at once, either is kept."""

    __slots__ = ("_made", "_size", "_token")

    def __init__(self) -> None:
        self._made: dict[tuple[object, object], object] = {}
        self._size = 0
        self._token: Token[TextViews | None] | None = None

    def view(self, text: str, make: Callable[[str], V]) -> V:
        """Return what ``make`` returns of a text. Do not change it: others get the same object."""
        key = (make, text)
        found = self._made.get(key, _MISSING)
        if found is not _MISSING:
            return cast("V", found)
        made = make(text)
        if self._size + len(text) > MOST:
            self.forget()
        if len(text) <= MOST:
            self._made[key] = made
            self._size += len(text)
        return made

    def view_of_value(self, value: T, make: Callable[[T], V]) -> V:
        """Return the view that ``make`` makes of a message or a value, which must not change while the stage runs."""
        key = (make, _Same(value))
        found = self._made.get(key, _MISSING)
        if found is _MISSING:
            found = self._made[key] = make(value)
        return cast("V", found)

    def forget(self) -> None:
        """Forget all views."""
        self._made, self._size = {}, 0

    def __enter__(self) -> Self:
        """Share the views from here on."""
        self._token = _SHARED.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End the sharing, and forget the views."""
        if self._token is not None:
            try:  # noqa: SIM105 - each stage comes by here, and suppress() costs as much as all the rest
                _SHARED.reset(self._token)
            except ValueError:  # a stage that nobody awaited to its end is closed in another context
                pass
        if self._made:
            self.forget()


class _Same:
    """A value as a key that only itself equals."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value


_SHARED: ContextVar[TextViews | None] = ContextVar("penstock_text_views", default=None)


def view_of(text: str, make: Callable[[str], V]) -> V:
    """Return what a function returns of a text, from the views of the stage that runs, if one does."""
    views = _SHARED.get()
    return make(text) if views is None else views.view(text, make)


def view_of_value(value: T, make: Callable[[T], V]) -> V:
    """Return the view that a function makes of a message or a value, from those of the stage that runs, if one does."""
    views = _SHARED.get()
    return make(value) if views is None else views.view_of_value(value, make)
