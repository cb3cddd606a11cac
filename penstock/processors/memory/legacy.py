"""`LegacyMemory` runs memory processors of the older interface; two of them are here, too.

Such a processor has one method ``process``, which gets the loaded messages and returns those to show.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Literal, Protocol, cast, get_args, runtime_checkable

from penstock.engine.processor.option_checks import check_number
from penstock.engine.processor.processor import Processor, is_async, one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import Value, is_items, thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, TextPart, ToolPart
from penstock.models.conversations import call_key, count_tool_parts, names_of, replace_source, without_tool_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from penstock.engine.processor.context import InputContext, InputStepContext
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Part
    from penstock.engine.values.protocols import TokenCounter


# The interface

MemoryStage = Literal["process_input", "process_input_step"]
"""The stages in which `LegacyMemory` can run."""


@runtime_checkable
class LegacyProcess(Protocol):
    """An object with the older method ``process``, sync or async."""

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,
        memory_system_message: str | None = None,
        new_messages: Sequence[Message] = (),
    ) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Return the loaded messages to show to the model."""
        ...


class LegacyMemoryProcessor:
    """The base class of processors with the older interface. It changes nothing; subclasses override `process`.

    Args:
        name: the name; by default that of the class.

    Attributes:
        name: the name.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).__name__

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,  # noqa: ARG002  # for subclasses
        memory_system_message: str | None = None,  # noqa: ARG002  # likewise
        new_messages: Sequence[Message] = (),  # noqa: ARG002  # likewise
    ) -> Sequence[Message]:
        """Return the loaded messages to show to the model.

        Args:
            messages: the loaded messages, oldest first.
            system_message: the text of the system messages without an owner (tag); None if there are none.
            memory_system_message: the text of the system messages with an owner, such as those of a memory; None if
                there are none.
            new_messages: the caller's messages. They must not be returned.
        """
        return messages

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one class with equal options."""
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the class."""
        return f"{type(self).__name__}()"


class LegacyMemory(Processor):
    """Runs processors with the older interface, in order, on loaded messages. Other messages are not changed.

    Place it after the processor that loads the memory. The order matters: a token limiter at the end keeps most of the
    history. Failures are raised, unless the workflow says otherwise.

    Args:
        processors: objects with the older method ``process``, sync or async; one or more.
        stage: ``process_input`` (default; once, for the whole run) or ``process_input_step`` (before each model call).
        id: the name in graphs and records. Default ``legacy-memory``.

    Raises:
        OptionError: there is no processor, an object without ``process``, or another stage.
    """

    id = "legacy-memory"
    edits = "anything"

    def __init__(self, *processors: LegacyProcess, stage: MemoryStage = "process_input", id: str | None = None) -> None:
        if id is not None:
            self.id = id
        if not processors or not all(isinstance(cast("object", one), LegacyProcess) for one in processors):
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
        given = _LegacyArguments(listed)
        shown: Sequence[Message] = listed.remembered
        for one in self.processors:
            shown = _checked_result(one, given.to(one, shown))
        return _with_remembered(listed, shown)

    async def _run_async(self, ctx: InputContext | InputStepContext) -> MessageList | None:
        listed = ctx.message_list
        given = _LegacyArguments(listed)
        shown: Sequence[Message] = listed.remembered
        for one in self.processors:
            found = given.to(one, shown)
            shown = _checked_result(one, await cast("Awaitable[object]", found) if is_async(one.process) else found)
        return _with_remembered(listed, shown)


class _LegacyArguments:
    """The arguments of older processors that come from the conversation."""

    def __init__(self, messages: MessageList) -> None:
        own = messages.tagged(None)
        ids = {message.id for message in own}
        self.system = _joined_texts(own)
        self.memory = _joined_texts([message for message in messages.system if message.id not in ids])
        self.new = messages.input

    def to(self, one: LegacyProcess, shown: Sequence[Message]) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """Call a processor."""
        return one.process(shown, system_message=self.system, memory_system_message=self.memory, new_messages=self.new)


def _checked_result(one: LegacyProcess, returned: object) -> Sequence[Message]:
    """Return the messages that a processor returned.

    Raises:
        UsageError: it returned something else.
    """
    if not is_items(returned) or not all(isinstance(message, Message) for message in returned):
        raise UsageError(f"{type(one).__name__}.process must return a list of messages, not {type(returned).__name__}")
    return returned


def _joined_texts(messages: Sequence[Message]) -> str | None:
    return "\n".join(message.text for message in messages) if messages else None


def _with_remembered(messages: MessageList, shown: Sequence[Message]) -> MessageList | None:
    """Return the list with other loaded messages; None if they are the same."""
    return None if tuple(shown) == messages.remembered else replace_source(messages, "memory", shown)


# The two that come along

TOKENS_PER_MESSAGE = 3.8
"""Tokens that each message costs beside its texts, in the reference system (builtins.md §7.1.2 and §14)."""
TOKENS_PER_CONVERSATION = 24
"""Tokens that a conversation costs beside its messages, in the reference system."""
TOKENS_PER_MEDIUM = 765
"""The most tokens that an image, an audio part or a file counts: no provider reads base64 as text."""

_MEDIA = (ImagePart, AudioPart, FilePart)
_MEDIA_CHARACTERS = 4 * TOKENS_PER_MEDIUM


class MemoryTokenLimiter(LegacyMemoryProcessor):
    """Keeps the newest loaded messages that fit into a token budget, beside system messages and new ones.

    It goes from the newest message back, and stops at the first one that does not fit. Results whose calls were cut off
    are removed with them. For `LegacyMemory`; put it last.

    Args:
        limit: the budget in tokens, 0 or more.
        encoding: the name of an encoding of tiktoken, used without ``token_counter``. Default ``o200k_base``.
        token_counter: an object with ``count(text)``, a function from text to tokens, the name of an encoding, or
            ``"heuristic"``. None: ``encoding``.

    Raises:
        OptionError: ``limit`` is not a number of 0 or more, or ``token_counter`` or ``encoding`` is invalid.
    """

    def __init__(
        self,
        limit: float,
        *,
        encoding: str = "o200k_base",
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        from penstock.models.tokens.counters import counting  # loaded only where tokens are counted

        super().__init__()
        allowed = "a number of tokens from 0 on"
        self.limit = check_number(type(self).__name__, "limit", limit, allowed, most=math.inf)
        self.token_counter = counting(type(self).__name__, token_counter, encoding)
        self.token_counter.prepare()

    def count(self, message: Message) -> float:
        """Return how many tokens a message counts: at least the 3.8 that each message costs."""
        texts: list[str] = [message.role]
        media = 0
        for part in message.parts:
            text = _part_text(part)
            if isinstance(part, _MEDIA) and len(text) > _MEDIA_CHARACTERS:
                media += 1
            else:
                texts.append(text)
        return self.token_counter.count("".join(texts)) + media * TOKENS_PER_MEDIUM + TOKENS_PER_MESSAGE

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,
        memory_system_message: str | None = None,
        new_messages: Sequence[Message] = (),
    ) -> Sequence[Message]:
        """Return the newest messages, as many as fit."""
        total: float = TOKENS_PER_CONVERSATION
        for text in (system_message, memory_system_message):
            total += self.count(Message.system(text)) if text else 0
        every = (*messages, *new_messages)
        first = len(every)
        while first and (total := total + self.count(every[first - 1])) <= self.limit:
            first -= 1
        newest = messages[first:]
        return without_tool_calls(newest, count_tool_parts(messages[:first])) if first and newest else newest


def _part_text(part: Part) -> str:
    """Return the text of a part: text, name and arguments of a call, its result; anything else as JSON."""
    if isinstance(part, TextPart):
        return part.text
    if not isinstance(part, ToolPart):
        return _part_json(part)
    call = part.name + _text(part.arguments) if part.state in ("partial", "call") or part.arguments else ""
    return call + (_text(part.error if part.state == "error" else part.result))


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"))


def _part_json(part: Part) -> str:
    from penstock.formats import dump_messages  # loaded only for other parts than text and tools

    found = dump_messages([Message("user", (part,))], "ai-sdk-model")
    return "".join(_text(item) for message in found for item in message["content"])


class MemoryToolCallFilter(LegacyMemoryProcessor):
    """Removes tool calls and results from loaded messages. Text beside them stays.

    For `LegacyMemory`. `penstock.ToolCallFilter` has more options, and does not change the conversation.

    Args:
        exclude: the names of the tools whose calls are removed. None: all tools; an empty list: none.

    Raises:
        OptionError: ``exclude`` is not a list of names.
    """

    def __init__(self, *, exclude: Iterable[str] | None = None) -> None:
        super().__init__()
        self.exclude = None if exclude is None else names_of(type(self).__name__, "exclude", exclude)

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,  # noqa: ARG002  # part of the interface
        memory_system_message: str | None = None,  # noqa: ARG002  # likewise
        new_messages: Sequence[Message] = (),  # noqa: ARG002  # likewise
    ) -> Sequence[Message]:
        """Return the messages without calls of those tools and their results."""
        keys = {
            call_key(part)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolPart) and (self.exclude is None or part.name in self.exclude)
        }
        return without_tool_calls(messages, keys) if keys else messages
