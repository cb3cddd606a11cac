"""`ProxyExchange`: one chat completion of LiteLLM's proxy, in two halves: its request, and its answer.

Also check requests whose answers hold no text: `check_input`.
"""

from __future__ import annotations

from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from anyio import CancelScope

from penstock.engine.execution.boundary import log
from penstock.engine.values.errors import MessageError, UsageError, without_text
from penstock.engine.values.messages import Message
from penstock.engine.values.tripwire import BlockedError
from penstock.formats.wire import is_array
from penstock.workflows.adapters.litellm.answers import LiteLLMAnswerReader, LiteLLMStreamWriter, response_of
from penstock.workflows.adapters.litellm.call import Called, with_checked_results
from penstock.workflows.adapters.litellm.messages import LiteLLMMessages
from penstock.workflows.adapters.litellm.verdicts import RefusalError, blocked, failed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Generator

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import Host, OutsideCall


class ProxyExchange:
    """One chat completion of the proxy: a request, and its answer.

    Raises:
        RefusalError: the request asks for what guards cannot read.
    """

    name = "litellm"

    def __init__(self, host: Host, data: Json) -> None:
        self._data = data
        self._request = host.open()
        try:
            self._called = Called(data, LiteLLMMessages(self._request), from_client=True)
        except UsageError as error:
            raise RefusalError(str(error), code="unguarded_call") from error
        self._reader = LiteLLMAnswerReader()
        self._failure: BaseException | None = None
        self._outside: OutsideCall | None = None
        self._answered = False

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        raise NotImplementedError("the proxy calls the model")

    async def begin(self) -> None:
        """Run the stages before the model is called, and write the guarded version into the request."""
        with self._refusals():
            try:
                asked = await self._prepared()
                self._request.check()
            except BaseException as failure:
                await self.close(failure)
                raise
        if asked is None:  # a processor has answered: LiteLLM makes an answer up, which nobody reads
            self._data |= {"mock_response": "answered by a processor", "cache": {"no-cache": True, "no-store": True}}
            return
        left = self._called.left(asked)
        for name in self._data.keys() - left.keys():
            del self._data[name]
        self._data.update(left)

    async def _prepared(self) -> ModelRequest | None:
        messages = await with_checked_results(self._request, self._data.get("messages"), frozenset())
        self._called.given = {**self._data, "messages": messages}
        outside = self._outside = self._request.outside_call(self._called.call(self))
        asked = await outside.prepared()
        self._answered = asked is None
        return asked

    async def whole(self, response: object) -> object:
        """Return a response as the guards left it.

        Raises:
            RefusalError: a guard stopped the request.
        """
        with self._refusals():
            try:
                async with aclosing(self._answers(_one(response))) as chunks:
                    async for _ in chunks:
                        pass
                self._request.check()
                self._called.refuse_answered(self._answer)
                made, _ = response_of(self._answer, self._reader, self._request, 1)
            except BaseException as failure:
                await self.close(failure)
                raise
        await self.close()
        return made

    async def pieces(self, response: AsyncIterable[object]) -> AsyncGenerator[object]:
        """Yield the pieces of an answer as the guards release them.

        Raises:
            RefusalError: a guard stopped the request.
        """
        writer = LiteLLMStreamWriter(self._called.model)
        with self._refusals():
            try:
                async with aclosing(self._answers(response)) as chunks:
                    async for chunk in chunks:
                        for piece in writer.pieces(chunk, self._reader):
                            yield piece
                self._request.check()
                self._called.refuse_answered(self._answer)
                pieces, _ = writer.rest(self._answer, self._reader, self._request, 1)
                for piece in pieces:
                    yield piece
            except BaseException as failure:
                await self.close(failure)
                raise
        await self.close()

    @property
    def _answer(self) -> Message:
        return self._request.answer or Message("assistant")

    def _answers(self, response: AsyncIterable[object]) -> AsyncGenerator[Chunk]:
        if self._outside is None:
            raise UsageError("the request has not begun")
        return self._outside.answers(None if self._answered else self._chunks(response))

    async def _chunks(self, response: AsyncIterable[object]) -> AsyncGenerator[Chunk]:
        try:
            async for piece in response:
                for chunk in self._reader.read(piece):
                    yield chunk
        except Exception as error:
            self._failure = error
            raise
        for chunk in self._reader.end():
            yield chunk

    async def fail(self, error: Exception) -> None:
        """Tell the processors of an error of the model."""
        try:
            async with aclosing(self._answers(_raising(error))) as chunks:
                async for _ in chunks:
                    pass
        except Exception as raised:  # noqa: BLE001 - LiteLLM goes on with the error of the model
            if raised is not error:
                said = without_text(raised)
                log.warning("litellm.as_guardrail: processors failed at an error of the model with %s", said)
        await self.close(error)

    async def close(self, error: BaseException | None = None) -> None:
        """End the request, also where the client's going away cancels each wait."""
        with CancelScope(shield=True):
            if self._outside is not None:
                await self._outside.close()
            await self._request.close(error)

    @contextmanager
    def _refusals(self) -> Generator[None]:
        """Raise verdicts and failures of guards as the errors that the client gets; errors of the model as they are."""
        try:
            yield
        except BlockedError as error:
            raise blocked(error.tripwire) from error
        except MessageError as error:
            raise RefusalError(str(error), code="malformed_messages") from error
        except Exception as error:
            if error is self._failure or isinstance(error, RefusalError):
                raise
            log.error("litellm.as_guardrail: a guard failed with %s", without_text(error))
            raise failed() from error


async def _one(item: object) -> AsyncGenerator[object]:
    yield item


async def _raising(error: Exception | None) -> AsyncGenerator[object]:
    if error is not None:
        raise error
    yield None


async def check_input(host: Host, data: Json) -> None:
    """Check the texts of an embedding or a moderation, and write the guarded version of them into the request.

    Raises:
        RefusalError: a guard stopped the request, or the input is no text.
    """
    given: Value = data.get("input")
    texts: list[Value] = [given] if isinstance(given, str) else list(given) if is_array(given) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise RefusalError("A guard reads texts; send the input as a text, or a list of texts.", code="unguarded_call")
    said = [Message.user(text) for text in texts]
    try:
        async with host.open() as request:
            await request.begin(said)
            request.check()
            left = [message.text if message is not None else "" for message in request.current(said)]
    except BlockedError as error:
        raise blocked(error.tripwire) from error
    except Exception as failure:
        log.error("litellm.as_guardrail: a guard failed with %s", without_text(failure))
        raise failed() from failure
    data["input"] = left[0] if isinstance(given, str) else left
