"""The tools that can be searched for, by name. It knows no request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.processors.discovery.options import in_one_line
from penstock.processors.discovery.ranking import hits_of

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values


def description_of(tool: Value) -> str:
    """Return what a tool says of itself; nothing, if it is of a kind that says nothing."""
    text = getattr(tool, "description", "")
    return text if isinstance(text, str) else ""


class Catalogue:
    """Tools by name, ready to be searched. It does not change."""

    __slots__ = ("tools",)

    def __init__(self, tools: Values) -> None:
        self.tools = tools

    async def search(self, query: str) -> list[tuple[str, float]]:
        """Return the names that a query is about, with their scores, the best first."""
        names = list(self.tools)
        hits = await hits_of(query, [(name, description_of(tool)) for name, tool in self.tools.items()])
        return [(names[hit.place], hit.score) for hit in hits]

    def short(self, name: str) -> str:
        """Return the beginning of a tool's description, in one line."""
        return in_one_line(description_of(self.tools[name]))

    def line(self, name: str) -> str:
        """Return a tool's line in a list."""
        return f"- `{name}`: {self.short(name)}".removesuffix(": ")

    def __bool__(self) -> bool:
        """Tell whether there are any tools."""
        return bool(self.tools)
