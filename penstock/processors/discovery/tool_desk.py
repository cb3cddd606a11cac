"""`ToolDesk`: what a model's searches for tools and its wishes to load them come to, in one request."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.frozen import is_items
from penstock.processors.discovery.loaded import LOADED
from penstock.processors.discovery.near_misses import near_misses
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from penstock.engine.values.frozen import Value, Values
    from penstock.processors.discovery.loaded import Names
    from penstock.processors.discovery.tool_access import Asked, ToolPhase
    from penstock.processors.discovery.tool_catalogue import Catalogue

SEARCH = "search_tools"
LOAD = "load_tool"

_MOST_SUGGESTED = 5  # names for which similar ones are looked up: 20 ms each among a thousand tools

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


class Ways(NamedTuple):
    """How searches are answered: see `ToolSearchProcessor`."""

    top_k: int
    min_score: float
    auto_load: bool


class ToolDesk:
    """Answers one request's calls of the two tools. Lives as long as the request.

    Attributes:
        catalogue: the tools that may be asked for in the step at hand.
        loaded: the names of those that are loaded, in the order in which they were.
        tools: the tools by which it is asked.
    """

    __slots__ = ("_allowed", "_ways", "catalogue", "loaded", "tools")

    def __init__(self, ways: Ways, allowed: Asked, catalogue: Catalogue, loaded: Names) -> None:
        self._ways = ways
        self._allowed = allowed
        self.catalogue = catalogue
        self.loaded = loaded
        made = [_search_tool(self, loads=ways.auto_load)]
        if not ways.auto_load:
            made.append(_load_tool(self))
        self.tools = {tool.name: tool for tool in made}

    async def search(self, query: str) -> dict[str, Value]:
        """Return the tools that a query is about; with ``auto_load``, load them."""
        hits = [hit async for hit in self._hits(query)]
        told = [
            {"name": name, "description": self.catalogue.short(name), "score": round(score, 2)} for name, score in hits
        ]
        if not told:
            return {"results": told, "message": "No tool was found. Try other words."}
        if not self._ways.auto_load:
            return {"results": told, "message": f"{_tools(told)} found. Call {LOAD} with their names to use them."}
        loaded = [name for name, _ in hits if await self._may("load", name)]
        self.loaded.update(dict.fromkeys(loaded))
        message = f"{_tools(told)} found; from your next turn on you can call: {', '.join(loaded) or 'none of them'}."
        return {"results": told, LOADED: loaded, "message": message}

    async def _hits(self, query: str) -> AsyncIterator[tuple[str, float]]:
        left = self._ways.top_k
        for name, score in await self.catalogue.search(query):
            if left == 0 or score <= self._ways.min_score:
                return
            if await self._may("search", name):
                left -= 1
                yield name, score

    async def load(self, wanted: Iterable[str]) -> dict[str, Value]:
        """Load tools by name, and say what came of it. What may not be loaded is not there."""
        names = list(dict.fromkeys(wanted))
        if not names:
            return {"success": False, "message": "Say which: tool_name for one tool, tool_names for several."}
        found = [name for name in names if await self._may("load", name)]
        known = [name for name in found if name in self.loaded]
        missing = [name for name in names if name not in found]
        self.loaded.update(dict.fromkeys(found))
        suggested = await self._suggested(missing)
        message = " ".join(_sentences([name for name in found if name not in known], known, missing, suggested))
        told = {
            "success": bool(found),
            "message": message,
            LOADED: found,
            "not_found": missing,
            "suggestions": suggested,
        }
        return {key: value for key, value in told.items() if value not in ([], {})}

    async def active(self) -> dict[str, Value]:
        """Return the loaded tools that the model may be offered now, in the order in which they were loaded.

        Another request of the thread may load one while a filter is waited for.
        """
        return {name: self.catalogue.tools[name] for name in tuple(self.loaded) if await self._may("active", name)}

    async def listed(self) -> str:
        """Return a list of the tools that may be searched for."""
        names = [name for name in self.catalogue.tools if await self._may("search", name)]
        return "\n".join(map(self.catalogue.line, names))

    async def keep(self, names: Iterable[str]) -> None:
        """Load what a conversation says was loaded, as far as that is allowed: a client may have written it."""
        self.loaded = {name: None for name in names if await self._may("load", name)}

    async def _may(self, phase: ToolPhase, name: str) -> bool:
        return name in self.catalogue.tools and await self._allowed(phase, name, self.catalogue.tools[name])

    async def _suggested(self, missing: list[str]) -> list[str]:
        """Return the names that may have been meant; not of tools that may not be found."""
        wrong = islice(missing, _MOST_SUGGESTED)
        close = [name for meant in wrong for name in near_misses(meant, self.catalogue.tools)]
        return [name for name in dict.fromkeys(close) if name not in missing and await self._may("search", name)]


def _search_tool(desk: ToolDesk, *, loads: bool) -> Tool:
    async def search_tools(arguments: dict[str, object]) -> dict[str, Value]:
        return await desk.search(str(arguments["query"]))

    then = "The tools found can be called from your next turn on." if loads else f"Then load what you need by {LOAD}."
    text = f"Search for tools by words of their names and descriptions. More tools exist than you see. {then}"
    return Tool.from_schema(search_tools, name=SEARCH, parameters=_QUERY, description=text)


def _load_tool(desk: ToolDesk) -> Tool:
    async def load_tool(arguments: dict[str, object]) -> dict[str, Value]:
        return await desk.load(_wanted(arguments))

    text = f"Load tools that {SEARCH} found. They can be called from your next turn on."
    return Tool.from_schema(load_tool, name=LOAD, parameters=_WANTED, description=text)


def _wanted(arguments: Values) -> list[str]:
    """Return the names in the arguments of a call; a model may mix up one and several."""
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
