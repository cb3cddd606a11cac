"""`SentAnswer`: the part of an answer that a client got, and how the answer ended; the same for every format.

A client cannot give text back. So an answer ends as filtered when a verdict stops it, and also when something
that was sent no longer holds: a text that is retracted, a tool call that a guard dropped or changed afterwards.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from penstock.engine.values.answer_builder import named, usage_of
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import thaw
from penstock.formats.parts import as_json

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import Usage

    Json: TypeAlias = dict[str, Value]

Ending: TypeAlias = Literal["open", "filtered", "failed", "cancelled"]
"""How an answer ended that no finish reason of its model describes; ``open`` if it did not end that way."""

FAILED_TEXT = "The request failed. Please try again."
"""What a client gets to know of an error: the text of an error may quote the prompt, or name what is internal."""

CANCELLED_TEXT = "The request was cancelled."

TOOL_FAILED_TEXT = "The tool failed."
"""What a client gets to know of a tool that failed, or was called with what is no JSON."""

REVIEW_TEXT = "A person has to review this request."
"""What a client gets to know if a step asks a person: the question may quote the prompt."""

_REVIEW_BLOCK = "review"

_CUT_OFF = ("length", "error", "content-filter")
"""The finish reasons of answers that may end within a tool call."""


@dataclass(slots=True)
class SentCall:
    """A tool call that was begun to be sent.

    Attributes:
        index: how many calls were begun before it.
        call_id: its id.
        name: the name of the tool.
        pieces: the text of its arguments that was sent.
        complete: whether the whole call has left the guards.
        answered: whether the agent has a result for it, so that the client need not run it.
    """

    index: int
    call_id: str
    name: str
    pieces: list[str] = field(default_factory=list[str])
    complete: bool = False
    answered: bool = False


class SentAnswer:
    """The sent part of an answer. Lives as long as its stream.

    Args:
        client_tools: the names of the tools that the client runs; calls to other tools are not sent. None: all calls
            are sent.
        ends_on_retract: whether the answer ends when something that was sent is rejected, a text or a call.

    Attributes:
        ending: how the answer ended; ``open`` as long as it goes on.
    """

    __slots__ = (
        "_blocks",
        "_by_block",
        "_by_call_id",
        "_client_tools",
        "_ends_on_retract",
        "_reason",
        "_reported",
        "_step_calls",
        "_steps",
        "ending",
    )

    def __init__(self, client_tools: Container[str] | None = None, *, ends_on_retract: bool = True) -> None:
        self.ending: Ending = "open"
        self._client_tools = client_tools
        self._ends_on_retract = ends_on_retract
        self._blocks: set[str] = set()
        self._by_block: dict[str, SentCall] = {}
        self._by_call_id: dict[str, SentCall] = {}
        self._step_calls = 0
        self._reason = ""
        self._reported: Usage | None = None
        self._steps: Usage | None = None

    @property
    def goes_on(self) -> bool:
        """Whether more may be sent."""
        return self.ending == "open"

    @property
    def call_count(self) -> int:
        """How many calls were begun."""
        return len(self._by_call_id)

    @property
    def usage(self) -> Usage | None:
        """The tokens of the whole answer; None if nobody reported any."""
        return self._steps if self._reported is None else self._reported

    @property
    def reason(self) -> str:
        """The finish reason, one of `FINISH_REASONS`; ``tool-calls`` only if the client has a call to run."""
        waiting = any(not call.answered for call in self._by_call_id.values())
        if self.ending == "filtered":
            return "content-filter"
        if self.ending != "open":
            return "error"
        if waiting and self._reason in ("", "other", "stop", "tool-calls"):
            return "tool-calls"
        return "stop" if self._reason in ("", "tool-calls") else self._reason

    # What was sent

    def add_block(self, block: str) -> None:
        """Note that text or reasoning of a block is sent."""
        self._blocks.add(block)

    def begin_call(self, chunk: Chunk) -> SentCall | None:
        """Return the call that a chunk begins; None if the client does not get it, or not yet."""
        name = named(chunk, "name")
        if not isinstance(name, str) or not name or not (self._client_tools is None or name in self._client_tools):
            return None
        call = SentCall(len(self._by_call_id), str(named(chunk, "call_id") or chunk.id), name)
        self._by_block[chunk.id] = self._by_call_id[call.call_id] = call
        return call

    def add_arguments(self, chunk: Chunk) -> SentCall | None:
        """Note a piece of arguments; return its call, or None if the client does not get it."""
        call = self._by_block.get(chunk.id)
        if call is not None:
            call.pieces.append(chunk.text)
        return call

    def end_call(self, chunk: Chunk) -> tuple[SentCall, str] | None:
        """Note a whole call; return it, and the arguments that are still to be sent.

        None if the client does not get the call. If other arguments were sent than those that left the guards, the
        answer ends.
        """
        call_id = str(named(chunk, "call_id") or chunk.id)
        call = self._by_call_id.get(call_id) or self.begin_call(chunk)
        if call is None:
            return None
        call.complete = True
        arguments = named(chunk, "arguments")
        written = arguments if isinstance(arguments, str) else as_json({} if arguments is None else thaw(arguments))
        if not call.pieces:
            return call, written
        if not _same_json("".join(call.pieces), written):
            self.ending = "filtered"
            return None
        return call, ""

    # What ends it

    def control(self, chunk: Chunk) -> None:
        """Note a chunk's facts about the answer as a whole."""
        kind = chunk.type
        if kind == "step-start":  # the ids of blocks are unique within a step only
            self._blocks.clear()
            self._by_block.clear()
            self._step_calls = len(self._by_call_id)
        elif kind in ("step-finish", "finish"):
            self._finish(chunk)
        elif kind in ("tool-result", "tool-error"):
            call = self._by_call_id.get(str(named(chunk, "call_id") or chunk.id))
            if call is not None:
                call.answered = True
        elif kind == "retract" and self._ends_on_retract:
            if not self._blocks.isdisjoint(chunk.payload.get("blocks", ())):
                self.ending = "filtered"
        elif kind in _ENDINGS:
            self.ending = _ENDINGS[kind]

    def fail(self) -> None:
        """Note that the request failed, unless the answer has ended otherwise."""
        if self.ending == "open":
            self.ending = "failed"

    def end(self) -> None:
        """Note that no chunk follows: a call that was begun and never completed was dropped by a guard."""
        is_dropped = any(not call.complete for call in self._by_call_id.values())
        if self.ending == "open" and self._reason not in _CUT_OFF and is_dropped:
            self.ending = "filtered"

    def _finish(self, chunk: Chunk) -> None:
        reason = chunk.payload.get("reason")
        if reason == "retry":
            self._reject_calls()
            return
        self._reason = reason if isinstance(reason, str) else ""
        usage = usage_of(chunk.payload.get("usage"))
        if usage is None:
            pass
        elif chunk.type == "finish":
            self._reported = usage
        else:
            self._steps = usage if self._steps is None else self._steps + usage
        self.end()

    def _reject_calls(self) -> None:
        """Forget the calls of a step that was rejected; the answer ends if the client cannot forget them."""
        rejected = list(self._by_call_id)[self._step_calls :]
        if rejected and self._ends_on_retract:
            self.ending = "filtered"
        for call_id in rejected:
            del self._by_call_id[call_id]


_ENDINGS: dict[str, Ending] = {"tripwire": "filtered", "error": "failed", "abort": "cancelled"}


def _same_json(sent: str, whole: str) -> bool:
    """Return whether two texts are the same JSON value, or the same text if they are none."""
    if sent == whole:
        return True
    try:
        return bool(json.loads(sent or "{}") == json.loads(whole))
    except (ValueError, RecursionError):
        return False


def review_chunks() -> Iterator[Chunk]:
    """Yield the text that stands in the place of an answer that waits for a person."""
    yield Chunk("text-start", id=_REVIEW_BLOCK)
    yield Chunk("text-delta", REVIEW_TEXT, _REVIEW_BLOCK)
    yield Chunk("text-end", id=_REVIEW_BLOCK)


def is_refusal(chunk: Chunk) -> bool:
    """Return whether a ``text-start`` begins a refusal of the model."""
    return cast("object", chunk.payload.get("refusal")) is True
