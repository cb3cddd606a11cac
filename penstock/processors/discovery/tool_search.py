"""`ToolSearchProcessor`: hide tools until the model has searched for them; with the filter for access to tools."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_items
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.processors.discovery.loaded_names import LOADED, LoadedNames
from penstock.processors.discovery.option_checks import (
    NameConflicts,
    checked_function,
    one_line,
    with_notices,
)
from penstock.processors.discovery.ranking import ranked_texts, similar_names
from penstock.tools.tool import Tool, as_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Clock
    from penstock.engine.values.shared import NameStore
    from penstock.processors.discovery.loaded_names import NameSet, Storage
    from penstock.tools.tool import Tools


ToolPhase = Literal["search", "load", "active"]
"""The use of a tool that a filter decides about: show it as a search result, load it, offer it to the model."""

_LOG = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class ToolAccess:
    """The argument of a `ToolFilter`: a tool, and the planned use of it.

    Attributes:
        tool_name: the name of the tool.
        tool: the tool.
        request_context: the caller's mapping for the request.
        phase: ``search`` shows it as a search result, ``load`` loads it, ``active`` offers it to the model.
    """

    tool_name: str
    tool: Value
    request_context: dict[str, Value]
    phase: ToolPhase


ToolFilter: TypeAlias = Callable[[ToolAccess], bool | Awaitable[bool]]
"""A function (sync or async) that allows a use of a tool; only True allows it."""

AccessCheck: TypeAlias = "Callable[[ToolPhase, str, Value], Awaitable[bool]]"
"""Tells whether the current request may use a tool: from phase, name and tool."""


def access_check(ask: ToolFilter | None, request_context: dict[str, Value]) -> AccessCheck:
    """Return a function that calls a filter for one request. If the filter raises, access is denied and logged."""

    async def is_allowed(phase: ToolPhase, name: str, tool: Value) -> bool:
        if ask is None:
            return True
        try:
            answer = ask(ToolAccess(name, tool, request_context, phase))
            return (await answer if inspect.isawaitable(answer) else answer) is True
        except Exception as error:  # noqa: BLE001 - any failure denies access
            _LOG.warning("the filter failed, so the tool %r is denied (%s): %s", name, phase, type(error).__name__)
            return False

    return is_allowed


def description_of(tool: Value) -> str:
    """Return the description of a tool; empty if it has none."""
    text = getattr(tool, "description", "")
    return text if isinstance(text, str) else ""


class ToolCatalogue:
    """Tools by name, prepared for search. Immutable."""

    __slots__ = ("tools",)

    def __init__(self, tools: Values) -> None:
        self.tools = tools

    async def search(self, query: str) -> list[tuple[str, float]]:
        """Return the names that match a query, with their scores, the best first."""
        names = list(self.tools)
        hits = await ranked_texts(query, [(name, description_of(tool)) for name, tool in self.tools.items()])
        return [(names[hit.place], hit.score) for hit in hits]

    def short(self, name: str) -> str:
        """Return the beginning of a tool's description, on one line."""
        return one_line(description_of(self.tools[name]))

    def line(self, name: str) -> str:
        """Return the line of a tool for a list."""
        return f"- `{name}`: {self.short(name)}".removesuffix(": ")

    def __bool__(self) -> bool:
        """Tell whether there are any tools."""
        return bool(self.tools)


SEARCH = "search_tools"
LOAD = "load_tool"

_MOST_SUGGESTED = 5  # names for which similar ones are searched: 20 ms each among a thousand tools

_ONE = {"type": "string", "description": "The name of a tool, exactly as search_tools gave it."}
_QUERY: Values = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Words that name the tool or say what it does."}},
    "required": ["query"],
    "additionalProperties": False,
}
_WANTED: Values = {
    "type": "object",
    "properties": {
        "tool_name": _ONE,
        "tool_names": {"type": "array", "items": {"type": "string"}, "description": "Names of several tools."},
    },
    "additionalProperties": False,
}


class ToolSearchOptions(NamedTuple):
    """The options of searches; see `ToolSearchProcessor`."""

    top_k: int
    min_score: float
    auto_load: bool


class ToolSearchSession:
    """The search session of one request: runs the tools that search and load tools.

    Attributes:
        catalogue: the tools that can be found in the current step.
        loaded: the names of the loaded tools, in the order in which they were loaded.
        tools: the tools for the model, by name.
        save: stores names where other processes find them.
    """

    __slots__ = ("_allowed", "_options", "catalogue", "loaded", "save", "tools")

    def __init__(
        self, options: ToolSearchOptions, allowed: AccessCheck, catalogue: ToolCatalogue, loaded: NameSet
    ) -> None:
        self._options = options
        self._allowed = allowed
        self.catalogue = catalogue
        self.loaded = loaded
        self.save: Callable[[list[str]], Awaitable[None]] | None = None
        made = [_search_tool(self, loads=options.auto_load)]
        if not options.auto_load:
            made.append(_load_tool(self))
        self.tools = {tool.name: tool for tool in made}

    async def search(self, query: str) -> dict[str, Value]:
        """Return the tools that match a query; with ``auto_load``, load them."""
        hits = [hit async for hit in self._hits(query)]
        result = [
            {"name": name, "description": self.catalogue.short(name), "score": round(score, 2)} for name, score in hits
        ]
        if not result:
            return {"results": result, "message": "No tool was found. Try other words."}
        if not self._options.auto_load:
            return {"results": result, "message": f"{_tools(result)} found. Call {LOAD} with their names to use them."}
        loaded = [name for name, _ in hits if await self._may("load", name)]
        self.loaded.update(dict.fromkeys(loaded))
        if self.save is not None:
            await self.save(loaded)
        message = f"{_tools(result)} found; from your next turn on you can call: {', '.join(loaded) or 'none of them'}."
        return {"results": result, LOADED: loaded, "message": message}

    async def _hits(self, query: str) -> AsyncIterator[tuple[str, float]]:
        left = self._options.top_k
        for name, score in await self.catalogue.search(query):
            if left == 0 or score <= self._options.min_score:
                return
            if await self._may("search", name):
                left -= 1
                yield name, score

    async def load(self, wanted: Iterable[str]) -> dict[str, Value]:
        """Load tools by name, and return the result for the model. Denied tools are reported as not found."""
        names = list(dict.fromkeys(wanted))
        if not names:
            return {"success": False, "message": "Say which: tool_name for one tool, tool_names for several."}
        found = [name for name in names if await self._may("load", name)]
        known = [name for name in found if name in self.loaded]
        missing = [name for name in names if name not in found]
        self.loaded.update(dict.fromkeys(found))
        if self.save is not None:
            await self.save(found)
        suggested = await self._suggested(missing)
        message = " ".join(_sentences([name for name in found if name not in known], known, missing, suggested))
        result = {
            "success": not missing,
            "message": message,
            LOADED: found,
            "not_found": missing,
            "suggestions": suggested,
        }
        return {key: value for key, value in result.items() if value not in ([], {})}

    async def active(self) -> dict[str, Value]:
        """Return the loaded tools that the model may be offered, in the order in which they were loaded.

        The names are copied: another request of the thread may load a tool while a filter is awaited.
        """
        return {name: self.catalogue.tools[name] for name in tuple(self.loaded) if await self._may("active", name)}

    async def listed(self) -> str:
        """Return a list of the tools that may be found."""
        names = [name for name in self.catalogue.tools if await self._may("search", name)]
        return "\n".join(map(self.catalogue.line, names))

    async def restore(self, names: Iterable[str]) -> None:
        """Load the tools that a conversation lists as loaded, if allowed: a client may have written the list."""
        self.loaded = {name: None for name in names if await self._may("load", name)}

    async def _may(self, phase: ToolPhase, name: str) -> bool:
        return name in self.catalogue.tools and await self._allowed(phase, name, self.catalogue.tools[name])

    async def _suggested(self, missing: list[str]) -> list[str]:
        """Return similar names of tools that may be found."""
        wrong = islice(missing, _MOST_SUGGESTED)
        close = [name for meant in wrong for name in similar_names(meant, self.catalogue.tools)]
        return [name for name in dict.fromkeys(close) if name not in missing and await self._may("search", name)]


def _search_tool(session: ToolSearchSession, *, loads: bool) -> Tool:
    async def search_tools(arguments: dict[str, object]) -> dict[str, Value]:
        return await session.search(str(arguments["query"]))

    then = "The tools found can be called from your next turn on." if loads else f"Then load what you need by {LOAD}."
    text = f"Search for tools by words of their names and descriptions. More tools exist than you see. {then}"
    return Tool.from_schema(search_tools, name=SEARCH, parameters=_QUERY, description=text)


def _load_tool(session: ToolSearchSession) -> Tool:
    async def load_tool(arguments: dict[str, object]) -> dict[str, Value]:
        return await session.load(_wanted(arguments))

    text = f"Load tools that {SEARCH} found. They can be called from your next turn on."
    return Tool.from_schema(load_tool, name=LOAD, parameters=_WANTED, description=text)


def _wanted(arguments: Values) -> list[str]:
    """Return the names in the arguments of a call; models may confuse the two arguments."""
    found: list[str] = []
    for key in ("tool_name", "tool_names"):
        given = arguments.get(key)
        found.extend(str(name).strip() for name in (given if is_items(given) else (given,)) if name is not None)
    return [name for name in found if name]


def _tools(found: list[dict[str, Value]]) -> str:
    return "1 tool" if len(found) == 1 else f"{len(found)} tools"


def _sentences(loaded: list[str], known: list[str], missing: list[str], suggested: list[str]) -> Iterable[str]:
    if loaded:
        yield f"Loaded, and ready to be called from your next turn on: {', '.join(loaded)}."
    if known:
        yield f"Loaded before, call directly: {', '.join(known)}."
    if missing:
        yield f"Not found: {', '.join(missing)}."
        yield f"Did you mean {', '.join(suggested)}?" if suggested else f"Call {SEARCH} to see what there is."


_WORDS = ("auto", "none", "required")


@dataclass
class ToolSearchState:
    """The state of one request: its session, and the names that it has loaded itself."""

    session: ToolSearchSession | None = None
    own: NameSet = field(default_factory=dict[str, None])


class ToolSearchProcessor(Processor[ToolSearchState]):
    """Hide tools until the model has searched for them and loaded them.

    The model gets two tools, ``search_tools`` and ``load_tool``. It can call loaded tools from its next step on, until
    its thread is forgotten.

    If it fails, the model goes on without these tools. With a ``filter`` and ``include_resolved_tools`` a failure
    blocks the run.

    Args:
        tools: the tools that can be found: functions and `Tool` objects, in a list or by name. A tool of the request
            with the same name takes precedence.
        include_resolved_tools: also hide the request's own tools, and let the model find them. A tool that
            ``tool_choice`` names stays visible.
        inject_catalog: list all tools in the system prompt, each with the beginning of its description.
        top_k: the most tools that a search returns, 1 or more.
        min_score: tools with this score or a lower one are not returned, 0 or more. Scores have no upper limit and
            depend on the other tools: see `penstock.processors.discovery.ranking`.
        auto_load: load the tools that a search returns; there is no ``load_tool``.
        storage: where loaded names are stored. ``in-memory``: in this process, by the ``resource_id`` and ``thread_id``
            of the request; without a thread, for the request only. ``context``: only in the tool results of the
            conversation. A `NameStore`, such as ``names`` of a `SharedState`: by the same ids, for all processes.
        ttl: seconds after which an unused thread is forgotten, above 0; None: never.
        max_threads: the most threads that this process remembers, 1 or more; the least recently used is forgotten
            first.
        filter: called before a tool is shown, loaded or offered: see `ToolAccess`. Only True allows it.
        clock: tells the time.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed, or no tools can be found at all.
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
        storage: Storage | NameStore = "in-memory",
        ttl: float | None = 3600.0,
        max_threads: int = 10_000,
        filter: ToolFilter | None = None,  # noqa: A002 - the name in Mastra
        clock: Clock = SYSTEM_CLOCK,
        id: str | None = None,
    ) -> None:
        owner = type(self).__name__
        if id is not None:
            self.id = id
        self.include_resolved_tools = flag(owner, "include_resolved_tools", include_resolved_tools)
        if tools is None and not include_resolved_tools:
            raise OptionError(owner, "tools", tools, "tools, unless include_resolved_tools=True")
        self._tools = as_tools(tools, owner)
        _check_names(owner, self._tools)
        self.inject_catalog = flag(owner, "inject_catalog", inject_catalog)
        self.top_k = check_count(owner, "top_k", top_k, least=1)
        self.min_score = float(
            check_number(owner, "min_score", min_score, "a number of 0 or more; scores have no upper limit")
        )
        self.auto_load = flag(owner, "auto_load", auto_load)
        self.filter: ToolFilter | None = checked_function(owner, "filter", filter)
        loaded_names = LoadedNames(owner, storage=storage, ttl=ttl, max_threads=max_threads, clock=clock)
        self.storage, self.ttl, self.max_threads = loaded_names.storage, loaded_names.ttl, loaded_names.max_threads
        self._loaded = loaded_names
        self._catalogue = ToolCatalogue(self._tools)
        self._conflicts = NameConflicts()
        if self.include_resolved_tools and filter is not None:
            self.on_error = "block"

    def new_state(self) -> ToolSearchState:
        """Return the state of a request."""
        return ToolSearchState()

    async def process_input_step(self, ctx: InputStepContext[ToolSearchState]) -> Overrides | None:
        """Add the tools for searching, and the loaded tools."""
        given: Values = ctx.tools or EMPTY
        hidden = self._hidden(ctx, given)
        catalogue = ToolCatalogue({**self._tools, **hidden}) if hidden else self._catalogue
        if not catalogue:
            return None
        session = await self._session(ctx, catalogue)
        shown = {name: tool for name, tool in given.items() if name not in hidden}
        self._conflicts.warn(self.id, session.tools, shown)
        loaded = {name: tool for name, tool in (await session.active()).items() if name not in shown}
        ctx.note(hidden=len(catalogue.tools) - len(loaded), loaded=len(loaded))
        return Overrides(
            tools={
                **session.tools,
                **{name: tool for name, tool in shown.items() if name not in session.tools},
                **loaded,
            },
            active_tools=_active(ctx.active_tools, (*session.tools, *loaded), hidden),
            messages=with_notices(ctx, await self._notices(session)),
        )

    def _hidden(self, ctx: InputStepContext[ToolSearchState], given: Values) -> Values:
        """Return the request's own tools that are hidden: those that the model would otherwise be offered."""
        if not self.include_resolved_tools:
            return EMPTY
        chosen, active = _chosen(ctx.tool_choice), ctx.active_tools
        return {
            name: tool
            for name, tool in given.items()
            if name not in (SEARCH, LOAD) and name not in chosen and (active is None or name in active)
        }

    async def _session(self, ctx: InputStepContext[ToolSearchState], catalogue: ToolCatalogue) -> ToolSearchSession:
        state = ctx.state
        loaded = await self._loaded.of(ctx, state.own, {SEARCH, LOAD})
        if state.session is None:
            options = ToolSearchOptions(self.top_k, self.min_score, self.auto_load)
            state.session = ToolSearchSession(
                options, access_check(self.filter, ctx.request_context), catalogue, loaded
            )
        state.session.catalogue, state.session.loaded = catalogue, loaded
        state.session.save = lambda names: self._loaded.add(ctx, state.own, names)
        if self.storage == "context":
            await state.session.restore(loaded)
        return state.session

    async def _notices(self, session: ToolSearchSession) -> list[str]:
        if not self.inject_catalog:
            return [_notice(loads=self.auto_load)]
        return [_notice(loads=self.auto_load), f"Tools that can be found:\n{await session.listed()}"]


def _notice(*, loads: bool) -> str:
    then = "what it finds you can call from your next turn on" if loads else f"load what you need by {LOAD}"
    return f"More tools exist than are shown to you. Where none of yours will do, look for one by {SEARCH}; {then}."


def _check_names(owner: str, tools: Values) -> None:
    for name in (SEARCH, LOAD):
        if name in tools:
            raise OptionError(
                owner, "tools", name, f"names other than {SEARCH} and {LOAD}, which the processor adds itself"
            )


def _chosen(choice: Value) -> tuple[str, ...]:
    """Return the names of the tools that the model is required to call."""
    if isinstance(choice, str):
        return () if choice in _WORDS else (choice,)
    return tuple(choice) if is_items(choice) else ()


def _active(active: tuple[str, ...] | None, ours: tuple[str, ...], hidden: Values) -> list[str] | None:
    """Return the request's list of active tools, if it has one, with ours and without the hidden ones."""
    if active is None:
        return None
    return list(dict.fromkeys((*ours, *(name for name in active if name not in hidden or name in ours))))
