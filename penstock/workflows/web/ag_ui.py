"""AG-UI: the requests of its clients (``RunAgentInput``), and answers as its events, in version 1.0 of the protocol.

`AGUIEncoder` writes chunks as events; `stream` frames them as server-sent events, as ``HttpAgent`` reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.answer_builder import named
from penstock.engine.values.frozen import thaw
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.formats.parts import as_json
from penstock.workflows.web.ag_ui_input import REVIEW_PREFIX, read_request
from penstock.workflows.web.sent import FAILED_TEXT, REVIEW_TEXT, TOOL_FAILED_TEXT, SentAnswer
from penstock.workflows.web.sse import HEADERS, Encoder, stream, stream_sync
from penstock.workflows.web.whole import events_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.workflows.web.client_request import ClientRequest
    from penstock.workflows.web.sent import Json
    from penstock.workflows.web.whole import Answer

__all__ = [
    "BLOCKED_CODE",
    "HEADERS",
    "PROTOCOL_VERSION",
    "REVIEW",
    "AGUIEncoder",
    "answer",
    "read_request",
    "stream",
    "stream_sync",
]

PROTOCOL_VERSION = "1.0"
"""The version of the protocol that answers are written in."""

BLOCKED_CODE = "content_filter"
"""The code of the ``RUN_ERROR`` with which an answer ends that a guard has blocked."""

BLOCKED_TEXT = "The answer was blocked."
"""The message of that event, unless the encoder has a ``refusal``."""

FAILED_CODE = "error"
"""The code of the ``RUN_ERROR`` of a request that failed."""

REJECTED_TEXT = "The call was rejected."
"""The content of the result of a call that the client has rejected."""

REVIEW = "penstock:review"
"""The reason of the interrupt of a run in which a step asks a person."""

APPROVAL_SCHEMA: Json = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The schema of the answer to the interrupt of a call that waits for approval."""


def answer(result: Answer, encoder: AGUIEncoder) -> list[Json]:
    """Return a whole answer as the events of a stream.

    Args:
        result: the result of ``agent.generate(...)``, or an assistant message that has left the guards.
        encoder: a new encoder.
    """
    return events_of(result, encoder)


class AGUIEncoder(Encoder["Json"]):
    """Writes the chunks of one answer as events of AG-UI, without the framing of a stream.

    Give it each chunk that has left the guards, send the events that `events` returns, and those of `end` at last.
    Text, reasoning, steps, tool calls and their results are sent under their own events; a data chunk ``data-state`` as
    ``STATE_SNAPSHOT``; sources, files and other data as ``CUSTOM``. Not sent are metadata of a provider, usage, ``raw``
    and ``object`` chunks, and the texts of errors, also of tools.

    If a guard blocks, the run ends with a ``RUN_ERROR``, which says nothing of the verdict. The protocol cannot take
    text back, so it also ends so if a text or a call is rejected that was sent; with ``release="step"`` nothing is sent
    before it is accepted.

    If calls wait for approval, the run ends with an interrupt for each, whose id is that of the call. If a step asks a
    person, it ends with one interrupt, which the client cannot answer: its reason is `REVIEW`.

    Args:
        thread_id: the id of the conversation. Default: a new one.
        run_id: the id of the client's run. Default: a new one.
        reasoning: whether reasoning is sent.
        refusal: a message for the client if a guard blocks. Default: a neutral sentence.
        rejected: the ids of calls in earlier messages that the client has rejected.
    """

    __slots__ = (
        "_asked",
        "_begun",
        "_open",
        "_open_calls",
        "_parent",
        "_pending",
        "_reasoning",
        "_rejected",
        "_review",
        "_run_id",
        "_step",
        "_steps",
        "_thread_id",
    )

    last = b""

    def __init__(
        self,
        *,
        thread_id: str = "",
        run_id: str = "",
        reasoning: bool = True,
        refusal: str = "",
        rejected: Collection[str] = (),
    ) -> None:
        super().__init__(SentAnswer(), refusal or BLOCKED_TEXT)
        self._asked: list[tuple[str, str]] = []  # the ids and names of calls that wait for approval
        self._begun = False
        self._open: dict[str, tuple[str, str]] = {}  # the texts that have begun: kind and message id by block
        self._open_calls: set[str] = set()  # the calls whose arguments are being sent
        self._parent = ""  # the message of the step that holds its calls
        self._pending: list[str] = []  # calls without a result
        self._reasoning = reasoning
        self._rejected = frozenset(rejected)
        self._review = ""  # the id of the agent's run, if a person has to answer a question of a step
        self._run_id = run_id or RANDOM_IDS.next()
        self._step = ""  # the name of the open step
        self._steps = 0
        self._thread_id = thread_id or RANDOM_IDS.next()

    @classmethod
    def answering(cls, request: ClientRequest, *, reasoning: bool = True, refusal: str = "") -> AGUIEncoder:
        """Return an encoder for the answer to a request."""
        return cls(
            thread_id=request.id,
            run_id=str(request.repeated.get("runId", "")),
            reasoning=reasoning,
            refusal=refusal,
            rejected=[
                part.call_id
                for message in request.messages
                for part in message.parts
                if part.type == "tool" and part.approval == "rejected"
            ],
        )

    def _events(self, chunk: Chunk) -> Sequence[Json]:
        """Return the events to send for a chunk."""
        kind = chunk.type
        made = self._begin()
        if kind in ("text-delta", "reasoning-delta"):
            self._delta(made, chunk, kind.removesuffix("-delta"))
        elif kind in ("text-start", "text-end", "reasoning-start", "reasoning-end"):
            self._finish_text(made, chunk.id)  # one begins with its first delta
        elif kind.startswith("tool-"):
            self._tool(made, chunk)
        elif kind in ("source", "file") or chunk.is_data:
            _add_value(made, chunk)
        else:
            self._step_event(made, chunk)
            self._sent.control(chunk)
        return made

    def _end(self) -> Sequence[Json]:
        """Return the last events: how the run ended."""
        made = self._begin()
        ending = self._sent.ending
        if ending in ("filtered", "failed"):
            blocked = ending == "filtered"
            told = {
                "message": self._refusal if blocked else FAILED_TEXT,
                "code": BLOCKED_CODE if blocked else FAILED_CODE,
            }
            return [*made, {"type": "RUN_ERROR", **told}]
        self._close(made)
        made.append({"type": "RUN_FINISHED", **self._ids(), "outcome": self._outcome()})
        return made

    def _outcome(self) -> Json:
        if self._sent.ending == "cancelled":
            return {"type": "cancelled"}
        if self._asked or self._review:
            asked = [_interrupt(*call) for call in self._asked]
            review = {"id": f"{REVIEW_PREFIX}{self._review}", "reason": REVIEW, "message": REVIEW_TEXT}
            return {"type": "interrupt", "interrupts": [*asked, *([review] if self._review else [])]}
        return {"type": "success", **({"pendingToolCallIds": self._pending} if self._pending else {})}

    def _ids(self) -> Json:
        return {"threadId": self._thread_id, "runId": self._run_id}

    def _begin(self) -> list[Json]:
        if self._begun:
            return []
        self._begun = True
        return [{"type": "RUN_STARTED", **self._ids(), "protocolVersion": PROTOCOL_VERSION}]

    def _close(self, made: list[Json]) -> None:
        """Close everything that is open."""
        for block in list(self._open):
            self._finish_text(made, block)
        for call_id in sorted(self._open_calls):
            self._finish_call(made, call_id)
        if self._step:
            made.append({"type": "STEP_FINISHED", "stepName": self._step})
            self._step = ""

    # Texts

    def _delta(self, made: list[Json], chunk: Chunk, kind: str) -> None:
        if kind == "reasoning" and not self._reasoning:
            return
        if chunk.id not in self._open or self._open[chunk.id][0] != kind:
            self._finish_text(made, chunk.id)
            self._begin_text(made, chunk.id, kind)
        _, message_id = self._open[chunk.id]
        self._sent.add_block(chunk.id)
        made.append({"type": f"{_TEXTS[kind]}_CONTENT", "messageId": message_id, "delta": chunk.text})

    def _begin_text(self, made: list[Json], block: str, kind: str) -> None:
        message_id = RANDOM_IDS.next()
        self._open[block] = kind, message_id
        if kind == "reasoning":
            made.append({"type": "REASONING_START", "messageId": message_id})
        else:
            self._parent = message_id
        role = "reasoning" if kind == "reasoning" else "assistant"
        made.append({"type": f"{_TEXTS[kind]}_START", "messageId": message_id, "role": role})

    def _finish_text(self, made: list[Json], block: str) -> None:
        if block not in self._open:
            return
        kind, message_id = self._open.pop(block)
        made.append({"type": f"{_TEXTS[kind]}_END", "messageId": message_id})
        if kind == "reasoning":
            made.append({"type": "REASONING_END", "messageId": message_id})

    # Tools

    def _tool(self, made: list[Json], chunk: Chunk) -> None:
        kind = chunk.type
        if kind == "tool-input-start":
            call = self._sent.begin_call(chunk)
            if call is not None:
                self._begin_call(made, call.call_id, call.name)
        elif kind == "tool-input-delta":
            call = self._sent.add_arguments(chunk)
            if call is not None:
                made.append({"type": "TOOL_CALL_ARGS", "toolCallId": call.call_id, "delta": chunk.text})
        elif kind == "tool-call":
            self._whole_call(made, chunk)
        elif kind in ("tool-result", "tool-error"):
            self._sent.control(chunk)
            self._result(made, chunk)
        elif kind == "tool-approval-request":
            self._asked.append((str(named(chunk, "call_id") or chunk.id), str(named(chunk, "name"))))

    def _whole_call(self, made: list[Json], chunk: Chunk) -> None:
        ended = self._sent.end_call(chunk)
        if ended is None:
            return
        call, left = ended
        if call.call_id not in self._pending:
            self._begin_call(made, call.call_id, call.name)
        if left:
            made.append({"type": "TOOL_CALL_ARGS", "toolCallId": call.call_id, "delta": left})
        self._finish_call(made, call.call_id)

    def _begin_call(self, made: list[Json], call_id: str, name: str) -> None:
        self._parent = self._parent or RANDOM_IDS.next()
        self._open_calls.add(call_id)
        self._pending.append(call_id)
        told = {"toolCallId": call_id, "toolCallName": name, "parentMessageId": self._parent}
        made.append({"type": "TOOL_CALL_START", **told})

    def _finish_call(self, made: list[Json], call_id: str) -> None:
        if call_id in self._open_calls:
            self._open_calls.remove(call_id)
            made.append({"type": "TOOL_CALL_END", "toolCallId": call_id})

    def _result(self, made: list[Json], chunk: Chunk) -> None:
        call_id = str(named(chunk, "call_id") or chunk.id)
        if call_id in self._pending:
            self._pending.remove(call_id)
        if chunk.type == "tool-result":
            said = thaw(named(chunk, "result"))
            content = said if isinstance(said, str) else as_json(said)
        else:
            content = REJECTED_TEXT if call_id in self._rejected else TOOL_FAILED_TEXT
        told = {"messageId": RANDOM_IDS.next(), "toolCallId": call_id, "content": content, "role": "tool"}
        made.append({"type": "TOOL_CALL_RESULT", **told})

    # Other chunks

    def _step_event(self, made: list[Json], chunk: Chunk) -> None:
        """Add the beginning or the end of a step."""
        if chunk.type == "step-start":
            self._close(made)
            self._parent = ""
            self._steps += 1
            self._step = f"step {self._steps}"
            made.append({"type": "STEP_STARTED", "stepName": self._step})
        elif chunk.type == "step-finish":
            self._close(made)

    def _review_events(self, finish: Chunk) -> Sequence[Json]:
        """Return nothing: the end of the run has an interrupt for it."""
        self._review = finish.run_id or self._run_id
        return ()


_TEXTS = {"text": "TEXT_MESSAGE", "reasoning": "REASONING_MESSAGE"}


def _add_value(made: list[Json], chunk: Chunk) -> None:
    """Add the state, or a source, a file or data."""
    payload: Value = chunk.payload
    value = thaw(payload.get("data", payload) if chunk.is_data else payload)
    if chunk.type == "data-state":
        made.append({"type": "STATE_SNAPSHOT", "snapshot": value})
    else:
        made.append({"type": "CUSTOM", "name": chunk.type.removeprefix("data-"), "value": value})


def _interrupt(call_id: str, name: str) -> Json:
    """Return the interrupt of a call that waits for approval."""
    told = {"reason": "tool_call", "message": f"May {name} run?", "toolCallId": call_id}
    return {"id": call_id, **told, "responseSchema": APPROVAL_SCHEMA}
