"""Where a scripted model sits: in the process, behind HTTP, or in pydantic-ai. It knows no scenario and no agent.

What a carrier's form cannot say stands here, and nowhere else: see `UNSAID`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from penstock import Chunk, OpenAICompatibleModel
from penstock.engine import ModelRequest
from penstock.models import PydanticAIModel
from penstock.testing import FakeProvider
from tests.conformance.runtime.turns import USAGE, Mode, Turn, chunks_of

Carrier = Literal["direct", "http", "pydantic-ai"]

NAME = "mock-1"

TOOL_INPUT = ("tool-input-start", "tool-input-delta", "tool-input-end")

UNSAID: Mapping[Carrier, tuple[str, ...]] = {
    "direct": (),
    "http": TOOL_INPUT,
    "pydantic-ai": TOOL_INPUT,
}
"""What is not compared: whether and in which pieces a call's arguments are announced before it is for a provider to
say."""

UNSAID_STREAMING: Mapping[Carrier, tuple[str, ...]] = {"direct": (), "http": (), "pydantic-ai": ("usage",)}
"""What is not compared besides where answers stream: a `FunctionModel` makes up its usage then."""


class Direct:
    """A model that sends chunks as an adapter would; its last turn repeats."""

    name = NAME

    def __init__(self, turns: Sequence[Turn], mode: Mode) -> None:
        self._turns = turns
        self._mode: Mode = mode
        self._asked = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the answer of the next turn."""
        del request
        self._asked += 1
        turn = self._turns[min(self._asked, len(self._turns)) - 1]
        for chunk in chunks_of(turn, self._mode, f"text-{self._asked}"):
            yield chunk


class Recorded:
    """A model that notes what it is asked, and has another one answer.

    Attributes:
        asked: what it was asked, call by call.
    """

    def __init__(self, model: Any, asked: list[ModelRequest], name: str = NAME) -> None:
        self.asked = asked
        self.name = name
        self._model = model

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the other one's answer."""
        self.asked.append(request)
        chunks = self._model.stream(request)
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()


@asynccontextmanager
async def _direct(turns: Sequence[Turn], mode: Mode) -> AsyncIterator[Any]:
    yield Direct(turns, mode)


@asynccontextmanager
async def _http(turns: Sequence[Turn], mode: Mode) -> AsyncIterator[Any]:
    script = [dict(turn) if _fails(turn) else {**turn, "usage": USAGE} for turn in turns]
    with FakeProvider(script, repeat_last=True) as server:
        model = OpenAICompatibleModel(NAME, base_url=server.url, api_key="any", stream=mode == "stream")
        async with model:
            yield model


def _fails(turn: Turn) -> bool:
    return any(name.endswith("error") for name in turn)


@asynccontextmanager
async def _pydantic_ai(turns: Sequence[Turn], mode: Mode) -> AsyncIterator[Any]:
    asked = 0

    def following() -> Turn:
        nonlocal asked
        asked += 1
        turn = turns[min(asked, len(turns)) - 1]
        _raise(turn, "plain_error")
        _raise(turn, "error")
        return turn

    def whole(_messages: Any, _info: Any) -> ModelResponse:
        turn = following()
        _raise(turn, "stream_error")
        text = "".join(pieces(turn))
        calls = [ToolCallPart(call["name"], call["args"], call["id"]) for call in turn.get("tool_calls", ())]
        usage = RequestUsage(input_tokens=USAGE["input_tokens"], output_tokens=USAGE["output_tokens"])
        return ModelResponse([*([TextPart(text)] if text else []), *calls], usage=usage)

    async def in_pieces(_messages: Any, _info: Any) -> AsyncIterator[Any]:
        turn = following()
        for piece in pieces(turn):
            yield piece
        _raise(turn, "stream_error")
        for index, call in enumerate(turn.get("tool_calls", ())):
            yield {index: DeltaToolCall(call["name"], json.dumps(call["args"]), tool_call_id=call["id"])}

    model = FunctionModel(whole, stream_function=in_pieces, model_name=NAME)
    yield PydanticAIModel(model, streaming=mode == "stream")


def pieces(turn: Turn) -> list[str]:
    """Return the pieces of text of a turn."""
    return [piece for piece in turn.get("deltas") or [turn.get("text", "")] if piece]


def _raise(turn: Turn, name: str) -> None:
    """Fail as a turn says, if it does."""
    told = turn.get(name)
    if told is None:
        return
    if name == "plain_error":
        raise RuntimeError(told)
    told = told if isinstance(told, Mapping) else {"message": told}
    raise ModelHTTPError(told.get("status") or 500, NAME, {"message": told["message"]})


CARRIERS: Mapping[Carrier, Callable[[Sequence[Turn], Mode], AbstractAsyncContextManager[Any]]] = {
    "direct": _direct,
    "http": _http,
    "pydantic-ai": _pydantic_ai,
}


def without_unsaid(value: Any, carrier: Carrier, *, streamed: bool) -> Any:
    """Return a value without what the carrier cannot say."""
    unsaid = (*UNSAID[carrier], *(UNSAID_STREAMING[carrier] if streamed else ()))
    return _without(value, unsaid) if unsaid else value


def _without(value: Any, unsaid: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _without(below, unsaid) for key, below in value.items() if key not in unsaid}
    if isinstance(value, (list, tuple)):
        return [_without(item, unsaid) for item in value if not _names_one(item, unsaid)]
    return value


def _names_one(item: Any, unsaid: tuple[str, ...]) -> bool:
    """Tell whether an entry of a log or of a stream is about one of those kinds of chunks."""
    if isinstance(item, str):
        return item.endswith(unsaid)
    if isinstance(item, dict):
        return item.get("type") in unsaid or _names_one(item.get("part"), unsaid)
    return isinstance(item, (list, tuple)) and len(item) > 1 and any(_names_one(one, unsaid) for one in item[1:])
