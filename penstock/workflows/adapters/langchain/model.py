"""`as_chat_model`: a chat model with a workflow around its calls, for graphs made by hand and for the middleware."""

# pyright: reportPrivateUsage=false
# LangChain's models have no other methods for what they say of themselves than those with an underscore.

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import ConfigDict

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.langchain.inner import InnerChatModel, model_name_of
from penstock.workflows.adapters.langchain.writing import LangChainAnswerWriter
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.without_await import each, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.messages import AIMessageChunk, BaseMessage
    from langchain_core.runnables import Runnable
    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions, HostRequest

MODEL_SUPPORT = HostSupport(
    "langchain.as_chat_model", frozenset(STAGES) - {"process_tool_result"}, instead="as_middleware(…)"
)


def as_chat_model(model: BaseChatModel, *processors: Item, **options: Unpack[HostOptions]) -> GuardedChatModel:
    """Return a chat model with processors around each of its calls, for graphs made by hand.

    Each call is a request of its own: input, answer and the tool calls in it are checked. Results of tools are read as
    input; `process_tool_result` never runs, and the log says so. A verdict is raised as a `BlockedError`.

    Args:
        model: the model.
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist; or, unless ``strict=False``, a processor has no stage that can run.
        WorkflowError: the processors cannot run together.
    """
    return guarded(model, Host(MODEL_SUPPORT, processors, **options))


class GuardedChatModel(BaseChatModel):
    """A chat model with the stages of a request around its calls. Made by `as_middleware` and `as_chat_model`.

    Attributes:
        inner: the model. It is called without callbacks, so that no handler sees text that the guards have not read.
        host: the processors.
        request: the request that the calls belong to; None: each call is a request.
        bound_tools: the tools that were bound, as they were given; None: none were.
        bound_options: the options that were bound with them.
        calls: an item for each call; shared with the copies that `bind_tools` makes.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    host: Any
    request: Any = None
    bound_tools: Any = None
    bound_options: dict[str, Any] = {}  # noqa: RUF012 - a field of pydantic's
    calls: list[bool]

    @property
    def called(self) -> bool:
        """Whether it, or a copy with tools, has been called."""
        return bool(self.calls)

    @property
    def model_name(self) -> str:
        """The name of the model."""
        return model_name_of(self.inner)

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self.inner._identifying_params

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.inner._get_ls_params(stop, **kwargs)

    def get_num_tokens(self, text: str) -> int:
        """Return how many tokens a text has."""
        return self.inner.get_num_tokens(text)

    def get_token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self.inner.get_token_ids(text)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """Return the model with tools; they are bound to the inner model with each call."""
        options = {**kwargs, **({} if tool_choice is None else {"tool_choice": tool_choice})}
        options.pop("ls_structured_output_format", None)  # for tracers; LangChain takes it out before it calls a model
        return self.model_copy(update={"bound_tools": tuple(tools), "bound_options": options})

    def _inner(
        self, stop: list[str] | None, options: Mapping[str, Any], *, streams: bool = False, awaits: bool = True
    ) -> InnerChatModel:
        given = {**self.bound_options, **options}
        return InnerChatModel(self.inner, self.bound_tools, stop, given, streams=streams, awaits=awaits)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return await self._whole(self._inner(stop, kwargs), messages)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return wait_for(self._whole(self._inner(stop, kwargs, awaits=False), messages))

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        async with aclosing(self._pieces(self._inner(stop, kwargs, streams=True), messages)) as pieces:
            async for piece in pieces:
                if run_manager is not None:
                    await run_manager.on_llm_new_token(piece.text, chunk=piece)
                yield piece

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for piece in each(self._pieces(self._inner(stop, kwargs, streams=True, awaits=False), messages)):
            if run_manager is not None:
                run_manager.on_llm_new_token(piece.text, chunk=piece)
            yield piece

    async def _whole(self, inner: InnerChatModel, messages: Sequence[BaseMessage]) -> ChatResult:
        [piece] = [piece async for piece in self._pieces(inner, messages)]
        chunk = cast("AIMessageChunk", piece.message)
        told = {name: getattr(chunk, name) for name in AIMessage.model_fields if name != "type"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**told))])

    async def _pieces(
        self, inner: InnerChatModel, messages: Sequence[BaseMessage]
    ) -> AsyncGenerator[ChatGenerationChunk]:
        """Yield the pieces of the answer as the guards release them; a single one where nothing is streamed."""
        self.calls.append(True)
        request: HostRequest = self.request or self.host.open()
        written = LangChainAnswerWriter(lambda: inner.reader)
        try:
            async with aclosing(request.answers(inner.call(messages, request))) as chunks:
                async for chunk in chunks:
                    piece = written.piece(chunk) if inner.streams else None
                    if piece is not None:
                        yield ChatGenerationChunk(message=piece)
            request.check()
            if self.request is None:
                await request.close()
        except BaseException as failure:
            if self.request is None:
                await request.close(failure)
            raise
        yield ChatGenerationChunk(message=written.rest(request))


def guarded(model: BaseChatModel, host: Host, request: HostRequest | None = None) -> GuardedChatModel:
    """Return a model with the stages around it; callbacks of the model see the released chunks."""
    if not isinstance(cast("object", model), BaseChatModel):
        raise UsageError(f"the model is a {type(model).__name__}; as_middleware(…) needs a chat model")
    return GuardedChatModel(
        inner=model,
        host=host,
        request=request,
        calls=[],
        cache=False,
        callbacks=model.callbacks,
        tags=model.tags,
        metadata=model.metadata,
        disable_streaming=model.disable_streaming,
        profile=model.profile,
        output_version=model.output_version,
    )
