"""`ToolLog`: the tool calls of one run of an agent, with arguments and results before and after the guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.stages import STAGES
from penstock.engine.tracing.span_log import SpanObserver
from penstock.engine.values.answer_builder import named
from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.tracing.span_log import LoggedSpan, SpanLog
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.messages import ToolPart
    from penstock.engine.values.tripwire import Record
    from penstock.workflows.studio.protocol import Json

_FIELDS = {"process_tool_call": "arguments", "process_tool_result": "result"}


class ToolLog(SpanObserver):
    """Collects tool calls, with all that guards hid of them. Lives as long as the run."""

    encloses = False

    def __init__(self) -> None:
        self._calls: dict[str, Json] = {}

    def said(self, chunk: Chunk) -> None:
        """Take a chunk of the model, before any guard: a tool call has the arguments that the model wrote."""
        if chunk.type != "tool-call":
            return
        id = str(named(chunk, "call_id") or chunk.id)
        self._call(id, str(named(chunk, "name") or ""))["arguments_before"] = thaw(named(chunk, "arguments"))

    def on_record(self, record: Record) -> None:
        """Take the record of a step: nothing is to be done. Every observer of an agent has this method."""

    def start(self, log: SpanLog, span: LoggedSpan) -> None:
        """Handle the start of a part: nothing is to be done."""

    def end(self, log: SpanLog, span: LoggedSpan) -> None:  # noqa: ARG002 - a `SpanObserver`
        """Take what a guarded stage was given for a call, and what it left; nothing is left of what was blocked."""
        name = _FIELDS.get(span.stage)
        if name is None or span.kind != "stage" or span.texts is None or not span.call_id:
            return
        before, after = span.texts
        field = STAGES[span.stage].value
        call = self._call(span.call_id)
        call.setdefault(f"{name}_before", thaw(before.fields.get(field)))
        if after is not None:
            call[name] = thaw(after.fields.get(field))
        if span.tripwire is not None:
            call["stopped"] = span.tripwire.reason

    def calls(self, answered: Iterable[ToolPart]) -> list[Json]:
        """Return the calls as data, in the order in which the model made them.

        Args:
            answered: the calls in the answers of the agent, as the guards left them.
        """
        for part in answered:
            if not part.call_id:
                continue  # the answer was blocked, and is empty
            call = self._call(part.call_id, part.name)
            call |= {"state": part.state, "arguments": thaw(part.arguments), "error": part.error}
            if part.state == "result":
                call["result"] = thaw(part.result)
            call.setdefault("arguments_before", call["arguments"])
            call.setdefault("result_before", call["result"])
        return [{**call, "result_before": call.get("result_before")} for call in self._calls.values()]

    def _call(self, id: str, name: str = "") -> Json:
        empty: Json = {"id": id, "name": name, "state": "call", "arguments": None, "result": None}
        call = self._calls.setdefault(id, {**empty, "error": None, "stopped": None})
        call["name"] = name or call["name"]
        return call
