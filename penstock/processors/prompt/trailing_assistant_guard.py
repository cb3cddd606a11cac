"""`TrailingAssistantGuard`: no prompt ends on the assistant's words where the model refuses that. It knows no agent."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.engine.processor.processor import Processor
from penstock.engine.values.messages import DataPart, Message, SourcePart, StepStartPart, ToolPart
from penstock.models.conversations.providers import recipient_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import Entry, MessageList

GO_ON = "Continue."
ANSWER = "Continue with the answer, in the form that was asked for."

_VERSION = r"-(?:[a-z]+-)*?v?(\d{1,2})(?:[.-](\d{1,2}))?(?!\d)"
_GEMINI, _CLAUDE = re.compile(f"gemini(?:{_VERSION})?"), re.compile(f"claude(?:{_VERSION})?")
_FIRST_GEMINI, _FIRST_CLAUDE = (3, 0), (4, 6)
_ASIDE = (StepStartPart, DataPart, SourcePart)


class TrailingAssistantGuard(Processor):
    """Adds a short message of the user's where a prompt would end on an answer and the model refuses that.

    Gemini from 3 on does, and Claude from 4.6 on where it is to answer in a form of its provider's; a model of theirs
    whose version its name does not tell counts as new. The message is of the source ``context``: no history keeps it.
    It protects nothing, so its failure lets the prompt pass as it is.
    """

    id = "trailing-assistant-guard"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def process_input_step(self, ctx: InputStepContext) -> MessageList | None:
        """Add the message if it is needed."""
        formed = ctx.response_format is not None
        if not any(refuses(name, formed=formed) for name in recipient_of(ctx.model).models):
            return None
        messages = ctx.message_list  # whose end is read: `ctx.messages` would be made of all of it
        if not ends_on_an_answer(messages.entries):
            return None
        last = next(message.created_at for message, source, _ in reversed(messages.entries) if source != "system")
        behind = None if last is None else last + timedelta(milliseconds=1)
        ctx.note(added=1)
        asked = Message.user(ANSWER if formed else GO_ON, created_at=behind)
        return messages.add(asked, source="context")


@lru_cache(maxsize=256)
def refuses(model: str, *, formed: bool) -> bool:
    """Tell whether a model refuses a prompt that ends on an answer.

    Args:
        model: as its provider calls it, in lower case; a prefix does no harm.
        formed: whether its provider is asked for an answer of some form.
    """
    found, first = _GEMINI.search(model), _FIRST_GEMINI
    if found is None and formed:
        found, first = _CLAUDE.search(model), _FIRST_CLAUDE
    if found is None:
        return False
    return found[1] is None or (int(found[1]), int(found[2] or 0)) >= first


def ends_on_an_answer(entries: Sequence[Entry]) -> bool:
    """Tell whether a conversation ends on what the assistant said, and not on a result of a tool.

    Calls that nobody has answered are passed over, since no prompt can hold them; so is what no provider is sent.
    """
    for message, source, _ in reversed(entries):
        if source == "system":
            continue
        if message.role != "assistant":
            return False
        for part in reversed(message.parts):
            if isinstance(part, _ASIDE) or (isinstance(part, ToolPart) and part.state in ("partial", "call")):
                continue
            return not isinstance(part, ToolPart)
    return False
