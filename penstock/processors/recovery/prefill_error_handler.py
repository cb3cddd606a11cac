"""`PrefillErrorHandler`: goes on where a model will not continue an answer that was begun for it. It asks nobody."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.processor.payload import Retry
from penstock.engine.processor.processor import Processor
from penstock.engine.values.messages import Message
from penstock.processors.recovery.options import text as check_text, texts
from penstock.processors.recovery.reading import causes, said_in_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import APIErrorContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole

# What providers say where a conversation ends with an answer, and the model takes none to go on from.
_PHRASES = (
    r"do(?:es)? not support assistant (?:message |response )?prefill",  # Anthropic
    r"assistant response prefill is incompatible with enable[-_ ]?thinking",  # Qwen
    r"requests? ending with a model turn",  # Gemini
    r"conversation must end with a user message",  # Bedrock
    r"expected last role (?:to be )?user or tool",  # Mistral
)


@dataclass(slots=True)
class Handled:
    """Whether the model call at hand was helped already. Lives as long as the request."""

    done: bool = False


class PrefillErrorHandler(Processor[Handled]):
    """Adds a short message where a model refuses a conversation that ends with an answer, and has it asked again.

    Models that allow no prefilled answers refuse such conversations: of a client that wants the last answer continued,
    or one that was moved from another model. It helps once for each call; all other errors are let be. The message
    stays for the rest of the run, as context: neither as something that the user sent, nor as an answer.

    It protects nothing, so its own failure leaves the error as it is.
    """

    id = "prefill-error-handler"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(self, *, text: str = "Continue.", phrases: Iterable[str] = (), id: str | None = None) -> None:
        """Check the options.

        Args:
            text: what the message says; not blank.
            phrases: what other providers say in such an error, each a part of it, in any case.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        name = type(self).__name__
        self.text = check_text(name, "text", text)
        self.phrases = texts(name, "phrases", phrases)
        known = [*_PHRASES, *(re.escape(phrase.strip()) for phrase in self.phrases)]
        self._known = re.compile("|".join(known), re.IGNORECASE)

    def new_state(self) -> Handled:
        """Return the state of a call that was not helped yet."""
        return Handled()

    def process_api_error(self, ctx: APIErrorContext[Handled]) -> Retry | None:
        """Add the message and have the call made again, if that is what it failed of."""
        state = ctx.state
        if ctx.retry_count == 0:
            state.done = False
        if state.done or not self._is_meant(ctx.error):
            return None
        state.done = True
        ctx.note(kind="prefill")
        reminder = Message.user(self.text, metadata={"penstock": {"added_by": self.id}})
        return Retry(messages=ctx.message_list.add(reminder, source="context"))

    def _is_meant(self, error: object) -> bool:
        return any(
            isinstance(one, BaseException) and self._known.search(said_in_answer(one)) is not None
            for one in causes(error)
        )
