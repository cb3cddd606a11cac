"""Rows on searches for tools as others may have been recorded; what the reference finds is after its description."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.conformance.builtin.frame import Fields, Given, Row
from tests.conformance.builtin.tool_search_rules import ranking

DEFAULTS = {
    "include_resolved_tools": False,
    "inject_catalog": False,
    "storage": "in-memory",
    "ttl": 3_600_000,
    "filter": None,
}

META = ["search_tools", "load_tool"]

TOOLS = {
    "getWeather": "Current conditions in a city",
    "list_issues": "Everything that is open in a repository",
    "create_issue": "Open something new in a repository",
    "sync": "Copy between GitHub/GitLab and a disk",
    "tianqi": "查询城市的天气",
}


def searched(name: str, catalog: dict[str, str], query: str, options: Fields) -> Row:
    """Return a row with one search."""
    given = {
        "method": "process_input_step",
        "catalog": catalog,
        "thread_id": "t",
        "calls": [{"tool": "search_tools", "args": {"query": query}}],
    }
    found = ranking(options, given, query, frozenset())
    step = {"visible_tools": META, "system_messages": 1, "result": {"results": found, "message": ""}}
    return Row("tool_search", name, Given(options, given), {"steps": [step]})


def rows(complete: Callable[[Fields], Fields]) -> Sequence[Row]:
    """Return the rows."""
    options = complete({})
    narrow = complete({"search": {"top_k": 1}})
    crowd = {f"copy_{letter}": "deploy deploy deploy" for letter in "abc"} | {"deploy": "Roll out the new version here"}
    bare = {"method": "process_input_step", "catalog": {}, "thread_id": "t", "calls": [None]}
    nothing = {"steps": [{"visible_tools": META, "system_messages": 1}]}
    return [
        searched("camel case", TOOLS, "weather", options),
        searched("camel case in the query", TOOLS, "getWeather", options),
        searched("a name said whole", TOOLS, "create issue", options),
        searched("a name begun", TOOLS, "repo issue", options),
        searched("a sign between words", TOOLS, "gitlab", options),
        searched("no blanks", TOOLS, "天气", options),
        searched("the best is not among the first", crowd, "deploy", narrow),
        Row("tool_search", "nothing to find", Given(options, bare), nothing),
        *[Row("tool_search", f"a while later, {storage}", *later(complete, storage)) for storage in STORAGES],
    ]


STORAGES = {"in-memory": [], "context": ["list_issues"]}
"""What is still loaded when the time to live is over: the conversation forgets nothing."""


def later(complete: Callable[[Fields], Fields], storage: str) -> tuple[Given, Fields]:
    """Return what a row is given, and what the reference does: a step long after a tool was loaded."""
    load = {"tool": "load_tool", "args": {"toolName": "list_issues"}}
    given = {"method": "process_input_step", "catalog": TOOLS, "thread_id": "t", "calls": [load, {"wait_ms": 5000}]}
    loaded = {"success": True, "message": "", "toolName": "list_issues"}
    steps = [
        {"visible_tools": META, "system_messages": 1, "result": loaded},
        {"visible_tools": [*META, *STORAGES[storage]], "system_messages": 1},
    ]
    return Given(complete({"storage": storage, "ttl": 1000}), given), {"steps": steps}
