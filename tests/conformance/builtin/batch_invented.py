"""Rows for the batcher as others may have been recorded: the reference, told after its spec, and many streams.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

ROWS = 120
TOOL: Fields = {"type": "tool-call", "payload": {"toolCallId": "c1", "toolName": "search", "args": {"q": "x"}}}
OTHERS: tuple[Fields, ...] = (
    TOOL,
    {"type": "object", "object": {"a": 1}},
    {"type": "raw", "payload": {"x": 1}},
    {"type": "finish", "payload": {"finishReason": "stop"}},
)


class Reference:
    """The reference's batcher, call by call (spec/builtins.md, 6)."""

    def __init__(self, options: Fields, *, writer: bool) -> None:
        self.options = options
        self.writer = writer
        self.batch: list[Any] = []
        self.parked: Any = None
        self.waited = 0
        self.timed = False

    def call(self, event: Fields) -> Fields:
        """Return what a call returns."""
        if "wait_ms" in event:
            self.waited += event["wait_ms"]
            return {"waited": True}
        if "flush" in event:
            return {"emit": self.flush()}
        fired = self.timed and self.waited >= self.options["max_wait_time"]
        if self.parked is not None:
            self.batch.append(event)
            parked, self.parked = self.parked, None
            return {"emit": parked}
        if fired and self.batch:
            self.batch.append(event)
            return {"emit": self.flush()}
        if self.options["emit_on_non_text"] and event["type"] != "text-delta":
            return self.other(event)
        return self.collect(event)

    def other(self, event: Fields) -> Fields:
        """Return what comes of a chunk that is no text."""
        flushed = self.flush()
        if flushed is None:
            return {"emit": event}
        if self.writer:
            return {"emit": flushed, "reprocess": event}
        self.parked = event
        return {"emit": flushed}

    def collect(self, event: Fields) -> Fields:
        """Put a chunk into the batch."""
        self.batch.append(event)
        if len(self.batch) >= self.options["batch_size"]:
            return {"emit": self.flush()}
        if self.options["max_wait_time"] and not self.timed:
            self.timed, self.waited = True, 0
        return {"emit": None}

    def flush(self) -> Fields | None:
        """Return the leading texts as one, or the chunk before them."""
        self.timed = False
        run = 0
        while run < len(self.batch) and self.batch[run]["type"] == "text-delta":
            run += 1
        taken, self.batch = self.batch[: max(run, 1)], self.batch[max(run, 1) :]
        if len(taken) < 2:
            return taken[0] if taken else None
        first = taken[0]["payload"]["id"]
        return {
            "type": "text-delta",
            "payload": {"text": "".join(one["payload"]["text"] for one in taken), "id": first},
        }


def rows() -> Iterator[Row]:
    """Yield streams of all kinds, the same ones each time."""
    texts = [{"type": "text-delta", "payload": {"id": "t1", "text": letter}} for letter in "ab"]
    aside = [texts[0], OTHERS[2], texts[1], *[{"flush": True}] * 3]
    collecting = {"batch_size": 5, "max_wait_time": None, "emit_on_non_text": False}
    yield row("flushed to the last", collecting, aside, writer=False)
    dice = random.Random(7)  # noqa: S311 - not for secrets
    for index in range(ROWS):
        options = {
            "batch_size": dice.choice([1, 2, 3, 5]),
            "max_wait_time": dice.choice([None, None, 0, 30]),
            "emit_on_non_text": dice.random() < EMITTING,
        }
        yield row(f"stream {index}", options, list(events(dice)), writer=dice.random() < EMITTING)


def with_own_id(event: Fields, id: str) -> Fields:
    """Return a chunk; a tool call with an id of its own, as each call of an answer has."""
    return {**event, "payload": {**TOOL["payload"], "toolCallId": id}} if event is TOOL else event


OFTEN = 0.9
EMITTING = 0.7


def events(dice: random.Random) -> Iterator[Fields]:
    """Yield the events of a stream."""
    for letter in "abcdefghij"[: dice.randint(0, 10)]:
        yield {"type": "text-delta", "payload": {"id": "t1", "text": letter if dice.random() < OFTEN else ""}}
        if dice.random() < 1 / 4:
            yield with_own_id(dice.choice(OTHERS[:3]), letter)
        if dice.random() < 1 / 8:
            yield dice.choice([{"wait_ms": 10}, {"wait_ms": 80}, {"flush": True}])
    if dice.random() < 1 / 2:
        yield OTHERS[3]


def row(name: str, options: Fields, given: list[Fields], *, writer: bool) -> Row:
    """Return a row with what the reference does there."""
    reference = Reference(options, writer=writer)
    returns = [reference.call(event) for event in given]
    left = {"batch": reference.batch, "pending_non_text": reference.parked}
    told = {"method": "process_output_stream", "writer": writer, "events": given}
    return Row("batch_parts", name, Given(options, told), {"returns": returns, "left_in_state": left})
