"""What a working memory becomes by what a model sends, in each of the ways. Pure; it knows no store and no tool.

Every function takes the text as it stands ("" where nothing is known) and returns the text as it becomes, or why not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.frozen import is_mapping
from penstock.processors.memory._working_fields import WrongPathError, changed
from penstock.processors.memory._working_templates import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value, Values
    from penstock.processors.memory._working_shapes import Shape
    from penstock.processors.memory._working_templates import Template, Way

Problem = Literal[
    "empty",
    "template-only",
    "duplicate",
    "no-search-text",
    "not-replaced",
    "does-not-fit",
    "not-json",
    "too-long",
    "changed",
]

_MOST_TOLD = 8
"""How many problems a model is told of at once."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was changed.

    Attributes:
        problem: for programs.
        reason: a sentence for the model; it quotes no value of the memory.
    """

    problem: Problem
    reason: str


Becomes: TypeAlias = str | Refusal
"""The text of a memory as it becomes, or why it stays."""


def becomes(way: Way, template: Template, now: str, sent: Values, *, shared: bool) -> Becomes:
    """Return what becomes of a memory by the arguments of a call; ``shared``: it serves all threads of a resource."""
    if way == "replace":
        return _replaced(template, now, sent["memory"])
    if way == "edit":
        return _edited(template, now, sent, shared=shared)
    try:
        change = _merging(template, sent) if way == "merge" else _changing(sent)
        return "" if change is None else _made(template.shape, now, change)
    except WrongPathError as error:
        return Refusal("does-not-fit", f"Nothing was changed. {error}.")


def _replaced(template: Template, now: str, memory: str | None) -> Becomes:
    if memory is None:
        return ""
    if not memory.strip():
        return Refusal("empty", "The memory given is empty. To delete all that is known, give null.")
    return _template_only() if now and _same(memory, template.text) else memory


def _template_only() -> Refusal:
    return Refusal("template-only", "That is the empty template. Call again when there is something to fill in.")


def _same(one: str, other: str) -> bool:
    return one.split() == other.split()


# Pieces of text


def _edited(template: Template, now: str, sent: Values, *, shared: bool) -> Becomes:
    new, search = sent["new_memory"].strip("\n"), sent.get("search_string") or ""
    why = sent.get("update_reason") or "append-new-memory"
    if why == "append-new-memory":
        return _appended(template, now, new)
    if not search:
        told = "To correct or replace something, give in search_string the text as it stands."
        return Refusal("no-search-text", told)
    if shared and why == "replace-irrelevant-memory":
        told = "What this conversation does not need may be needed in others: nothing was replaced. Append, or clarify."
        return Refusal("not-replaced", told)
    return now.replace(search, new, 1) if search in now else _appended(template, now, new)


def _appended(template: Template, now: str, new: str) -> Becomes:
    if not new.strip():
        return Refusal("empty", "There is nothing in new_memory.")
    if _same(new, template.text):
        return _template_only()
    lines = {line.strip() for line in now.splitlines()}
    if all(line.strip() in lines for line in new.splitlines() if line.strip()):
        return Refusal("duplicate", "All of that stands there already.")
    return f"{now}\n{new}" if now else new


# Objects

_Change: TypeAlias = "Callable[[dict[str, Value]], dict[str, Value]]"


def _merging(template: Template, sent: Values) -> _Change | None:
    """Return how to merge what was sent; None where null says that all is to be deleted.

    The wrapper ``memory`` may be missing: models forget it.
    """
    fields: Values = template.shape.schema.get("properties", {}) if template.shape is not None else {}
    wrapped = {*sent} == {"memory"} or ("memory" in sent and "memory" not in fields)
    patch: Value = sent["memory"] if wrapped else dict(sent)
    if patch is None:
        return None
    if not is_mapping(patch):
        raise WrongPathError("memory: it must be an object with the fields that change")
    return lambda document: _merged(document, patch)


def _merged(document: Value, patch: Value) -> Value:
    """Return a document with a patch laid over it, as RFC 7396 has it: null deletes, lists are replaced."""
    if not is_mapping(patch):
        return patch
    made: dict[str, Value] = dict(document) if is_mapping(document) else {}
    for name, item in patch.items():
        if item is None:
            made.pop(name, None)
        else:
            made[name] = _merged(made.get(name), item)
    return made


def _changing(sent: Values) -> _Change | None:
    """Return how to make the changes sent; None where the first is to delete all, and there is no other."""
    changes: list[Values] = sent["changes"]
    whole = [change for change in changes if change["path"] == "" and change["op"] == "delete"]
    if whole and len(changes) == 1:
        return None
    return lambda document: changed(document, changes)


def _made(shape: Shape | None, now: str, change: _Change) -> Becomes:
    """Return the object after a change; whatever did not fit before may stay as it is."""
    before = document_of(now)
    if before is None:
        told = "What is kept is no JSON object, so nothing was changed. Somebody has to see to it; or delete all of it"
        return Refusal("not-json", f"{told} (null as the memory, or op delete with an empty path), and begin anew.")
    after = change(before)
    known = {*shape.problems(before)} if shape is not None else set[str]()
    found = [problem for problem in (shape.problems(after) if shape is not None else ()) if problem not in known]
    if found:
        return Refusal("does-not-fit", f"It does not fit, and nothing was changed: {'; '.join(found[:_MOST_TOLD])}")
    return now if after == before else written(after)


def document_of(text: str) -> dict[str, Value] | None:
    """Return the object that a memory holds, an empty one where nothing is known; None if it holds none."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if is_mapping(found) else None
