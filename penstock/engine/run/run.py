"""`Run`: one request on its way through the stages, stage by stage. How each is run, `RunCore` knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.stages import STAGES
from penstock.engine.run.answers import RunStreams
from penstock.engine.run.conversation import settings_of
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.run.answers import Release
    from penstock.engine.run.stages import Stepping
    from penstock.engine.streams.sources import Source
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList, Messages


class Run(RunStreams):
    """One request. Made by `Workflow.start`; call the stages in the order of the request's life.

    ``async with`` is needed where the workflow has async shadow steps, and does no harm elsewhere.

    Attributes:
        tripwire: the verdict that ended the run, if one did.
    """

    # The stages. Each returns an awaitable of its `Outcome`; messages default to the run's own.

    def process_input(self, messages: Messages | MessageList | None = None) -> Stepping:
        """Run `process_input`: what the caller sent, before the loop."""
        return self._run(STAGES["process_input"], messages, EMPTY, EMPTY)

    def process_input_step(
        self, messages: Messages | MessageList | None = None, *, steps: Iterable[Value] | None = None, **settings: Value
    ) -> Stepping:
        """Run `process_input_step`: before a model call. ``settings``: model, tools, tool_choice, active_tools, ….

        What steps make of the settings is `Outcome.overrides`.
        """
        stage = STAGES["process_input_step"]
        return self._run(stage, messages, settings_of(stage, settings), FrozenDict(steps=steps))

    def process_llm_request(self, prompt: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_llm_request` on the provider prompt; what it changes holds for this call only."""
        return self._run(STAGES["process_llm_request"], prompt, EMPTY, FrozenDict(info))

    def process_api_error(self, error: BaseException, **info: Value) -> Stepping:
        """Run `process_api_error` after a failed model call; `Outcome.retry` tells whether to call again."""
        return self._run(STAGES["process_api_error"], None, EMPTY, FrozenDict(error=error, **info))

    def process_output_stream(
        self, source: Source, *, release: Release = "auto", last: bool = True, sync: bool = False, **info: Value
    ) -> OutputStream:
        """Run `process_output_stream` on a model's chunks as they come; enter what it returns, and iterate over it.

        Closing it closes the source. A verdict sends one ``tripwire`` chunk (or, before another attempt, one
        ``step-finish`` with the reason ``retry``) and ends it. If the source raises, what was held is judged as the
        end of its text and sent, and the error follows.

        Args:
            source: chunks, from a sync or async iterable; a str is a piece of text.
            release: when chunks may leave. ``live``: as soon as the steps of this stage have judged them; what a later
                stage rejects is retracted. ``step``: once `process_output_step` has judged the answer, which then runs
                within the stream. ``result``: once `process_output_result` has. ``auto``: live, unless a later guard
                has no stream stage.
            last: whether an answer that calls no tools ends the run, so that what is held for `process_output_result`
                is judged at once. If not, it leaves when that stage is called, in its outcome's ``chunks``.
            sync: whether it is driven without an event loop; `SyncRun` says so.
            info: what a stage that runs within the stream is told beyond what its chunks tell: ``steps``, ``usage`` …

        Raises:
            UsageError: the source is no iterable, or ``release`` none of those words.
        """
        from penstock.engine.streams.stream import OutputStream  # loaded where an answer is streamed

        block = self._plans.stage("process_output_stream")
        host = self._host(info, last=last, sync=sync)
        return OutputStream(host, block, source, self._held_until(release), sync=sync)

    def process_output_chunks(self, source: Source) -> OutputStream:
        """Run `process_output_stream` on chunks that belong to no answer, a tool's say: nothing else judges them."""
        from penstock.engine.streams.stream import OutputStream  # loaded where an answer is streamed

        block = self._plans.stage("process_output_stream")
        return OutputStream(self._host({}, last=True, sync=False), block, source, "live")

    def process_llm_response(self, messages: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_llm_response` when the model's stream has ended; ``chunks``, ``model``, ``from_cache``."""
        return self._run(STAGES["process_llm_response"], messages, EMPTY, FrozenDict(info))

    def process_output_step(self, messages: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_output_step` on a response, before its tools run.

        ``info``: ``finish_reason``, ``tool_calls``, ``usage``, ``steps``.
        """
        return self._run(STAGES["process_output_step"], messages, EMPTY, FrozenDict(info))

    def process_tool_call(self, tool_name: str, arguments: Value, *, call_id: str = "") -> Stepping:
        """Run `process_tool_call` before a tool runs; `Outcome.arguments`, or `Outcome.answer` in the tool's place."""
        return self._tool(STAGES["process_tool_call"], {"arguments": arguments}, tool_name, call_id)

    def process_tool_result(
        self, tool_name: str, result: Value, *, arguments: Value = None, call_id: str = "", is_error: bool = False
    ) -> Stepping:
        """Run `process_tool_result` before a result enters the history; `Outcome.result`.

        ``is_error``: the tool failed, and the result is the text of its error.
        """
        stage = STAGES["process_tool_result"]
        told = {"arguments": freeze(arguments), "is_error": is_error}
        return self._tool(stage, {"result": result}, tool_name, call_id, **told)

    def process_output_result(self, messages: Messages | MessageList | None = None, **info: Value) -> Stepping:
        """Run `process_output_result` once at the end; ``finish_reason``, ``usage``, ``steps``."""
        return self._run(STAGES["process_output_result"], messages, EMPTY, FrozenDict(info))

    def stage(self, name: str, messages: Value = None, **details: Value) -> Stepping:
        """Run the stage of that name; for the tools' stages ``messages`` are the arguments or the result.

        Raises:
            UsageError: no stage is called so, or it is run another way.
        """
        if name not in STAGES:
            raise UsageError(f"no stage is called {name!r}; the stages are {', '.join(STAGES)}")
        if name in ("process_tool_call", "process_tool_result"):
            method: Callable[..., Stepping] = getattr(self, name)
            return method(details.pop("tool_name", "tool"), messages, **details)
        if STAGES[name].streams:
            raise UsageError(f"{name} runs chunk by chunk: async with run.{name}(source) as chunks")
        whole: Callable[..., Stepping] = getattr(self, name)
        return whole(messages, **details)
