"""Where a dropper works: on what is remembered, on what the caller sends, on each prompt. It drops nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.processor.processor import Processor, one_of
from penstock.models.conversations.pairs import tool_parts, without_pairs
from penstock.models.conversations.relaying import relaid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import Context, InputContext, LLMRequestContext
    from penstock.engine.processor.processor import ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message

Scope = Literal["remembered", "input", "prompt"]
"""Remembered messages and the caller's are changed for the run; a prompt for its call only, up to the current turn."""

_STAGES = {"remembered": "process_input", "input": "process_input", "prompt": "process_llm_request"}


class Dropper(Processor):
    """A processor that drops some of the messages in its scope. Subclasses say what is `left` of them.

    Why something is to be dropped is not known here, so a failure is raised: it must not pass for that.
    """

    id = "dropper"
    role: ProcessorRole = "transform"
    edits = "anything"
    scope: str

    def place(self, scope: str) -> None:
        """Check the scope and choose the stage for it.

        Raises:
            OptionError: there is no such scope.
        """
        self.scope = one_of(type(self).__name__, "scope", scope, get_args(Scope))
        self.stages = (_STAGES[self.scope],)

    def left(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what is left of the messages: each as it was, changed under the same id, or not at all."""
        raise NotImplementedError

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Drop from what is remembered, or from what the caller sends."""
        listed = ctx.message_list
        return self._dropped(ctx, listed, listed.input if self.scope == "input" else listed.remembered)

    def process_llm_request(self, ctx: LLMRequestContext) -> MessageList | None:
        """Drop from a prompt what stands before the user's last message."""
        listed = ctx.message_list
        every = listed.all
        turn = max((index for index, message in enumerate(every) if message.role == "user"), default=len(every))
        return self._dropped(ctx, listed, every[:turn])

    def _dropped(self, ctx: Context, listed: MessageList, messages: Sequence[Message]) -> MessageList | None:
        left = self.left(messages)
        after = {message.id: message for message in left}
        lost = tool_parts(messages) - tool_parts(left)
        kept = {message.id: message for message in without_pairs(_others(listed, messages, after), lost)}
        changes: dict[str, tuple[Message, ...]] = {}
        for message in listed.all:
            found = kept.get(message.id)
            if found != message:
                changes[message.id] = () if found is None else (found,)
        if not changes:
            return None
        ctx.note(dropped=sum(not new for new in changes.values()), changed=sum(bool(new) for new in changes.values()))
        return relaid(listed, changes)


def _others(listed: MessageList, messages: Sequence[Message], after: dict[str, Message]) -> list[Message]:
    """Return the conversation with what is left of those messages in it."""
    asked = {message.id for message in messages}
    return [after.get(message.id, message) for message in listed.all if message.id in after or message.id not in asked]
