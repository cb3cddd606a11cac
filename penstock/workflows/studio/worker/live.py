"""`Live`: the events of a run, sent to the studio while it runs."""

from __future__ import annotations

from collections import deque
from time import monotonic, time
from typing import TYPE_CHECKING

import anyio

from penstock.engine.processor.stages import STAGES
from penstock.engine.tracing.display import visible
from penstock.engine.tracing.span import Span, SpanEdit
from penstock.engine.values.chunks import DELTAS
from penstock.engine.values.plain import plain
from penstock.pictures.overlay import StepTotal
from penstock.pictures.page_marks import mark_json

if TYPE_CHECKING:
    from penstock.engine.tracing.events import RunEvent
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Record
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.channel import Channel

_STATUSES = ("passed", "edited", "tripped", "failed", "skipped")
_PAUSE = 0.05  # seconds for which pieces of text are joined


class Live:
    """An observer that sends events of one run. Lives as long as the run.

    Pieces of text are joined for a moment, so that a fast model does not flood the page.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._started = time()
        self._number = 0
        self._text: deque[str] = deque()
        self._block = ("", "")  # the type and the id of the pieces that wait
        self._sent = 0.0
        self._totals: dict[str, StepTotal] = {}
        self._in = self._out = self._held = 0

    def on_record(self, record: Record) -> None:
        """Send an event for a step that has ended."""
        self._number += 1
        span = Span(
            -self._number,
            None,
            "step",
            record.step.rpartition("/")[2],
            record.step,
            record.stage,
            max(0.0, record.started - self._started),
            record.seconds,
            record.status,
            record.processor_id,
            shadow=record.shadow,
            edits=tuple(
                SpanEdit(place.message_id, place.part, str(place.path[0]), edit.start, edit.end, edit.kind, edit.text)
                for place, edit in record.edits
            ),
            tripwire=record.tripwire,
            error=record.error,
            details=record.details,
            flagged=record.flagged,
        )
        self._channel.event("span", {**span.to_json(), "marks": self._marks(span)})

    def _marks(self, span: Span) -> Json:
        """Return the marks of a step's boxes after one more run, by their ids: one box for each list of an agent."""
        box = f"step:{span.path}"
        marks: Json = {}
        for id in (box, f"{box}@{STAGES[span.stage].processor_list}"):
            total = self._totals.setdefault(id, StepTotal())
            total.add(span)
            marks[visible(id)] = mark_json(total.mark())
        return marks

    def on_event(self, event: RunEvent) -> None:
        """Send an event for a part of the request that starts or ends."""
        kind = "model_step" if event.what == "step" else event.what
        inside = event.what in ("branch", "attempt")  # its name is its path in the workflow
        part: Json = {"kind": kind, "key": event.path, "path": event.name if inside else ""}
        part |= {"name": event.name.rpartition("/")[2] if inside else event.name}
        part |= {"stage": event.name if event.what == "stage" else "", "at": event.at - self._started}
        if event.phase == "start":
            self._channel.event("start", part)
            return
        self._number += 1
        part |= {"id": -self._number, "parent": None, "seconds": event.seconds, "details": plain(event.details)}
        part["at"] = max(0.0, event.at - self._started - event.seconds)
        self._channel.event("span", {**part, "status": _status(event.details)})

    # Chunks

    def came_in(self, count: int) -> None:
        """Count characters that a model has said."""
        self._in += count
        self._tell_held()

    def chunk(self, chunk: Chunk) -> None:
        """Send a chunk that has left; pieces of text are joined first."""
        if chunk.type in DELTAS:
            if self._block != (chunk.type, chunk.id):
                self.flush()
                self._block = (chunk.type, chunk.id)
            self._text.append(chunk.text)
            self._out += len(chunk.text) if chunk.type == "text-delta" else 0
            if monotonic() - self._sent >= _PAUSE:
                self.flush()
            return
        self.flush()
        if chunk.type in ("step-finish", "text-end", "retract", "tripwire", "finish"):
            self._in = self._out = 0
            self._tell_held()
        if chunk.type == "retract":
            ids = plain(chunk.payload["blocks"])
            self._channel.event("retract", {"at": self._at, "ids": ids})
        payload = plain(chunk.payload)
        told: Json = {"id": chunk.id, "payload": payload}
        self._channel.event("chunk", {"at": self._at, "type": chunk.type, "text": chunk.text, "chunk": told})

    def flush(self) -> None:
        """Send the pieces of text that wait."""
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            self._sent = monotonic()
            kind, id = self._block
            self._channel.event("chunk", {"at": self._at, "type": kind, "text": text, "chunk": {"id": id}})
            self._tell_held()

    async def keep_flushing(self) -> None:
        """Send the pieces of text that wait, again and again."""
        while True:
            await anyio.sleep(_PAUSE)
            self.flush()

    @property
    def _at(self) -> float:
        return max(0.0, time() - self._started)

    def _tell_held(self) -> None:
        held = max(0, self._in - self._out)
        if held != self._held:
            self._held = held
            self._channel.event("held", {"at": self._at, "held": held})


def _status(details: Values) -> str:
    """Return the status of a span from the details of the end of its part."""
    if "error" in details:
        return "failed"
    status = str(details.get("status", "passed"))
    return {"blocked": "tripped", "cancelled": "failed"}.get(status, status if status in _STATUSES else "passed")
