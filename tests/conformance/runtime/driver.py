"""Plays a scenario: a real `Agent` with a scripted model, tools and a log, and what came of it in the oracle's shapes.

Nothing is decided here. Where the scripted model sits, in the process, behind HTTP or in pydantic-ai, the world says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock import Agent, Chunk, Message, MessageList, Processor, Tool, Workflow
from penstock.engine import ModelRequest, StepStartPart
from penstock.engine.run.conversation import MAX_ERROR_RETRIES
from penstock.tools import ToolContext
from penstock.workflows import AgentResult, StepResult
from tests.conformance.runtime.carriers import CARRIERS, Carrier, Recorded, without_unsaid
from tests.conformance.runtime.shapes import chunk_of, entry_of, prompt, shown, told_error, usage_of
from tests.conformance.runtime.turns import Mode, Turn

logging.getLogger("penstock").addHandler(logging.NullHandler())  # a command's report is not to be mixed with the log

ARRAYS = ("processors", "input_processors", "output_processors", "error_processors")


class Hooks(Processor[dict[str, Any]]):
    """A processor made of functions, one a stage."""

    def __init__(self, id: str, *, claims: Mapping[str, Any] | None = None, **hooks: Callable[..., Any]) -> None:
        self.id = id
        for name, value in {**(claims or {}), **hooks}.items():
            setattr(self, name, value)


@dataclass
class Start:
    """What an agent is made with, and the context of a request to it."""

    world: World
    arrays: Mapping[str, Any]
    options: Mapping[str, Any]
    request_context: dict[str, Any] = field(default_factory=dict)


class World:
    """Makes agents, honestly. A saboteur makes others (sabotage.py)."""

    def __init__(self, carrier: Carrier = "direct") -> None:
        self.carrier: Carrier = carrier

    def arrays(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arrays that an agent, or a call, is given in place of those."""
        return given

    def start(
        self, *processors: Processor[Any] | Workflow, request_context: dict[str, Any] | None = None, **options: Any
    ) -> Start:
        """Return what an agent with those processors and options is made with."""
        given = {name: options.pop(name) for name in ARRAYS if name in options}
        arrays = self.arrays({**given, **({"processors": processors} if processors else {})})
        return Start(self, arrays, options, {} if request_context is None else request_context)

    def said(self, value: Any, path: Sequence[str]) -> Any:
        """Return what stands at a path of the observations, without what the model's carrier cannot say."""
        return without_unsaid(value, self.carrier, streamed="stream" in path)


HONEST = World()


def chain(*items: Processor[Any] | Workflow) -> Workflow:
    """Return a workflow of the items one after the other, as an array of them would run."""
    workflow = Workflow("w")
    for item in items:
        workflow = workflow.then(item)
    return workflow


def conversation(
    *texts: str, system: str = "Sys", context: Iterable[str] = (), tagged: Mapping[str, str] | None = None
) -> MessageList:
    """Return what a caller brings: instructions, older context, the input."""
    made = MessageList().add(Message.system(system))
    for tag, text in (tagged or {}).items():
        made = made.add(Message.system(text), tag=tag)
    return made.add([Message.user(text) for text in context], source="context").add([Message.user(t) for t in texts])


class Talk:
    """One request: a scripted model (its last turn repeats), tools, and what came of it.

    Attributes:
        calls: what the model was asked, call by call.
        sent: what the client was sent, or would have been.
        came: what came of it; None where the request could not even begin.
        error: what it failed with.
    """

    def __init__(
        self,
        start: Start,
        turns: Iterable[Turn] = ({"text": "ok"},),
        *,
        mode: Mode = "generate",
        tools: Mapping[str, Callable[..., Any]] | None = None,
        budget: int = 5,
        **call: Any,
    ) -> None:
        self.start = start
        self.turns = list(turns)
        self.mode: Mode = mode
        self.tools = tools or {"lookup": lambda **_: {"answer": 42}}
        self.call: dict[str, Any] = {
            **{name: value for name, value in call.items() if name not in ARRAYS},
            **start.world.arrays({name: value for name, value in call.items() if name in ARRAYS}),
        }
        self.budget = budget
        self.calls: list[ModelRequest] = []
        self.sent: list[Chunk] = []
        self.came: AgentResult[Any] | None = None
        self.error: Exception | None = None

    async def play(self, messages: MessageList) -> Talk:
        """Make the request; an ordinary error ends it too."""
        try:
            async with CARRIERS[self.start.world.carrier](self.turns, self.mode) as model:
                await self._ask(Recorded(model, self.calls), messages)
        except Exception as error:  # noqa: BLE001 - the scenarios look at it
            self.error = error
        return self

    async def _ask(self, model: Recorded, messages: MessageList) -> None:
        tools = [_tool(name, function) for name, function in self.tools.items()]
        made = {"instructions": messages.tagged(None), "tools": tools, "max_steps": self.budget}
        agent = Agent(model, **{**made, **self.start.arrays, **_with_reference_retries(self.start.options)})
        tagged = [message for message in messages.system if message not in messages.tagged(None)]
        asked = {"system": tagged, "context": messages.of("context"), "request_context": self.start.request_context}
        options = {**asked, **self.call, "on_finish": self._finished}
        if self.mode == "generate":
            self.came = await agent.generate(messages.input, **{"on_chunk": self.sent.append, **options})
            return
        async with agent.stream(messages.input, **options) as stream:
            async for chunk in stream.full_stream:
                self.sent.append(chunk)
            self.came = await stream.result

    def _finished(self, result: AgentResult[Any]) -> None:
        self.came = result
        if "on_finish" in self.call:
            self.call["on_finish"](result)

    # In the oracle's shapes

    @property
    def tripwire(self) -> Any:
        """The verdict."""
        return None if self.came is None else self.came.tripwire

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation as it ended."""
        return () if self.came is None else self.came.messages

    @property
    def prompts(self) -> list[Any]:
        """What the model was sent, call by call."""
        return [prompt(call.messages) for call in self.calls]

    @property
    def prompt(self) -> Any:
        """What the model was sent first; None if it was not called."""
        return self.prompts[0] if self.calls else None

    @property
    def chunks(self) -> list[Any]:
        """What the client was sent."""
        return [chunk_of(chunk) for chunk in self.sent]

    @property
    def deltas(self) -> list[str]:
        """The pieces of text that the client was sent."""
        return [chunk.text for chunk in self.sent if chunk.type == "text-delta"]

    @property
    def text(self) -> str:
        """The text of the run's answers."""
        return "" if self.came is None else self.came.text

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Every attempt of the model."""
        return [] if self.came is None else [_step(step) for step in self.came.steps]

    @property
    def messages(self) -> list[Any]:
        """The history; one answer in several steps is one message, as the reference has it."""
        assert self.came is not None, self.error
        mine = {step.message_id for step in self.came.steps}
        made: list[Any] = []
        last = ""
        for message in self.came.messages:
            entry = entry_of(message)
            if message.id in mine and last in mine:
                made[-1]["parts"] += [*entry_of(Message.assistant([StepStartPart()]))["parts"], *entry["parts"]]
            else:
                made.append(entry)
            last = message.id
        return made

    def result(self) -> dict[str, Any]:
        """Return how the request ended, in the shape of its mode."""
        return self._streamed() if self.mode == "stream" else self._generated()

    def _generated(self) -> dict[str, Any]:
        if self.error is not None:
            return {"prompt": self.prompt, "tripwire": None, "threw": told_error(self.error), "text": ""}
        return {"prompt": self.prompt, **self.ended(), "messages": self.messages, "threw": None}

    def _streamed(self) -> dict[str, Any]:
        if self.came is None:
            threw = None if self.error is None else told_error(self.error)
            return {"chunks": self.chunks, "threw": threw, "tripwire_property": None}
        ended = self.ended()
        promised = {f"{name}_promise": ended[name] for name in ("text", "finishReason", "steps")}
        error = {} if self.error is None else dict.fromkeys(("threw", "error_property"), told_error(self.error))
        return {
            "chunks": self.chunks,
            **promised,
            **error,
            "tripwire_property": ended["tripwire"],
            "status": ended["status"],
            "messages_after": self.messages,
        }

    def ended(self) -> dict[str, Any]:
        """Return what both modes tell of the end."""
        assert self.came is not None, self.error
        return {
            "text": self.came.text,
            "finishReason": self.came.finish_reason,
            "tripwire": shown(self.came.tripwire),
            "steps": self.steps,
            "usage": usage_of(self.came.usage),
            "status": self.came.status,
        }


def _step(step: StepResult) -> dict[str, Any]:
    """Return an attempt as the oracle writes it."""
    made = {"text": step.text, "finishReason": step.finish_reason}
    if step.tool_calls:
        made["toolCalls"] = [call.name for call in step.tool_calls]
    return made if step.tripwire is None else {**made, "tripwire": shown(step.tripwire)}


def _tool(name: str, function: Callable[..., Any]) -> Tool:
    """Return a scenario's function as a tool; one that ``writes`` is given what sends chunks."""

    def call(arguments: dict[str, Any], context: ToolContext) -> Any:
        given = (context.write,) if getattr(function, "writes", False) else ()
        return function(*given, **arguments)

    return Tool.from_schema(call, name=name, parameters={"type": "object"}, offload=False)


async def in_both(play: Callable[[Mode], Awaitable[Any]]) -> dict[str, Any]:
    """Return what comes of a request that is played at once, and of one that streams."""
    return {"generate": await play("generate"), "stream": await play("stream")}


def _with_reference_retries(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the reference's default of processor retries, none, where a scenario gives no limit."""
    if options.get("max_processor_retries") is not None:
        return dict(options)
    return {"max_error_retries": MAX_ERROR_RETRIES, **options, "max_processor_retries": 0}
