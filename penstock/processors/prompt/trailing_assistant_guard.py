"""`TrailingAssistantGuard`: adds a user message to prompts that end with an answer, if the model refuses these."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.engine.processor.processor import Processor
from penstock.engine.values.messages import DataPart, Message, SourcePart, StepStartPart, ToolPart
from penstock.processors.prompt.recipient import recipient_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import Entry, MessageList

CONTINUE = "Continue."
CONTINUE_IN_FORM = "Continue with the answer, in the form that was asked for."

_VERSION = r"-(?:[a-z]+-)*?v?(\d{1,2})(?:[.-](\d{1,2}))?(?!\d)"
_GEMINI, _CLAUDE = re.compile(f"gemini(?:{_VERSION})?"), re.compile(f"claude(?:{_VERSION})?")
_FIRST_GEMINI, _FIRST_CLAUDE = (3, 0), (4, 6)
_NOT_SENT = (StepStartPart, DataPart, SourcePart)


class TrailingAssistantGuard(Processor):
    """Adds a short user message to a prompt that ends with an answer, if the model refuses such prompts.

    Gemini from version 3 on refuses them, and Claude from 4.6 on if a structured answer is asked for. A model of theirs
    without a version in its name counts as new. The message has the source ``context``, so histories do not store it.
    If the processor itself fails, the prompt is sent as it is (``on_error`` is ``allow``).
    """

    id = "trailing-assistant-guard"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def process_input_step(self, ctx: InputStepContext) -> MessageList | None:
        """Add the message, if it is needed."""
        messages = ctx.message_list  # only its end is read; `ctx.messages` would build all of it
        if not ends_with_answer(messages.entries):
            return None
        structured = ctx.response_format is not None
        if not any(refuses(name, structured=structured) for name in recipient_of(ctx.model).models):
            return None
        last = next(message.created_at for message, source, _ in reversed(messages.entries) if source != "system")
        behind = None if last is None else last + timedelta(milliseconds=1)
        ctx.note(added=1)
        asked = Message.user(CONTINUE_IN_FORM if structured else CONTINUE, created_at=behind)
        return messages.add(asked, source="context")


@lru_cache(maxsize=256)
def refuses(model: str, *, structured: bool) -> bool:
    """Return whether a model refuses prompts that end with an answer.

    Args:
        model: the name of the model at its provider, in lower case; may have a prefix.
        structured: whether the provider is asked for a structured answer.
    """
    found, first = _GEMINI.search(model), _FIRST_GEMINI
    if found is None and structured:
        found, first = _CLAUDE.search(model), _FIRST_CLAUDE
    if found is None:
        return False
    return found[1] is None or (int(found[1]), int(found[2] or 0)) >= first


def ends_with_answer(entries: Sequence[Entry]) -> bool:
    """Return whether a conversation ends with text of the assistant, and not with the result of a tool.

    Calls without a result are ignored, since no prompt can hold them, and so are parts that are not sent to providers.
    """
    for message, source, _ in reversed(entries):
        if source == "system":
            continue
        if message.role != "assistant":
            return False
        for part in reversed(message.parts):
            if isinstance(part, _NOT_SENT) or (isinstance(part, ToolPart) and part.state in ("partial", "call")):
                continue
            return not isinstance(part, ToolPart)
    return False
