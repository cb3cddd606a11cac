"""`GuardedSession`: a session of the SDK that keeps the guarded version."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.openai_agents.running import cleaned
from penstock.workflows.adapters.openai_agents.verdicts import raised_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents import RunContextWrapper, TResponseInputItem
    from agents.memory import Session

    from penstock.formats.wire import Json
    from penstock.workflows.adapters.openai_agents.running import Guarding


class GuardedSession:
    """A session in one run. All but `add_items` is the session's own.

    Attributes:
        session_id: the id of the session.
        session_settings: its settings.

    Raises:
        UsageError: the provider would shorten the session from its own copy of the answers.
    """

    def __init__(self, inner: Session, guarding: Guarding) -> None:
        if callable(getattr(inner, "run_compaction", None)) and getattr(inner, "compaction_mode", None) != "input":
            raise UsageError(
                f"openai_agents.as_runner cannot guard {type(inner).__name__} unless its compaction_mode is 'input': "
                "the provider would shorten its own copy of the answers, which holds what guards have removed"
            )
        self._inner = inner
        self._guarding = guarding
        self._takes_context = all(_takes_context(getattr(inner, name)) for name in _METHODS)
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the session beyond the protocol."""
        return getattr(self._inner, name)

    def _with(self, wrapper: RunContextWrapper | None) -> Json:
        """Return the context of the run as an argument, for sessions that take it; the SDK does the same."""
        return {"wrapper": wrapper} if wrapper is not None and self._takes_context else {}

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper | None = None
    ) -> list[TResponseInputItem]:
        """Return the items of the session."""
        limited: Json = {} if limit is None else {"limit": limit}
        return await self._inner.get_items(**limited, **self._with(wrapper))

    async def add_items(self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper | None = None) -> None:
        """Keep items as the guards left them.

        Raises:
            BlockedError: a guard stopped the run; nothing is kept.
        """
        with raised_here(), cleaned():
            left = await self._guarding.left(items)
        await self._inner.add_items(left, **self._with(wrapper))

    async def pop_item(self, *, wrapper: RunContextWrapper | None = None) -> TResponseInputItem | None:
        """Remove and return the last item."""
        return await self._inner.pop_item(**self._with(wrapper))

    async def clear_session(self, *, wrapper: RunContextWrapper | None = None) -> None:
        """Remove all items."""
        await self._inner.clear_session(**self._with(wrapper))


_METHODS = ("get_items", "add_items", "pop_item", "clear_session")


def _takes_context(method: Callable[..., object]) -> bool:
    """Return whether a method of a session takes the context of the run."""
    return "wrapper" in inspect.signature(method).parameters
