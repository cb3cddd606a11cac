"""`HostRequest`: one request of a framework that runs the agent's loop itself.

The framework calls the model and the tools; the request runs the stages around them. The framework's messages and the
run's are brought together before each model call: known messages are taken as the guards left them, and new ones are
checked first. The reach of a verdict, and how often an answer is requested again, are decided by the run, as in
`Agent`.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Self

from penstock.engine.tasks import BackgroundTasks
from penstock.engine.values.call_ids import OF_CALLS
from penstock.engine.values.chunks import tripwire_chunk
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping, thaw
from penstock.engine.values.message_list import Entry, MessageList
from penstock.engine.values.messages import Message, ToolPart
from penstock.engine.values.model import ToolSpec
from penstock.engine.values.tripwire import BlockedError
from penstock.engine.values.usage import total_usage
from penstock.tools.tool import as_tools
from penstock.workflows.agent.client_chunks import call_chunk, end_request
from penstock.workflows.agent.emitter import Emitter
from penstock.workflows.agent.progress import RequestProgress
from penstock.workflows.agent.request import RequestTask
from penstock.workflows.agent.results import calls_of
from penstock.workflows.agent.step import ModelStep
from penstock.workflows.hosting.asking import CHANGED, NOT_APPROVED, USED, HostCall
from penstock.workflows.hosting.matching import KnownMessages, as_asked, brings_results, is_finished, late_results
from penstock.workflows.hosting.tasks import HeldOpen, OutsideCall, read_in_task

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.held_answers import Release
    from penstock.engine.run.run import Run
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ResponseFormat, ToolChoice, Usage
    from penstock.engine.values.protocols import Model
    from penstock.engine.values.tripwire import Tripwire
    from penstock.models.open_calls import OpenCalls
    from penstock.workflows.agent.approvals import ApprovalLog
    from penstock.workflows.hosting.reviews import HostReviews

PLAIN_SETTINGS = frozenset({"temperature", "top_p", "max_tokens", "seed", "presence_penalty", "frequency_penalty"})
"""The settings that have the same names in `ModelCall` and in most frameworks; adapters pass on others as they are."""

INSTRUCTIONS_TAG = "host"
"""The tag of the system messages that the framework sends."""

_STANDING = ("_begun", "_seen_whole", "_steps_before", "_accepted", "_judged")
"""The attributes of a request that are recorded as they are."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call that the framework is about to make.

    Attributes:
        model: calls the framework's model. Errors that it raises reach the caller unchanged.
        messages: the whole conversation as the framework has it, system messages included.
        tools: the tools that the model is offered.
        tool_choice: as in `ModelRequest`.
        settings: the settings of the call, by their usual names (temperature, max_tokens …).
        provider_options: fields for the provider.
        response_format: the format of the answer; None for text.
        live: whether the caller shows chunks to somebody as they come. If a verdict rejects shown text, the answer
            is not requested again: the framework could not take it back.
        is_whole: whether the messages are the whole conversation. If the provider keeps the rest, results without a
            call are sent as they are.
    """

    model: Model
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice | tuple[str, ...] = "auto"
    settings: Values = EMPTY
    provider_options: Values = EMPTY
    response_format: ResponseFormat | None = None
    live: bool = False
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call to a tool, after the guards.

    Attributes:
        arguments: the arguments for the tool.
        answered: whether the tool must not run: a processor answered in its place, or a person has to approve the call.
        answer: that answer; for a call that wants approval, the result where nobody can be asked.
        is_error: whether the answer is the text of an error.
        asks: whether a person has to approve the call before it runs.
    """

    arguments: Value
    answered: bool = False
    answer: Value = None
    is_error: bool = False
    asks: bool = False


class HostRequest:
    """One request of a framework. Made by `Host.open`; used by one task at a time, except for its tools.

    Attributes:
        run: the run of the request.
        answer: the last accepted answer, as the guards left it; None before the first one, and if guards removed it.
        thread: the id of the framework's conversation, where ids of calls are those of one conversation only.
    """

    def __init__(
        self,
        run: Run,
        *,
        release: Release,
        remembers: bool,
        trusts_instructions: bool,
        reads_instructions: bool,
        open_calls: OpenCalls,
        approvals: ApprovalLog,
        reviews: HostReviews | None = None,
    ) -> None:
        self.run = run
        self.answer: Message | None = None
        self.thread: str | None = None
        self._release: Release = release
        self._remembers = remembers
        self._trusts_instructions = trusts_instructions
        self._reads_instructions = reads_instructions
        self._open_calls: OpenCalls = open_calls
        self._progress = RequestProgress()
        self._known = KnownMessages()
        self._begun = False
        self._seen_whole = False  # whether the framework has given the whole conversation once
        self._instructions: Sequence[Message] | None = None  # as the framework sent them last
        self._instruction_ids: Sequence[str] = ()
        self._opened: HeldOpen | Run | None = None
        self._closed = False
        self._steps_before = 0  # how many attempts there were before the last model call
        self._accepted = False  # whether the last model call ended in an accepted answer
        self._approvals = approvals
        self._reviews = reviews
        self._approved: list[HostCall] = []  # the calls whose approval this request has used
        self._recalled: Sequence[str] = ()  # the ids of messages that are here for the guards of tools only
        self._judged: str | None = None  # the id of the last answer that the last stage has judged

    @property
    def tripwire(self) -> Tripwire | None:
        """The verdict that ended the request, or None."""
        return self.run.tripwire

    @property
    def closed(self) -> bool:
        """Whether the request was closed, so that it cannot go on."""
        return self._closed

    @property
    def finish_reason(self) -> str:
        """Why the last accepted answer ended; see `FINISH_REASONS`."""
        return self._progress.finish_reason or "other"

    @property
    def usage(self) -> Usage:
        """The tokens of the last model call, rejected attempts included."""
        return total_usage(step.usage for step in islice(self._progress.steps, self._steps_before, None))

    @property
    def metadata(self) -> Values:
        """The provider's report about the last accepted answer: ``id``, ``model``, ``created`` …."""
        last = self._progress.steps.last
        return EMPTY if last is None else last.metadata

    def check(self) -> None:
        """Raise the verdict, if one has ended the request.

        Raises:
            BlockedError: a guard stopped the request.
        """
        if self.run.tripwire is not None:
            raise BlockedError(self.run.tripwire)

    # Messages

    async def begin(self, messages: Sequence[Message], *, whole: bool = True, earlier: Sequence[Message] = ()) -> bool:
        """Check the messages that a request starts from, or those that came since; return whether it may go on.

        `answers` does this itself. Call it where the framework lets input be changed or refused before the model call.

        Args:
            messages: the conversation as the framework has it, system messages included.
            whole: whether that is the whole conversation. If not, the framework adds earlier messages later; with
                ``history="memory"`` these count as checked.
            earlier: the messages that the framework adds later, if they are known: numbers of tokens in them are not
                used again. They are checked when the framework gives them.
        """
        return await self._take(messages, whole=whole, earlier=earlier) is None

    def current(self, messages: Sequence[Message]) -> Sequence[Message | None]:
        """Return each of the framework's messages as the guards left it; None for one that they removed.

        Messages that the run does not know are returned as they are, and so are system messages, unless they are
        treated as the client's. Results of tools stand in their own messages.
        """
        ids = self._known.match(messages)
        made = [
            self._current(message, id) if id is not None or brings_results(message) else message
            for message, id in zip(messages, ids, strict=True)
        ]
        places = [index for index, message in enumerate(messages) if message.role == "system"]
        if not self._trusts_instructions and len(places) == len(self._instruction_ids):
            for place, id in zip(places, self._instruction_ids, strict=True):
                made[place] = self.run.message_list.get(id)
        return made

    def _current(self, message: Message, id: str | None) -> Message | None:
        held = None if id is None else self.run.message_list.get(id)
        if held is not None:
            return held if any(map(is_finished, message.parts)) else as_asked(held)
        if not brings_results(message):
            return None
        finished = {part.call_id: part for part in self._calls() if is_finished(part)}
        checked = [(part, finished.get(part.call_id, part)) for part in calls_of(message)]
        return message.with_parts(
            [replace(part, state=now.state, result=now.result, error=now.error) for part, now in checked]
        )

    # Model calls

    async def answers(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """Run a model call with all of its stages, and yield the chunks that may leave.

        The answer is requested again if a verdict asks for that. The last chunk is a ``tripwire`` if a verdict ended
        the request; otherwise the answer is in `answer`. If it calls no tools, `process_output_result` has judged it.
        Calls of tools come last, one ``tool-call`` each, as `process_tool_call` left them.

        Raises:
            Exception: the model failed, with the error of the framework's model; or a step with ``on_error="raise"``
                failed.
        """
        await self.open()
        chunks = self._answers(call)
        if self.run.runs_beside_model:  # what overlaps opens scopes, which may not be held across our yields
            chunks = read_in_task(chunks)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def whole_answer(self, call: ModelCall) -> Message:
        """Run a model call with all of its stages, and return the answer; it has no parts if guards removed it.

        Raises:
            BlockedError: a verdict ended the request.
            Exception: see `answers`.
        """
        async with aclosing(self.answers(call)) as chunks:
            async for _ in chunks:
                pass
        self.check()
        return self.answer or Message("assistant")

    def outside_call(self, call: ModelCall) -> OutsideCall:
        """Return a model call that the framework makes itself, between two of its hooks; ``call.model`` is not used."""
        return OutsideCall(lambda model: self.answers(replace(call, model=model)))

    async def _answers(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        run, progress = self.run, self._progress
        await self._settle(call.messages)
        blocked = await self._take(call.messages)
        if blocked is not None:
            for chunk in blocked.chunks:
                yield chunk
            return
        self.answer, self._accepted = None, False
        self._steps_before = len(progress.steps)
        async with aclosing(self._attempts(call)) as chunks:
            async for chunk in chunks:
                yield chunk
        if not self._accepted:
            return
        self._note_answer()
        for part in calls_of(self.answer):
            yield call_chunk(part, run.run_id)
        if not calls_of(self.answer):
            async for chunk in self._end():
                yield chunk

    async def _attempts(self, call: ModelCall) -> AsyncGenerator[Chunk]:
        """Call the model until an answer is accepted or the request has ended; yield the chunks without tools."""
        run, progress = self.run, self._progress
        task = RequestTask(
            run.message_list,
            _settings(call),
            self._release,
            allow_empty=True,
            open_calls=self._open_calls if call.is_whole else None,
            results_are_messages=True,
        )
        goes_on = True
        while goes_on:
            step = ModelStep(run, task, progress, BackgroundTasks())  # no tool of ours runs, so it stays closed
            with run.span("model_step", step.path) as span:
                async with aclosing(Emitter(step.emit_chunks)) as chunks:
                    async for chunk in chunks:
                        if call.live and chunk.type == "retract" and run.tripwire is None:
                            yield self._stopped(step)
                            return
                        if chunk.type not in OF_CALLS and chunk.type != "tool-approval-request":
                            yield chunk
                if span is not None:
                    span.note(finish_reason=progress.last_reason)
            self._accepted = step.accepted
            goes_on = step.goes_on and not step.accepted

    def _stopped(self, step: ModelStep) -> Chunk:
        """End the request at a rejected attempt that was shown in part, since it cannot be taken back.

        Raises:
            Exception: the call failed, with that error.
        """
        last = self._progress.steps.last
        verdict = None if last is None else last.tripwire
        if verdict is None:
            raise step.error or UsageError("text was taken back without a verdict")
        self.run.stop(verdict)
        return tripwire_chunk(verdict, self.run.run_id)

    @property
    def has_unjudged(self) -> bool:
        """Whether `end` has to judge the last answer."""
        return self.run.tripwire is None and bool(self._progress.steps) and self._judged != self._progress.last_answer

    async def end(self) -> bool:
        """Judge the last answer as the result of the request, unless that was done; return whether it may leave.

        `answers` does this for an answer without tool calls. Call it where the framework ends a request otherwise, for
        example because a tool call is the answer.
        """
        if self.has_unjudged:
            async for _ in self._end():
                pass
        return self.run.tripwire is None

    async def end_made(self, framework: str) -> None:
        """Judge the last answer, of which the framework has made an object already; see `end`.

        Args:
            framework: the name of the framework, for the error.

        Raises:
            BlockedError: a verdict ended the request.
            UsageError: a processor changed the answer.
        """
        before = self.answer
        await self.end()
        self.check()
        if (before and as_asked(before)) != (self.answer and as_asked(self.answer)):  # results were checked as such
            raise UsageError(
                f"a processor changed the answer in process_output_result, after {framework} had made its object; let "
                "it change the answer in process_output_step or process_tool_call"
            )

    async def _end(self) -> AsyncGenerator[Chunk]:
        self._judged = self._progress.last_answer
        async with aclosing(Emitter(partial(end_request, self.run, self._progress))) as chunks:
            async for chunk in chunks:
                yield chunk
        if self.run.tripwire is None:
            self._note_answer()

    def _note_answer(self) -> None:
        """Note the last answer as the guards left it, so that it is known when the framework sends it back."""
        id = self._progress.last_answer
        self.answer = self.run.message_list.get(id)
        if self.answer is not None:
            self._known.add(as_asked(self.answer), id)

    # Tool calls

    async def tool_call(self, name: str, arguments: Value, call_id: str) -> CheckedCall:
        """Check a call to a tool before the tool runs. A call of an answer was checked with it, and is not again.

        If a step asks a person about the call, `CheckedCall.asks` says so, and the call counts as answered: a framework
        that can ask nobody does not run it.

        Raises:
            BlockedError: a verdict ended the request.
        """
        self.check()
        await self.open()
        known = self.call(call_id)
        if known is not None and known.approval == "requested":
            return CheckedCall(arguments, answered=True, answer=NOT_APPROVED, asks=True)
        if known is not None:
            is_error = known.state == "error"
            said = known.error if is_error else known.result
            return CheckedCall(arguments, is_finished(known), said, is_error)
        outcome = await self.run.process_tool_call(name, arguments, call_id=call_id, steps=self._steps())
        self.check()
        if outcome.answered:
            return CheckedCall(outcome.arguments, answered=True, answer=outcome.answer, asks=outcome.asks)
        return CheckedCall(outcome.arguments)

    @property
    def asked(self) -> tuple[ToolPart, ...]:
        """The calls of the last answer that a step asks a person about."""
        return tuple([call for call in calls_of(self.answer) if call.approval == "requested"])

    def has_made(self, call_id: str) -> bool:
        """Return whether an answer of this request has made a call."""
        return self.call(call_id) is not None

    async def ask(self, call: HostCall) -> None:
        """Note that the framework asks a person about a call, so that one approval of it counts.

        With ``reviews``, the call is stored, and the approval counts once over all processes.

        Raises:
            ReviewError: other processes keep asking about it.
            StorageError: the store failed.
        """
        if self._reviews is None:
            self._approvals.ask(call.thread, _as_part(call))
        else:
            await self._reviews.ask(call, self.run, self.answer)

    async def give_back(self, call: HostCall) -> None:
        """Let an approval count again that this request has used, since the framework repeats the tool.

        Raises:
            StorageError: the store failed.
        """
        if call not in self._approved:
            return
        self._approved.remove(call)
        if self._reviews is None:
            self._approvals.ask(call.thread, _as_part(call))
        else:
            await self._reviews.give_back(call)

    async def _settle(self, messages: Sequence[Message]) -> None:
        """Store which calls wait no more, since the framework has put something else in the place of their results."""
        if self._reviews is None or self.run.message_list.response:
            return
        for call in late_results(messages):
            await self._reviews.settle(HostCall(call.name, thaw(call.arguments), call.call_id, self.thread))

    async def approved_call(
        self, call: HostCall, arguments: Value, *, approved: Value = None, conversation: Sequence[Message] = ()
    ) -> CheckedCall:
        """Check a call that a person has approved before its tool runs: guards judge it again.

        The approval counts once, for the arguments that were shown, and again where this request repeats the tool. If
        it does not count, or the guards change the arguments, the call counts as answered, and `CheckedCall.asks` is
        set.

        Args:
            call: the call, with the arguments that the person saw.
            arguments: the arguments for the tool; others than those shown are edited ones.
            approved: those that were approved, if the framework has added to them since, such as defaults.
            conversation: the messages as the framework has them. Guards of the call see them, if no earlier call of
                this request has brought them. They are not judged here.

        Raises:
            BlockedError: a verdict ended the request.
            StorageError: the store failed.
        """
        self.check()
        await self.open()
        self._recall(conversation)
        outcome = await self.run.process_tool_call(call.name, arguments, call_id=call.call_id, steps=self._steps())
        self.check()
        if outcome.answered and not outcome.asks:
            return CheckedCall(outcome.arguments, answered=True, answer=outcome.answer)
        if outcome.asks and outcome.arguments != freeze(arguments):
            return CheckedCall(outcome.arguments, answered=True, answer=CHANGED, asks=True)
        ran = arguments if approved is None else approved
        refused = None if call in self._approved else await self._use(call, ran, asks=outcome.asks)
        if refused is not None:
            return CheckedCall(outcome.arguments, answered=True, answer=refused, asks=True)
        self._approved.append(call)
        return CheckedCall(outcome.arguments)

    async def _use(self, call: HostCall, arguments: Value, *, asks: bool) -> str | None:
        """Use an approval; return why it does not count, or None."""
        if self._reviews is not None:
            return await self._reviews.use(call, arguments, self.run, asks=asks)
        counts = not asks or self._approvals.use(call.thread, _as_part(call), asked=True)
        return None if counts else USED

    def _recall(self, conversation: Sequence[Message]) -> None:
        """Hold a conversation that an earlier request has judged, until the model is called."""
        if self._begun or self._recalled or self.run.message_list.entries:
            return
        messages = self.run.message_list
        made = [messages.completed(_without_id(message)) for message in conversation if message.role != "system"]
        self.run.message_list = messages.with_entries([Entry(message, "memory", None) for message in made])
        self._recalled = [message.id for message in made]

    async def tool_result(
        self,
        name: str,
        result: Value,
        call_id: str,
        *,
        arguments: Value = None,
        is_error: bool = False,
        notes: Values = EMPTY,
    ) -> Value:
        """Check the result of a tool, and return the guarded version of it.

        Args:
            name: the name of the tool.
            result: a JSON value; if ``is_error``, the tool's description of the error, usually a text.
            call_id: the id of the call.
            arguments: the arguments that the tool was called with.
            is_error: whether the tool failed.
            notes: the metadata of the framework's message with the result.

        Raises:
            BlockedError: a verdict ended the request.
        """
        self.check()
        await self.open()
        call = self.call(call_id) or ToolPart(call_id, name, EMPTY if arguments is None else arguments)
        left = await self._checked_result(call, result, is_error=is_error, notes=notes)
        self.check()
        return left

    async def _checked_result(self, call: ToolPart, result: Value, *, is_error: bool, notes: Values = EMPTY) -> Value:
        """Return a result after the guards, and store it in the answer that made the call.

        Args:
            call: the call.
            result: the result, or the text of the error.
            is_error: whether the tool failed.
            notes: the metadata of the framework's message with the result.
        """
        outcome = await self.run.process_tool_result(
            call.name,
            result,
            arguments=call.arguments,
            call_id=call.call_id,
            is_error=is_error,
            steps=self._steps(),
        )
        if outcome.blocked:
            return None
        said = outcome.result
        metadata = {**call.metadata, **{name: {**call.metadata.get(name, EMPTY), **one} for name, one in notes.items()}}
        if is_error:
            error = said if isinstance(said, str) else str(said)
            done = replace(call, state="error", error=error, result=None, metadata=metadata)
        else:
            done = replace(call, state="result", result=said, error=None, metadata=metadata)
        messages = self.run.message_list
        for message in messages.response:
            if any(part == call for part in message.parts):
                parts = tuple(done if part == call else part for part in message.parts)
                self.run.message_list = messages.replace(message.with_parts(parts))
                break
        return said

    def _calls(self) -> list[ToolPart]:
        """Return the tool calls of the answers of this request."""
        return [call for message in self.run.message_list.response for call in calls_of(message)]

    def call(self, call_id: str) -> ToolPart | None:
        """Return a tool call of the answers of this request, as the guards left it; None if there is none."""
        return next((call for call in self._calls() if call.call_id == call_id), None)

    def _steps(self) -> tuple[object, ...]:
        return self._progress.current(self.run.message_list)

    # Bringing the messages together

    async def _take(
        self, messages: Sequence[Message], *, whole: bool = True, earlier: Sequence[Message] = ()
    ) -> Outcome | None:
        """Take over the framework's conversation; return the outcome of the stage that blocked, or None."""
        await self.open()
        run = self.run
        if run.tripwire is not None:
            return await run.process_input()
        if self._recalled:
            held = run.message_list
            run.message_list = held.remove(*[id for id in self._recalled if id in held])  # processors may have done it
            self._recalled = ()
        self._recall(earlier)
        said = [message for message in messages if message.role != "system"]
        instructions = self._as_trusted([message for message in messages if message.role == "system"])
        ids = self._known.match(said)
        made, fresh = self._merged(said, ids)
        self._seen_whole = self._seen_whole or whole
        new_instructions = not self._holds(instructions)
        if new_instructions:  # else what processors have made of them stays
            completed = [made.completed(_without_id(message)) for message in instructions]
            self._instructions = instructions
            made = made.replace_system(completed, tag=INSTRUCTIONS_TAG)
            self._instruction_ids = [message.id for message in completed if made.get(message.id)]
        run.message_list = made
        blocked = await self._check_results(said, ids)
        reads_instructions = self._reads_instructions or any(message.from_client for message in instructions)
        if blocked is None and (fresh or not self._begun or (new_instructions and reads_instructions)):
            self._begun = True
            outcome = await run.process_input()
            blocked = outcome if outcome.blocked else None
        for id in fresh:
            taken = run.message_list.get(id)
            if taken is not None:
                self._known.add(taken, id)
        return blocked

    def _as_trusted(self, instructions: Sequence[Message]) -> Sequence[Message]:
        """Return system messages as the application's own, if the framework's are."""
        if not self._trusts_instructions:
            return instructions
        return [replace(one, from_client=False) if one.from_client else one for one in instructions]

    def _holds(self, instructions: Sequence[Message]) -> bool:
        """Return whether the run holds these system messages, as the framework sent them or as guards left them."""
        if self._instructions is None:
            return False
        found = map(self.run.message_list.get, self._instruction_ids)
        left = [message for message in found if message is not None]
        return _say_the_same(instructions, self._instructions) or _say_the_same(instructions, left)

    def _merged(self, said: Sequence[Message], ids: Sequence[str | None]) -> tuple[MessageList, list[str]]:
        """Return the run's messages with the framework's new ones, and the ids of those.

        Messages that the framework has dropped are dropped; those that processors have added stay in their places.
        """
        messages = self.run.message_list
        kept, known = {id for id in ids if id is not None}, self._known.ids()
        own_results = {call.call_id for call in self._calls()}
        entries = [entry for entry in messages.entries if entry.message.id in kept or entry.message.id not in known]
        fresh: list[str] = []
        place = len(self._recalled)
        last_turn = _last_turn(said)
        for index, (message, id) in enumerate(zip(said, ids, strict=True)):
            if id is not None:
                place = next((at + 1 for at, entry in enumerate(entries) if entry.message.id == id), place)
                continue
            if brings_results(message) and all(part.call_id in own_results for part in calls_of(message)):
                continue  # it is stored with its call
            remembered = self._remembers and not self._seen_whole and index < last_turn
            new = messages.completed(_without_id(message))
            entries.insert(place, Entry(new, "memory" if remembered else "input", None))
            place += 1
            fresh.append(new.id)
            self._known.add(message, new.id)
        return messages.with_entries(entries), fresh

    async def _check_results(self, said: Sequence[Message], ids: Sequence[str | None]) -> Outcome | None:
        """Check the results of this request's calls that no hook has seen; return the outcome that blocked, or None."""
        open_calls = {call.call_id: call for call in self._calls() if not is_finished(call)}
        for message, id in zip(said, ids, strict=True):
            for part in calls_of(message) if id is None and brings_results(message) else ():
                call = open_calls.get(part.call_id)
                if call is None:
                    continue
                failed = part.state == "error"
                said_by_tool = part.error if failed else part.result
                await self._checked_result(call, said_by_tool, is_error=failed, notes=part.metadata)
                if self.run.tripwire is not None:
                    return await self.run.process_input()
        return None

    # Going on in another process

    def standing(self) -> dict[str, dict[str, Value]]:
        """Return how far the request has come, as JSON values by section and name; see `RequestChanges`."""
        from penstock.workflows.hosting.recorded import dump_progress  # loaded where an engine records requests

        own = {name: getattr(self, name) for name in _STANDING}
        ids = list(self._instruction_ids)
        return {
            **dump_progress(self.run, self._progress),
            "known": dict.fromkeys(sorted(self._known.ids()), True),
            "request": {**own, "instruction_ids": ids, "answered": self.answer is not None},
        }

    def restore(self, standing: Mapping[str, Values]) -> None:
        """Let the request stand where another process has left it; see `standing`."""
        from penstock.workflows.hosting.recorded import restore_progress

        run = self.run
        self._progress = RequestProgress()
        restore_progress(run, self._progress, standing)
        own = standing["request"]
        for name in _STANDING:
            setattr(self, name, own[name])
        self._instruction_ids = own["instruction_ids"]
        for id in standing["known"]:
            held = run.message_list.get(id)
            if held is not None:
                self._known.add(held, id)
                self._known.add(as_asked(held), id)
        self.answer = run.message_list.get(self._progress.last_answer) if own["answered"] else None

    def ids_of(self, messages: Sequence[Message]) -> list[str | None]:
        """Return the ids under which the request holds messages of the framework, None for those that it does not."""
        return list(self._known.match([message for message in messages if message.role != "system"]))

    def note_ids(self, messages: Sequence[Message], ids: Mapping[int, str]) -> None:
        """Note under which ids the request holds messages of the framework, by their places; see `ids_of`."""
        said = [message for message in messages if message.role != "system"]
        instructions = [message for message in messages if message.role == "system"]
        if instructions:
            self._instructions = self._as_trusted(instructions)
        for place, id in ids.items():
            if place < len(said):
                self._known.add(said[place], id)

    # The life of a request

    async def open(self) -> None:
        """Open the run; done by the other methods.

        Raises:
            UsageError: the request was closed.
        """
        if self._closed:
            raise UsageError("the request was closed; open another one with Host.open()")
        if self._opened is None:
            self._opened = HeldOpen(self.run) if self.run.has_shadow_steps else self.run
            await self._opened.__aenter__()

    async def __aenter__(self) -> Self:
        """Return the request."""
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the request, with the error that ended the block."""
        await self.close(error)

    async def close(self, error: BaseException | None = None) -> None:
        """End the request: shadow steps are waited for, and callbacks of `Context.on_end` are called.

        Args:
            error: what ended the request, if it did not end as it should; the run then does not count as completed.
        """
        if self._closed:
            return
        self._closed = True
        if error is not None:
            self.run.abandon()
        if self._opened is not None:
            await self._opened.__aexit__(None, None, None)


def _as_part(call: HostCall) -> ToolPart:
    return ToolPart(call.call_id, call.name, freeze(call.arguments))


def _without_id(message: Message) -> Message:
    """Return a message of the framework without its own id; the run gives it one."""
    return replace(message, id="") if message.id else message


def _offered(tool: ToolSpec) -> ToolSpec:
    """Return a tool as the stages see it. Adapters send the framework's own one, whatever its schema is."""
    known = tool.parameters
    if known.get("type") == "object" and is_mapping(known.get("properties", EMPTY)):
        return replace(tool, strict=None)
    return ToolSpec(tool.name, description=tool.description)


def _settings(call: ModelCall) -> Values:
    """Return the settings that a step starts from, as `RequestTask` has it."""
    return {
        "model": call.model,
        "tools": as_tools(map(_offered, call.tools)),
        "tool_choice": call.tool_choice,
        "active_tools": None,
        "model_settings": call.settings,
        "provider_options": call.provider_options,
        "response_format": call.response_format,
    }


def _say_the_same(one: Sequence[Message], other: Sequence[Message]) -> bool:
    return [message.parts for message in one] == [message.parts for message in other]


def _last_turn(said: Sequence[Message]) -> int:
    """Return the index at which the last turn of the user begins."""
    index = len(said)
    while index and said[index - 1].role == "user":
        index -= 1
    return index
