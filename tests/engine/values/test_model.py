"""Requests to models and their answers, as values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio
import pytest

from penstock import Chunk, Message
from penstock.engine.values.answer_builder import collected
from penstock.engine.values.errors import MessageError, ModelError
from penstock.engine.values.messages import TextPart, ToolPart
from penstock.engine.values.model import ModelAnswer, ModelRequest, ResponseFormat, ToolSpec, Usage


async def sent(chunks: Sequence[Chunk]) -> AsyncIterator[Chunk]:
    """Yield chunks."""
    for chunk in chunks:
        yield chunk


def whole(*chunks: Chunk) -> ModelAnswer:
    """Return the answer that chunks make."""
    return anyio.run(collected, sent(chunks))


def test_an_answer_is_put_together_from_its_chunks() -> None:
    """Text, calls, why it ended, what it took, and who gave it."""
    answer = whole(
        Chunk("response-metadata", payload={"id": "r1", "model": "m-1"}),
        Chunk("text-start", id="t"),
        Chunk("text-delta", "Hel", "t"),
        Chunk("text-delta", "lo", "t"),
        Chunk("text-end", id="t"),
        Chunk("tool-call", id="c", payload={"call_id": "c", "name": "web", "arguments": {"q": "x"}}),
        Chunk("finish", payload={"reason": "tool-calls", "usage": {"input_tokens": 3, "output_tokens": 4}}),
    )
    assert answer.message.parts == (TextPart("Hello"), ToolPart("c", "web", {"q": "x"}))
    assert (answer.finish_reason, answer.usage, answer.refused) == ("tool-calls", Usage(3, 4), False)
    assert (answer.text, answer.metadata["model"], len(answer.chunks)) == ("Hello", "m-1", 7)


def test_what_was_broken_off_has_no_reason() -> None:
    """And what nobody counted has no usage."""
    answer = whole(Chunk("text-start", id="t", payload={"refusal": True}), Chunk("text-delta", "No", "t"))
    assert (answer.finish_reason, answer.usage, answer.refused) == ("other", None, True)
    assert whole(Chunk("finish", payload={"reason": "what is new"})).finish_reason == "other"


def test_a_request_is_frozen() -> None:
    """Lists become tuples, mappings read-only; a str is what the user says."""
    settings = {"temperature": 0.0, "stop": ["x"]}
    tool = ToolSpec("web", {"type": "object"})
    request = ModelRequest([Message.user("hi")], [tool], settings=settings, response_format=ResponseFormat({"a": [1]}))  # type: ignore[arg-type]
    settings["temperature"] = 1.0
    assert (request.messages, request.tools) == ((Message.user("hi"),), (tool,))
    assert dict(request.settings) == {"temperature": 0.0, "stop": ("x",)}
    assert ModelRequest("hi").messages == (Message.user("hi"),)  # type: ignore[arg-type]
    assert ToolSpec("now").parameters["type"] == "object"
    assert ModelRequest("hi", [tool], ["web"]).tool_choice == ("web",)  # type: ignore[arg-type]
    assert ResponseFormat().schema is None
    with pytest.raises(MessageError, match="has no name"):
        ToolSpec("")
    with pytest.raises(MessageError, match="auto, none, required, or a tuple of names"):
        ModelRequest("hi", tool_choice="maybe")  # type: ignore[arg-type]


def test_tokens_add_up_where_both_are_known() -> None:
    """Half a sum is none."""
    assert (Usage(1, 2).total_tokens, Usage(1).total_tokens) == (3, None)


def test_an_error_tells_what_is_known() -> None:
    """And keeps only the beginning of a long answer."""
    error = ModelError(
        "openai/x", "it refused", status=429, code="rate_limit", retry_after=2.5, body="b" * 9000, retryable=True
    )
    assert str(error) == "model 'openai/x': it refused (HTTP 429, rate_limit)"
    assert (len(error.body), error.retry_after, error.retryable, dict(error.headers)) == (2000, 2.5, True, {})
    assert str(ModelError("m", "it is not there")) == "model 'm': it is not there"


def test_usages_add_up() -> None:
    """What one does not say is the other's; details that are no numbers are left out."""
    one = Usage(3, 4, None, 1, details={"audio": 2, "tier": "low"})
    other = Usage(5, None, 2, 1, 2, {"audio": 1, "cached": True})
    assert one + other == Usage(8, 4, 2, 2, 3, {"audio": 3})
    assert Usage() + Usage() == Usage(requests=2)
