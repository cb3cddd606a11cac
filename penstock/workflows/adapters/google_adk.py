"""A workflow as a plugin of Google's Agent Development Kit: ``Runner(…, plugins=[as_plugin(guard)])``.

Needs the extra ``google-adk``. The plugin wraps the model of each agent before its first call, so that the partial
events, the final event, the state and the session agree; its hooks check the user's message, and tools around their
calls.
"""

from __future__ import annotations

import copy
import uuid
import weakref
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import anyio

from penstock.engine.formats import google as wire
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MissingExtraError, UsageError
from penstock.engine.values.frozen import EMPTY, freeze, is_items, is_mapping, thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolPart
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.tripwire import BlockedError, Tripwire
from penstock.workflows.hosting import Host, HostSupport, ModelCall, as_asked

try:
    from google.adk.agents.llm_agent import LlmAgent
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai import types
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.google_adk", "google-adk") from error

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from google.adk.agents.base_agent import BaseAgent
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from typing_extensions import Unpack

    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import ModelRequest, Usage
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions, HostRequest

SUPPORT = HostSupport("google_adk.as_plugin")

ERROR_CODE = "BLOCKED_BY_GUARD"
"""The ``error_code`` of the event that tells a verdict."""

_KEY = "penstock"
_ID = "penstock-"
"""How the ids of calls begin that the model gave none; the model does not get them back."""


def as_plugin(*processors: Item, **options: Unpack[HostOptions]) -> GuardPlugin:
    """Return processors as a plugin: ``Runner(…, plugins=[as_plugin(guard)])``.

    Put it last in the list, next to the model. One serves any number of runners and invocations. A verdict is an event
    with the error code `ERROR_CODE`; `tripwire_of` reads it.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardPlugin(Host(SUPPORT, processors, **options))


def tripwire_of(event: LlmResponse) -> Tripwire | None:
    """Return the verdict that an event tells, or None."""
    said: Any = (event.custom_metadata or {}).get(_KEY)
    return Tripwire(**said) if is_mapping(said) and event.error_code == ERROR_CODE else None


class GuardPlugin(BasePlugin):
    """A workflow in the agents of a runner. Made by `as_plugin`.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(name=f"penstock_{host.name}")
        self.host = host
        self._requests: dict[tuple[str, str], HostRequest] = {}

    def request(self, context: InvocationContext) -> HostRequest:
        """Return the request of an invocation; agents that run side by side have one each."""
        key = (context.invocation_id, context.branch or "")
        made = self._requests.get(key)
        if made is None or made.closed:
            made = self._requests[key] = self.host.open()
            weakref.finalize(context, self._requests.pop, key, None)  # a cancelled run calls no hook
        return made

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Check the user's message before the session stores it; the session gets what the guards left."""
        _refuse_live(invocation_context)
        request, said = self.request(invocation_context), _read([user_message])
        if not await request.begin(said):  # the first model call tells the verdict
            return types.Content(role="user", parts=[types.Part(text="")])
        left = [message for message in request.current(said) if message is not None]
        if [one.parts for one in left] == [one.parts for one in said]:
            return None
        made = _written(left)
        return made[0] if made else types.Content(role="user", parts=[types.Part(text="")])

    async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
        """Refuse what cannot be guarded.

        Raises:
            UsageError: the run is a live one.
        """
        _refuse_live(invocation_context)
        return None

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """Refuse what cannot be guarded.

        Raises:
            UsageError: the run is a live one.
        """
        _refuse_live(_invocation(callback_context))
        return None

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Wrap the agent's model, which ADK asks for right after this.

        Raises:
            UsageError: the agent is of a kind whose model cannot be wrapped.
        """
        context = _invocation(callback_context)
        _refuse_live(context)
        if getattr(context.run_config, "support_cfc", False):
            raise UsageError("google_adk.as_plugin cannot guard runs with support_cfc: they use the live connection")
        agent: Any = context.agent
        if not isinstance(agent, LlmAgent):
            raise UsageError(f"google_adk.as_plugin cannot wrap the model of a {type(agent).__name__}")
        _wrap(agent)
        if id(llm_request) not in _waiting:
            weakref.finalize(llm_request, _waiting.pop, id(llm_request), None)  # another plugin may answer instead
        _waiting.setdefault(id(llm_request), []).append(self.request(context))
        return None

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Check a call; a processor may answer in the tool's place. After a verdict no tool runs."""
        given = to_jsonable_python(tool_args, fallback=str)
        try:
            checked = await self.request(_invocation(tool_context)).tool_call(
                tool.name, given, tool_context.function_call_id or ""
            )
        except BlockedError:
            return _STOPPED
        if checked.answered:
            return _result(thaw(checked.answer))
        if checked.arguments != freeze(given) and is_mapping(checked.arguments):
            tool_args.clear()
            tool_args.update(cast("dict[str, Any]", thaw(checked.arguments)))
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Check the result of a tool; the session and the model get what the guards left."""
        if cast("Any", result) is None or result is _STOPPED:  # a long-running tool has no result yet
            return None
        said = to_jsonable_python(result, fallback=str)
        left = await self._checked(tool, tool_args, tool_context, said, is_error=False)
        return None if left == freeze(said) else _result(thaw(left))

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """Check the text of a tool's error; the run fails with it, unless another plugin answers for the tool."""
        await self._checked(tool, tool_args, tool_context, str(error), is_error=True)
        return None

    async def _checked(
        self, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, said: Any, *, is_error: bool
    ) -> Any:
        arguments = to_jsonable_python(tool_args, fallback=str)
        call_id = tool_context.function_call_id or ""
        try:
            return await self.request(_invocation(tool_context)).tool_result(
                tool.name, said, call_id, arguments=arguments, is_error=is_error
            )
        except BlockedError:
            return freeze(_STOPPED)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Close the requests of the invocation."""
        await self._close(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: InvocationContext, error: Exception) -> None:
        """Close the requests of an invocation that failed."""
        await self._close(invocation_context.invocation_id, error)

    async def close(self) -> None:
        """Close the requests of invocations that nobody read to their end."""
        for id in {key[0] for key in self._requests}:
            await self._close(id, UsageError("the runner was closed"))

    async def _close(self, invocation_id: str, error: BaseException | None = None) -> None:
        for key in [key for key in self._requests if key[0] == invocation_id]:
            await self._requests.pop(key).close(error)


_STOPPED = {"error": "The request was stopped."}
"""What stands in the session for a tool that a verdict stopped; the verdict itself is told by the next event."""

_waiting: dict[int, list[HostRequest]] = {}
"""The requests whose model is about to be called, by the identity of ADK's request, which is known until it is gone."""


def _invocation(context: Any) -> InvocationContext:
    return cast("InvocationContext", context._invocation_context)


def _refuse_live(context: InvocationContext) -> None:
    if context.live_request_queue is not None:
        raise UsageError("google_adk.as_plugin cannot guard run_live: ADK calls no hooks there; use run_async")


def _result(said: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {"result": said}


# The model


class _Guarded:
    """Mixed into the class of a wrapped model, which so keeps its type. Outside of a guarded run it passes all on."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002
    ) -> AsyncGenerator[LlmResponse]:
        """Yield the answer as the guards release it, or the verdict."""
        inner: Any = super()
        requests = _waiting.pop(id(llm_request), ())
        if len(requests) > 1:
            raise UsageError("two guard plugins serve one runner; give all processors to one as_plugin(…)")
        if not requests:
            made = inner.generate_content_async(llm_request, stream=stream)
        else:
            made = _answers(requests[0], _InnerModel(cast("Any", self).model, inner, llm_request, stream))
        async with aclosing(made) as responses:
            async for response in responses:
                yield response


_classes: dict[type[BaseLlm], type[BaseLlm]] = {}


def _wrap(agent: LlmAgent) -> None:
    """Wrap the model of an agent, or of the ancestor that it has its model from; once."""
    model = agent.canonical_model
    if isinstance(model, _Guarded):
        return
    owner: Any = agent
    while isinstance(owner, LlmAgent) and not owner.model and owner.parent_agent is not None:
        owner = owner.parent_agent
    owner = owner if isinstance(owner, LlmAgent) else agent
    kind = type(model)
    made = _classes.get(kind)
    if made is None:
        made = _classes[kind] = type(kind.__name__, (_Guarded, kind), {"__module__": kind.__module__})
    guarded = copy.copy(model)
    object.__setattr__(guarded, "__class__", made)
    owner.model = guarded


async def _answers(request: HostRequest, inner: _InnerModel) -> AsyncGenerator[LlmResponse]:
    try:
        async with aclosing(request.answers(inner.call())) as chunks:
            async for chunk in chunks:
                if inner.streams and chunk.type in ("text-delta", "reasoning-delta") and chunk.text:
                    thought = True if chunk.type == "reasoning-delta" else None
                    part = types.Part(text=chunk.text, thought=thought)
                    yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
    except BaseException as failure:
        if not isinstance(failure, Exception):  # cancelled, or closed by the reader: ADK calls no hook then
            with anyio.CancelScope(shield=True):
                await request.close(failure)
        raise
    yield _final(request, inner)


def _final(request: HostRequest, inner: _InnerModel) -> LlmResponse:
    """Return the response that ADK stores: the answer as the guards left it, or the verdict.

    Of what the model reports beside it, only what holds no text is kept: no guard reads citations, for example.
    """
    told = inner.last or LlmResponse()
    base: dict[str, Any] = {"partial": False, "turn_complete": told.turn_complete, "model_version": told.model_version}
    base["usage_metadata"] = _usage(request.usage, told)
    verdict = request.tripwire
    if verdict is not None:
        facts = {name: thaw(getattr(verdict, name)) for name in _FACTS}
        return LlmResponse(
            **base,
            error_code=ERROR_CODE,
            error_message=verdict.reason,
            finish_reason=types.FinishReason.SAFETY,
            custom_metadata={_KEY: to_jsonable_python(facts, fallback=str)},
        )
    answer = request.answer or Message("assistant")
    contents = _written([as_asked(answer)], keep_ids=True) if answer.parts else []
    content = contents[0] if contents else types.Content(role="model", parts=[])
    for part in content.parts or ():
        if part.thought_signature is not None and not _is_signed(part, inner.said or ()):
            part.thought_signature = None
    return LlmResponse(
        **base,
        content=content,
        finish_reason=told.finish_reason,
        error_code=told.error_code,
        avg_logprobs=told.avg_logprobs,
    )


def _is_signed(part: types.Part, said: Iterable[Part]) -> bool:
    """Return whether a part says what the model said, so that the model's signature is still true."""
    call = part.function_call
    if call is not None:
        return any(isinstance(one, ToolPart) and one.arguments == freeze(call.args or {}) for one in said)
    return any(isinstance(one, (TextPart, ReasoningPart)) and one.text == part.text for one in said)


_FACTS = ("reason", "processor_id", "stage", "retry", "metadata")


def _usage(used: Usage, told: LlmResponse) -> types.GenerateContentResponseUsageMetadata | None:
    """Return the tokens of the call, rejected attempts included."""
    if told.usage_metadata is None:
        return None
    given, made = used.input_tokens, used.output_tokens
    total = (given or 0) + (made or 0)
    return told.usage_metadata.model_copy(
        update={"prompt_token_count": given, "candidates_token_count": made, "total_token_count": total}
    )


class _InnerModel:
    """The model of the framework as the stages call it."""

    def __init__(self, name: str, model: Any, request: LlmRequest, streams: bool) -> None:  # noqa: FBT001
        self.name = name
        self.streams = streams
        self.last: LlmResponse | None = None
        self.said: Sequence[Part] | None = None
        self._model = model
        self._request = request

    def call(self) -> ModelCall:
        """Return the call that ADK is about to make."""
        config = self._request.config
        said = _instructions(config)
        own = [Message.system(said)] if said else []
        given = {name: getattr(config, name, None) for name in _SETTINGS}
        settings = {_SETTINGS[name]: item for name, item in given.items() if item is not None}
        tools = [ToolSpec(name, _parameters(tool), tool.description) for name, tool in self._request.tools_dict.items()]
        messages = [*own, *_read(self._request.contents)]
        return ModelCall(self, messages, tools, settings=freeze(settings), live=self.streams)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        asked = self._asked(request)
        reader = _AnswerReader()
        self.last = None
        async with aclosing(self._model.generate_content_async(asked, stream=self.streams)) as responses:
            async for response in responses:
                if not response.partial:
                    self.last = response
                for chunk in reader.response(response):
                    yield chunk
        self.said = reader.parts
        for chunk in reader.rest(self.last):
            yield chunk

    def _asked(self, request: ModelRequest) -> LlmRequest:
        """Return the request as the stages left it."""
        own = [message for message in request.messages if message.role == "system"]
        said = [message for message in request.messages if message.role != "system"]
        config = self._request.config.model_copy()
        instructions = "\n\n".join(message.text for message in own)
        if instructions != _instructions(config):
            config.system_instruction = instructions or None
        for name, ours in _SETTINGS.items():
            if ours in request.settings:
                setattr(config, name, thaw(request.settings[ours]))
        return self._request.model_copy(update={"contents": _written(said), "config": config})


def _instructions(config: Any) -> str:
    """Return the text of the instructions, which may be contents, parts, or lists of them.

    Raises:
        UsageError: they are of another kind, which no guard could read.
    """
    given: Any = config.system_instruction
    texts: list[str] = []
    for one in given if is_items(given) else [given]:
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, (types.Content, types.Part)):
            parts = one.parts or [] if isinstance(one, types.Content) else [one]
            texts.extend(part.text for part in parts if part.text)
        elif one is not None:
            raise UsageError(
                f"google_adk.as_plugin cannot read instructions of the type {type(one).__name__}; use text"
            )
    return "\n\n".join(texts)


_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens", "seed": "seed"}


def _parameters(tool: BaseTool) -> Any:
    declared: Any = tool._get_declaration()  # pyright: ignore[reportPrivateUsage]
    schema: Any = getattr(declared, "parameters_json_schema", None)
    own: Any = getattr(declared, "parameters", None)
    if schema is None and own is not None:
        schema = own.json_schema  # Google's form has other names of types
    return freeze(to_jsonable_python(schema, by_alias=True, exclude_none=True, fallback=str)) if schema else EMPTY


class _AnswerReader:
    """Reads one answer: the partial responses as they come, and from the whole one what they did not have."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._open: str | None = None
        self._count = 0
        self._shown = {"text": "", "reasoning": ""}

    def response(self, response: LlmResponse) -> Iterator[Chunk]:
        """Yield the chunks of a response."""
        content = response.content
        if content is None or not content.parts:
            return
        [message] = _read([types.Content(role="model", parts=content.parts)], ids=True)[:1] or [Message("assistant")]
        if response.partial:
            for part in message.parts:
                if isinstance(part, (TextPart, ReasoningPart)):
                    kind = "text" if isinstance(part, TextPart) else "reasoning"
                    self._shown[kind] += part.text
                    yield from self._say(kind, part.text)
            return
        self.parts.extend(message.parts)
        for part in message.parts:
            if isinstance(part, (TextPart, ReasoningPart)):
                kind = "text" if isinstance(part, TextPart) else "reasoning"
                shown, new = self._shown[kind], part.text
                if shown.startswith(new):
                    self._shown[kind], new = shown[len(new) :], ""
                elif new.startswith(shown):
                    self._shown[kind], new = "", new[len(shown) :]
                yield from self._say(kind, new)
                yield from self._end(part)
                continue
            yield from self._end()
            yield _whole(part)

    def _say(self, kind: str, text: str) -> Iterator[Chunk]:
        if not text:
            return
        if self._open is None or not self._open.startswith(kind):
            yield from self._end()
            self._count += 1
            self._open = f"{kind}-{self._count}"
            yield Chunk(f"{kind}-start", id=self._open)
        yield Chunk(f"{kind}-delta", text, self._open)

    def _end(self, part: Part | None = None) -> Iterator[Chunk]:
        if self._open is not None:
            kind, id = self._open.partition("-")[0], self._open
            self._open = None
            notes = EMPTY if part is None else part.metadata
            yield Chunk(f"{kind}-end", id=id, payload={"provider_metadata": notes})

    def rest(self, last: LlmResponse | None) -> Iterator[Chunk]:
        """Yield the end of the answer."""
        yield from self._end()
        payload: dict[str, Any] = {"reason": _reason(last, self.parts)}
        used = None if last is None else last.usage_metadata
        if used is not None:
            payload["usage"] = {
                "input_tokens": used.prompt_token_count,
                "output_tokens": used.candidates_token_count,
                "cached_tokens": used.cached_content_token_count,
            }
        yield Chunk("finish", payload=payload)


def _whole(part: Part) -> Chunk:
    """Return the chunk of a part that comes in one piece."""
    if isinstance(part, ToolPart) and part.state == "call" and part.name != "code_execution":
        named = {"call_id": part.call_id, "name": part.name, "arguments": part.arguments}
        return Chunk("tool-call", id=part.call_id, payload={**named, "provider_metadata": part.metadata})
    if isinstance(part, (ImagePart, AudioPart, FilePart)) and part.data is not None:
        return Chunk("file", payload={"media_type": part.media_type, "data": part.data})
    return Chunk("raw", payload={"provider_part": freeze(wire.write_part(part))})


def _reason(last: LlmResponse | None, parts: Sequence[Part]) -> str:
    said = None if last is None else last.finish_reason
    if any(isinstance(part, ToolPart) for part in parts):
        return "tool-calls"
    if said is None or said == types.FinishReason.STOP:
        return "stop"
    return "length" if said == types.FinishReason.MAX_TOKENS else "content-filter" if "SAFETY" in said.name else "other"


# Messages both ways: through the JSON of Google's API, which keeps what nobody knows


def _read(contents: Iterable[types.Content], *, ids: bool = False) -> list[Message]:
    items = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents]
    for part in [part for item in items for part in item.get("parts", ())] if ids else ():
        call = part.get("functionCall")
        if call is not None and not call.get("id"):  # else ADK makes one, which no stage would know
            call["id"] = f"{_ID}{uuid.uuid4().hex}"
    return list(wire.read(items))


def _written(messages: Iterable[Message], *, keep_ids: bool = False) -> list[types.Content]:
    items = wire.write(messages)
    for part in [part for item in items for part in item.get("parts", ())]:
        inner: Any = part.get("functionCall") or part.get("functionResponse") or {}
        if not keep_ids and str(inner.get("id", "")).startswith(_ID):
            del inner["id"]
    return [types.Content.model_validate(item) for item in items]
