"""`ScriptedModel`: a model that answers by a script, without a network, and records its requests."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import ModelError, UsageError
from penstock.engine.values.frozen import Value, Values
from penstock.engine.values.model import ModelRequest
from penstock.testing.turns import Script, Turn, arguments, call_id, failure, turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Says: TypeAlias = str | Values | Turn
"""What a model answers: a text, a turn, or a mapping that describes one."""

Saying: TypeAlias = Callable[[ModelRequest], Says | Awaitable[Says]]
"""Returns the answer to a request; it may be async."""

ModelScript: TypeAlias = Sequence[Says | Saying] | Saying

_LETTERS = 4
"""The length of the pieces in which arguments are streamed, in characters."""


class ScriptedModel:
    """A `Model` that answers by a script. The same script gives the same chunks, including ids.

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
        self._answers = itertools.count(1)
        self._script: Script[ModelRequest, Says | Awaitable[Says]] = Script(script, repeat_last=repeat_last)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the next answer.

        Raises:
            ModelError: the turn has an ``error``, or, after its content, a ``stream_error``.
            RuntimeError: the turn has a ``plain_error``: an exception that models should not raise.
            UsageError: the script has ended.
        """
        self.streaming += 1
        try:
            said = await self._next(request)
            if said.plain_error is not None:
                raise RuntimeError(failure(said.plain_error).message)  # what a broken model does
            if said.error is not None:
                raise self._failed(said.error)
            for chunk in self._chunks(said, request):
                yield chunk
        finally:
            self.streaming -= 1

    async def _next(self, request: ModelRequest) -> Turn:
        self.requests.append(request)
        try:
            given = self._script.take(request)
        except IndexError:
            few = f"the script of {self._name!r} has {len(self._script)} turns, and this is one more request"
            raise UsageError(f"{few}; repeat_last=True repeats the last turn") from None
        return turn(await given if isinstance(given, Awaitable) else given)

    def _chunks(self, said: Turn, request: ModelRequest) -> Iterator[Chunk]:
        id = f"answer-{next(self._answers)}"
        yield Chunk("response-metadata", payload={"id": id, "model": self._name, "created": 0})
        yield from _block("reasoning", f"{id}-reasoning", said.reasoning_pieces)
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

    def _failed(self, given: Value) -> ModelError:
        what = failure(given)
        return ModelError(
            self._name,
            what.message,
            status=what.status,
            code=what.code,
            retry_after=what.retry_after,
            retryable=what.worth_retrying,
        )


def _block(kind: str, id: str, pieces: Sequence[str], start: Values | None = None) -> Iterator[Chunk]:
    """Yield a text in pieces, between its start and end; nothing if there is no text."""
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
    """Return a call's arguments as a model reports them: as a value, or as text that is not JSON."""
    try:
        return {"arguments": json.loads(written)}
    except ValueError:
        return {"arguments": written, "invalid": True}


def _usage(said: Turn, request: ModelRequest) -> Values:
    """Return the usage that the turn gives, or else a token for each word."""
    counted = {"input_tokens": sum(len(message.text.split()) for message in request.messages)}
    return {**counted, "output_tokens": said.words, **(said.usage or {})}
