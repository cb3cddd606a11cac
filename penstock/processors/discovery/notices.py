"""What a processor tells the model in system messages of its own, kept up to date from step to step."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.engine.values.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.values.message_list import MessageList

S = TypeVar("S")


def with_notices(ctx: InputStepContext[S], texts: Sequence[str]) -> MessageList | None:
    """Return the conversation with these as the step's only system messages; None if they stand there already."""
    messages, owner = ctx.message_list, ctx.step_path
    if [message.text for message in messages.tagged(owner)] == list(texts):
        return None
    return messages.replace_system([Message.system(text) for text in texts], tag=owner)
