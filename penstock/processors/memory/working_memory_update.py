"""`working_memory_tool`: the tool by which a model changes a working memory. It knows storage, and no prompt."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, get_args

from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError, PenstockError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.stored import MemoryScope
from penstock.processors.memory._options import checked_storage
from penstock.processors.memory._working_prompt import shown
from penstock.processors.memory._working_records import Notebook, Whose
from penstock.processors.memory._working_shapes import nested, partial
from penstock.processors.memory._working_templates import template_of, way_of, written
from penstock.processors.memory._working_updates import Refusal, becomes
from penstock.tools.errors import ToolFailed
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.ports import Storage
    from penstock.engine.values.stored import MemoryRecord
    from penstock.processors.memory._working_templates import Template, TemplateOption, Way
    from penstock.processors.memory._working_updates import Becomes
    from penstock.tools.context import ToolContext

NAME = "update_working_memory"
MAX_CHARACTERS = 16_000
"""How long a memory may get: about 4,000 tokens, which each request then costs."""

_LOG = logging.getLogger("penstock")

_OWNER = "working_memory_tool"

_TEXTS: dict[Way, str] = {
    "replace": "Store what is known about the user, all of it, as one text in Markdown.",
    "edit": "Add to what is known about the user, or correct a piece of it.",
    "merge": "Store fields of what is known about the user. Fields that you leave out stay; null deletes one; a list "
    "takes the old list's place.",
    "fields": "Change single fields of what is known about the user. All changes are made, or none. What is known has "
    "this JSON Schema: ",
}
_REASONS = ("append-new-memory", "clarify-existing-memory", "replace-irrelevant-memory")


@dataclass
class Seen:
    """Which version of a memory a model has seen, if that is known; of one request."""

    version: int | None = None


def working_memory_tool(
    storage: Storage,
    *,
    template: TemplateOption | None = None,
    scope: MemoryScope = "resource",
    update: Way | None = None,
    name: str = NAME,
    max_characters: int = MAX_CHARACTERS,
) -> Tool:
    """Return the tool, for an agent without `WorkingMemory`, which brings its own.

    The request context says whose memory it is: ``thread_id`` and ``resource_id``. Its result has ``success``; where
    that is false, ``problem`` (a word for programs) and ``reason``, and nothing was changed.

    Args:
        storage: where it is kept.
        template: see `WorkingMemory`.
        scope: see `WorkingMemory`.
        update: see `WorkingMemory`.
        name: what the model calls it by.
        max_characters: see `WorkingMemory`.

    Raises:
        OptionError: an option that is not allowed.
    """
    made = template_of(_OWNER, template)
    way = made.way(_OWNER, way_of(_OWNER, update))
    return tool_of(notebook_of(_OWNER, storage, scope, max_characters), made, way, name)


def notebook_of(owner: str, storage: object, scope: object, max_characters: object) -> Notebook:
    """Return the memories that options mean.

    Raises:
        OptionError: an option that is not allowed.
    """
    if type(max_characters) is not int or max_characters < 1:
        raise OptionError(owner, "max_characters", max_characters, "a number of characters, 1 or more")
    chosen = cast("MemoryScope", one_of(owner, "scope", scope, get_args(MemoryScope)))
    return Notebook(checked_storage(owner, storage), chosen, max_characters)


def tool_of(notebook: Notebook, template: Template, way: Way, name: str, seen: Seen | None = None) -> Tool:
    """Return the tool; ``seen``: which version the model was shown, without which nobody knows what it replaces."""

    async def update(arguments: dict[str, object], ctx: ToolContext) -> dict[str, Value]:
        _check(way, arguments)
        # halves of surrogate pairs have no place in any store
        sent = json.loads(json.dumps(arguments, ensure_ascii=False).encode(errors="replace"))
        try:
            return await _updated(notebook, template, way, sent, ctx, seen or Seen())
        except PenstockError as error:  # told to the model by its kind, to whoever runs this in full
            _LOG.warning("%s: a working memory could not be changed: %s", name, error)
            raise ToolFailed(f"The memory could not be changed ({type(error).__name__}).") from error

    text = _TEXTS[way]
    if way == "fields" and template.shape is not None:
        text += written(partial(template.shape.schema))
    return Tool.from_schema(
        update, name=name, parameters=_parameters(template, way), description=text, concurrent=way != "replace"
    )


async def _updated(
    notebook: Notebook, template: Template, way: Way, sent: Values, ctx: ToolContext, seen: Seen
) -> dict[str, Value]:
    def change(record: MemoryRecord | None) -> Becomes:
        version, now = (0, "") if record is None else (record.version, record.text)
        if way == "replace" and seen.version not in (None, version):
            seen.version = version
            told = "Others changed the memory meanwhile, and nothing was replaced. This is how it stands; send it anew."
            return Refusal("changed", f"{told}\n{shown(template, now)}")
        return becomes(way, template, now, sent, shared=notebook.scope == "resource")

    found = await notebook.change(Whose.of(ctx.request_context), change, ctx.run_id)
    if isinstance(found, Refusal):
        return {"success": False, "problem": found.problem, "reason": found.reason}
    if found is not None and seen.version is not None:
        seen.version = found.version
    return {"success": True}


def _parameters(template: Template, way: Way) -> dict[str, Value]:
    if way == "replace":
        memory = {"type": ["string", "null"], "description": "All that is to be kept. Null deletes all that is known."}
        return _object({"memory": memory}, required=["memory"])
    if way == "edit":
        return _object(_EDITS, required=["new_memory"])
    if way == "fields":
        return _object({"changes": _CHANGES}, required=["changes"])
    schema, definitions = nested({} if template.shape is None else partial(template.shape.schema))
    return {"type": "object", "properties": {"memory": schema}, **definitions}


def _object(fields: Values, required: list[str]) -> dict[str, Value]:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


_EDITS: Values = {
    "new_memory": {"type": "string", "description": "What is to be added, or to stand in the place of something."},
    "search_string": {
        "type": "string",
        "description": "The text to be replaced, exactly as it stands in the memory. Not needed to add something.",
    },
    "update_reason": {"type": "string", "enum": list(_REASONS), "description": "By default append-new-memory."},
}

_CHANGES: Values = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["set", "append", "delete"]},
            "path": {"type": "string", "description": "Where, as a JSON Pointer: /address/city"},
            "value": {"description": "What to set or append; with delete, what to take out of a list."},
        },
        "required": ["op", "path"],
        "additionalProperties": False,
    },
}


def _check(way: Way, sent: Values) -> None:
    """Refuse arguments of the wrong type; what is missing or unknown was refused already.

    Raises:
        ToolFailed: they do not fit.
    """
    if way == "replace" and not isinstance(sent["memory"], (str, type(None))):
        raise ToolFailed("memory: it must be one text, or null")
    if way == "edit":
        odd = [field for field in _EDITS if not isinstance(sent.get(field, ""), (str, type(None)))]
        if odd or sent["new_memory"] is None:
            raise ToolFailed(f"{(odd or ['new_memory'])[0]}: it must be a text")
        if sent.get("update_reason") not in (None, "", *_REASONS):
            raise ToolFailed(f"update_reason: it must be one of {', '.join(_REASONS)}")
    if way == "fields":
        _check_changes(sent["changes"])


def _check_changes(changes: object) -> None:
    if not is_items(changes) or not changes:
        raise ToolFailed("changes: it must be a list of changes, one or more")
    for place, change in enumerate(changes):
        if not is_mapping(change) or not {"op", "path"} <= {*change} <= {"op", "path", "value"}:
            raise ToolFailed(f"changes[{place}]: it must have op and path, and may have value")
        if change["op"] not in ("set", "append", "delete") or not isinstance(change["path"], str):
            raise ToolFailed(f"changes[{place}]: op is set, append or delete, and path a text")
