"""`GuardedSession`: a session of the SDK that keeps what the guards left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.workflows.adapters.openai_agents.running import cleaned
from penstock.workflows.adapters.openai_agents.verdicts import raised_here

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import Session

    from penstock.workflows.adapters.openai_agents.running import Guarding


class GuardedSession:
    """A session in one run. All but `add_items` is the session's own.

    Attributes:
        session_id: the id of the session.
        session_settings: its settings.
    """

    def __init__(self, inner: Session, guarding: Guarding) -> None:
        self._inner = inner
        self._guarding = guarding
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)

    def __getattr__(self, name: str) -> Any:
        """Return what the session has beyond the protocol."""
        return getattr(self._inner, name)

    async def get_items(self, *args: Any, **kwargs: Any) -> list[TResponseInputItem]:
        """Return the items of the session."""
        return await self._inner.get_items(*args, **kwargs)

    async def add_items(self, items: list[TResponseInputItem], **kwargs: Any) -> None:
        """Keep items as the guards left them.

        Raises:
            BlockedError: a guard stopped the run; nothing is kept.
        """
        with raised_here(), cleaned():
            left = await self._guarding.left(items)
        await self._inner.add_items(left, **kwargs)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the last item."""
        return await self._inner.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._inner.clear_session()
