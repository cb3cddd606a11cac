"""`OutsideCall`: a model call that a framework makes itself, between two of its hooks."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError
from penstock.workflows.hosting.tasks import Handover

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.values.protocols import Model


class OutsideCall:
    """One call of the model, in two halves: `prepared` before it, and `answers` after it has begun to answer.

    Between them the stages wait, in a task of their own. Call `close` in any case.

    Args:
        answers: runs the stages around the call of a model; see `HostRequest.answers`.
    """

    def __init__(self, answers: Callable[[Model], AsyncGenerator[Chunk]]) -> None:
        self._handover: Handover[ModelRequest, AsyncIterable[Chunk], Chunk] = Handover()
        self._chunks = answers(_Outside(self._handover))

    async def prepared(self) -> ModelRequest | None:
        """Run the stages before the call, and return what to send to the model.

        Returns None if the model must not be called: a verdict ended the request, or a processor answered in the
        model's place. In both cases `answers` yields the chunks, and needs no source.

        Raises:
            Exception: a step with ``on_error="raise"`` failed.
        """
        return await self._handover.begin(self._chunks)

    async def answers(self, source: AsyncIterable[Chunk] | None = None) -> AsyncGenerator[Chunk]:
        """Yield the chunks of the answer that may leave.

        Args:
            source: the chunks of the model; its error counts as the failure of the call.

        Raises:
            UsageError: the model is to be called, and there is no source; or an answer was rejected and is to be
                requested again, which cannot be done here.
            Exception: what ``source`` raised; or a step with ``on_error="raise"`` failed.
        """
        async with aclosing(self._handover.resume(source)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """End the call; the stages that have not run are left out."""
        await self._handover.close()


class _Outside:
    """Stands for the model of the framework: hands the request over, and waits for the answer."""

    name = "host"

    def __init__(self, handover: Handover[ModelRequest, AsyncIterable[Chunk], Chunk]) -> None:
        self._handover = handover
        self._called = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        if self._called:
            raise UsageError("the answer was rejected, and this framework cannot request it again")
        self._called = True
        async for chunk in await self._handover.swap(request):
            yield chunk
