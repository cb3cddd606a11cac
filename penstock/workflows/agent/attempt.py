"""One call of a model, as the source of a stream: it knows whether an error is the model's own, and what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.streams.chunk_texts import sent
from penstock.engine.streams.sources import close_source
from penstock.engine.values.answers import usage_of
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_items
from penstock.engine.values.messages import Message
from penstock.workflows.agent.passing import is_for_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelRequest, Usage
    from penstock.engine.values.ports import Model

_BLOCKS = frozenset({"text-delta", "reasoning-delta"})


class Attempt:
    """One call of a model, or what stands in for it. Lives as long as the step.

    Args:
        model: see below.
        request: see below.
        answer: what a processor answered in its place, if one did.
        spent: is told the tokens that the call took, or None, once it is over: however it ended, if anything came.

    Attributes:
        model: who is asked.
        request: what it is sent.
        chunks: what it sent, unprocessed.
        error: what it failed with, if it did.
        from_cache: whether a processor answered in its place.
        out: the ids of the texts of which something has left, in order.
    """

    def __init__(
        self, model: Model, request: ModelRequest, answer: Value, spent: Callable[[Usage | None], None]
    ) -> None:
        self.model = model
        self.request = request
        self.chunks: list[Chunk] = []
        self.error: Exception | None = None
        self.from_cache = answer is not None
        self.out: dict[str, None] = {}
        self._answer = answer
        self._spent = spent
        self._left: Values = EMPTY  # the end that left
        self._said: Values | None = None  # what left of what the provider says before the answer

    async def source(self) -> AsyncGenerator[Chunk]:
        """Yield the answer's chunks; the model is asked when the first is wanted."""
        yield Chunk("step-start")
        keep = self.chunks.append
        try:
            if self.from_cache:
                for chunk in _stands_in(self._answer):
                    keep(chunk)
                    yield chunk
            else:
                stream = self.model.stream(self.request)
                try:
                    async for chunk in stream:
                        keep(chunk)
                        yield chunk
                finally:
                    if self.chunks:
                        self._spent(self.usage)
                    await close_source(stream)
            if not self.end:
                yield Chunk("finish", payload={"reason": "other"})
        except Exception as error:
            self.error = error
            raise

    def leaving(self, chunk: Chunk) -> bool:
        """Note a chunk that leaves the stream; tell whether it is for the client."""
        kind = chunk.type
        if kind in _BLOCKS:
            self.out[chunk.id] = None
        elif kind == "finish":
            self._left = chunk.payload
        elif kind == "response-metadata":
            self._said = chunk.payload
        return is_for_client(chunk)

    @property
    def end(self) -> Values:
        """What the model's end says; empty if it has not ended."""
        return next((chunk.payload for chunk in reversed(self.chunks) if chunk.type == "finish"), EMPTY)

    @property
    def called(self) -> bool:
        """Whether the model called a tool, whatever has become of the call."""
        return any(chunk.type == "tool-call" for chunk in self.chunks)

    @property
    def finish_reason(self) -> str:
        """Why the answer ended: as the end that left says, else as the model's does; ``other`` if neither does."""
        return str(self._left.get("reason") or self.end.get("reason") or "other")

    @property
    def usage(self) -> Usage | None:
        """The tokens that it took; None if nobody says, and for what stood in for it: it took none."""
        return None if self.from_cache else usage_of(self.end.get("usage"))

    @property
    def metadata(self) -> Values:
        """What the provider says about the answer, as the guards let it leave; of one that is held its names only."""
        said, end = self._said, self._left
        if said is None:
            told = next((chunk.payload for chunk in self.chunks if chunk.type == "response-metadata"), EMPTY)
            said = {name: told[name] for name in ("id", "model", "created") if name in told}
        return FrozenDict({**said, **(end.get("provider_terms") or {}), **(end.get("metadata") or {})})


def _stands_in(answer: Value) -> Sequence[Chunk]:
    """Return the chunks of what a processor answered in the model's place.

    Raises:
        UsageError: it is no answer.
    """
    if isinstance(answer, str):
        answer = Message.assistant(answer)
    if isinstance(answer, Message):
        calls = any(part.type == "tool" for part in answer.parts)
        return [*sent(answer), Chunk("finish", payload={"reason": "tool-calls" if calls else "stop"})]
    if is_items(answer) and all(isinstance(chunk, Chunk) for chunk in answer):
        return cast("Sequence[Chunk]", answer)
    kind = type(answer).__name__
    raise UsageError(f"process_llm_request answered with {kind}; Answer(...) takes a str, a message, or chunks")
