"""`ToolSearchProcessor`: many tools, of which a model sees those that it asked for. It knows no agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_items
from penstock.engine.values.ports import SYSTEM_CLOCK
from penstock.processors.discovery.loaded import Loads
from penstock.processors.discovery.notices import with_notices
from penstock.processors.discovery.options import count, function, score
from penstock.processors.discovery.shadowing import Shadowing
from penstock.processors.discovery.tool_access import asking
from penstock.processors.discovery.tool_catalogue import Catalogue
from penstock.processors.discovery.tool_desk import LOAD, SEARCH, ToolDesk, Ways
from penstock.tools.tool_sets import as_tools

if TYPE_CHECKING:
    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.ports import Clock
    from penstock.processors.discovery.loaded import Names, Storage
    from penstock.processors.discovery.tool_access import ToolFilter
    from penstock.tools.tool_sets import Tools

_WORDS = ("auto", "none", "required")


@dataclass
class ToolSearchState:
    """What one request knows: its desk, and what it has loaded itself."""

    desk: ToolDesk | None = None
    own: Names = field(default_factory=dict[str, None])


class ToolSearchProcessor(Processor[ToolSearchState]):
    """Hides tools until the model has searched for them and loaded them.

    The model is given two tools, ``search_tools`` and ``load_tool``. What it loads it is offered from the next step on,
    for as long as its thread is remembered.

    It fails open, as it only brings tools; with a ``filter`` over the request's own tools it fails closed.
    """

    id = "tool-search"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(
        self,
        tools: Tools | None = None,
        *,
        include_resolved_tools: bool = False,
        inject_catalog: bool = False,
        top_k: int = 5,
        min_score: float = 0.0,
        auto_load: bool = False,
        storage: Storage = "in-memory",
        ttl: float | None = 3600.0,
        max_threads: int = 10_000,
        filter: ToolFilter | None = None,  # noqa: A002 - the reference's name, and the plain one
        clock: Clock = SYSTEM_CLOCK,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            tools: the tools that can be found: functions and Tools, in a row or by name. Where the request has one of
                the same name, the request's counts.
            include_resolved_tools: the request's own tools are hidden, too, and can be found. One that ``tool_choice``
                names stays.
            inject_catalog: list all tools in the system prompt, each with the beginning of its description.
            top_k: how many tools a search finds at most.
            min_score: what has this score or less is not found. Scores begin at 0, have no upper end, and depend on
                the other tools: see `penstock.processors.discovery.ranking`.
            auto_load: what is found is loaded at once; there is no ``load_tool``.
            storage: where it is kept what was loaded. ``in-memory``: in this process, by ``resource_id`` and
                ``thread_id``; without a thread, by request. ``context``: in the results that the conversation holds.
            ttl: for how many seconds a thread is remembered that nobody asks for; None: for ever.
            max_threads: how many threads are remembered, those of late.
            filter: is asked before a tool is shown, loaded, and offered: see `ToolAccess`. Only True allows.
            clock: by what time passes.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed; or no tools at all can be meant to be found.
        """
        owner = type(self).__name__
        if id is not None:
            self.id = id
        self.include_resolved_tools = flag(owner, "include_resolved_tools", include_resolved_tools)
        if tools is None and not include_resolved_tools:
            raise OptionError(owner, "tools", tools, "tools, where include_resolved_tools=True does not hide others")
        self._tools = as_tools(tools, owner)
        _check_names(owner, self._tools)
        self.inject_catalog = flag(owner, "inject_catalog", inject_catalog)
        self.top_k = count(owner, "top_k", top_k)
        self.min_score = score(owner, "min_score", min_score)
        self.auto_load = flag(owner, "auto_load", auto_load)
        self.filter: ToolFilter | None = function(owner, "filter", filter)
        kept = Loads(owner, storage=storage, ttl=ttl, max_threads=max_threads, clock=clock)
        self.storage, self.ttl, self.max_threads = kept.storage, kept.ttl, kept.max_threads
        self._loads = kept
        self._catalogue = Catalogue(self._tools)
        self._shadowing = Shadowing()
        if self.include_resolved_tools and filter is not None:
            self.on_error = "block"

    def new_state(self) -> ToolSearchState:
        """Return the state of a request."""
        return ToolSearchState()

    async def process_input_step(self, ctx: InputStepContext[ToolSearchState]) -> Overrides | None:
        """Offer the tools to search by, and those that were loaded."""
        given: Values = ctx.tools or EMPTY
        hidden = self._hidden(ctx, given)
        catalogue = Catalogue({**self._tools, **hidden}) if hidden else self._catalogue
        if not catalogue:
            return None
        desk = await self._desk(ctx, catalogue)
        shown = {name: tool for name, tool in given.items() if name not in hidden}
        self._shadowing.warn(self.id, desk.tools, shown)
        loaded = {name: tool for name, tool in (await desk.active()).items() if name not in shown}
        ctx.note(hidden=len(catalogue.tools) - len(loaded), loaded=len(loaded))
        return Overrides(
            tools={**desk.tools, **{name: tool for name, tool in shown.items() if name not in desk.tools}, **loaded},
            active_tools=_active(ctx.active_tools, (*desk.tools, *loaded), hidden),
            messages=with_notices(ctx, await self._notices(desk)),
        )

    def _hidden(self, ctx: InputStepContext[ToolSearchState], given: Values) -> Values:
        """Return those of the request's own tools that the model is to search for: of those on offer, and no others."""
        if not self.include_resolved_tools:
            return EMPTY
        chosen, active = _chosen(ctx.tool_choice), ctx.active_tools
        return {
            name: tool
            for name, tool in given.items()
            if name not in (SEARCH, LOAD) and name not in chosen and (active is None or name in active)
        }

    async def _desk(self, ctx: InputStepContext[ToolSearchState], catalogue: Catalogue) -> ToolDesk:
        state = ctx.state
        loaded = self._loads.of(ctx, state.own, {SEARCH, LOAD})
        if state.desk is None:
            ways = Ways(self.top_k, self.min_score, self.auto_load)
            state.desk = ToolDesk(ways, asking(self.filter, ctx.request_context), catalogue, loaded)
        state.desk.catalogue, state.desk.loaded = catalogue, loaded
        if self.storage == "context":
            await state.desk.keep(loaded)
        return state.desk

    async def _notices(self, desk: ToolDesk) -> list[str]:
        if not self.inject_catalog:
            return [_notice(loads=self.auto_load)]
        return [_notice(loads=self.auto_load), f"Tools that can be found:\n{await desk.listed()}"]


def _notice(*, loads: bool) -> str:
    then = "what it finds you can call from your next turn on" if loads else f"load what you need by {LOAD}"
    return f"More tools exist than are shown to you. Where none of yours will do, look for one by {SEARCH}; {then}."


def _check_names(owner: str, tools: Values) -> None:
    for name in (SEARCH, LOAD):
        if name in tools:
            raise OptionError(
                owner, "tools", name, f"tools of other names than {SEARCH} and {LOAD}, which it brings itself"
            )


def _chosen(choice: Value) -> tuple[str, ...]:
    """Return the names of the tools of which one must be called."""
    if isinstance(choice, str):
        return () if choice in _WORDS else (choice,)
    return tuple(choice) if is_items(choice) else ()


def _active(active: tuple[str, ...] | None, ours: tuple[str, ...], hidden: Values) -> list[str] | None:
    """Return the names on offer, if the request has a list of them, with ours and without those that are hidden."""
    if active is None:
        return None
    return list(dict.fromkeys((*ours, *(name for name in active if name not in hidden or name in ours))))
