"""A thin model loop around `Run`: a scripted model, tools, a log. It is no agent, and decides nothing.

What hooks see, what a verdict stops and what a rejected attempt leaves behind is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock import Message, MessageList, Outcome, Processor, Run, StepStartPart, TextPart, ToolPart, Workflow


class Hooks(Processor[dict[str, Any]]):
    """A processor made of functions, one a stage."""

    def __init__(self, id: str, *, claims: Mapping[str, Any] | None = None, **hooks: Callable[..., Any]) -> None:
        self.id = id
        for name, value in {**(claims or {}), **hooks}.items():
            setattr(self, name, value)


class World:
    """Starts runs, honestly. A saboteur starts others (sabotage.py)."""

    def start(self, workflow: Workflow, **options: Any) -> Run:
        """Return a run of the workflow."""
        return workflow.start(**options)


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
    """One request: a scripted model (its last turn repeats), tools, and what came of it in the oracle's shapes."""

    def __init__(
        self,
        run: Run,
        turns: Iterable[Mapping[str, Any]] = ({"text": "ok"},),
        *,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        settings: Mapping[str, Any] | None = None,
        budget: int = 5,
    ) -> None:
        self.run = run
        self.turns = list(turns)
        self.tools = tools or {"lookup": lambda **_: {"answer": 42}}
        self.settings = settings or {}
        self.budget = budget
        self.calls: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.mine: list[str] = []
        self.finish_reason: str | None = None
        self.outcome: Outcome | None = None
        self.error: Exception | None = None

    async def play(self, messages: MessageList) -> Talk:
        """Drive the run to its end; an ordinary error ends it too."""
        try:
            async with self.run:
                await self._loop(messages)
        except Exception as error:  # noqa: BLE001 - the scenarios look at it
            self.error = error
        return self

    async def _loop(self, messages: MessageList) -> None:
        accepted = 0
        if not self._goes_on(await self.run.process_input(messages)):
            return
        while accepted < self.budget:
            before = len(self.mine)
            if not await self._step():
                break
            accepted += len(self.mine) > before
        if self.run.tripwire is None:
            finish = self.finish_reason
            self._goes_on(await self.run.process_output_result(finish_reason=finish, steps=tuple(self.steps)))

    async def _step(self) -> bool:
        """Play one model step; tell whether another follows."""
        run = self.run
        prepared = await run.process_input_step(steps=tuple(self.steps), **self.settings)
        if not self._goes_on(prepared):
            return False
        request = await run.process_llm_request()
        if not self._goes_on(request):
            return False
        called = await run.call_model(lambda: self._answer(prepared, request))
        if called.outcome is not None and not self._goes_on(called.outcome):
            return False
        turn: Mapping[str, Any] = called.unwrap()
        calls = [ToolPart(c["id"], c["name"], c["args"]) for c in turn.get("tool_calls", ())]
        text = turn.get("text") or "".join(turn.get("deltas", ()))
        message = run.message_list.completed(Message.assistant([*([TextPart(text)] if text else []), *calls]))
        if not self._goes_on(await run.process_llm_response([message])):
            return False
        return await self._accept(message, calls)

    async def _accept(self, message: Message, calls: list[ToolPart]) -> bool:
        run = self.run
        told = [{"toolName": c.name, "toolCallId": c.call_id, "args": dict(c.arguments)} for c in calls]
        reason = "tool-calls" if calls else "stop"
        outcome = await run.process_output_step(finish_reason=reason, tool_calls=told or None, steps=tuple(self.steps))
        names = {"toolCalls": [c.name for c in calls]} if calls else {}
        if outcome.tripwire is not None:
            retry = "retry" if outcome.retry_granted else "other"
            self.steps.append({"text": "", "finishReason": retry, **names, "tripwire": shown(outcome.tripwire)})
            return self._goes_on(outcome) or outcome.retry_granted
        self.mine.append(message.id)
        self.finish_reason = reason
        for call in calls:
            if not await self._use(message.id, call):
                return False
        self.steps.append({"text": outcome.text, "finishReason": reason, **names})
        return bool(calls)

    async def _use(self, message_id: str, call: ToolPart) -> bool:
        run = self.run
        asked = await run.process_tool_call(call.name, call.arguments, call_id=call.call_id)
        if not self._goes_on(asked):
            return False
        result = self.tools[call.name](**asked.arguments)
        got = await run.process_tool_result(call.name, result, arguments=asked.arguments, call_id=call.call_id)
        if not self._goes_on(got):
            return False
        message = run.message_list.get(message_id)
        assert message is not None
        done = ToolPart(call.call_id, call.name, asked.arguments, "result", got.result)
        parts = [done if getattr(part, "call_id", None) == call.call_id else part for part in message.parts]
        run.message_list = run.message_list.replace(message.with_parts(parts))
        return True

    async def _answer(self, prepared: Outcome, request: Outcome) -> Mapping[str, Any]:
        chosen = {name: value for name, value in prepared.overrides.items() if value is not None}
        self.calls.append({"prompt": prompt(request.message_list), **chosen})
        return self.turns[min(len(self.calls), len(self.turns)) - 1]

    def _goes_on(self, outcome: Outcome) -> bool:
        self.outcome = outcome
        return not outcome.blocked

    # In the oracle's shapes

    @property
    def prompts(self) -> list[Any]:
        """What the model was sent, call by call."""
        return [call["prompt"] for call in self.calls]

    @property
    def prompt(self) -> Any:
        """What the model was sent first; None if it was not called."""
        return self.prompts[0] if self.calls else None

    @property
    def texts(self) -> list[str]:
        """The texts of this run's own answers, as they stand in the history."""
        return [m.text for m in self.run.message_list.all if m.id in self.mine]

    @property
    def messages(self) -> list[Any]:
        """The history; one answer in several steps is one message, as the reference has it."""
        made: list[Any] = []
        last = ""
        for message in self.run.message_list.all:
            entry = entry_of(message)
            if message.id in self.mine and last in self.mine:
                made[-1]["parts"] += [*entry_of(Message.assistant([StepStartPart()]))["parts"], *entry["parts"]]
            else:
                made.append(entry)
            last = message.id
        return made

    def result(self) -> dict[str, Any]:
        """Return how the request ended."""
        if self.error is not None:
            return {"prompt": self.prompt, "tripwire": None, "threw": told_error(self.error), "text": ""}
        tripwire = self.run.tripwire
        ended = {
            "text": "".join(self.texts),
            "finishReason": "other" if tripwire else self.finish_reason,
            "tripwire": shown(tripwire),
        }
        return {
            "prompt": self.prompt,
            **ended,
            "steps": self._settled_steps(),
            "messages": self.messages,
            "threw": None,
        }

    def _settled_steps(self) -> list[Any]:
        """Return the steps with their texts as they stand now."""
        now = {m.id: m.text for m in self.run.message_list.all if m.id in self.mine}
        texts = iter([now.get(message_id, "") for message_id in self.mine])
        return [step if "tripwire" in step else {**step, "text": next(texts)} for step in self.steps]


def camel(stage: str) -> str:
    """Return a stage's name as the oracle spells it."""
    head, *rest = stage.split("_")
    return head + "".join({"llm": "LLM", "api": "API"}.get(word, word.capitalize()) for word in rest)


def shown(tripwire: Any) -> Any:
    """Return a tripwire as the oracle writes it."""
    if tripwire is None:
        return None
    fields = {"reason": tripwire.reason, "retry": tripwire.retry, "processorId": tripwire.processor_id}
    metadata = tripwire.metadata
    return {**fields, "metadata": dict(metadata) if isinstance(metadata, Mapping) else metadata}


def told_error(error: BaseException) -> dict[str, Any]:
    """Return what an error tells a caller: whose it is, where, and what the original was."""
    cause = error.__cause__
    return {
        "error": type(error).__name__,
        "processor": getattr(error, "processor_id", None),
        "stage": getattr(error, "stage", None),
        "cause": None if cause is None else f"{type(cause).__name__}: {cause}",
    }


def line(message: Message) -> str:
    """Return a message as the oracle's logs write it."""
    return f"{message.role}:{message.text}"


def lines(messages: Iterable[Message]) -> list[str]:
    """Return messages as the oracle's logs write them."""
    return [line(message) for message in messages]


def entry_of(message: Message) -> dict[str, Any]:
    """Return a message as the oracle's histories write it."""
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append(part.text)
        elif isinstance(part, ToolPart):
            result = {"result": _plain(part.result)} if part.state == "result" else {}
            parts.append({"tool": part.name, "id": part.call_id, "state": part.state, **result})
        else:
            parts.append({"type": part.type})
    metadata = {"metadata": _plain(message.metadata)} if message.metadata else {}
    return {"role": message.role, "parts": parts, **metadata}


def prompt(messages: MessageList) -> list[Any]:
    """Return what the model is sent as the oracle writes it: system messages first, answered tool calls spelled out."""
    made: list[Any] = []
    for message in (*messages.system, *messages.all):
        done = [part for part in message.parts if isinstance(part, ToolPart) and part.state == "result"]
        entry: dict[str, Any] = {"role": message.role, "text": message.text}
        if done:
            entry["tool_calls"] = [{"id": p.call_id, "name": p.name, "args": _plain(p.arguments)} for p in done]
        made.append(entry)
        for part in done:
            output = {"type": "json", "value": _plain(part.result)}
            made.append({"role": "tool", "tool_results": [{"id": part.call_id, "name": part.name, "output": output}]})
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
