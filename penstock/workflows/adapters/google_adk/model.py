"""The model of an agent, wrapped: its answers pass the guards of the run that calls it."""

from __future__ import annotations

import copy
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import anyio
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import ModelError, UsageError
from penstock.engine.values.frozen import EMPTY, freeze, is_items, thaw
from penstock.engine.values.messages import Message
from penstock.engine.values.model import ToolSpec
from penstock.workflows.adapters.google_adk.answers import (
    AdkAnswerReader,
    final_response,
    read_contents,
    write_contents,
)
from penstock.workflows.hosting import ModelCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence, Set as AbstractSet

    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.base_tool import BaseTool

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import ModelRequest
    from penstock.formats.wire import Value
    from penstock.workflows.adapters.google_adk.events import SeenParts
    from penstock.workflows.hosting import HostRequest


@dataclass(slots=True)
class Waiting:
    """A request whose model is about to be called.

    Attributes:
        request: the request.
        seen: the texts that the guards have read; released texts are added.
    """

    request: HostRequest
    seen: SeenParts


waiting: dict[int, list[Waiting]] = {}
"""What waits, by the identity of ADK's request, which is known until it is gone."""


class _Guarded:
    """Mixed into the class of a wrapped model, which so keeps its type. Outside of a guarded run it passes all on."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002
    ) -> AsyncGenerator[LlmResponse]:
        """Yield the answer as the guards release it, or the verdict."""
        inner: Any = super()
        requests = waiting.pop(id(llm_request), ())
        if len(requests) > 1:
            raise UsageError("two guard plugins serve one runner; give all processors to one as_plugin(…)")
        if not requests:
            made = inner.generate_content_async(llm_request, stream=stream)
        else:
            made = _answers(requests[0], InnerLlm(cast("Any", self).model, inner, llm_request, stream))
        async with aclosing(made) as responses:
            async for response in responses:
                yield response


_classes: dict[type[BaseLlm], type[BaseLlm]] = {}


def wrap(agent: LlmAgent) -> None:
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


async def _answers(waits: Waiting, inner: InnerLlm) -> AsyncGenerator[LlmResponse]:
    request = waits.request
    try:
        async with aclosing(request.answers(inner.call())) as chunks:
            async for chunk in chunks:
                if inner.streams and chunk.type in ("text-delta", "reasoning-delta") and chunk.text:
                    thought = True if chunk.type == "reasoning-delta" else None
                    content = types.Content(role="model", parts=[types.Part(text=chunk.text, thought=thought)])
                    waits.seen.add(content)
                    yield LlmResponse(content=content, partial=True)
    except AnswerError as failure:  # ADK's models tell their errors as answers, so it goes on as without us
        yield failure.response
        return
    except BaseException as failure:
        if not isinstance(failure, Exception):  # cancelled, or closed by the reader: ADK calls no hook then
            with anyio.CancelScope(shield=True):
                await request.close(failure)
        raise
    response = final_response(request, inner.last, inner.said or ())
    waits.seen.add(response.content)
    yield response


_TOO_MANY, _SERVER_ERRORS = 429, 500


class AnswerError(ModelError):
    """An answer of a model with an ``error_code`` and no content, as `process_api_error` gets it.

    Attributes:
        response: the answer.
    """

    def __init__(self, model: str, response: LlmResponse) -> None:
        code = str(response.error_code)
        status = int(code) if code.isdecimal() else None
        retryable = status is not None and (status == _TOO_MANY or status >= _SERVER_ERRORS)
        problem = response.error_message or "the answer is an error"
        super().__init__(model, problem, status=status, code=code, retryable=retryable)
        self.response = response


@dataclass
class InnerLlm:
    """The model of the framework as the stages call it."""

    name: str
    model: BaseLlm
    request: LlmRequest
    streams: bool
    last: LlmResponse | None = None
    said: Sequence[Part] | None = None

    def call(self) -> ModelCall:
        """Return the call that ADK is about to make."""
        config = self.request.config
        said = _instructions(config)
        own = [Message.system(said)] if said else []
        given = {name: getattr(config, name, None) for name in _SETTINGS}
        settings = {_SETTINGS[name]: item for name, item in given.items() if item is not None}
        tools = [ToolSpec(name, _parameters(tool), tool.description) for name, tool in self.request.tools_dict.items()]
        messages = [*own, *read_contents(self.request.contents)]
        return ModelCall(self, messages, tools, settings=freeze(settings), live=self.streams)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        asked = self._asked(request)
        reader = AdkAnswerReader()
        self.last = None
        async with aclosing(self.model.generate_content_async(asked, stream=self.streams)) as responses:
            async for response in responses:
                if response.error_code is not None and not (response.content and response.content.parts):
                    raise AnswerError(self.name, response)
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
        config = self.request.config.model_copy()
        instructions = "\n\n".join(message.text for message in own)
        if instructions != _instructions(config):
            config.system_instruction = instructions or None
        for name, ours in _SETTINGS.items():
            if ours in request.settings:
                setattr(config, name, thaw(request.settings[ours]))
        self._choose_tools(request, config)
        return self.request.model_copy(update={"contents": write_contents(said), "config": config})

    def _choose_tools(self, request: ModelRequest, config: types.GenerateContentConfig) -> None:
        """Offer the tools that processors have chosen, and no others.

        Raises:
            UsageError: a processor has added a tool, which ADK could not run.
        """
        chosen = {tool.name for tool in request.tools}
        unknown = chosen - self.request.tools_dict.keys()
        if unknown:
            raise UsageError(
                f"google_adk.as_plugin cannot offer {', '.join(sorted(unknown))}: ADK runs only tools of the agent; "
                "add them to its tools, and let the processor choose"
            )
        left_out = self.request.tools_dict.keys() - chosen
        if left_out:
            config.tools = [tool for given in config.tools or () for tool in _without(given, left_out)] or None
        mode = _MODES.get("named" if isinstance(request.tool_choice, tuple) else request.tool_choice)
        if mode is not None:
            names = list(request.tool_choice) if isinstance(request.tool_choice, tuple) else None
            calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=names)
            before = config.tool_config or types.ToolConfig()
            config.tool_config = before.model_copy(update={"function_calling_config": calling})


_MODES = {
    "required": types.FunctionCallingConfigMode.ANY,
    "named": types.FunctionCallingConfigMode.ANY,
    "none": types.FunctionCallingConfigMode.NONE,
}
"""The modes of choices that are not ``auto``, which is what the agent itself asks for."""


def _without(tool: types.ToolUnion, names: AbstractSet[str]) -> list[types.ToolUnion]:
    """Return a tool of the request without some functions; nothing, if it held nothing else."""
    if not isinstance(tool, types.Tool) or not tool.function_declarations:
        return [tool]
    kept = [one for one in tool.function_declarations if one.name not in names]
    rest = tool.model_copy(update={"function_declarations": kept or None})
    return [rest] if rest.model_dump(exclude_none=True) else []


def _instructions(config: Any) -> str:
    """Return the text of the instructions, which may be contents, parts, or lists of them.

    Raises:
        UsageError: they are of another kind, which no guard could read.
    """
    given: object = config.system_instruction
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


def _parameters(tool: BaseTool) -> Value:
    declared = tool._get_declaration()  # pyright: ignore[reportPrivateUsage]
    schema: Value = getattr(declared, "parameters_json_schema", None)
    own: types.Schema | None = getattr(declared, "parameters", None)
    if schema is None and own is not None:
        schema = own.json_schema  # Google's form has other names of types
    return freeze(to_jsonable_python(schema, by_alias=True, exclude_none=True, fallback=str)) if schema else EMPTY
