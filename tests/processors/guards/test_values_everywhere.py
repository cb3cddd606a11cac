"""A JSON value is guarded alike wherever it stands: in a message, a result, a call, a chunk, a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Chunk, Message, PIIDetector, Workflow
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable

CARD = 4111111111111111
KEY = "glpat-Zk3v9XyQw7LmN2pRt5Ab"
VALUES: dict[str, dict[str, Any]] = {
    "a number": {"card": CARD, "note": "the soup"},
    "equal numbers": {"cards": [CARD, CARD, [CARD, -CARD]], "again": {"card": CARD}},
    "equal numbers under one key": {"a": {"card": CARD}, "b": {"card": CARD}},
    "numbers and texts": {"n": [1, CARD, "Use the key.", f"It is {KEY}. Bye."], "m": CARD + 0.0},
    "text blocks": {
        "content": [{"type": "text", "text": "Use glpat-Zk3v9X"}, {"type": "text", "text": "yQw7LmN2pRt5Ab."}]
    },
    "JSON in JSON": {"body": json.dumps({"card": CARD, "key": KEY})},
    "a key": {str(CARD): 1, "x": [KEY, KEY]},
}


def of_message(workflow: Workflow, part: Any, stage: str) -> Any:
    """Return the part after a stage."""
    outcome = getattr(workflow.start_sync(records=False), stage)([Message.assistant([part])])
    return outcome.messages[0].parts[0]


def of_stream(workflow: Workflow, *chunks: Chunk) -> list[Chunk]:
    """Return the chunks that leave."""
    with workflow.start_sync(records=False).process_output_stream(chunks) as left:
        return list(left)


def called(value: Any) -> list[Chunk]:
    """Return the chunks of a call with a value as its arguments, in pieces."""
    text = json.dumps(value)
    pieces = [Chunk("tool-input-delta", text[at : at + 5], "c") for at in range(0, len(text), 5)]
    start, end = Chunk("tool-input-start", id="c", payload={"name": "t"}), Chunk("tool-input-end", id="c")
    return [start, *pieces, end, Chunk("tool-call", id="c", payload={"call_id": "c", "name": "t", "arguments": value})]


READERS: dict[str, Callable[[Workflow, Any], Any]] = {
    "a tool's result": lambda flow, value: flow.check_sync(value, stage="process_tool_result", tool_name="t").result,
    "a tool's arguments": lambda flow, value: (
        flow.check_sync(value, stage="process_tool_call", tool_name="t").arguments
    ),
    "a result in a message": lambda flow, value: (
        of_message(flow, ToolPart("c", "t", {}, "result", value), "process_output_step").result
    ),
    "arguments in a message": lambda flow, value: (
        of_message(flow, ToolPart("c", "t", value), "process_output_step").arguments
    ),
    "data in a message": lambda flow, value: of_message(flow, DataPart("d", value), "process_output_result").data,
    "a result in a stream": lambda flow, value: next(
        chunk.payload["result"]
        for chunk in of_stream(
            flow, Chunk("tool-result", id="c", payload={"call_id": "c", "name": "t", "result": value})
        )
        if chunk.type == "tool-result"
    ),
    "data in a stream": lambda flow, value: of_stream(flow, Chunk("data-d", payload={"data": value}))[0].payload[
        "data"
    ],
    "a call in a stream": lambda flow, value: of_stream(flow, *called(value))[-1].payload["arguments"],
    "arguments in a stream": lambda flow, value: json.loads(
        "".join(chunk.text for chunk in of_stream(flow, *called(value)) if chunk.type == "tool-input-delta")
    ),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("strategy", ["redact", "filter"])
def test_a_value_is_guarded_alike_wherever_it_stands(strategy: str, value: str) -> None:
    """A number in two places is hidden in both."""
    workflow = Workflow("w").then(PIIDetector(strategy=strategy))  # type: ignore[arg-type]
    left = {name: json.dumps(thaw(read(workflow, VALUES[value]))) for name, read in READERS.items()}
    assert set(left.values()) == {left["a tool's result"]}
    assert not any(secret in left["a tool's result"] for secret in (str(CARD), KEY))
