"""`as_completion`: LiteLLM's completions with a workflow at their stages."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, Self

import anyio
import anyio.to_thread

from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message, ToolPart
from penstock.workflows.adapters.litellm.answers import LiteLLMAnswerReader, LiteLLMStreamWriter, response_of
from penstock.workflows.adapters.litellm.call import Called, arguments_of, content_of, with_checked_results
from penstock.workflows.adapters.litellm.messages import LiteLLMMessages, plain
from penstock.workflows.adapters.litellm.theirs import GuardBlockedError, litellm, types
from penstock.workflows.hosting import Host, HostRequest, HostSupport, raised_as
from penstock.workflows.hosting.without_await import each, in_threads, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from types import TracebackType

    from typing_extensions import Unpack

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostOptions

SUPPORT = HostSupport("litellm.as_completion")


class CompletionTarget(Protocol):
    """The object that makes the calls: ``litellm`` itself, or a router."""

    async def acompletion(self, **kwargs: Value) -> Value:
        """Make a call."""
        ...

    def completion(self, **kwargs: Value) -> Value:
        """Make a call without ``await``."""
        ...


def as_completion(
    *processors: Item, router: CompletionTarget | None = None, **options: Unpack[HostOptions]
) -> GuardedCompletion:
    """Return LiteLLM's ``completion`` and ``acompletion`` with processors at every stage.

    One serves any number of requests at once. A verdict is raised as a `GuardBlockedError`.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        router: a ``litellm.Router`` that makes the calls. Default: ``litellm`` itself.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardedCompletion(Host(SUPPORT, processors, **options), litellm if router is None else router)


class GuardedCompletion:
    """LiteLLM's completions with processors at every stage. Made by `as_completion`.

    Each call is a request of its own. Use `request` for several calls that belong together, such as those of an agent.

    Attributes:
        host: the processors.
        target: what makes the calls: ``litellm``, or a router.
    """

    def __init__(self, host: Host, target: CompletionTarget) -> None:
        self.host = host
        self.target = target

    def request(self) -> GuardedRequest:
        """Return a new request: calls of models and tools that share the state and the budgets of the guards."""
        return GuardedRequest(self.host, self.target)

    async def acompletion(self, model: str, messages: Sequence[Value], **kwargs: Value) -> Any:
        """Do what ``litellm.acompletion`` does, guarded.

        Returns:
            LiteLLM's ``ModelResponse``; with ``stream=True``, an async generator of its ``ModelResponseStream``.

        Raises:
            GuardBlockedError: a guard stopped the request; of a stream, when it is read.
            UsageError: the call asks for what guards cannot read.
        """
        request = GuardedRequest(self.host, self.target, runs_tools=False)
        if kwargs.get("stream"):
            return _streamed_alone(request, model, messages, kwargs)
        async with request:
            return await request.acompletion(model, messages, **kwargs)

    def completion(self, model: str, messages: Sequence[Value], **kwargs: Value) -> Any:
        """Do what ``litellm.completion`` does, guarded. LiteLLM makes the call in a worker thread.

        Returns:
            LiteLLM's ``ModelResponse``; with ``stream=True``, a generator of its ``ModelResponseStream``.

        Raises:
            GuardBlockedError: a guard stopped the request; of a stream, when it is read.
            UsageError: the call asks for what guards cannot read.
        """
        request = GuardedRequest(self.host, self.target, runs_tools=False)
        if kwargs.get("stream"):
            return each(_streamed_alone(request, model, messages, kwargs, awaits=False))
        with request:
            return request.completion(model, messages, **kwargs)


async def _streamed_alone(
    request: GuardedRequest, model: str, messages: Sequence[object], kwargs: Json, *, awaits: bool = True
) -> AsyncGenerator[object]:
    async with request, aclosing(request.pieces({**kwargs, "model": model, "messages": messages}, awaits)) as pieces:
        async for piece in pieces:
            yield piece


class GuardedRequest:
    """Calls of models and tools that belong together, such as those of an agent. Made by `GuardedCompletion.request`.

    Use it in a ``with`` or an ``async with``. One task uses it at a time.

    Attributes:
        run: the run of the request, with its records and its trace.
    """

    def __init__(self, host: Host, target: CompletionTarget, *, runs_tools: bool = True) -> None:
        self._target = target
        self._runs_tools = runs_tools
        self._request: HostRequest = host.open()
        self._forms = LiteLLMMessages(self._request)
        self._asked: frozenset[str] = frozenset()
        self.run = self._request.run

    async def acompletion(self, model: str, messages: Sequence[Value], **kwargs: Value) -> Any:
        """Do what ``litellm.acompletion`` does, guarded; see `GuardedCompletion.acompletion`."""
        given = {**kwargs, "model": model, "messages": messages}
        return self.pieces(given, awaits=True) if kwargs.get("stream") else await self._response(given, awaits=True)

    def completion(self, model: str, messages: Sequence[Value], **kwargs: Value) -> Any:
        """Do what ``litellm.completion`` does, guarded; see `GuardedCompletion.completion`."""
        given = {**kwargs, "model": model, "messages": messages}
        if kwargs.get("stream"):
            return each(self.pieces(given, awaits=False))
        return wait_for(self._response(given, awaits=False))

    async def _response(self, given: Json, awaits: bool) -> object:  # noqa: FBT001
        called = _InnerCompletion(self._target, given, self._forms, awaits)
        with raised_as(GuardBlockedError):
            await self._check_results(called)
            answer = await self._request.whole_answer(called.call(called))
        made, message = response_of(answer, called.reader, self._request, called.attempts)
        self._note(answer, message, called)
        return made

    async def pieces(self, given: Json, awaits: bool) -> AsyncGenerator[object]:  # noqa: FBT001
        """Yield the pieces of an answer as the guards release them."""
        called = _InnerCompletion(self._target, given, self._forms, awaits)
        writer = LiteLLMStreamWriter(called.model)
        with raised_as(GuardBlockedError):
            await self._check_results(called)
            async with aclosing(self._request.answers(called.call(called))) as chunks:
                async for chunk in chunks:
                    for piece in writer.pieces(chunk, called.reader):
                        yield piece
            self._request.check()
        answer = self._request.answer or Message("assistant")
        pieces, message = writer.rest(answer, called.reader, self._request, called.attempts)
        self._note(answer, message, called)
        for piece in pieces:
            yield piece

    async def _check_results(self, called: _InnerCompletion) -> None:
        given = called.given
        messages = await with_checked_results(self._request, given["messages"], self._asked)
        called.given = {**given, "messages": messages}

    def _note(self, answer: Message, message: Json, called: _InnerCompletion) -> None:
        if not self._runs_tools:
            called.refuse_answered(answer)
        if answer.id:
            self._forms.note_answer(answer, message)
        self._asked |= {part.call_id for part in answer.parts if isinstance(part, ToolPart)}

    def current(self, messages: Sequence[Value]) -> list[Value]:
        """Return messages as the guards left them, for your history; those that nobody changed are your own objects.

        Raises:
            MessageError: one is malformed.
        """
        return self._forms.current(messages)

    async def arun_tool(self, call: object, function: Callable[..., object]) -> Json:
        """Run a function for a tool call of an answer, unless a processor has answered in its place.

        Args:
            call: the entry of ``message.tool_calls``.
            function: is called with the arguments by name; it may be async.

        Returns:
            The message for the model, with the result as the guards left it.

        Raises:
            GuardBlockedError: a guard stopped the request.
            Exception: the error of the function.
        """
        given: Json = plain(call)
        id, name = str(given.get("id") or ""), str(given["function"]["name"])
        arguments = arguments_of(given["function"].get("arguments"))
        with raised_as(GuardBlockedError):
            checked = await self._request.tool_call(name, arguments, id)
            said = thaw(checked.answer)
        if not checked.answered:
            said = function(**thaw(checked.arguments))
            said = plain(await said if isawaitable(said) else said)
            with raised_as(GuardBlockedError):
                said = thaw(await self._request.tool_result(name, freeze(said), id, arguments=checked.arguments))
        return {"role": "tool", "tool_call_id": id, "name": name, "content": content_of(said)}

    def run_tool(self, call: object, function: Callable[..., object]) -> Json:
        """Do the same as `arun_tool` without ``await``."""
        return wait_for(self.arun_tool(call, function))

    async def __aenter__(self) -> Self:
        """Begin the request."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request: callbacks of `Context.on_end` are called, and shadow steps are waited for."""
        with anyio.CancelScope(shield=error is not None):
            await self._request.close(error)

    def __enter__(self) -> Self:
        """Begin the request."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the request, as ``async with`` does."""
        wait_for(self._request.close(error))


class _InnerCompletion(Called):
    """A completion of LiteLLM as the stages call it; it may be called several times.

    Attributes:
        reader: has read the last answer.
        attempts: how often the model was called.
    """

    def __init__(self, target: CompletionTarget, given: Json, forms: LiteLLMMessages, awaits: bool) -> None:  # noqa: FBT001
        super().__init__(given, forms)
        self.reader = LiteLLMAnswerReader()
        self.attempts = 0
        self._target = target
        self._awaits = awaits

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model or "litellm"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Yield the answer of the model."""
        self.attempts += 1
        reader = self.reader = LiteLLMAnswerReader()
        async with self._answer(self.left(request)) as pieces:
            async for piece in pieces:
                for chunk in reader.read(piece):
                    yield chunk
        for chunk in reader.end():
            yield chunk

    @asynccontextmanager
    async def _answer(self, asked: Json) -> AsyncGenerator[AsyncIterator[object]]:
        """Make the call, and give the pieces of the answer, or the one that is the whole."""
        if self._awaits:
            made = await self._target.acompletion(**asked)
        else:
            made = await anyio.to_thread.run_sync(partial(self._target.completion, **asked), abandon_on_cancel=True)
        if isinstance(made, types.ModelResponse):
            yield _one(made)
        elif self._awaits:
            try:
                yield made
            finally:
                close = getattr(made, "aclose", None)
                if close is not None:
                    await close()
        else:
            async with aclosing(in_threads(made)) as pieces:
                yield pieces


async def _one(item: object) -> AsyncIterator[object]:
    yield item
