"""The older protocol of memory processors, one method ``process``, and the adapter that runs it. It knows no memory.

Such a processor is given what was remembered and returns what is to be shown of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, cast, get_args, runtime_checkable

from penstock.engine.processor.processor import Processor, is_async, one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import is_items
from penstock.engine.values.messages import Message
from penstock.models.conversations.relaying import refilled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from penstock.engine.processor.context import InputContext, InputStepContext
    from penstock.engine.values.message_list import MessageList

MemoryStage = Literal["process_input", "process_input_step"]


@runtime_checkable
class LegacyProcess(Protocol):
    """Anything with the older method; it may be async."""

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,
        memory_system_message: str | None = None,
        new_messages: Sequence[Message] = (),
    ) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Return what is to be shown of the remembered messages."""
        ...


class LegacyMemoryProcessor:
    """The base class of the older memory processors. It changes nothing: subclasses override `process`.

    Attributes:
        name: how it is called; the class name by default.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).__name__

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,  # noqa: ARG002  # for those who override
        memory_system_message: str | None = None,  # noqa: ARG002  # likewise
        new_messages: Sequence[Message] = (),  # noqa: ARG002  # likewise
    ) -> Sequence[Message]:
        """Return what is to be shown of the remembered messages.

        Args:
            messages: what was remembered, oldest first.
            system_message: the text of the system messages.
            memory_system_message: the text of system messages that have an owner, such as a memory's own.
            new_messages: what the caller sends; it is not to be returned.
        """
        return messages

    def __eq__(self, other: object) -> bool:
        """Tell whether both are of one class with equal options."""
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the name."""
        return f"{type(self).__name__}()"


class LegacyMemory(Processor):
    """Runs older memory processors, in their order, on what the conversation remembers. The rest is not touched.

    Put it behind whatever loads the memory. Order matters: a limiter of tokens last keeps most of the history. What
    they protect is not known here, so their failure is raised, unless the workflow says otherwise.
    """

    id = "legacy-memory"
    edits = "anything"

    def __init__(self, *processors: LegacyProcess, stage: MemoryStage = "process_input", id: str | None = None) -> None:
        """Check the options.

        Args:
            processors: objects with the older method ``process``, sync or async.
            stage: ``process_input`` (once, the change stays for the run) or ``process_input_step`` (before each call).
            id: its name in the graph.

        Raises:
            OptionError: no processor, something without ``process``, or another stage.
        """
        if id is not None:
            self.id = id
        if not processors or not all(_has_process(one) for one in processors):
            allowed = "one or several objects with process(messages, *, system_message, ...)"
            raise OptionError(type(self).__name__, "processors", processors, allowed)
        self.processors = processors
        self.stages = (one_of(type(self).__name__, "stage", stage, get_args(MemoryStage)),)
        if any(is_async(one.process) for one in processors):
            setattr(self, self.stages[0], self._run_async)

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Run the processors once."""
        return self._run(ctx)

    def process_input_step(self, ctx: InputStepContext) -> MessageList | None:
        """Run the processors before a model call."""
        return self._run(ctx)

    def _run(self, ctx: InputContext | InputStepContext) -> MessageList | None:
        listed = ctx.message_list
        given = _Given(listed)
        shown: Sequence[Message] = listed.remembered
        for one in self.processors:
            shown = _checked(one, given.to(one, shown))
        return _settled(listed, shown)

    async def _run_async(self, ctx: InputContext | InputStepContext) -> MessageList | None:
        listed = ctx.message_list
        given = _Given(listed)
        shown: Sequence[Message] = listed.remembered
        for one in self.processors:
            found = given.to(one, shown)
            shown = _checked(one, await cast("Awaitable[object]", found) if is_async(one.process) else found)
        return _settled(listed, shown)


def _has_process(one: object) -> bool:
    return isinstance(one, LegacyProcess)


class _Given:
    """What a conversation tells an older processor beside the remembered messages."""

    def __init__(self, messages: MessageList) -> None:
        own = messages.tagged(None)
        ids = {message.id for message in own}
        self.system = _texts(own)
        self.memory = _texts([message for message in messages.system if message.id not in ids])
        self.new = messages.input

    def to(self, one: LegacyProcess, shown: Sequence[Message]) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Call a processor with it."""
        return one.process(shown, system_message=self.system, memory_system_message=self.memory, new_messages=self.new)


def _checked(one: LegacyProcess, returned: object) -> Sequence[Message]:
    """Return the messages that a processor returned.

    Raises:
        UsageError: it returned something else.
    """
    if not is_items(returned) or not all(isinstance(message, Message) for message in returned):
        raise UsageError(f"{type(one).__name__}.process must return a list of messages, not {type(returned).__name__}")
    return returned


def _texts(messages: Sequence[Message]) -> str | None:
    return "\n".join(message.text for message in messages) if messages else None


def _settled(messages: MessageList, shown: Sequence[Message]) -> MessageList | None:
    """Return the list with what is to be shown of the remembered messages; None if that is all of them."""
    return None if tuple(shown) == messages.remembered else refilled(messages, "memory", shown)
