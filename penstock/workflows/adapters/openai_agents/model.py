"""`GuardedAgentsModel`: a model of the SDK whose answers pass the guards. Outside of a guarded run it passes all on."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from agents import Model, ModelBehaviorError, ModelProvider, ModelResponse, Usage
from agents.models.interface import ModelTracing

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message
from penstock.engine.values.model import ToolSpec
from penstock.formats import openai_responses as wire
from penstock.formats.wire import is_array, is_object
from penstock.workflows.adapters.openai_agents.answers import AgentsAnswerReader, as_output, items_of
from penstock.workflows.adapters.openai_agents.events import EventWriter
from penstock.workflows.adapters.openai_agents.items import plain
from penstock.workflows.adapters.openai_agents.running import cleaned, guarding_now, raised_here, running_now
from penstock.workflows.hosting import PLAIN_SETTINGS, ModelCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from agents.items import TResponseStreamEvent
    from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
    from openai.types.responses import ResponseOutputItem, ResponseUsage

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.openai_agents.running import Guarding


_MARK = "openai-agents-prompt"


@dataclass(frozen=True)
class PromptVariables:
    """The variables of the stored prompt of one model call.

    Attributes:
        prompt: the prompt, as the SDK gives it to the model; None if there is none.
        names: the names of the variables that hold something.
    """

    prompt: Json | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, prompt: Json | None) -> PromptVariables:
        """Return the variables of a prompt."""
        variables = (prompt or {}).get("variables")
        held = [name for name, value in variables.items() if value] if is_object(variables) else []
        return cls(prompt, tuple(sorted(held)))

    def among(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with one more for the variables, a part for each, if there are any.

        It stands in the last turn of the user, so that it is read where earlier turns count as checked.
        """
        at = len(messages)
        while at and messages[at - 1].role == "user":
            at -= 1
        return [*messages[:at], *self._message(), *messages[at:]]

    def _message(self) -> list[Message]:
        if not self.names or self.prompt is None:
            return []
        given: Json = self.prompt["variables"]
        content = [
            {"type": "input_text", "text": given[name]} if isinstance(given[name], str) else plain(given[name])
            for name in self.names
        ]
        [message] = wire.read([{"role": "user", "content": content}])
        return [replace(message, id="", metadata={**message.metadata, _MARK: True})]

    def others(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that are no variables."""
        return [message for message in messages if not message.metadata.get(_MARK)]

    def asked(self, messages: Sequence[Message]) -> Json:
        """Return the argument of the model call with the variables as the guards left them.

        Raises:
            UsageError: a processor has added or removed parts of the message, so that nothing says which is which.
        """
        if not self.names or self.prompt is None:
            return {}
        held = [message for message in messages if message.metadata.get(_MARK)]
        now = [part for message in held for part in _content(message)]
        if len(now) != len(self.names):
            raise UsageError(
                f"a processor has made {len(now)} parts of the {len(self.names)} variables of a stored prompt "
                f"({', '.join(self.names)}); it may change each part, but not add or remove any"
            )
        given: Json = self.prompt["variables"]
        left = {
            name: part.get("text", "") if isinstance(given[name], str) else part
            for name, part in zip(self.names, now, strict=True)
        }
        return {"prompt": {**self.prompt, "variables": {**given, **left}}}


def _content(message: Message) -> list[Json]:
    """Return the parts of a message as those of an input item."""
    bare = {name: value for name, value in message.metadata.items() if name != _MARK}
    found: list[Json] = []
    for item in wire.write([replace(message, metadata=bare)]):
        content = item.get("content")
        if isinstance(content, str):
            found.append({"type": "input_text", "text": content})
        elif is_array(content):
            found += [part for part in content if is_object(part)]
    return found


Arguments: TypeAlias = "dict[str, Any]"
"""The arguments of a model call, by their names."""


class GuardedAgentsModel(Model):
    """A model whose answers pass the guards of the run that calls it.

    Attributes:
        inner: the model.
    """

    def __init__(self, inner: Model) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the model beyond the interface."""
        return getattr(self.inner, name)

    async def close(self) -> None:
        """Release the resources of the model."""
        await self.inner.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.inner._cleanup_on_run_end(owner)  # pyright: ignore[reportPrivateUsage]

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """Return the model's advice."""
        return self.inner.get_retry_advice(request)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Return the answer as the guards left it.

        Raises:
            BlockedError: a guard stopped the run.
        """
        guarding = _guarding()
        given = _given(args, kwargs)
        if guarding is None:
            return await self.inner.get_response(**given)
        called = _Called(self.inner, given, guarding, streams=False)
        with raised_here(), cleaned():
            answer = await guarding.request.whole_answer(called.call())
        return ModelResponse(
            output=called.output(answer), usage=called.usage, response_id=called.id, request_id=called.request_id
        )

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncGenerator[TResponseStreamEvent]:
        """Yield the answer as the guards release it.

        Raises:
            BlockedError: a guard stopped the run.
        """
        guarding = _guarding()
        given = _given(args, kwargs)
        if guarding is None:
            bare: Any = self.inner.stream_response(**given)
            async for event in bare:
                yield event
            return
        called = _Called(self.inner, given, guarding, streams=True)
        writer = EventWriter()
        with raised_here(), cleaned():
            async with aclosing(guarding.request.answers(called.call())) as chunks:
                async for chunk in chunks:
                    for event in writer.events(chunk, called.reader):
                        yield event
            guarding.request.check()
        answer = guarding.request.answer or Message("assistant")
        for event in writer.rest(called.output(answer), called.usage, called.id, called.name):
            yield event


_NAMES = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing")


def _given(args: Sequence[Any], kwargs: Arguments) -> Arguments:
    return {**dict(zip(_NAMES, args, strict=False)), **kwargs}


def _guarding() -> Guarding | None:
    if running_now.get() is None:
        return None
    guarding = guarding_now.get()
    if guarding is None:
        raise UsageError("openai_agents.as_runner cannot tell which run calls this model; run the agent by the runner")
    if guarding.failure is not None:
        raise guarding.failure
    return guarding


@dataclass
class _Called:
    """One call of the model, as the stages make it; it may be made several times."""

    inner: Model
    given: Arguments
    guarding: Guarding
    streams: bool
    usage: Usage = field(default_factory=Usage)
    reader: AgentsAnswerReader = field(default_factory=AgentsAnswerReader)
    variables: PromptVariables = field(default_factory=PromptVariables)
    id: str | None = None
    request_id: str | None = None
    _objects: Sequence[ResponseOutputItem] = ()
    _items: Sequence[Json] = ()

    @property
    def name(self) -> str:
        return str(getattr(self.inner, "model", None) or type(self.inner).__name__)

    def call(self) -> ModelCall:
        """Return the call that the SDK is about to make.

        Raises:
            UsageError: the provider keeps the conversation.
        """
        given = self.given
        if given.get("previous_response_id") or given.get("conversation_id"):
            raise UsageError(
                "openai_agents.as_runner cannot guard conversations that the provider keeps, since it would keep what "
                "guards have removed; use a session in place of conversation_id and previous_response_id"
            )
        said = given["system_instructions"]
        own = [Message.system(said)] if said else []
        self.variables = PromptVariables.of(given.get("prompt"))
        settings = {
            name: value
            for name in PLAIN_SETTINGS
            if (value := getattr(given["model_settings"], name, None)) is not None
        }
        return ModelCall(
            self,
            [*own, *self.variables.among(self.guarding.items.read_call(given["input"]))],
            list(self._specs().values()),
            settings=freeze(settings),
            live=self.streams,
        )

    def _specs(self) -> dict[str, ToolSpec]:
        made: dict[str, ToolSpec] = {}
        for tool in self.given["tools"]:
            schema = getattr(tool, "params_json_schema", None)
            spec = ToolSpec(tool.name, description=getattr(tool, "description", "") or "")
            made[tool.name] = replace(spec, parameters=freeze(schema)) if isinstance(schema, dict) else spec
        for handoff in self.given["handoffs"]:
            made[handoff.tool_name] = ToolSpec(
                handoff.tool_name, freeze(handoff.input_json_schema or {}), handoff.tool_description
            )
        return made

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        asked = self._asked(request)
        self.reader = AgentsAnswerReader()
        used = Usage()
        if self.streams:
            objects: list[ResponseOutputItem] = []
            made: Any = self.inner.stream_response(**asked)
            async with aclosing(made) as events:
                async for event in events:
                    kind = event.type
                    if kind == "response.output_item.done":
                        objects.append(event.item)
                    elif kind == "response.completed":
                        objects = list(event.response.output) or objects
                        self.id = event.response.id
                        used = _usage(event.response.usage)
                    elif kind in ("response.failed", "response.incomplete", "error", "response.error"):
                        raise ModelBehaviorError(f"the model's stream ended with {kind}")
                    for chunk in self.reader.event(event):
                        yield chunk
        else:
            response = await self.inner.get_response(**asked)
            objects, used = list(response.output), response.usage
            self.id, self.request_id = response.response_id, response.request_id
        self.usage.add(used)
        self._objects, self._items = objects, [plain(item) for item in objects]
        counts: Json = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
        for chunk in self.reader.rest(self._items, counts):
            yield chunk

    def _asked(self, request: ModelRequest) -> Arguments:
        """Return the arguments of the call as the stages left them."""
        given = self.given
        own = [message.text for message in request.messages if message.role == "system"]
        said = [message for message in self.variables.others(request.messages) if message.role != "system"]
        changed = {
            name: thaw(value)
            for name, value in request.settings.items()
            if name in PLAIN_SETTINGS and hasattr(given["model_settings"], name)
        }
        names = {tool.name for tool in request.tools}
        tracing = given["tracing"]
        return {
            **given,
            **self.variables.asked(request.messages),
            "system_instructions": "\n\n".join(own) or None,
            "input": self.guarding.items.as_items(said),
            "model_settings": replace(given["model_settings"], **changed) if changed else given["model_settings"],
            "tools": [tool for tool in given["tools"] if tool.name in names],
            "handoffs": [handoff for handoff in given["handoffs"] if handoff.tool_name in names],
            # the model's own span would hold what guards have not read
            "tracing": ModelTracing.ENABLED_WITHOUT_DATA if tracing == ModelTracing.ENABLED else tracing,
        }

    def output(self, answer: Message) -> list[ResponseOutputItem]:
        """Return the items of an answer, and note them as those of that answer."""
        items = items_of(self._items, answer)
        self.guarding.items.note_answer(answer, items)
        return as_output(items, self._objects, self._items)


def _usage(told: ResponseUsage | None) -> Usage:
    if told is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        total_tokens=told.total_tokens,
        input_tokens_details=told.input_tokens_details,
        output_tokens_details=told.output_tokens_details,
    )


class GuardedProvider(ModelProvider):
    """A provider of models, each of which is guarded.

    Attributes:
        inner: the provider.
    """

    def __init__(self, inner: ModelProvider) -> None:
        self.inner = inner

    def get_model(self, model_name: str | None) -> Model:
        """Return a model by its name."""
        return guarded(self.inner.get_model(model_name))

    async def aclose(self) -> None:
        """Release the resources of the provider."""
        await self.inner.aclose()


def guarded(model: Model) -> GuardedAgentsModel:
    """Return a model, guarded; it is guarded once."""
    return model if isinstance(model, GuardedAgentsModel) else GuardedAgentsModel(model)
