"""A thin model loop around `Run`: a scripted model, tools, a log. It is no agent, and decides nothing.

What hooks see, what leaves a stream and when, what a verdict stops and what a rejected attempt leaves behind is the
engine's. The loop's own: the `start` and `finish` that no hook sees, and that a step's `step-finish` follows its tools.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from penstock import Chunk, Message, MessageList, Outcome, Processor, Run, StepStartPart, ToolPart, Workflow
from tests.conformance.runtime.shapes import chunk_of, entry_of, prompt, shown, told_error
from tests.conformance.runtime.turns import Mode, ModelError, Turn, chunks_of, reason_of

logging.getLogger("penstock").addHandler(logging.NullHandler())  # a command's report is not to be mixed with the log


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
        turns: Iterable[Turn] = ({"text": "ok"},),
        *,
        mode: Mode = "generate",
        tools: Mapping[str, Callable[..., Any]] | None = None,
        settings: Mapping[str, Any] | None = None,
        budget: int = 5,
    ) -> None:
        self.run = run
        self.turns = list(turns)
        self.mode: Mode = mode
        self.tools = tools or {"lookup": lambda **_: {"answer": 42}}
        self.settings = settings or {}
        self.budget = budget
        self.calls: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.mine: list[str] = []
        self.accepted = 0
        self.sent: list[Chunk] = []
        self.finish_reason: str | None = None
        self.outcome: Outcome | None = None
        self.error: Exception | None = None
        self._answers: list[list[str]] = []  # step by step, the ids of what was accepted
        self._waiting: list[Chunk] = []  # how steps end whose chunks are held until the end of the run

    async def play(self, messages: MessageList) -> Talk:
        """Drive the run to its end; an ordinary error ends it too."""
        try:
            async with self.run:
                await self._loop(messages)
        except Exception as error:  # noqa: BLE001 - the scenarios look at it
            self.error = error
            self.sent += [Chunk("error")] if self.sent else []
        return self

    async def _loop(self, messages: MessageList) -> None:
        if not self._goes_on(await self.run.process_input(messages)):
            return
        self.sent.append(Chunk("start"))
        while self.accepted < self.budget:
            if not await self._step():
                break
        if self.run.tripwire is None and getattr(self.outcome, "stage", "") != "process_output_result":
            finish = self.finish_reason
            result = await self.run.process_output_result(finish_reason=finish, steps=tuple(self.steps))
            if self._goes_on(result):
                await self._emit(result.data)
        if self.run.tripwire is None:
            self.sent.append(_ending("finish", self.finish_reason, goes_on=False))

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
        turn: Turn = called.unwrap()
        try:
            return await self._hear(turn)
        except ModelError as error:
            return await self._failed(error)

    async def _hear(self, turn: Turn) -> bool:
        """Let the model's chunks through the stream stage, and have the answer judged."""
        run = self.run
        known = {message.id for message in run.message_list.all}
        before = len(self.sent)
        source = chunks_of(turn, self.mode, f"text-{len(self.calls)}")
        told = {"finish_reason": reason_of(turn), "steps": tuple(self.steps)}
        async with run.process_output_stream(source, **told) as stream:
            async for chunk in stream:
                self._send([chunk])
        assert stream.outcome is not None
        judged = stream.judged
        if stream.outcome.blocked:
            return self._rejected(stream.outcome, turn)
        if judged is None:
            judged = await self._judged(stream.message, told)
            if judged.blocked:
                self._send(judged.chunks)
                return self._rejected(judged, turn)
        self.outcome = judged
        silent = len(self.sent) == before and stream.judged is not None
        made = [message for message in run.message_list.response if message.id not in known]
        return await self._accept(made[:1], turn, silent=silent)  # behind the answer: what the last stage added

    async def _judged(self, answer: Message, told: dict[str, Any]) -> Outcome:
        """Have an answer judged whose chunks are out."""
        run = self.run
        message = run.message_list.completed(answer)
        calls = [part for part in message.parts if isinstance(part, ToolPart)]
        outcome = await run.process_llm_response([message])
        if outcome.blocked:
            return outcome
        outcome = await run.process_output_step(tool_calls=calls or None, **told)
        said = run.message_list.get(message.id)
        if said is not None and not said.parts:  # nothing was said
            run.message_list = run.message_list.remove(said.id)
        return outcome

    def _rejected(self, outcome: Outcome, turn: Turn) -> bool:
        self.outcome = outcome
        if outcome.retry_granted or outcome.stage == "process_output_step":
            reason = "retry" if outcome.retry_granted else "other"
            self._add({"text": "", "finishReason": reason, **_names(turn), "tripwire": shown(outcome.tripwire)}, [])
        return outcome.retry_granted

    async def _accept(self, answer: list[Message], turn: Turn, *, silent: bool) -> bool:
        """Run an accepted answer's tools; ``silent``: its chunks are held until the end of the run."""
        outcome = self.outcome
        ids = [message.id for message in answer]
        self.mine += ids
        self.accepted += 1
        self.finish_reason = reason_of(turn)
        calls = [part for message in answer for part in message.parts if isinstance(part, ToolPart)]
        assert outcome is not None
        if outcome.stage == "process_output_step" and not await self._emit(outcome.data, silent=silent):
            return False
        if not await self._use_tools([call for call in calls if call.state == "call"], silent=silent):
            return self._taken_back(ids, turn)
        goes_on = self.finish_reason == "tool-calls" and outcome.stage != "process_output_result"
        if not await self._emit([_ending("step-finish", self.finish_reason, goes_on=goes_on)], silent=silent):
            return False
        names = {"toolCalls": [call.name for call in calls]} if calls else {}
        self._add({"text": "", "finishReason": self.finish_reason, **names}, ids)
        return goes_on

    def _taken_back(self, ids: list[str], turn: Turn) -> bool:
        """Forget an answer whose calls were rejected; tell whether the model gets another attempt."""
        outcome = self.outcome
        assert outcome is not None
        if outcome.retry_granted:
            self.mine = [id for id in self.mine if id not in ids]
            self.accepted -= 1
            return self._rejected(outcome, turn)
        return False

    async def _use_tools(self, calls: list[ToolPart], *, silent: bool) -> bool:
        """Have all calls judged, and then use the tools."""
        asked = []
        for call in calls:
            asked.append(await self.run.process_tool_call(call.name, call.arguments, call_id=call.call_id))
            if not self._goes_on(asked[-1]):
                return False
        for call, outcome in zip(calls, asked, strict=True):
            if not await self._use(call, outcome.arguments, silent=silent):
                return False
        return True

    async def _use(self, call: ToolPart, arguments: Any, *, silent: bool) -> bool:
        run = self.run
        written: list[Chunk] = []
        tool = self.tools[call.name]
        result = tool(written.append, **arguments) if getattr(tool, "writes", False) else tool(**arguments)
        if not await self._emit(written, silent=silent):
            return False
        got = await run.process_tool_result(call.name, result, arguments=arguments, call_id=call.call_id)
        if not self._goes_on(got):
            return False
        done = ToolPart(call.call_id, call.name, arguments, "result", got.result)
        for message in run.message_list.all:
            parts = [done if getattr(part, "call_id", None) == call.call_id else part for part in message.parts]
            if done in parts:
                run.message_list = run.message_list.replace(message.with_parts(parts))
        told = {"call_id": call.call_id, "name": call.name, "result": got.result}
        return await self._emit([Chunk("tool-result", id=call.call_id, payload=told)], silent=silent)

    async def _emit(self, chunks: Iterable[Chunk], *, silent: bool = False) -> bool:
        """Let chunks that are no answer through the stream stage; what is silent is sent at the end of the run."""
        made = list(chunks)
        if not made:
            return True
        async with self.run.process_output_stream(made, release="live") as stream:
            left = [chunk async for chunk in stream]
        assert stream.outcome is not None
        if silent and not stream.outcome.blocked:
            self._waiting += [chunk for chunk in left if chunk.type == "step-finish"]
        else:
            self._send(left)
        self.outcome = stream.outcome if stream.outcome.blocked else self.outcome
        return not stream.outcome.blocked

    async def _failed(self, error: ModelError) -> bool:
        """Ask what is to be done about a model call that failed; tell whether it is made again."""
        outcome = await self.run.process_api_error(error)
        if not self._goes_on(outcome):
            return False
        if outcome.retry is None:
            raise error
        self._add({"text": "", "finishReason": "retry"}, [])
        self.sent.append(_ending("step-finish", "retry", goes_on=True))
        return True

    async def _answer(self, prepared: Outcome, request: Outcome) -> Turn:
        chosen = {name: value for name, value in prepared.overrides.items() if value is not None}
        self.calls.append({"prompt": prompt(request.message_list), **chosen})
        return self.turns[min(len(self.calls), len(self.turns)) - 1]

    def _add(self, step: dict[str, Any], ids: list[str]) -> None:
        self.steps.append(step)
        self._answers.append(ids)

    def _goes_on(self, outcome: Outcome) -> bool:
        self.outcome = outcome
        self._send(outcome.chunks)
        return not outcome.blocked

    def _send(self, chunks: Iterable[Chunk]) -> None:
        """Show chunks to the client; the model's own finish and metadata are not for it."""
        for chunk in chunks:
            if self._waiting and chunk.type in ("step-start", "tripwire") and self.sent[-1].type != "start":
                self.sent.append(self._waiting.pop(0))
            if chunk.type not in ("response-metadata", "finish"):
                self.sent.append(chunk)

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
        return str(self.ended()["text"])

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
        """Return how the request ended, in the shape of its mode."""
        return self._streamed() if self.mode == "stream" else self._generated()

    def _generated(self) -> dict[str, Any]:
        if self.error is not None:
            return {"prompt": self.prompt, "tripwire": None, "threw": told_error(self.error), "text": ""}
        return {"prompt": self.prompt, **self.ended(), "messages": self.messages, "threw": None}

    def _streamed(self) -> dict[str, Any]:
        if self.error is not None:
            told = told_error(self.error)
            lost = {key: {"rejected": told} for key in ("text_promise", "finishReason_promise", "steps_promise")}
            return {"chunks": self.chunks, **lost, "tripwire_property": None, "threw": told}
        ended = self.ended()
        promised = {f"{name}_promise": ended[name] for name in ("text", "finishReason", "steps")}
        return {
            "chunks": self.chunks,
            **promised,
            "tripwire_property": ended["tripwire"],
            "messages_after": self.messages,
        }

    def ended(self) -> dict[str, Any]:
        """Return what both modes tell of the end."""
        tripwire = self.run.tripwire
        now = {message.id: message.text for message in self.run.message_list.all}
        texts = ["".join(now.get(id, "") for id in ids) for ids in self._answers]
        return {
            "text": "".join(texts),
            "finishReason": "other" if tripwire else self.finish_reason,
            "tripwire": shown(tripwire),
            "steps": [{**step, "text": text} for step, text in zip(self.steps, texts, strict=True)],
        }


def _names(turn: Turn) -> dict[str, Any]:
    calls = [call["name"] for call in turn.get("tool_calls", ())]
    return {"toolCalls": calls} if calls else {}


def _ending(type: str, reason: str | None, *, goes_on: bool) -> Chunk:
    return Chunk(type, payload={"reason": reason, "is_continued": goes_on})


async def in_both(play: Callable[[Mode], Awaitable[Any]]) -> dict[str, Any]:
    """Return what comes of a request that is played at once, and of one that streams."""
    return {"generate": await play("generate"), "stream": await play("stream")}
