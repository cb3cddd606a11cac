"""Plain text: a question as text, and the text of the answer, for clients that know no protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import Message
from penstock.workflows.web.client_request import ClientRequest, Fields, RequestError, read_object
from penstock.workflows.web.sent import FAILED_TEXT, SentAnswer
from penstock.workflows.web.sse import Encoder, stream, stream_sync
from penstock.workflows.web.whole import events_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.web.whole import Answer

__all__ = ["HEADERS", "PlainTextEncoder", "answer", "read_request", "stream", "stream_sync"]

HEADERS: Mapping[str, str] = {
    "Content-Type": "text/plain; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of an answer in plain text; the last one keeps browsers from waiting until they know what it is."""


def read_request(body: bytes | str | Mapping[str, object]) -> ClientRequest:
    """Return the request of a client: the body is the question, or an object has it as ``message``.

    Raises:
        RequestError: it is no text, or empty.
    """
    try:
        body = body.decode() if isinstance(body, bytes) else body
        _ = isinstance(body, str) and body.encode()
    except UnicodeError:
        raise RequestError("", "the body is no text in UTF-8; send the question as text") from None
    text = body if isinstance(body, str) else Fields(read_object(body)).text("message")
    if not text.strip():
        raise RequestError("" if isinstance(body, str) else "message", "there is no text; send the question as text")
    return ClientRequest(messages=(Message.user(text, from_client=True),), stream=True)


def answer(result: Answer, encoder: PlainTextEncoder) -> str:
    """Return the text of a whole answer.

    Args:
        result: the result of ``agent.generate(...)``, or an assistant message that has left the guards.
        encoder: a new encoder.
    """
    return "".join(events_of(result, encoder))


class PlainTextEncoder(Encoder[str]):
    """Writes the text of one answer, and nothing else of it; a line break between two texts.

    If a guard blocks, the text ends. It also ends if a text that was sent is retracted, since it cannot be taken back;
    use ``release="step"`` to send nothing before it is accepted.

    Args:
        refusal: a text for the client if a guard blocks. Default: none.
        failure: a text for the client if the request fails. Default: a neutral sentence.
    """

    __slots__ = ("_failure", "_turn", "_written")

    last = b""

    def __init__(self, *, refusal: str = "", failure: str = FAILED_TEXT) -> None:
        super().__init__(SentAnswer(()), refusal)
        self._failure = failure
        self._turn = False  # whether another text begins
        self._written = False

    def frame(self, event: str) -> bytes:
        """Return the text in UTF-8, with a question mark for each half of a surrogate pair."""
        return event.encode(errors="replace")

    def _events(self, chunk: Chunk) -> Sequence[str]:
        """Return the text to send for a chunk."""
        if chunk.type == "text-delta":
            self._sent.add_block(chunk.id)
            return (self._said(chunk.text),)
        if chunk.type in ("text-end", "step-start"):
            self._turn = True
        self._sent.control(chunk)
        return ()

    def _end(self) -> Sequence[str]:
        """Return the refusal if a guard has blocked, or the text for a failure; else nothing."""
        self._turn = True
        text = {"filtered": self._refusal, "failed": self._failure}.get(self._sent.ending, "")
        return (self._said(text),) if text else ()

    def _said(self, text: str) -> str:
        begun = self._turn and self._written
        self._turn, self._written = False, True
        return f"\n{text}" if begun else text
