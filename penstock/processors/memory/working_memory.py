"""`WorkingMemory`: what is known about a user, shown to the model, which keeps it up to date. It knows no agent."""

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
from penstock.models.conversations.relaying import laid_out
from penstock.processors.memory._options import checked_policy
from penstock.processors.memory._tokens import text_tokeniser
from penstock.processors.memory._working_origins import origins_of
from penstock.processors.memory._working_prompt import instructions, known
from penstock.processors.memory._working_records import Whose
from penstock.processors.memory._working_templates import template_of, way_of, written
from penstock.processors.memory.working_memory_update import MAX_CHARACTERS, NAME, Seen, notebook_of, tool_of
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.processor.context import InputContext, InputStepContext, ToolCallContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.ports import Storage
    from penstock.engine.values.stored import MemoryRecord, MemoryScope
    from penstock.processors.memory._working_templates import Template, TemplateOption, Way

TAG = "memory"
"""The owner of the system message with the instructions."""

_ALL = 1_000  # versions


@dataclass
class WorkingMemoryState:
    """What one request knows of its memory.

    Attributes:
        template: what it is to hold; None as long as none was shown.
        seen: the version that the model has seen.
        tool: what it is changed by, once that was made.
        shown: the id of the message that shows it, until its place is settled.
    """

    template: Template | None = None
    seen: Seen = field(default_factory=Seen)
    tool: Tool | None = None
    shown: str = ""


TemplateProvider: TypeAlias = "Callable[[dict[str, Value]], TemplateOption | Awaitable[TemplateOption | None] | None]"
"""Gives the template of a request, by its request context; None: the one that counts where it gives none."""

ReadOnly: TypeAlias = "bool | Callable[[dict[str, Value]], bool]"
"""Whether a memory cannot be changed, or a function of the request context that says so."""


class WorkingMemory(Processor[WorkingMemoryState]):
    """Shows the model what is known about the user (or the thread), and gives it a tool to keep that up to date.

    What is known stands in a message of its own before the user's last one, as data; only the instructions are a system
    message, the same in every request, so that prompts stay cacheable. Where the id of its scope is not in the request
    context, nothing is shown and no tool is given. By hand it is placed behind all others.

    A store that cannot be read fails the request, unless ``on_error`` says otherwise.
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
        update: Way | None = None,
        read_only: ReadOnly = False,
        template_provider: TemplateProvider | None = None,
        max_characters: int = MAX_CHARACTERS,
        tool_name: str = NAME,
        on_error: ErrorPolicy = "raise",
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            storage: where it is kept.
            template: what it is to hold: a text in Markdown to fill in; a type of objects (a pydantic model, a
                dataclass, a TypedDict); or a JSON Schema of an object. By default a text with nine fields.
            scope: ``resource``: one memory for all threads of a resource, a user say; ``thread``: one for each thread.
            update: how the model changes it. A text: ``replace`` (it sends all of it anew; the default) or ``edit`` (it
                adds or corrects a piece). An object: ``fields`` (set, append, delete by path; the default) or ``merge``
                (it sends the fields that change).
            read_only: the model cannot change it; a bool, or a function of the request context.
            template_provider: a function of the request context, sync or async, that gives the template of a request;
                where it gives None, ``template`` counts.
            max_characters: how long it may get.
            tool_name: what the model calls the tool by. A tool of the agent's that has the name counts in its place.
            on_error: what it means that the store cannot be read: ``raise``, ``block``, or ``allow``: go on without it.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
            MissingExtraError: a JSON Schema without the extra ``json-schema``.
        """
        owner = type(self).__name__
        self._named = id is not None
        self.id = self.id if id is None else id
        self.storage = storage
        self._notebook = notebook_of(owner, storage, scope, max_characters)
        self.scope: MemoryScope = self._notebook.scope
        self.max_characters = max_characters
        self._template = template_of(owner, template)
        self.template = template
        self.update: Way | None = way_of(owner, update)
        if template_provider is None:
            self._template.way(owner, self.update)
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
        """Return the state of a request."""
        return WorkingMemoryState()

    # The stages

    async def process_input(self, ctx: InputContext[WorkingMemoryState]) -> MessageList | None:
        """Show what is known, and say what to do with it."""
        whose = Whose.of(ctx.request_context)
        if self._notebook.key(whose) is None:
            return None
        template = await self._template_for(ctx)
        way = None if self._is_fixed(ctx) else template.way(type(self).__name__, self.update)
        record = await self._notebook.read(whose)
        text = "" if record is None else record.text
        if way is not None:
            ctx.state.template = template
            ctx.state.seen = Seen(0 if record is None else record.version)
        ctx.note(known=bool(text), characters=len(text), read_only=way is None)
        told = ctx.message_list.add(Message.system(instructions(self.scope, template, way, self.tool_name)), tag=TAG)
        message = told.completed(Message.user(known(template, way, text)))
        ctx.state.shown = message.id
        return _before_turn(told, Entry(message, "context"))

    def process_input_step(self, ctx: InputStepContext[WorkingMemoryState]) -> Overrides | MessageList | None:
        """Offer the tool, and see to it that what is known stands behind what others have loaded meanwhile."""
        state, given = ctx.state, ctx.tools or EMPTY
        listed = _moved(ctx.message_list, state.shown) if state.shown else None
        state.shown = ""  # later steps leave it where it is
        if state.template is None or self.tool_name in given:
            return listed
        if state.tool is None:
            way = state.template.way(type(self).__name__, self.update)
            state.tool = tool_of(self._notebook, state.template, way, self.tool_name, state.seen)
        active = None if ctx.active_tools is None else [*ctx.active_tools, self.tool_name]
        return Overrides(tools={**given, self.tool_name: state.tool}, active_tools=active, messages=listed)

    def process_tool_call(self, ctx: ToolCallContext[WorkingMemoryState]) -> Value:
        """Put tokens in place of values that were hidden and restored for tools: they are kept in no other form."""
        if ctx.state.template is None or ctx.tool_name != self.tool_name:
            return None
        change = text_tokeniser(ctx)
        return None if change is None else _with_texts(ctx.arguments, change)

    # For applications

    async def read(self, *, thread_id: str | None = None, resource_id: str | None = None) -> MemoryRecord | None:
        """Return what is known, or None.

        Args:
            thread_id: the thread; needed where ``scope`` is ``thread``.
            resource_id: the resource; needed where ``scope`` is ``resource``.

        Raises:
            UsageError: the id of its scope is missing.
            OwnershipError: the thread is another resource's.
            StorageError: the store gave up.
        """
        return await self._notebook.read(Whose(thread_id, resource_id))

    async def write(
        self,
        content: str | Values,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        expected: int | None = None,
        author: str = "",
    ) -> MemoryRecord:
        """Store a text, or an object, in place of what is known.

        Args:
            content: all that is to be kept; an object is kept as JSON. It is not held to the template.
            thread_id: see `read`.
            resource_id: see `read`.
            expected: the version that it must still have; 0: there must be none; None: whatever there is.
            author: who writes it, for its history.

        Raises:
            StorageConflictError: it has another version by now.
            UsageError, OwnershipError, StorageError: see `read`.
        """
        whose = Whose(thread_id, resource_id)
        text = content if isinstance(content, str) else written(content)
        return await self._notebook.write(whose, text, expected, author)

    async def history(
        self, *, thread_id: str | None = None, resource_id: str | None = None, limit: int = 10
    ) -> tuple[MemoryRecord, ...]:
        """Return the last versions, the newest first: what it held, since when, and who wrote it (the run's id).

        Raises:
            UsageError, OwnershipError, StorageError: see `read`.
        """
        return await self._notebook.history(Whose(thread_id, resource_id), limit)

    async def origins(self, *, thread_id: str | None = None, resource_id: str | None = None) -> dict[str, MemoryRecord]:
        """Return for each field of an object, by its path, the version since which it is as it is: who wrote it, when.

        As far as the store keeps versions: what is older is said to be of the oldest.

        Raises:
            UsageError, OwnershipError, StorageError: see `read`.
        """
        return origins_of(await self._notebook.history(Whose(thread_id, resource_id), _ALL))

    async def undo(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        version: int | None = None,
        author: str = "",
    ) -> MemoryRecord:
        """Store an earlier version again, as a new one, and return it.

        Args:
            thread_id: see `read`.
            resource_id: see `read`.
            version: which; by default the one before the last, so that undoing twice does it again.
            author: who undoes it, for its history.

        Raises:
            NotStoredError: the store does not keep that version (any more).
            UsageError, OwnershipError, StorageError: see `read`.
        """
        return await self._notebook.undo(Whose(thread_id, resource_id), version, author)

    async def forget(self, *, thread_id: str | None = None, resource_id: str | None = None) -> bool:
        """Delete what is known, with its history, so that nothing can be undone; tell whether there was anything.

        A request that is under way may still answer with what it was shown. See `Storage.delete_resource` for all that
        a store keeps of a user.

        Raises:
            UsageError, OwnershipError, StorageError: see `read`.
        """
        return await self._notebook.forget(Whose(thread_id, resource_id))

    async def _template_for(self, ctx: InputContext[WorkingMemoryState]) -> Template:
        if self.template_provider is None:
            return self._template
        found: Value = self.template_provider(ctx.request_context)
        if inspect.isawaitable(found):
            found = await found
        return self._template if found is None else template_of(type(self).__name__, found)

    def _is_fixed(self, ctx: InputContext[WorkingMemoryState]) -> bool:
        """Tell whether the model cannot change it; whatever a function says but False means that it cannot."""
        return self.read_only(ctx.request_context) is not False if callable(self.read_only) else self.read_only


def _before_turn(messages: MessageList, shown: Entry) -> MessageList:
    """Return the list with a message of the application's before the user's last one.

    What stands before it is as it was in the last request, so what providers keep of prompts stays of use.
    """
    entries = [entry for entry in messages.entries if entry.message.id != shown.message.id]
    place = _turn(entries)
    return laid_out(messages, [*entries[:place], shown, *entries[place:]])


def _moved(messages: MessageList, shown: str) -> MessageList | None:
    """Return the list with that message before the user's last one; None if it stands there, or is gone."""
    entries = messages.entries
    place = next((index for index, entry in enumerate(entries) if entry.message.id == shown), None)
    if place is None or _turn(entries) == place + 1:
        return None
    return _before_turn(messages, entries[place])


def _turn(entries: Sequence[Entry]) -> int:
    """Return where the user's last message stands; where there is none, what the caller sent, or the end."""
    sent = [index for index, entry in enumerate(entries) if entry.source == "input"]
    turns = [index for index in sent if entries[index].message.role == "user"]
    return turns[-1] if turns else sent[0] if sent else len(entries)


def _with_texts(value: Value, change: Callable[[str], str]) -> Value:
    """Return a value of JSON with its texts changed, names of fields included."""
    if isinstance(value, str):
        return change(value)
    if is_items(value):
        return [_with_texts(item, change) for item in value]
    if is_mapping(value):
        return {change(name): _with_texts(item, change) for name, item in value.items()}
    return value
