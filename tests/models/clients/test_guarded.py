"""Whether what an answer's provider needs back passes a guarded stream, and what must not pass does not."""

import json
from typing import Any

import anyio

from penstock import OpenAICompatibleModel, RegexFilterProcessor, Workflow
from penstock.engine import ModelRequest
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.chunks import Chunk
from penstock.testing.provider import FakeProvider, Reply
from tests.models.clients.conftest import Making

SEALED = {"type": "reasoning.encrypted", "data": "1773012759", "index": 1}


def stream(*deltas: dict[str, Any]) -> Reply:
    """Return a stream of these deltas."""
    items = [{"id": "a", "created": 1773012759, "choices": [{"delta": delta}]} for delta in deltas]
    items.append({"system_fingerprint": "fp 1773012759", "choices": [{"delta": {}, "finish_reason": "stop"}]})
    return Reply("".join(f"data: {json.dumps(item)}\n\n" for item in items) + "data: [DONE]\n\n")


async def left(model: OpenAICompatibleModel) -> list[Chunk]:
    """Return the chunks that leave a guarded stream."""
    guard = Workflow("w").then(RegexFilterProcessor(presets=["pii"], strategy="redact"))
    with anyio.fail_after(60):
        async with guard.start().process_output_stream(model.stream(ModelRequest("hi"))) as chunks:  # type: ignore[arg-type]
            return [chunk async for chunk in chunks]


async def test_what_a_provider_needs_back_passes_guards_and_text_does_not(asking: Making) -> None:
    """Signatures and sealed thoughts as they came, redacted texts, and no part that nobody could read."""
    thought = {"type": "reasoning.text", "text": "so", "signature": "s1773012759", "index": 0}
    more = {"said": "a@example.com"}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": {"s": "1773012759"}}
    odd = {"type": "odd", "said": "a@example.com"}
    reply = stream(
        {"reasoning_details": [{**thought, **more}]},
        {"reasoning_details": [SEALED]},
        {"reasoning_details": [{"type": "reasoning.odd", "said": "a@example.com", "index": 2}]},
        {"content": [{"type": "text", "text": "write to a@exam"}]},
        {"content": [{"type": "text", "text": "ple.com"}]},
        {"content": [odd]},
        {"tool_calls": [{"index": 0, **call, **more}]},
    )
    with FakeProvider([reply]) as server:
        async with asking(server) as model:
            chunks = await left(model)
            answer = Assembly()
            for chunk in chunks:
                answer.add(chunk)
            sent = model.body(ModelRequest((answer.message,)))["messages"]
    assert "example" not in repr(chunks)
    assert sent == [
        {
            "role": "assistant",
            "content": "write to [EMAIL]",
            "reasoning_details": [thought, SEALED],
            "tool_calls": [{**call, "type": "function"}],
        }
    ]
    assert chunks[0].payload["created"] == 1773012759
    assert chunks[-1].payload["provider_terms"] == {"system_fingerprint": "fp 1773012759"}
