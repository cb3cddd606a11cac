"""The contexts: what hooks and conditions get; one class for each stage.

A context is made for one step and one call of a stage, and must not be used once the hook has returned.
"""

from __future__ import annotations

import logging
import math
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeAlias, overload

from typing_extensions import TypeVar

from penstock.engine.tasks import runs_without_loop
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.message_list import ReturnCheck
from penstock.engine.values.questions import PendingQuestion, SuspendSignal, question_id
from penstock.engine.values.tripwire import Tripwire, TripwireSignal, verdict_in
from penstock.engine.workers import DEADLINE, TimeLimitError, within_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.processor.payload import Payload
    from penstock.engine.processor.state import OnEnd, StageCall, StepLike
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.facts import AnyKey, Key
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.judging import JudgeLog
    from penstock.engine.values.message_list import Entry, MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.model import ModelRequest, Usage
    from penstock.engine.values.usage import UsageEntry, UsageLog


log = logging.getLogger("penstock")


class Effects:
    """The effects of a hook through its context, besides its result."""

    __slots__ = (
        "asked",
        "count",
        "data",
        "facts",
        "failure",
        "flagged",
        "notes",
        "question",
        "return_check",
        "tripwire",
    )

    def __init__(self) -> None:
        self.count = 0  # of those so far, without the conversation that was shown
        self.asked = 0
        self.question: PendingQuestion | None = None
        self.tripwire: Tripwire | None = None
        self.failure: str | None = None
        self.facts: dict[AnyKey, Value] | None = None
        self.notes: dict[str, Value] | None = None
        self.flagged: dict[str, None] | None = None
        self.data: list[Chunk] | None = None
        self.return_check: ReturnCheck | None = None


class Writer:
    """Collects the data chunks of one hook; they are sent once the result of its step is accepted."""

    __slots__ = ("effects",)

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def write(self, chunk: Chunk) -> None:
        """Send a data chunk to the client.

        Raises:
            UsageError: the type of the chunk is not ``data-<name>``.
        """
        if not chunk.is_data:
            raise UsageError(f"the writer takes chunks of type 'data-<name>', not {chunk.type!r}")
        if self.effects.data is None:
            self.effects.data = []
        self.effects.data.append(chunk)


T = TypeVar("T")


class View:
    """The argument of a condition: the current payload, read-only."""

    __slots__ = ("_call", "_payload")

    _call: StageCall
    _payload: Payload

    def __init__(self, call: StageCall, payload: Payload) -> None:
        self._call = call
        self._payload = payload

    @property
    def stage_name(self) -> str:
        """The name of the stage that is running, for example ``process_input``."""
        return self._call.stage.name

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of this stage, in order, with the edits so far."""
        return self._call.stage.shows(self._payload.message_list)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every message with its source and tag, in order, also those that the stage does not show."""
        return self._payload.message_list.entries

    @property
    def system_messages(self) -> tuple[Message, ...]:
        """The system messages without an owner; `MessageList.system` has all of them."""
        return self._payload.message_list.tagged(None)

    @property
    def text(self) -> str:
        """The text of this stage, with the edits so far: of its messages, or of the last answer."""
        return self._call.stage.text(self._payload, self._call)

    def detail(self, name: str) -> Value:
        """Return what the stage has under a name, as edited so far, such as ``arguments``; None without it."""
        fields = self._payload.fields
        return fields[name] if name in fields else self._call.info.get(name)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._call.run.run_id

    @property
    def request_context(self) -> dict[str, Value]:
        """The caller's mapping for this request. A value that a hook sets is visible to later hooks."""
        return self._call.run.request_context

    @property
    def thread_id(self) -> str | None:
        """The id of the conversation's thread, if the caller named one: ``request_context["thread_id"]``."""
        return self._call.run.request_context.get("thread_id")

    @property
    def resource_id(self) -> str | None:
        """The id of the thread's owner, if the caller named it: ``request_context["resource_id"]``."""
        return self._call.run.request_context.get("resource_id")

    @property
    def unchecked(self) -> bool:
        """Whether checks that run beside the model call have no verdict yet. Store nothing until they have."""
        return bool(self._call.run.pending)

    @property
    def retry_count(self) -> int:
        """How many answers of the model were rejected since the last accepted one."""
        return self._call.run.retry_count

    @property
    def step_number(self) -> int:
        """The number of the current model step, from 0; rejected attempts count."""
        return self._call.run.step_number

    @overload
    def get(self, key: Key[T]) -> T | None: ...
    @overload
    def get(self, key: Key[T], default: D) -> T | D: ...
    def get(self, key: Key[T], default: D | None = None) -> T | D | None:
        """Return the fact stored under the key, or the default."""
        found: T | D | None = self._payload.facts.get(key, default)
        return found


_TO_ACT = 0.25  # seconds that a hook has left to act on what it found before

D = TypeVar("D")
S = TypeVar("S", default=dict[str, Any])


class Context(View, Generic[S]):
    """The argument of a hook. ``S`` is the type of the processor's state."""

    __slots__ = ("_step", "effects")

    stage: ClassVar[str] = ""
    _step: StepLike
    effects: Effects | None

    def __init__(self, call: StageCall, step: StepLike, payload: Payload) -> None:
        self._call = call
        self._step = step
        self._payload = payload
        self.effects = None

    @property
    def message_list(self) -> MessageList:
        """The whole conversation. To change it, return a list derived from this one."""
        effects = self._effects()
        if effects.return_check is None:
            effects.return_check = ReturnCheck()
        return self._payload.message_list.for_hook(effects.return_check)

    @property
    def state(self) -> S:
        """The object of this step for this request: the same in all stages, model steps, retries and chunks."""
        found: S = self._call.run.state_of(self._step)
        return found

    @property
    def step_path(self) -> str:
        """The path of the step in its workflow, ids joined by ``/``."""
        return self._step.path

    @property
    def writer(self) -> Writer:
        """Writes data chunks for the client."""
        return Writer(self._touch())

    @overload
    def get(self, key: Key[T]) -> T | None: ...
    @overload
    def get(self, key: Key[T], default: D) -> T | D: ...
    def get(self, key: Key[T], default: D | None = None) -> T | D | None:
        """Return the fact stored under the key, or the default. Facts that this hook has put are included."""
        if self.effects is not None and self.effects.facts is not None and key in self.effects.facts:
            own: T = self.effects.facts[key]
            return own
        found: T | D | None = self._payload.facts.get(key, default)
        return found

    def put(self, key: Key[T], value: T) -> None:
        """Store a fact for later steps, stages and conditions.

        Raises:
            UsageError: the processor does not declare the key in ``provides``.
        """
        if key not in self._step.provides:
            raise UsageError(f"{self._step.processor_id!r} puts {key!r} but does not declare it in provides=")
        effects = self._touch()
        if effects.facts is None:
            effects.facts = {}
        effects.facts[key] = value

    def note(self, **details: Value) -> None:
        """Add details to the record of this step. Never add text that must stay hidden."""
        effects = self._touch()
        if effects.notes is None:
            effects.notes = {}
        effects.notes.update({name: freeze(value) for name, value in details.items()})

    def let_pass(self, error: Exception) -> None:
        """Leave unjudged a text on which this hook failed, and go on with the others; the record says *failed*.

        Args:
            error: the failure. It is raised again unless the policy is ``on_error="allow"``, before the last of several
                attempts, and if it carries a verdict.
        """
        step, tripped = self._step, self.effects is not None and self.effects.tripwire is not None
        if tripped or not step.allows or self._call.retried or verdict_in(error) is not None:
            raise error
        self._touch().failure = type(error).__name__
        if not step.warned_open:  # once for each plan
            step.warned_open = True
            log.warning(
                "%s failed on a text in %s (%s); its policy lets that text pass (said once)",
                step.path,
                self._call.stage.name,
                type(error).__name__,
            )

    async def in_time(self, waiting: Awaitable[T]) -> T:
        """Return what a hook waits for, or fail shortly before the step's time is up, so that `let_pass` can follow.

        Without it, the time limit of the step ends the hook, and with it what was found in other texts. It waits as
        long as it takes if the policy is not ``on_error="allow"``, and before the last of several attempts.

        Raises:
            TimeLimitError: there is no result in time.
        """
        until = None if self._call.retried or not self._step.allows else DEADLINE.get()
        if until is None or runs_without_loop():
            return await waiting
        import anyio  # takes long to import, so it is loaded where something waits

        left = until - anyio.current_time()
        seconds = max(left - min(left / 4, _TO_ACT), 0)
        with within_time(until - left + seconds), anyio.move_on_after(seconds):
            return await waiting
        raise TimeLimitError(round(seconds, 3))

    def flag(self, *names: str) -> None:
        """Add names of findings that this step lets pass to its record (`Record.flagged`), each once.

        Never add text that must stay hidden.
        """
        effects = self._touch()
        effects.flagged = {**(effects.flagged or {}), **dict.fromkeys(names)}

    @property
    def spent(self) -> tuple[UsageEntry, ...]:
        """The usage entries of this run so far, in order. Calls of judges are included."""
        return self._call.run.usage_log.spent

    @property
    def usage_log(self) -> UsageLog:
        """The log behind `spent`: one object for each run, also where runs share an id."""
        return self._call.run.usage_log

    @property
    def judge_log(self) -> JudgeLog | None:
        """The verdicts of judges in this run, if it may go on in another process; else None."""
        return self._call.run.judge_log

    def spend(
        self,
        model: str,
        usage: Usage | None,
        *,
        attempts: int = 1,
        unreported: Usage | None = None,
        seconds: float = 0.0,
        error: BaseException | None = None,
    ) -> None:
        """Record the tokens of a model call that this hook made. Listeners of `on_spend` are called at once.

        Args:
            model: the model's name.
            usage: the tokens; None if they are not known.
            attempts: how many calls the tokens were used in.
            unreported: an estimate for the calls of which the provider reported nothing, in addition to ``usage``. A
                budget of costs refuses further requests while it knows neither.
            seconds: how long the calls took; 0 if that is not known. A trace shows it.
            error: the exception that the call raised; None if it did not fail. A trace shows the name of its type.
        """
        from penstock.engine.values.usage import UsageEntry  # loaded where a hook calls a model

        failed = None if error is None else type(error).__name__
        entry = UsageEntry(model, usage, self._step.path, attempts, unreported, seconds, perf_counter(), failed)
        self._call.run.usage_log.enter(entry)

    def on_spend(self, listener: Callable[[UsageEntry], None]) -> None:
        """Call a function with each usage entry of this run: with those so far at once, then with each new one."""
        self._call.run.usage_log.listen(listener)

    def on_end(self, callback: OnEnd) -> None:
        """Call a function with the `RunEnd` when the run has ended, however it ends; for example to save data.

        It is called only in runs that are used with ``async with``. Those of an agent are.

        Args:
            callback: sync or async. Its errors are logged. All async callbacks of a run together have 5 seconds.
        """
        self._call.run.on_end.append(callback)

    def abort(self, reason: str | None = None, *, retry: bool = False, metadata: Values | None = None) -> NoReturn:
        """Stop the run with a verdict. This method does not return, and the hook cannot undo the verdict.

        Args:
            reason: a sentence for people. Do not quote text that must stay hidden.
            retry: ask for another attempt of the model, in stages that allow one.
            metadata: details for programs.
        """
        effects = self._touch()
        if effects.tripwire is None:  # the first verdict holds, even if its details turn out to be invalid
            own = (self._step.processor_id, self._call.stage.name, bool(retry))
            told = reason if isinstance(reason, str) and reason else f"stopped by {self._step.processor_id}"
            effects.tripwire = Tripwire(told, *own)
            self._call.run.verdicts[self._step.path] = (
                effects.tripwire
            )  # a time limit may end the hook before it returns
            if metadata is not None:
                effects.tripwire = Tripwire(told, *own, metadata)
        raise TripwireSignal(effects.tripwire)

    def suspend(
        self,
        reason: str,
        *,
        schema: Values | None = None,
        show: Values | None = None,
        expires_in: float | None = None,
    ) -> Value:
        """Ask a person, and return the answer.

        Until there is an answer, this method does not return: the stage ends after its guards have run, and the step
        counts as unfinished. With the answer, the hook is called again from its beginning, so do nothing before it that
        must not happen twice. A second call in the same hook asks a second question. Where nobody can be asked, the
        run is blocked.

        Args:
            reason: why a person is asked, a sentence.
            schema: the JSON Schema of the answer; None: any JSON value. It may use the words that
                `penstock.engine.values.answer_schema` names.
            show: JSON values to show to the person. Take them from this context: if guards edit the messages behind
                this step, the hook is called again with the edited ones before anybody is asked.
            expires_in: the seconds within which an answer is expected; None: no limit.

        Returns:
            The answer, a frozen JSON value.

        Raises:
            UsageError: the processor does not declare ``asks = True``, it is called for a stream or as a fallback, a
                value is not allowed, or the answer does not fit the schema.
        """
        step, call = self._step, self._call
        if not step.asks:
            cure = "declare asks = True, without suspends = False; a stream waits for nobody, and a fallback has to end"
            raise UsageError(f"{step.processor_id!r} asks a person where it may not: {cure}")
        effects = self._touch()
        if effects.question is None:
            effects.asked += 1
            call_id: str = call.info.get("call_id") or "" if call.stage.value else ""
            given = question_id(call.stage.name, step.path, effects.asked, call_id)
            question = PendingQuestion(
                given, step.path, step.processor_id, call.stage.name, reason, schema, show or EMPTY, expires_in, call_id
            )
            questions = call.questions
            if questions is not None and given in questions.answers:
                return question.check(questions.answers[given])
            effects.question = question
        raise SuspendSignal(effects.question)

    def _touch(self) -> Effects:
        effects = self._effects()
        effects.count += 1
        return effects

    def _effects(self) -> Effects:
        effects = self.effects
        if effects is None:
            effects = self.effects = Effects()
        return effects


def _info(name: str, doc: str) -> Any:
    """Return a property that reads a detail that the caller gave for this call."""
    return property(lambda self: self._call.info.get(name), doc=doc)


def _field(name: str, doc: str) -> Any:
    """Return a property that reads a field that steps of the stage may change."""
    return property(lambda self: self._payload.fields.get(name), doc=doc)


class InputContext(Context[S]):
    """`process_input`: once, before the loop; shows the caller's messages."""

    __slots__ = ()
    stage = "process_input"


class InputStepContext(Context[S]):
    """`process_input_step`: before every model call; shows the whole conversation."""

    __slots__ = ()
    stage = "process_input_step"

    model: Value = _field("model", "The model for this step.")
    tools: Values | None = _field("tools", "The tools for this step, by name.")
    tool_choice: Value = _field("tool_choice", "How the model may choose tools in this step.")
    active_tools: tuple[str, ...] | None = _field("active_tools", "The names of tools on offer; None for all.")
    model_settings: Values | None = _field("model_settings", "Temperature and the like, for this step.")
    provider_options: Values | None = _field("provider_options", "Options for one provider only.")
    response_format: Value = _field("response_format", "What structure the answer must have.")
    steps: Sequence[Value] | None = _info("steps", "The steps completed so far.")


class LLMRequestContext(Context[S]):
    """`process_llm_request`: on the provider prompt, for this call only; shows the prompt, system messages included."""

    __slots__ = ()
    stage = "process_llm_request"

    model: Value = _info("model", "The model to be called.")
    tools: Values | None = _info("tools", "The tools on offer, by name.")
    model_settings: Values | None = _info("model_settings", "Temperature and the like.")
    request: ModelRequest | None = _info(
        "request", "The whole request to the model, with the prompt as it was before this stage."
    )
    steps: Sequence[Value] | None = _info("steps", "The steps completed so far.")
    answer: Value = _field("answer", "The answer that replaces the call, if an earlier step returned one.")


class APIErrorContext(Context[S]):
    """`process_api_error`: a model call failed; shows the whole conversation."""

    __slots__ = ()
    stage = "process_api_error"

    error: BaseException = _info("error", "The error that the model call raised.")
    model: Value = _info("model", "The model that was called.")
    steps: Sequence[Value] | None = _info("steps", "The steps completed so far.")

    @property
    def retry_count(self) -> int:
        """How often the call of this step was repeated so far. Repeated calls have a budget of their own."""
        return self._call.run.error_retries


class OutputStreamContext(Context[S]):
    """`process_output_stream`: every chunk; made once for each model step. The answer's text is not available yet."""

    __slots__ = ("end", "timer")
    stage = "process_output_stream"
    timer: float | None
    end: str | None

    def __init__(self, call: StageCall, step: StepLike, payload: Payload) -> None:
        super().__init__(call, step, payload)
        self.timer = None
        self.end = None

    def end_source(self, reason: str = "length") -> None:
        """Stop reading the source and close it. Held chunks are sent, then a ``finish`` chunk with the reason.

        Raises:
            UsageError: the processor does not declare ``ends = True``.
        """
        if not self._step.ends:
            raise UsageError(f"{self._step.processor_id!r} ends a stream early; declare ends = True")
        self.end = reason
        self._touch()  # the driver looks at the reason only after an effect

    def wake_after(self, seconds: float | None) -> None:
        """Ask for a call of the processor's ``wake`` after that many seconds without a chunk; None cancels it.

        A new call replaces the earlier one.

        Raises:
            UsageError: the processor does not declare ``timed = True``, or the seconds are negative.
        """
        if not self._step.timed:
            raise UsageError(f"{self._step.processor_id!r} asks to be woken; declare timed = True, and write wake(ctx)")
        if seconds is not None and not seconds >= 0:
            raise UsageError(f"wake_after takes seconds, 0 or more, or None, not {seconds!r}")
        self.timer = math.inf if seconds is None else seconds


class LLMResponseContext(Context[S]):
    """`process_llm_response`: the model's stream has ended; shows the whole conversation."""

    __slots__ = ()
    stage = "process_llm_response"

    chunks: Sequence[Chunk] | None = _info("chunks", "The chunks that the model sent, unprocessed.")
    model: Value = _info("model", "The model that was called.")
    request: ModelRequest | None = _info("request", "The whole request to the model.")
    finish_reason: str | None = _info("finish_reason", "Why the model stopped.")
    usage: Value = _info("usage", "The tokens of this step.")
    steps: Sequence[Value] | None = _info("steps", "The steps completed so far, without this one.")
    from_cache: bool | None = _info("from_cache", "Whether the answer replaced a model call.")


class OutputStepContext(Context[S]):
    """`process_output_step`: after every response, before its tools run; shows the whole conversation."""

    __slots__ = ()
    stage = "process_output_step"

    @property
    def sent_text(self) -> str | None:
        """The text of the answer as the model sent it, before the guards; None if the host does not tell."""
        chunks: Sequence[Chunk] | None = self._call.info.get("chunks")
        return None if chunks is None else "".join([one.text for one in chunks if one.type == "text-delta"])

    finish_reason: str | None = _info("finish_reason", "Why the model stopped.")
    tool_calls: Sequence[Value] | None = _info("tool_calls", "The tool calls of the answer.")
    usage: Value = _info("usage", "The tokens of this step.")
    steps: Sequence[Value] | None = _info("steps", "The steps completed so far, without this one.")


class ToolCallContext(Context[S]):
    """`process_tool_call`: before a tool runs; shows the whole conversation."""

    __slots__ = ()
    stage = "process_tool_call"

    tool_name: str = _info("tool_name", "The tool's name.")
    call_id: str = _info("call_id", "The call's id.")
    arguments: Value = _field("arguments", "The call's arguments, a frozen JSON value, as edited so far.")
    answer: Value = _field("answer", "The result that replaces the tool call, if an earlier step returned one.")
    steps: Sequence[Value] | None = _info("steps", "The steps so far; the last one is the answer with this call.")


class ToolResultContext(Context[S]):
    """`process_tool_result`: before a result or an error of a tool enters the history; shows the whole conversation."""

    __slots__ = ()
    stage = "process_tool_result"

    tool_name: str = _info("tool_name", "The tool's name.")
    call_id: str = _info("call_id", "The call's id.")
    arguments: Value = _info("arguments", "The arguments of the call.")
    result: Value = _field("result", "The tool's result, a frozen JSON value, as edited so far; of an error its text.")
    is_error: bool | None = _info("is_error", "Whether the tool failed, and the result is the text of its error.")
    steps: Sequence[Value] | None = _info("steps", "The steps so far; the last one is the answer with this call.")


class OutputResultContext(Context[S]):
    """`process_output_result`: once, at the end; shows the model's answers of this run."""

    __slots__ = ()
    stage = "process_output_result"

    finish_reason: str | None = _info("finish_reason", "Why the run ended.")
    usage: Value = _info("usage", "The tokens of all steps.")
    steps: Sequence[Value] | None = _info("steps", "All steps of the run.")


AnyContext: TypeAlias = Context[Any]
"""A context with any type of state."""
