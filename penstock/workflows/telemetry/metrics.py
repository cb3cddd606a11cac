"""`Metrics`: the OpenTelemetry instruments, and the measurements for each step, model call, tool call and request."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.workflows.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.metrics import Histogram, Meter

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.tripwire import Record

    Attributes = Mapping[str, str | bool | int | float]


class Metrics:
    """The instruments of one observer. They may be used from any thread.

    Attributes:
        first_chunk: how long a model call took until its first chunk.
        tool: how long a tool call took.
    """

    __slots__ = (
        "_edits",
        "_failures",
        "_flagged",
        "_held",
        "_operation",
        "_request",
        "_step",
        "_tokens",
        "_verdicts",
        "first_chunk",
        "tool",
    )

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, what: str, bounds: tuple[float, ...] = names.SECONDS_BUCKETS) -> Histogram:
            return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=bounds)

        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self._operation = seconds(names.OPERATION_DURATION, "GenAI operation duration.")
        self.first_chunk = seconds(names.TIME_TO_FIRST_CHUNK, "Time to receive the first chunk.")
        self._request = seconds(names.REQUEST_DURATION, "Duration of a request.")
        self.tool = seconds(names.TOOL_DURATION, "Duration of a tool call.")
        self._step = seconds(names.STEP_DURATION, "Duration of a step in one stage.", names.STEP_BUCKETS)
        self._verdicts = meter.create_counter(
            names.VERDICTS, "{verdict}", "Verdicts of steps, and failures that block."
        )
        self._failures = meter.create_counter(names.FAILURES, "{failure}", "Failures of steps.")
        self._edits = meter.create_counter(names.EDIT_COUNT, "{edit}", "Edits of texts.")
        self._flagged = meter.create_counter(names.FLAG_COUNT, "{finding}", "Findings that were let pass.")
        self._held = meter.create_histogram(
            names.HELD_CHARACTERS,
            "{character}",
            "The most characters that a stream held back at one time.",
            explicit_bucket_boundaries_advisory=names.HELD_BUCKETS,
        )

    def add_record(self, record: Record, workflow: str) -> None:
        """Count the results of a step. A skipped step has none."""
        if record.status == "skipped":
            return
        about: dict[str, str | bool] = {
            names.WORKFLOW: workflow,
            names.STEP: record.step,
            names.PROCESSOR: record.processor_id,
            names.STAGE: record.stage,
        }
        if record.shadow:
            about[names.SHADOW] = True
        self._step.record(record.seconds, {**about, names.STATUS: record.status})
        if record.tripwire is not None:
            self._verdicts.add(1, {**about, names.TRIPWIRE_RETRY: record.tripwire.retry})
        if record.error is not None:
            self._failures.add(1, {**about, names.ERROR_TYPE: record.error})
        for kind, count in Counter(edit.kind for _, edit in record.edits).items():
            self._edits.add(count, {**about, names.EDIT_KIND: kind})
        for flag in record.flagged:
            self._flagged.add(1, {**about, names.FLAGGED: flag})

    def add_model_call(self, about: Attributes, seconds: float, details: Mapping[str, Value]) -> None:
        """Measure a model call."""
        error = details.get("error")
        self._operation.record(seconds, {**about, names.ERROR_TYPE: str(error)} if error is not None else about)
        usage: Mapping[str, Value] = details.get("usage") or {}
        for count, kind in (("input_tokens", "input"), ("output_tokens", "output")):
            tokens = usage.get(count)
            if isinstance(tokens, int):
                self._tokens.record(tokens, {**about, names.TOKEN_TYPE: kind})

    def add_request(self, about: Attributes, seconds: float) -> None:
        """Measure a request."""
        self._request.record(seconds, about)

    def add_held(self, characters: int, workflow: str) -> None:
        """Measure how much text a stream held back."""
        self._held.record(characters, {names.WORKFLOW: workflow})
