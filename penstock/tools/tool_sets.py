"""`as_tools`: what is given as tools, by name. It knows no agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.model import ToolSpec
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable

    AnyTool: TypeAlias = Tool | ToolSpec | Callable[..., object]
    Tools: TypeAlias = Mapping[str, AnyTool] | Iterable[AnyTool]

_ALLOWED = "a list of functions, Tools and ToolSpecs, or a mapping from names to them"


def as_tools(given: Tools | None, owner: str = "Agent") -> FrozenDict[str, Tool]:
    """Return tools by name, in the order given.

    Args:
        given: functions, Tools, and ToolSpecs (which the caller's side runs), in a list, or by name in a mapping: the
            name there is the tool's. None is no tools.
        owner: whose option ``tools`` it is, for errors.

    Raises:
        OptionError: something in it is no tool, a name is not allowed, or two have the same.
    """
    if given is None:
        return FrozenDict()
    if isinstance(given, Mapping):
        by_name = cast("Mapping[str, AnyTool]", given)
        return FrozenDict({name: _named(name, item, owner) for name, item in by_name.items()})
    if isinstance(given, (str, Tool, ToolSpec)) or not isinstance(cast("object", given), Iterable):
        raise OptionError(owner, "tools", given, _ALLOWED)
    made: dict[str, Tool] = {}
    for item in given:
        one = _tool(item, owner)
        if one.name in made:
            raise OptionError(owner, "tools", one.name, "a list in which each name stands once")
        made[one.name] = one
    return FrozenDict(made)


def _named(name: str, item: AnyTool, owner: str) -> Tool:
    if callable(item) and not isinstance(item, Tool):
        return Tool(item, name=name)
    one = _tool(item, owner)
    return one if one.name == name else one.named(name)


def _tool(item: AnyTool, owner: str) -> Tool:
    if isinstance(item, Tool):
        return item
    if isinstance(item, ToolSpec):
        return Tool.external(item.name, item.parameters, item.description, strict=item.strict)
    if callable(item):
        return Tool(item)
    raise OptionError(owner, "tools", item, _ALLOWED)
