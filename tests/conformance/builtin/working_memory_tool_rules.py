"""What is better than the reference of changes to a working memory; the reasons stand in docs/differences.md."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.builtin.frame import Fields

DONE, REFUSED = {"success": True}, {"success": False}


def mine(given: Fields) -> bool:
    """Tell whether the calls are about the thread of whoever makes them."""
    return given["context"].get("resourceId") in (None, "r1") or given["context"].get("threadId") != "t1"


def deleting_all_is_said(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An empty text is a slip and changes nothing; null deletes."""
    if options["schema"] is not None or options["version"] == "vnext" or not mine(given):
        return None
    now, results = given["initial"], list[Fields]()
    for call, result in zip(given["calls"], expected["results"], strict=True):
        memory = call.get("memory", 0)
        blank = isinstance(memory, str) and not memory.strip()
        answer = REFUSED if blank else DONE if memory is None else result
        if answer.get("success"):
            now = memory
        results.append(answer)
    return {**expected, "results": results, "stored": now}


def what_cannot_be_read_is_kept(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A memory that is no object is not thrown away because a model sends a field: somebody has to look at it."""
    if options["schema"] is None or options["version"] == "vnext" or not given["initial"]:
        return None
    try:
        found = json.loads(given["initial"])
    except ValueError:
        found = None
    if isinstance(found, dict) or any("memory" in call and call["memory"] is None for call in given["calls"]):
        return None
    return {**expected, "results": [REFUSED for _ in given["calls"]], "stored": given["initial"]}


def merged(document: Any, patch: Any) -> Any:
    """Return a document with a patch laid over it, null deleting."""
    if not isinstance(patch, dict):
        return patch
    made = dict(document) if isinstance(document, dict) else {}
    for name, item in patch.items():
        made[name] = merged(made.get(name), item)
        if item is None:
            del made[name]
    return made


def has_null(value: Any) -> bool:
    """Tell whether null stands somewhere in objects."""
    return value is None or (isinstance(value, dict) and any(map(has_null, value.values())))


def null_deletes(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What is optional can be deleted, in whatever depth; null in the place of all deletes all."""
    if options["schema"] is None or options["version"] == "vnext" or not any(map(has_null, given["calls"])):
        return None
    if expected.get("results") and any("error" in result for result in expected["results"]):
        return None
    now, results = json.loads(given["initial"] or "{}"), list[Fields]()
    for call, result in zip(given["calls"], expected["results"], strict=True):
        patch = call.get("memory", call)
        nulls = has_null(patch)
        if nulls or result.get("success"):
            now = {} if patch is None else merged(now, patch)
        results.append(DONE if nulls else result)
    return {**expected, "results": results, "stored": json.dumps(now) if now or given["initial"] else None}


def edited(options: Fields, now: str | None, call: Fields) -> str | None:
    """Return what an edit makes of a text; None if it is refused."""
    new, search = call["newMemory"], call.get("searchString")
    why = call.get("updateReason") or "append-new-memory"
    if why == "append-new-memory":
        search = None
    elif not search or (why == "replace-irrelevant-memory" and options["scope"] == "resource"):
        return None
    if search and search in (now or ""):
        return (now or "").replace(search, new, 1)
    lines = {line.strip() for line in (now or "").splitlines()}
    same = new.split() == (options["template"] or "-").split()
    if not new.strip() or same or {line.strip() for line in new.splitlines() if line.strip()} <= lines:
        return None
    return f"{now}\n{new}" if now else new


def replayed(options: Fields, given: Fields, expected: Fields) -> Fields:
    """Return what comes of a row's edits."""
    now, results = given["initial"], list[Fields]()
    for call in given["calls"]:
        text = edited(options, now, call)
        results.append(REFUSED if text is None else DONE)
        now = now if text is None else text
    return {**expected, "results": results, "stored": now}


def is_edit(options: Fields, given: Fields) -> bool:
    """Tell whether a row is about pieces of a text."""
    texts = all(isinstance(call.get("newMemory"), str) for call in given["calls"])
    return options["version"] == "vnext" and mine(given) and texts


def duplicates_are_whole_lines(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Ann is no duplicate because Anna is known; what stands there line by line is one."""
    if not is_edit(options, given):
        return None
    now = given["initial"] or ""
    if not any(now and call["newMemory"].strip() and call["newMemory"] in now for call in given["calls"]):
        return None
    return replayed(options, given, expected)


def what_serves_others_is_not_thrown_away(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What one conversation does not need is not replaced where the memory is that of all, nor appended instead."""
    reasons = {call.get("updateReason") for call in given["calls"]}
    if not is_edit(options, given) or options["scope"] != "resource" or "replace-irrelevant-memory" not in reasons:
        return None
    return replayed(options, given, expected)


RULES = (
    deleting_all_is_said,
    what_cannot_be_read_is_kept,
    null_deletes,
    duplicates_are_whole_lines,
    what_serves_others_is_not_thrown_away,
)
