"""`DropMessages` and `DropParts`: remove messages or parts from the history, the input, or each prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.processor.processor import Processor, is_async, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.messages import UnknownPart
from penstock.models.conversations import count_tool_parts, has_content, names_of, replace_messages, without_tool_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.engine.processor.context import Context, InputContext, LLMRequestContext
    from penstock.engine.processor.processor import ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message, Part


DropScope = Literal["remembered", "input", "prompt"]
"""Where messages are dropped.

- ``remembered``: in loaded messages, for the whole run
- ``input``: in what the caller sends, for the whole run
- ``prompt``: in the prompt of each call, before the last user message; the conversation is not changed
"""

_STAGES = {"remembered": "process_input", "input": "process_input", "prompt": "process_llm_request"}


class Dropper(Processor):
    """The base class of processors that drop messages in a scope. Subclasses implement `left`.

    A failure is raised: content that was to be dropped must not pass because of it.
    """

    id = "dropper"
    role: ProcessorRole = "transform"
    edits = "anything"
    scope: str

    def _set_scope(self, scope: str) -> None:
        """Check the scope, and choose the stage for it.

        Raises:
            OptionError: there is no such scope.
        """
        self.scope = one_of(type(self).__name__, "scope", scope, get_args(DropScope))
        self.stages = (_STAGES[self.scope],)

    def left(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that are left, each as it was, or changed under the same id."""
        raise NotImplementedError

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Drop from loaded messages, or from those that the caller sends."""
        listed = ctx.message_list
        return self._dropped(ctx, listed, listed.input if self.scope == "input" else listed.remembered)

    def process_llm_request(self, ctx: LLMRequestContext) -> MessageList | None:
        """Drop from a prompt, before the last user message."""
        listed = ctx.message_list
        every = listed.conversation
        turn = max((index for index, message in enumerate(every) if message.role == "user"), default=len(every))
        return self._dropped(ctx, listed, every[:turn])

    def _dropped(self, ctx: Context, listed: MessageList, messages: Sequence[Message]) -> MessageList | None:
        left = self.left(messages)
        after = {message.id: message for message in left}
        lost = count_tool_parts(messages) - count_tool_parts(left)
        remaining = {message.id: message for message in without_tool_calls(_others(listed, messages, after), lost)}
        changes: dict[str, tuple[Message, ...]] = {}
        for message in listed.conversation:
            found = remaining.get(message.id)
            if found != message:
                changes[message.id] = () if found is None else (found,)
        if not changes:
            return None
        ctx.note(dropped=sum(not new for new in changes.values()), changed=sum(bool(new) for new in changes.values()))
        return replace_messages(listed, changes)


def _others(listed: MessageList, messages: Sequence[Message], after: dict[str, Message]) -> list[Message]:
    """Return the conversation with those messages replaced by their remaining parts."""
    asked = {message.id for message in messages}
    left = [message for message in listed.conversation if message.id in after or message.id not in asked]
    return [after.get(message.id, message) for message in left]


class DropMessages(Dropper):
    """Drops the messages that a function selects.

    Results whose calls are dropped are dropped too, and the other way round.

    Args:
        predicate: returns whether a message is dropped; not async.
        scope: ``remembered`` (default; loaded messages) or ``input`` (the caller's messages), for the whole run; or
            ``prompt`` (the prompt of each call, before the last user message; the conversation is not changed).
        id: the name in graphs and records. Default ``drop-messages``.

    Raises:
        OptionError: ``predicate`` is not a sync function, or there is no such scope.
    """

    id = "drop-messages"

    def __init__(
        self, predicate: Callable[[Message], bool], *, scope: DropScope = "remembered", id: str | None = None
    ) -> None:
        if id is not None:
            self.id = id
        given: object = predicate
        if not callable(given) or is_async(predicate):
            raise OptionError(type(self).__name__, "predicate", predicate, "a function from a message to a bool")
        self.predicate = predicate
        self._set_scope(scope)

    def left(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that the function does not select."""
        return [message for message in messages if not self.predicate(message)]


class DropParts(Dropper):
    """Drops the parts of some types, such as reasoning, images, files or tool calls.

    Messages without content left are dropped too. A call and its result are dropped together, at any distance.

    Args:
        types: the types of parts: ``reasoning``, ``image``, ``tool`` …, or types that Penstock does not know
            (``redacted-reasoning``). Not empty.
        scope: ``remembered`` (default; loaded messages) or ``input`` (the caller's messages), for the whole run; or
            ``prompt`` (the prompt of each call, before the last user message; the conversation is not changed).
        id: the name in graphs and records. Default ``drop-parts``.

    Raises:
        OptionError: ``types`` is empty or not a list of str, or there is no such scope.
    """

    id = "drop-parts"

    def __init__(self, *, types: Iterable[str], scope: DropScope = "remembered", id: str | None = None) -> None:
        if id is not None:
            self.id = id
        self.types = names_of(type(self).__name__, "types", types, "types of parts")
        if not self.types:
            raise OptionError(type(self).__name__, "types", types, "a list of types of parts, not empty")
        self._set_scope(scope)

    def left(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages without those parts, and without messages that have no content left."""
        made: list[Message] = []
        for message in messages:
            parts = [part for part in message.parts if _part_type(part) not in self.types]
            if has_content(parts):
                made.append(message if len(parts) == len(message.parts) else message.with_parts(parts))
        return made


def _part_type(part: Part) -> object:
    """Return the type of a part; for parts of unknown kind, the type that they name."""
    raw = part.raw if isinstance(part, UnknownPart) else None
    return raw.get("type") if is_mapping(raw) else part.type
