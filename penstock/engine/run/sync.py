"""`SyncRun` and `SyncOutputStream`: a run without ``await``, for workflows whose hooks are all sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.stages import STREAM, full_name
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.held_answers import Release
    from penstock.engine.run.run import Run, Stepping
    from penstock.engine.streams.sources import Source
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList, Messages
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Record, Tripwire


class SyncRun:
    """One request, without ``await``; made by `Workflow.start_sync`. It has the same stages as `Run`.

    It also works inside a running event loop, because its hooks never await anything.

    Attributes:
        run: the async run that it drives.
    """

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def message_list(self) -> MessageList:
        """The current conversation."""
        return self.run.message_list

    @property
    def tripwire(self) -> Tripwire | None:
        """The verdict that ended the run, if one did."""
        return self.run.tripwire

    @property
    def facts(self) -> Facts:
        """The facts that steps have put so far, by key."""
        return self.run.facts

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the steps of all stages, if the run was started with ``records=True``."""
        return self.run.records

    @property
    def trace(self) -> Trace:
        """The trace of the run so far; see `Run.trace`."""
        return self.run.trace

    def process_input(self, messages: Messages | MessageList | None = None) -> Outcome:
        """Run `Run.process_input`."""
        return self._drive("process_input", self.run.process_input(messages))

    def process_input_step(self, messages: Messages | MessageList | None = None, **details: Value) -> Outcome:
        """Run `Run.process_input_step`."""
        return self._drive("process_input_step", self.run.process_input_step(messages, **details))

    def process_llm_request(self, prompt: Messages | MessageList | None = None, **details: Value) -> Outcome:
        """Run `Run.process_llm_request`."""
        return self._drive("process_llm_request", self.run.process_llm_request(prompt, **details))

    def process_api_error(self, error: BaseException, **details: Value) -> Outcome:
        """Run `Run.process_api_error`."""
        return self._drive("process_api_error", self.run.process_api_error(error, **details))

    def process_output_stream(self, source: Source, *, release: Release = "auto", **info: Value) -> SyncOutputStream:
        """Run `Run.process_output_stream` on a sync source: enter the result, and iterate over it."""
        _check_sync(self.run, STREAM.name, f"`async with run.{STREAM.name}(source) as chunks`")
        return SyncOutputStream(self.run.process_output_stream(source, release=release, sync=True, **info))

    def process_llm_response(self, messages: Messages | MessageList | None = None, **details: Value) -> Outcome:
        """Run `Run.process_llm_response`."""
        return self._drive("process_llm_response", self.run.process_llm_response(messages, **details))

    def process_output_step(self, messages: Messages | MessageList | None = None, **details: Value) -> Outcome:
        """Run `Run.process_output_step`."""
        return self._drive("process_output_step", self.run.process_output_step(messages, **details))

    def process_tool_call(
        self, tool_name: str, arguments: Value, *, call_id: str = "", steps: Iterable[object] | None = None
    ) -> Outcome:
        """Run `Run.process_tool_call`."""
        stepping = self.run.process_tool_call(tool_name, arguments, call_id=call_id, steps=steps)
        return self._drive("process_tool_call", stepping)

    def process_tool_result(
        self,
        tool_name: str,
        result: Value,
        *,
        arguments: Value = None,
        call_id: str = "",
        is_error: bool = False,
        steps: Iterable[object] | None = None,
    ) -> Outcome:
        """Run `Run.process_tool_result`."""
        return self._drive(
            "process_tool_result",
            self.run.process_tool_result(
                tool_name, result, arguments=arguments, call_id=call_id, is_error=is_error, steps=steps
            ),
        )

    def process_output_result(self, messages: Messages | MessageList | None = None, **details: Value) -> Outcome:
        """Run `Run.process_output_result`."""
        return self._drive("process_output_result", self.run.process_output_result(messages, **details))

    def resume_stage(
        self,
        name: str,
        answers: Mapping[str, Value],
        finished: Iterable[str],
        messages: Value = None,
        *,
        fresh: Iterable[str] = (),
        **details: Value,
    ) -> Outcome:
        """Run `Run.resume_stage`."""
        stepping = self.run.resume_stage(name, answers, finished, messages, fresh=fresh, **details)
        return self._drive(full_name(name), stepping)

    def _drive(self, stage: str, stepping: Stepping) -> Outcome:
        try:
            _check_sync(self.run, stage, f"`await run.{stage}(...)`")
        except UsageError:
            stepping.close()
            raise
        return run_without_loop(stepping, stage)


def _check_sync(run: Run, stage: str, cure: str) -> None:
    """Refuse a stage that has to wait, and name the steps for which it does."""
    if not run.is_sync(stage):
        waiting = run.waiting_steps(stage)
        named = f" ({', '.join(waiting)})" if waiting else ""
        raise UsageError(f"{stage} has async steps{named}; use {cure} of a run from workflow.start()")


class SyncOutputStream:
    """The chunks of one answer, as they leave the workflow. Use it in a ``with`` statement, and iterate over it.

    It also works inside a running event loop.
    """

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream
        self._entered = False

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until it has ended."""
        return self._stream.outcome

    @property
    def judged(self) -> Outcome | None:
        """The outcome of the stage for which its chunks were held; None if they were not held."""
        return self._stream.judged

    @property
    def text(self) -> str:
        """The text of the answer that has left so far; empty once a verdict has stopped it."""
        return self._stream.text

    @property
    def message(self) -> Message:
        """The answer that has left so far, as a message."""
        return self._stream.message

    @property
    def tripwire(self) -> Tripwire | None:
        """The verdict, if one stopped the stream."""
        return self._stream.tripwire

    def __enter__(self) -> Self:
        """Open the stream; nothing is read yet."""
        run_without_loop(self._stream.__aenter__(), STREAM.name)
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything, however far it was read."""
        run_without_loop(self._stream.__aexit__(kind, error, trace), STREAM.name)

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks.

        Raises:
            UsageError: the stream was not entered.
        """
        if not self._entered:
            raise UsageError("enter the stream first: with run.process_output_stream(source) as chunks")
        chunks = self._stream.__aiter__()
        while True:
            try:
                chunk: Chunk = run_without_loop(chunks.__anext__(), STREAM.name)  # type: ignore[arg-type]
            except StopAsyncIteration:
                return
            yield chunk
