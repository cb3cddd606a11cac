"""Views of texts, such as their words or what codes in them say, made once for all guards of a stage.

A guard asks for ``view_of(text, make)``. While a stage runs (``with TextViews()``), the first that asks has the view
made, and the others get the same object. Views are found by the text itself, so guards share them whatever message,
part or window a text came from. They are forgotten when the stage ends, and no other request sees them.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token
    from typing import Self

V = TypeVar("V")

MOST = 1_000_000
"""Characters that may be remembered, each counted once a view; then the views made so far are forgotten."""

_MISSING = object()


class TextViews:
    """The views of one stage; enter it to share them. If two threads make one at once, either is kept."""

    __slots__ = ("_made", "_size", "_token")

    def __init__(self) -> None:
        self._made: dict[tuple[Callable[[str], object], str], object] = {}
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


_SHARED: ContextVar[TextViews | None] = ContextVar("penstock_text_views", default=None)


def view_of(text: str, make: Callable[[str], V]) -> V:
    """Return what a function returns of a text, from the views of the stage that runs, if one does."""
    views = _SHARED.get()
    return make(text) if views is None else views.view(text, make)
