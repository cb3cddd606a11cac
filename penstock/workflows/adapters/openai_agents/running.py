"""`Running`: one run of the runner, with the request of its guards, and those of agents that run as tools in it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from penstock.workflows.adapters.openai_agents.items import Items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents import RunContextWrapper, TResponseInputItem

    from penstock.workflows.hosting import Host, HostRequest


class Guarding:
    """The request of one run of the SDK, and its items.

    Attributes:
        request: the request.
        items: its items, both ways.
    """

    def __init__(self, host: Host) -> None:
        self.request: HostRequest = host.open()
        self.items = Items()
        self._begun = False

    async def left(self, items: Sequence[TResponseInputItem]) -> list[Any]:
        """Return items that a session is about to keep as the guards left them.

        Raises:
            BlockedError: a guard stopped the run.
        """
        said = self.items.read(items)
        if not self._begun:
            self._begun = True
            await self.request.begin(said, whole=False)
            self.request.check()  # later, the SDK stores what stands in the place of a blocked result
        return list(self.items.left(said, self.request.current(said)))


class Running:
    """One run of the runner.

    Attributes:
        host: the processors.
        root: the guarding of the run itself; agents that are its tools have their own.
        tools: the guarding of each call of a tool, by the identity of its context, which is kept with it.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.root = Guarding(host)
        self.tools: dict[int, tuple[object, Guarding]] = {}
        self._of: dict[int, tuple[object, Guarding]] = {}  # with the context, which so keeps its id

    def of(self, context: RunContextWrapper[Any]) -> Guarding:
        """Return the guarding of a run, by its context. The first one asked for is the root's."""
        known = self._of.get(id(context))
        if known is None:
            known = self._of[id(context)] = (context, Guarding(self.host) if self._of else self.root)
        return known[1]

    async def close(self, error: BaseException | None = None) -> None:
        """Close all requests."""
        await self.root.request.close(error)
        for _, guarding in self._of.values():
            await guarding.request.close(error)


running_now: ContextVar[Running | None] = ContextVar("penstock_openai_agents_run", default=None)
guarding_now: ContextVar[Guarding | None] = ContextVar("penstock_openai_agents_request", default=None)
