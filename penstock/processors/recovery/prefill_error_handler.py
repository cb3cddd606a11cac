"""`PrefillErrorHandler`: repeats a call with one more message where a model refuses a prefilled answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.option_checks import check_text
from penstock.engine.processor.payload import Retry
from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import OptionError
from penstock.engine.values.messages import Message
from penstock.processors.recovery.provider_errors import causes, message_and_body

if TYPE_CHECKING:
    from penstock.engine.processor.context import APIErrorContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole

# What providers answer if a conversation ends with an answer, and the model does not continue it.
_PHRASES = (
    r"do(?:es)? not support assistant (?:message |response )?prefill",  # Anthropic
    r"assistant response prefill is incompatible with enable[-_ ]?thinking",  # Qwen
    r"requests? ending with a model turn",  # Gemini
    r"conversation must end with a user message",  # Bedrock
    r"expected last role (?:to be )?user or tool",  # Mistral
)


@dataclass(slots=True)
class PrefillState:
    """The state of `PrefillErrorHandler` in one request.

    Attributes:
        done: whether the current model call was repeated with the message already.
    """

    done: bool = False


class PrefillErrorHandler(Processor[PrefillState]):
    """Adds a short user message if a model refuses a conversation that ends with an answer, and retries the call.

    Models without support for prefilled answers refuse such conversations. They come from clients that want the last
    answer continued, and from requests that are moved to another model. The call is repeated once; other errors are
    left as they are. The message stays for the rest of the run with the source ``context``, so histories do not store
    it.

    If the processor itself fails, the original error is raised (``on_error`` is ``allow``).

    Args:
        text: the text of the message; not blank. Default ``Continue.``
        phrases: further error messages of providers. A message matches if it contains one of them, ignoring case. A
            single str counts as one phrase.
        id: the name in graphs and records. Default ``prefill-error-handler``.

    Raises:
        OptionError: ``text`` or one of the phrases is not a str, or blank.
    """

    id = "prefill-error-handler"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(self, *, text: str = "Continue.", phrases: Iterable[str] = (), id: str | None = None) -> None:
        if id is not None:
            self.id = id
        name = type(self).__name__
        self.text = check_text(name, "text", text, blank=False)
        self.phrases = _checked_texts(name, "phrases", phrases)
        known = [*_PHRASES, *(re.escape(phrase.strip()) for phrase in self.phrases)]
        self._known = re.compile("|".join(known), re.IGNORECASE)

    def new_state(self) -> PrefillState:
        """Return the state of a new request."""
        return PrefillState()

    def process_api_error(self, ctx: APIErrorContext[PrefillState]) -> Retry | None:
        """Add the message and retry, if the model refused a prefilled answer."""
        state = ctx.state
        if ctx.retry_count == 0:
            state.done = False
        if state.done or not self._is_prefill_error(ctx.error):
            return None
        state.done = True
        ctx.note(kind="prefill")
        reminder = Message.user(self.text, metadata={"penstock": {"added_by": self.id}})
        return Retry(messages=ctx.message_list.add(reminder, source="context"))

    def _is_prefill_error(self, error: object) -> bool:
        return any(
            isinstance(one, BaseException) and self._known.search(message_and_body(one)) is not None
            for one in causes(error)
        )


def _checked_texts(owner: str, option: str, given: Iterable[str]) -> tuple[str, ...]:
    if not isinstance(cast("object", given), Iterable):
        raise OptionError(owner, option, given, "a list")
    return tuple(check_text(owner, option, one, blank=False) for one in ([given] if isinstance(given, str) else given))
