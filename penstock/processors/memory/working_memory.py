"""`WorkingMemory`: notes about a user that the model is shown, and that it keeps up to date with a tool."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_items, is_mapping
from penstock.engine.values.message_list import Entry
from penstock.engine.values.messages import Message
from penstock.models.conversations import list_with_entries
from penstock.processors.memory._options import ReadOnly, checked_policy
from penstock.processors.memory._storing import text_redactor
from penstock.processors.memory._working_records import MemoryOwner
from penstock.processors.memory._working_templates import (
    checked_update,
    instructions,
    memory_message_text,
    parse_template,
    to_json,
)
from penstock.processors.memory.working_memory_update import (
    MAX_CHARACTERS,
    NAME,
    ShownVersion,
    make_tool,
    parse_document,
    records_of,
)
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from penstock.engine.processor.context import InputContext, InputStepContext, ToolCallContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.protocols import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope
    from penstock.processors.memory._working_templates import Template, TemplateOption, UpdateMode


def origins_of(history: Sequence[MemoryRecord]) -> dict[str, MemoryRecord]:
    """Return for each field of an object, by its path, the version that set its current value.

    Args:
        history: the versions, newest first. If the newest is not an object, there are no fields.
    """
    fields = [dict(_fields_of(parse_document(record.text), "")) for record in history]
    found: dict[str, MemoryRecord] = {}
    for path, value in fields[0].items() if fields else ():
        same = 0
        while same + 1 < len(fields) and fields[same + 1].get(path, _NOTHING) == value:
            same += 1
        found[path] = history[same]
    return found


_NOTHING = object()


def _fields_of(value: Value, path: str) -> Iterator[tuple[str, Value]]:
    """Yield the values that are not objects, and empty objects, each with its path as a JSON Pointer."""
    if is_mapping(value) and (value or not path):
        for name, item in value.items():
            yield from _fields_of(item, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif path:
        yield path, value


TAG = "memory"
"""The owner (tag) of the system message with the instructions."""

_ALL_VERSIONS = 1_000


@dataclass
class WorkingMemoryState:
    """The state of one request.

    Attributes:
        template: the intended contents of the memory; None if the model cannot change it.
        seen: the version that the model was shown.
        tool: the tool, once it was made.
        shown: the id of the message with the memory, until its final place is known.
    """

    template: Template | None = None
    seen: ShownVersion = field(default_factory=ShownVersion)
    tool: Tool | None = None
    shown: str = ""


TemplateProvider: TypeAlias = "Callable[[dict[str, Value]], TemplateOption | Awaitable[TemplateOption | None] | None]"
"""Returns the template for a request context; None: the default one. May be async."""


class WorkingMemory(Processor[WorkingMemoryState]):
    """Shows the model notes about the user (or the thread), and gives it a tool to keep them up to date.

    The notes stand in a message of their own before the last user message, as data. Only the instructions are a system
    message. They are the same in every request, so prompts stay cacheable. If the id of the scope is missing in the
    request context, nothing is shown, and there is no tool. If you place the processor by hand, place it after all
    others.

    Args:
        storage: holds the memory.
        template: the intended contents of the memory: a text in Markdown to fill in; a type of objects (a pydantic
            model, a dataclass, a TypedDict); or a JSON Schema of an object. None: a text with nine fields.
        scope: ``resource``: one memory for all threads of a resource, such as a user; ``thread``: one for each thread.
            Default ``resource``.
        update: how the model changes it. Texts: ``replace`` (it sends the whole text; the default) or ``edit`` (it adds
            or corrects a piece). Objects: ``fields`` (set, append and delete by path; the default) or ``merge`` (it
            sends the fields that change).
        read_only: whether the model cannot change it: a bool, or a function from the request context to a bool. Any
            result but False makes it read-only.
        template_provider: a function of the request context, sync or async, that returns the template of a request. If
            it returns None, ``template`` is used.
        max_characters: the length limit of the memory, 1 or more. Default 16,000.
        tool_name: the name of the tool. If the agent has a tool of that name, that one is used. Default
            ``update_working_memory``.
        on_error: what happens if the store cannot be read: ``raise`` (default), ``block``, or ``allow`` (the request
            continues without the memory).
        id: the name in graphs and records. Default ``working-memory``.

    Raises:
        OptionError: a value is not allowed.
        MissingExtraError: ``template`` is a JSON Schema, and the extra ``json-schema`` is not installed.
    """

    id = "working-memory"
    role: ProcessorRole = "transform"
    edits = "anything"

    def __init__(
        self,
        storage: Storage,
        *,
        template: TemplateOption | None = None,
        scope: MemoryScope = "resource",
        update: UpdateMode | None = None,
        read_only: ReadOnly = False,
        template_provider: TemplateProvider | None = None,
        max_characters: int = MAX_CHARACTERS,
        tool_name: str = NAME,
        on_error: ErrorPolicy = "raise",
        id: str | None = None,
    ) -> None:
        owner = type(self).__name__
        self._named = id is not None
        self.id = self.id if id is None else id
        self.storage = storage
        self._records = records_of(owner, storage, scope, max_characters)
        self.scope: MemoryScope = self._records.scope
        self.max_characters = max_characters
        self._template = parse_template(owner, template)
        self.template = template
        self.update: UpdateMode | None = checked_update(owner, update)
        if template_provider is None:
            self._template.update_mode(owner, self.update)
        elif not callable(template_provider):
            raise OptionError(
                owner, "template_provider", template_provider, "a function of the request context, or None"
            )
        self.template_provider = template_provider
        self.read_only = read_only if callable(read_only) else flag(owner, "read_only", read_only)
        self.tool_name = Tool.external(tool_name).name
        self.on_error = checked_policy(owner, on_error)
        self.stores = self.read_only is not True

    def new_state(self) -> WorkingMemoryState:
        """Return the state of a new request."""
        return WorkingMemoryState()

    # The stages

    async def process_input(self, ctx: InputContext[WorkingMemoryState]) -> MessageList | None:
        """Add the memory and the instructions."""
        memory_owner = MemoryOwner.of(ctx.request_context)
        if self._records.key(memory_owner) is None:
            return None
        template = await self._template_for(ctx)
        mode = None if self._is_read_only(ctx) else template.update_mode(type(self).__name__, self.update)
        record = await self._records.read(memory_owner)
        text = "" if record is None else record.text
        if mode is not None:
            ctx.state.template = template
            ctx.state.seen = ShownVersion(0 if record is None else record.version)
        ctx.note(known=bool(text), characters=len(text), read_only=mode is None)
        listed = ctx.message_list.add(Message.system(instructions(self.scope, template, mode, self.tool_name)), tag=TAG)
        message = listed.completed(Message.user(memory_message_text(template, mode, text)))
        ctx.state.shown = message.id
        return _before_turn(listed, Entry(message, "context"))

    def process_input_step(self, ctx: InputStepContext[WorkingMemoryState]) -> Overrides | MessageList | None:
        """Offer the tool, and move the memory behind messages that other processors have loaded meanwhile."""
        state, given = ctx.state, ctx.tools or EMPTY
        listed = _moved_before_turn(ctx.message_list, state.shown) if state.shown else None
        state.shown = ""  # later steps do not move it
        if state.template is None or self.tool_name in given:
            return listed
        if state.tool is None:
            mode = state.template.update_mode(type(self).__name__, self.update)
            state.tool = make_tool(self._records, state.template, mode, self.tool_name, state.seen)
        active = None if ctx.active_tools is None else [*ctx.active_tools, self.tool_name]
        return Overrides(tools={**given, self.tool_name: state.tool}, active_tools=active, messages=listed)

    def process_tool_call(self, ctx: ToolCallContext[WorkingMemoryState]) -> Value:
        """Put vault tokens in place of values that were restored for tools, so that only tokens are stored."""
        if ctx.state.template is None or ctx.tool_name != self.tool_name:
            return None
        change = text_redactor(ctx)
        return None if change is None else _map_texts(ctx.arguments, change)

    # For applications

    async def read(self, *, thread_id: str | None = None, resource_id: str | None = None) -> MemoryRecord | None:
        """Return the memory, or None.

        Args:
            thread_id: the thread; required if ``scope`` is ``thread``.
            resource_id: the resource; required if ``scope`` is ``resource``.

        Raises:
            UsageError: the id of the scope is missing.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        return await self._records.read(MemoryOwner(thread_id, resource_id))

    async def write(
        self,
        content: str | Values,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        expected: int | None = None,
        author: str = "",
    ) -> MemoryRecord:
        """Replace the memory.

        Args:
            content: the new content; an object is stored as JSON. It is not checked against the template.
            thread_id: see `read`.
            resource_id: see `read`.
            expected: the version that the memory must have now; 0: there must be none; None: any.
            author: who writes it, for the history.

        Raises:
            StorageConflictError: the memory has another version.
            UsageError: the id of the scope is missing.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        memory_owner = MemoryOwner(thread_id, resource_id)
        text = content if isinstance(content, str) else to_json(content)
        return await self._records.write(memory_owner, text, expected, author)

    async def history(
        self, *, thread_id: str | None = None, resource_id: str | None = None, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return the last versions, newest first: the text, the time, and the author (a run id, if the model wrote it).

        Args:
            thread_id: see `read`.
            resource_id: see `read`.
            limit: how many versions to return at most. Default 10.

        Raises:
            UsageError: the id of the scope is missing.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        return await self._records.history(MemoryOwner(thread_id, resource_id), limit)

    async def origins(self, *, thread_id: str | None = None, resource_id: str | None = None) -> dict[str, MemoryRecord]:
        """Return for each field of an object, by its path, the version that set its current value.

        The version has author and time. Values older than the oldest stored version are reported with that one.

        Raises:
            UsageError: the id of the scope is missing.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        return origins_of(await self._records.history(MemoryOwner(thread_id, resource_id), _ALL_VERSIONS))

    async def undo(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        version: int | None = None,
        author: str = "",
    ) -> MemoryRecord:
        """Store an earlier version again, as a new version, and return it.

        Args:
            thread_id: see `read`.
            resource_id: see `read`.
            version: the version; by default the one before the last, so that a second undo is a redo.
            author: who undoes it, for the history.

        Raises:
            NotStoredError: the store does not have that version.
            UsageError: the id of the scope is missing.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        return await self._records.undo(MemoryOwner(thread_id, resource_id), version, author)

    async def forget(self, *, thread_id: str | None = None, resource_id: str | None = None) -> bool:
        """Delete the memory with its history. Return whether there was one. This cannot be undone.

        A running request may still answer with data that it has loaded. `Storage.delete_resource` deletes everything
        that a store has about a resource.

        Raises:
            UsageError: the id of the scope is missing.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        return await self._records.forget(MemoryOwner(thread_id, resource_id))

    async def _template_for(self, ctx: InputContext[WorkingMemoryState]) -> Template:
        if self.template_provider is None:
            return self._template
        found: Value = self.template_provider(ctx.request_context)
        if inspect.isawaitable(found):
            found = await found
        return self._template if found is None else parse_template(type(self).__name__, found)

    def _is_read_only(self, ctx: InputContext[WorkingMemoryState]) -> bool:
        """Return whether the model cannot change the memory: any result of a function but False."""
        return self.read_only(ctx.request_context) is not False if callable(self.read_only) else self.read_only


def _before_turn(messages: MessageList, shown: Entry) -> MessageList:
    """Return the list with a message of the application before the last user message.

    Everything before it is as in the last request, so prompt caches of providers stay valid.
    """
    entries = [entry for entry in messages.entries if entry.message.id != shown.message.id]
    place = _turn_index(entries)
    return list_with_entries(messages, [*entries[:place], shown, *entries[place:]])


def _moved_before_turn(messages: MessageList, shown: str) -> MessageList | None:
    """Return the list with that message before the last user message; None if it is there, or gone."""
    entries = messages.entries
    place = next((index for index, entry in enumerate(entries) if entry.message.id == shown), None)
    if place is None or _turn_index(entries) == place + 1:
        return None
    return _before_turn(messages, entries[place])


def _turn_index(entries: Sequence[Entry]) -> int:
    """Return the index of the last user message; without one, that of the first input message, or the end."""
    sent = [index for index, entry in enumerate(entries) if entry.source == "input"]
    turns = [index for index in sent if entries[index].message.role == "user"]
    return turns[-1] if turns else sent[0] if sent else len(entries)


def _map_texts(value: Value, change: Callable[[str], str]) -> Value:
    """Return a JSON value with its texts changed, names of fields included."""
    if isinstance(value, str):
        return change(value)
    if is_items(value):
        return [_map_texts(item, change) for item in value]
    if is_mapping(value):
        return {change(name): _map_texts(item, change) for name, item in value.items()}
    return value
