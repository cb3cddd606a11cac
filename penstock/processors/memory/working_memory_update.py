"""`working_memory_tool`: the tool with which a model changes a working memory, and how its arguments change the text.

Changes of single fields name them by JSON Pointers (RFC 6901): ``/address/city``; ``~1`` stands for a slash in a name,
``~0`` for a tilde.
"""

from __future__ import annotations

import copy
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast, get_args

from penstock.detection.deferred import deferred
from penstock.engine.processor.option_checks import check_count
from penstock.engine.processor.processor import one_of
from penstock.engine.tracing.display import visible
from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.stored import MemoryScope
from penstock.processors.memory._options import checked_storage
from penstock.processors.memory._working_records import MemoryOwner, RecordRefusal, WorkingMemoryRecords
from penstock.processors.memory._working_templates import (
    checked_update,
    memory_element,
    parse_template,
    split_definitions,
    to_json,
    without_required,
)
from penstock.tools.context import ToolFailed
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import TypeIs

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Storage
    from penstock.engine.values.stored import MemoryRecord
    from penstock.processors.memory._working_templates import MemorySchema, Template, TemplateOption, UpdateMode
    from penstock.tools.context import ToolContext


# Changes of single fields

_MOST_CHANGES = 500
"""How many changes a call may have."""

_MANY_CHANGES = 20
_LONG_ARGUMENTS = 5_000
"""From how many changes and characters on a call is worked on in a thread."""

_ROOM = 8
"""How many times as long as a memory the arguments of a call may be: paths and braces cost, too."""

_MOST_NAMES = 50
"""How many names a path may have."""

_NUMBER = deferred(r"[0-9]{1,9}")


class InvalidPathError(Exception):
    """A change that cannot be made at its path. The text says why, and quotes no value."""


def apply_changes(document: dict[str, Value], changes: Sequence[Values]) -> dict[str, Value]:
    """Return the object after all changes, in order.

    Args:
        document: the object.
        changes: each with ``op`` (``set``, ``append`` or ``delete``), ``path``, and ``value``.

    Raises:
        InvalidPathError: a change cannot be made; the text says which one.
    """
    made = copy.deepcopy(document)
    lists = ListItems()
    for place, change in enumerate(changes):
        try:
            _change(made, change["op"], _path_names(change["path"]), change.get("value"), lists)
        except InvalidPathError as error:
            raise InvalidPathError(f"changes[{place}]: {error}") from None
    return made


class ListItems:
    """The items of lists as JSON, so that many changes of a list do not write all of it each time."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[list[Value], list[str], set[str]]] = {}

    def append(self, items: list[Value], value: Value) -> None:
        """Append a value to a list, unless it is in the list."""
        _, texts, known = self._of(items)
        text = _written(value)
        if text not in known:
            items.append(value)
            texts.append(text)
            known.add(text)

    def remove(self, items: list[Value], value: Value) -> None:
        """Remove a value from a list, wherever it stands."""
        _, texts, known = self._of(items)
        text = _written(value)
        if text in known:
            items[:] = [item for item, written in zip(items, texts, strict=True) if written != text]
            texts[:] = [written for written in texts if written != text]
            known.discard(text)

    def forget(self, items: Value) -> None:
        """Forget a list: something in it changes."""
        self._written.pop(id(items), None)

    def _of(self, items: list[Value]) -> tuple[list[Value], list[str], set[str]]:
        found = self._written.get(id(items))
        if found is None:  # the list is kept with them, so that no other gets its id
            texts = [_written(item) for item in items]
            found = self._written[id(items)] = (items, texts, set(texts))
        return found


def _written(value: Value) -> str:
    """Return a value as JSON: 1 and true are not the same."""
    return json.dumps(value, sort_keys=True)


def _path_names(path: str) -> list[str]:
    names = path.removeprefix("/").split("/")
    if not path.strip("/") or len(names) > _MOST_NAMES:
        raise InvalidPathError(f"a path must name a field, as in /address/city, with at most {_MOST_NAMES} names")
    return [step.replace("~1", "/").replace("~0", "~") for step in names]


def _change(document: Value, op: str, names: list[str], value: Value, lists: ListItems) -> None:
    *above, last = names
    deletes = op == "delete" or (op == "set" and value is None)
    holder = document
    for step in above:
        lists.forget(holder)
        child = _child(holder, step)
        if child is None and deletes:
            return
        if child is None:
            child = dict[str, "Value"]()
            _put(holder, step, child)
        holder = child
    lists.forget(holder)
    if deletes:
        _delete(holder, last, value, lists)
    elif op == "append":
        if value is None:
            raise InvalidPathError("append needs a value")
        _append(holder, last, value, lists)
    else:
        _put(holder, last, value)


def _child(holder: Value, step: str) -> Value:
    if is_mapping(holder):
        return holder.get(step)
    return holder[_list_index(holder, step)]


def _put(holder: Value, step: str, value: Value) -> None:
    if is_mapping(holder):
        holder[step] = value
    else:
        holder[_list_index(holder, step)] = value


def _append(holder: Value, step: str, value: Value, lists: ListItems) -> None:
    """Append a value to a list, unless it is in the list. A missing list is created."""
    items = _child(holder, step)
    if items is None:
        _put(holder, step, [value])
    elif not _is_list(items):
        raise InvalidPathError("append is for lists; set replaces other values")
    else:
        lists.append(items, value)


def _delete(holder: Value, step: str, value: Value, lists: ListItems) -> None:
    """Delete a field, or remove a value from a list. Missing ones are ignored."""
    if value is None:
        if is_mapping(holder):
            holder.pop(step, None)
        else:
            del holder[_list_index(holder, step)]
        return
    items = _child(holder, step)
    if _is_list(items):
        lists.remove(items, value)
    elif items is not None:
        raise InvalidPathError("only lists have values to remove; to delete a field, give no value")


def _list_index(holder: Value, step: str) -> int:
    if not _is_list(holder):
        raise InvalidPathError("the path goes on after a value that has no fields")
    if not _NUMBER.fullmatch(step) or int(step) >= len(holder):
        raise InvalidPathError("the list has no such index; the first is 0, and append adds at the end")
    return int(step)


def _is_list(value: object) -> TypeIs[list[Value]]:
    return isinstance(value, list)


# The text after a call

_MOST_PROBLEMS = 8
"""How many problems a model is told at once."""


UpdatedText: TypeAlias = str | RecordRefusal
"""The new text of a memory, or why it is not changed."""


def updated_text(mode: UpdateMode, template: Template, now: str, sent: Values, *, shared: bool) -> UpdatedText:
    """Return the new text of a memory, or why it is not changed.

    Args:
        mode: how the memory is changed.
        template: the template of the memory.
        now: the current text; empty if nothing is known.
        sent: the arguments of the call.
        shared: whether the memory serves all threads of a resource.
    """
    if mode == "replace":
        return _replace(template, now, sent["memory"])
    if mode == "edit":
        return _edit(template, now, sent, shared=shared)
    try:
        change = _merge_patch(template, sent) if mode == "merge" else _field_changes(sent)
        return "" if change is None else _apply(template.schema, now, change)
    except InvalidPathError as error:
        return RecordRefusal("does-not-fit", f"Nothing was changed. {error}.")


def _replace(template: Template, now: str, memory: str | None) -> UpdatedText:
    if memory is None:
        return ""
    if not memory.strip():
        return RecordRefusal("empty", "The memory given is empty. To delete all that is known, give null.")
    return _template_only() if now and _same_words(memory, template.text) else memory


def _template_only() -> RecordRefusal:
    return RecordRefusal("template-only", "That is the empty template. Call again when there is something to fill in.")


def _same_words(one: str, other: str) -> bool:
    return one.split() == other.split()


# Texts


def _edit(template: Template, now: str, sent: Values, *, shared: bool) -> UpdatedText:
    new, search = sent["new_memory"].strip("\n"), sent.get("search_string") or ""
    why = sent.get("update_reason") or "append-new-memory"
    if why == "append-new-memory":
        return _append_text(template, now, new)
    if not search:
        reason = "To correct or replace something, give in search_string the text as it stands."
        return RecordRefusal("no-search-text", reason)
    if shared and why == "replace-irrelevant-memory":
        reason = (
            "What this conversation does not need may be needed in others: nothing was replaced. Append, or clarify."
        )
        return RecordRefusal("not-replaced", reason)
    return now.replace(search, new, 1) if search in now else _append_text(template, now, new)


def _append_text(template: Template, now: str, new: str) -> UpdatedText:
    if not new.strip():
        return RecordRefusal("empty", "There is nothing in new_memory.")
    if _same_words(new, template.text):
        return _template_only()
    lines = {line.strip() for line in now.splitlines()}
    if all(line.strip() in lines for line in new.splitlines() if line.strip()):
        return RecordRefusal("duplicate", "All of that stands there already.")
    return f"{now}\n{new}" if now else new


# Objects

_Change: TypeAlias = "Callable[[dict[str, Value]], dict[str, Value]]"


def _merge_patch(template: Template, sent: Values) -> _Change | None:
    """Return a function that merges the patch in the arguments; None if null asks to delete everything.

    The wrapper ``memory`` may be missing, since models forget it.
    """
    fields: Values = template.schema.json_schema.get("properties", {}) if template.schema is not None else {}
    wrapped = {*sent} == {"memory"} or ("memory" in sent and "memory" not in fields)
    patch: Value = sent["memory"] if wrapped else dict(sent)
    if patch is None:
        return None
    if not is_mapping(patch):
        raise InvalidPathError("memory: it must be an object with the fields that change")
    return lambda document: _merge(document, patch)


def _merge(document: Value, patch: Value) -> Value:
    """Return a document with a patch merged as in RFC 7396: null deletes, lists are replaced."""
    if not is_mapping(patch):
        return patch
    made: dict[str, Value] = dict(document) if is_mapping(document) else {}
    for name, item in patch.items():
        if item is None:
            made.pop(name, None)
        else:
            made[name] = _merge(made.get(name), item)
    return made


def _field_changes(sent: Values) -> _Change | None:
    """Return a function that makes the changes in the arguments; None if the only one is to delete everything."""
    changes: list[Values] = sent["changes"]
    whole = [change for change in changes if change["path"] == "" and change["op"] == "delete"]
    if whole and len(changes) == 1:
        return None
    return lambda document: apply_changes(document, changes)


def _apply(schema: MemorySchema | None, now: str, change: _Change) -> UpdatedText:
    """Return the object after a change. Problems that it had before are not counted."""
    before = parse_document(now)
    if before is None:
        reason = (
            "The stored memory is not a JSON object, so nothing was changed. It must be repaired; or delete all of it"
        )
        cure = "(null as the memory, or op delete with an empty path), and begin anew."
        return RecordRefusal("not-json", f"{reason} {cure}")
    after = change(before)
    memory_message_text = {*schema.problems(before)} if schema is not None else set[str]()
    found = [
        problem
        for problem in (schema.problems(after) if schema is not None else ())
        if problem not in memory_message_text
    ]
    if found:
        problems = "; ".join(found[:_MOST_PROBLEMS])
        return RecordRefusal("does-not-fit", f"It does not fit, and nothing was changed: {problems}")
    return now if after == before else to_json(after)


def parse_document(text: str) -> dict[str, Value] | None:
    """Return the object in a memory, empty if nothing is known; None if the text is not an object."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if is_mapping(found) else None


# The tool

NAME = "update_working_memory"
MAX_CHARACTERS = 16_000
"""The default length limit of a memory: about 4,000 tokens, which each request then costs."""

_LOG = logging.getLogger("penstock")

_OWNER = "working_memory_tool"

_TEXTS: dict[UpdateMode, str] = {
    "replace": "Store what is known about the user, all of it, as one text in Markdown.",
    "edit": "Add to what is known about the user, or correct a piece of it.",
    "merge": "Store fields of what is known about the user. Fields that you leave out stay; null deletes one; a list "
    "takes the old list's place.",
    "fields": "Change single fields of what is known about the user. All changes are made, or none. What is known has "
    "this JSON Schema: ",
}
_REASONS = ("append-new-memory", "clarify-existing-memory", "replace-irrelevant-memory")


@dataclass
class ShownVersion:
    """The version of a memory that the model was shown in one request.

    Attributes:
        version: the version; None if unknown.
    """

    version: int | None = None


def working_memory_tool(
    storage: Storage,
    *,
    template: TemplateOption | None = None,
    scope: MemoryScope = "resource",
    update: UpdateMode | None = None,
    name: str = NAME,
    max_characters: int = MAX_CHARACTERS,
) -> Tool:
    """Return the tool with which a model changes a working memory, for agents without `WorkingMemory`.

    `WorkingMemory` brings the tool along. The memory is found by ``thread_id`` and ``resource_id`` in the request
    context. The result of a call has ``success``. If that is false, nothing was changed, ``problem`` names the reason
    for programs, and ``reason`` for the model.

    Args:
        storage: holds the memory.
        template: the intended contents of the memory; see `WorkingMemory`.
        scope: ``resource`` (default) or ``thread``; see `WorkingMemory`.
        update: how the model changes it; see `WorkingMemory`.
        name: the name of the tool. Default ``update_working_memory``.
        max_characters: the length limit of the memory, 1 or more. Default 16,000.

    Raises:
        OptionError: a value is not allowed.
        MissingExtraError: ``template`` is a JSON Schema, and the extra ``json-schema`` is not installed.
    """
    made = parse_template(_OWNER, template)
    mode = made.update_mode(_OWNER, checked_update(_OWNER, update))
    return make_tool(records_of(_OWNER, storage, scope, max_characters), made, mode, name)


def records_of(owner: str, storage: object, scope: object, max_characters: object) -> WorkingMemoryRecords:
    """Return the memories for the options of a processor or tool.

    Raises:
        OptionError: a value is not allowed.
    """
    most = check_count(owner, "max_characters", max_characters, "a number of characters, 1 or more", 1)
    chosen = cast("MemoryScope", one_of(owner, "scope", scope, get_args(MemoryScope)))
    return WorkingMemoryRecords(checked_storage(owner, storage), chosen, most)


def make_tool(
    records: WorkingMemoryRecords, template: Template, mode: UpdateMode, name: str, seen: ShownVersion | None = None
) -> Tool:
    """Return the tool.

    ``seen``: the version that the model was shown. With it, a model cannot replace a text that it has not seen.
    """

    async def update(arguments: dict[str, object], ctx: ToolContext) -> dict[str, Value]:
        _check(mode, arguments)
        sent = _storable(arguments, _ROOM * records.max_characters)
        try:
            return await _updated(records, template, mode, sent, ctx, seen or ShownVersion())
        except RecursionError as error:
            raise ToolFailed("The memory would be too deeply nested; nothing was changed.") from error
        except PenstockError as error:  # the model is told its class only, the log has all of it
            _LOG.warning("%s: the working memory could not be changed: %s", name, visible(str(error)))
            raise ToolFailed(f"The memory could not be changed ({type(error).__name__}).") from error

    text = _TEXTS[mode]
    if mode == "fields" and template.schema is not None:
        text += to_json(without_required(template.schema.json_schema))
    return Tool.from_schema(
        update, name=name, parameters=_parameters(template, mode), description=text, concurrent=mode != "replace"
    )


async def _updated(
    records: WorkingMemoryRecords,
    template: Template,
    mode: UpdateMode,
    sent: Values,
    ctx: ToolContext,
    seen: ShownVersion,
) -> dict[str, Value]:
    def change(record: MemoryRecord | None) -> UpdatedText:
        version, now = (0, "") if record is None else (record.version, record.text)
        if mode == "replace" and seen.version not in (None, version):
            seen.version = version
            reason = (
                "Others changed the memory meanwhile, and nothing was replaced. This is how it stands; send it anew."
            )
            return RecordRefusal("changed", f"{reason}\n{memory_element(template, now)}")
        return updated_text(mode, template, now, sent, shared=records.scope == "resource")

    found = await records.change(MemoryOwner.of(ctx.request_context), change, ctx.run_id, heavy=_is_heavy(sent))
    if isinstance(found, RecordRefusal):
        return {"success": False, "problem": found.problem, "reason": found.reason}
    if found is not None and seen.version is not None:
        seen.version = found.version
    return {"success": True}


def _is_heavy(sent: Values) -> bool:
    """Return whether a change takes long: of many fields, or with long texts."""
    changes = sent.get("changes")
    if is_items(changes) and len(changes) > _MANY_CHANGES:
        return True
    return len(json.dumps(sent)) > _LONG_ARGUMENTS


def _parameters(template: Template, mode: UpdateMode) -> dict[str, Value]:
    if mode == "replace":
        memory = {"type": ["string", "null"], "description": "All that is to be kept. Null deletes all that is known."}
        return _object({"memory": memory}, required=["memory"])
    if mode == "edit":
        return _object(_EDITS, required=["new_memory"])
    if mode == "fields":
        return _object({"changes": _CHANGES}, required=["changes"])
    schema, definitions = split_definitions(
        {} if template.schema is None else without_required(template.schema.json_schema)
    )
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


def _check(mode: UpdateMode, sent: Values) -> None:
    """Refuse arguments of the wrong type. Missing and unknown ones were refused before.

    Raises:
        ToolFailed: an argument has the wrong type.
    """
    if mode == "replace" and not isinstance(sent["memory"], (str, type(None))):
        raise ToolFailed("memory: it must be one text, or null")
    if mode == "edit":
        odd = [field for field in _EDITS if not isinstance(sent.get(field, ""), (str, type(None)))]
        if odd or sent["new_memory"] is None:
            raise ToolFailed(f"{(odd or ['new_memory'])[0]}: it must be a text")
        if sent.get("update_reason") not in (None, "", *_REASONS):
            raise ToolFailed(f"update_reason: it must be one of {', '.join(_REASONS)}")
    if mode == "fields":
        _check_changes(sent["changes"])


def _storable(arguments: Values, most: int) -> Values:
    """Return arguments without lone surrogates, which no store accepts.

    Raises:
        ToolFailed: they are too long, or too deeply nested.
    """
    try:
        written = json.dumps(arguments, ensure_ascii=False)
        if len(written) > most:
            raise ToolFailed(
                f"The arguments have more than {most} characters; nothing was changed. Send less at a time."
            )
        return cast("Values", json.loads(written.encode(errors="replace")))
    except RecursionError:
        raise ToolFailed("The arguments are too deeply nested; nothing was changed.") from None


def _check_changes(changes: object) -> None:
    if not is_items(changes) or not changes:
        raise ToolFailed("changes: it must be a list of changes, one or more")
    if len(changes) > _MOST_CHANGES:
        raise ToolFailed(
            f"changes: at most {_MOST_CHANGES} at a time, and these are {len(changes)}; nothing was changed. "
            "Send the first ones, and the others in further calls."
        )
    for place, change in enumerate(changes):
        if not is_mapping(change) or not {"op", "path"} <= {*change} <= {"op", "path", "value"}:
            raise ToolFailed(f"changes[{place}]: it must have op and path, and may have value")
        if change["op"] not in ("set", "append", "delete") or not isinstance(change["path"], str):
            raise ToolFailed(f"changes[{place}]: op is set, append or delete, and path a text")
