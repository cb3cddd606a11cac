"""A model that says what a script says, and keeps what it was asked. It knows chunks, no provider and no network."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.testing import CountingIds
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import ModelError, UsageError
from penstock.engine.values.frozen import Value, Values
from penstock.engine.values.model import ModelRequest
from penstock.testing.turns import Script, Turn, arguments, call_id, failure, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Says: TypeAlias = str | Values | Turn
"""What a model says: a text, a turn, or a mapping that makes one."""

Saying: TypeAlias = Callable[[ModelRequest], Says | Awaitable[Says]]
"""Says what a model says to a request; an async one may take its time."""

ModelScript: TypeAlias = Sequence[Says | Saying] | Saying

_LETTERS = 4
"""How much of streamed arguments comes at once."""


class ScriptedModel:
    """A `Model` that needs no network; the same script gives the same chunks, ids included.

    Args:
        script: the answers, one for each request, in order: a str, a `Turn`, a mapping of the fields of a `Turn`, or a
            callable, async or not, that gets the request and returns one of those. One callable instead of the list
            answers all requests.
        repeat_last: whether the last answer also answers all further requests. If not, they are an error.
        name: the model's name.

    Attributes:
        requests: the requests so far, in order.
        streaming: how many answers are being read at the moment.
    """

    def __init__(self, script: ModelScript, *, repeat_last: bool = False, name: str = "scripted") -> None:
        self.requests: list[ModelRequest] = []
        self.streaming = 0
        self._name = name
        self._ids = CountingIds("answer-")
        self._script: Script[ModelRequest, Says | Awaitable[Says]] = Script(script, repeat_last=repeat_last)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the answer of the next turn.

        Raises:
            ModelError: the turn has an ``error``, or, behind what it says, a ``stream_error``.
            RuntimeError: the turn has a ``plain_error``: what a model should not raise.
            UsageError: there is no turn left.
        """
        self.streaming += 1
        try:
            said = await self._next(request)
            if said.plain_error is not None:
                raise RuntimeError(failure(said.plain_error).message)  # a model that is broken
            if said.error is not None:
                raise self._failed(said.error)
            for chunk in self._chunks(said, request):
                yield chunk
        finally:
            self.streaming -= 1

    async def _next(self, request: ModelRequest) -> Turn:
        self.requests.append(request)
        try:
            told = self._script.take(request)
        except IndexError:
            few = f"the script of {self._name!r} has {len(self._script)} turns, and this is one request more"
            raise UsageError(f"{few}; repeat_last=True repeats the last") from None
        return turn(await told if isinstance(told, Awaitable) else told)

    def _chunks(self, said: Turn, request: ModelRequest) -> Iterator[Chunk]:
        id = self._ids.next()
        yield Chunk("response-metadata", payload={"id": id, "model": self._name, "created": 0})
        yield from _block("reasoning", f"{id}-reasoning", said.thoughts)
        yield from _block("text", f"{id}-text", said.pieces)
        if said.refusal is not None:
            yield from _block("text", f"{id}-refusal", [said.refusal], {"refusal": True})
        for index, call in enumerate(said.tool_calls):
            yield from _call(call, call_id(call, index), streamed=said.stream_tool_input)
        if said.stream_error is not None:
            raise self._failed(said.stream_error)
        yield Chunk(
            "finish", payload={"reason": said.reason, "raw_reason": said.reason, "usage": _usage(said, request)}
        )

    def _failed(self, told: Value) -> ModelError:
        what = failure(told)
        return ModelError(
            self._name,
            what.message,
            status=what.status,
            code=what.code,
            retry_after=what.retry_after,
            retryable=what.worth_retrying,
        )


def _block(kind: str, id: str, pieces: Sequence[str], start: Values | None = None) -> Iterator[Chunk]:
    """Yield a text, in pieces, between its ends; nothing if there is none."""
    if pieces:
        yield Chunk(f"{kind}-start", id=id, payload=start or {})
        yield from (Chunk(f"{kind}-delta", piece, id) for piece in pieces)
        yield Chunk(f"{kind}-end", id=id)


def _call(call: Values, id: str, *, streamed: bool) -> Iterator[Chunk]:
    written = arguments(call)
    who = {"call_id": id, "name": call["name"]}
    if streamed:
        yield Chunk("tool-input-start", id=id, payload=who)
        for start in range(0, len(written), _LETTERS):
            yield Chunk("tool-input-delta", written[start : start + _LETTERS], id)
        yield Chunk("tool-input-end", id=id)
    yield Chunk("tool-call", id=id, payload={**who, **_read(written)})


def _read(written: str) -> Values:
    """Return a call's arguments as the port tells them: as a value, or as the text that is none."""
    try:
        return {"arguments": json.loads(written)}
    except ValueError:
        return {"arguments": written, "invalid": True}


def _usage(said: Turn, request: ModelRequest) -> Values:
    """Return what the turn says that it took, else a token a word."""
    counted = {"input_tokens": sum(len(message.text.split()) for message in request.messages)}
    return {**counted, "output_tokens": said.words, **(said.usage or {})}
