"""Tools for testing processors and workflows: fakes of the ports, and functions that run one stage.

They are deterministic, need no network, and are public: use them in your own tests.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from penstock.engine.tasks import run_without_loop
from penstock.engine.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.run.held_answers import Release
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.tripwire import Record


class RecordingObserver:
    """An observer that keeps every record, in order.

    Attributes:
        records: the records.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []

    def on_record(self, record: Record) -> None:
        """Keep the record."""
        self.records.append(record)

    def of(self, step: str) -> list[Record]:
        """Return the records of one step, by its path."""
        return [record for record in self.records if record.step == step]


class VirtualClock:
    """A clock that stands still until `advance` is called; it starts at 2026-01-01, 0:00 UTC, by default."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """Return the time it shows."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the time forward by that many seconds."""
        self._now += timedelta(seconds=seconds)


class CountingIds:
    """Ids that count: ``id-1``, ``id-2``, …; with another ``prefix``, that one instead of ``id-``."""

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._count = 0

    def next(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}{self._count}"


def run_stage(
    item: AnyProcessor | Workflow,
    stage: str = "process_input",
    messages: object = "",
    **details: Value,
) -> Outcome:
    """Run one stage of a processor or a workflow on messages, without an event loop. Returns the outcome.

    Args:
        item: a workflow, or a processor, which is put into a workflow of one step.
        stage: the name of the stage, for example ``process_output_step``.
        messages: a str, messages, chat dicts, or a `MessageList`; for the tools' stages a JSON value.
        details: details of the call for the hooks, for example ``finish_reason``.

    Raises:
        UsageError: a hook awaits something. Use ``await Workflow("test").then(processor).check(...)`` instead.
        StepFailedError: the processor failed, and its policy is to raise.
    """
    workflow = item if isinstance(item, Workflow) else Workflow("test").then(item)
    return run_without_loop(workflow.check(messages, stage=stage, **details), f"{stage} of {workflow.name!r}")


def run_stream(
    item: AnyProcessor | Workflow, source: Iterable[Chunk | str], *, release: Release = "auto"
) -> tuple[list[Chunk], Outcome]:
    """Run `process_output_stream` of a processor or a workflow on chunks, without an event loop.

    Args:
        item: a workflow, or a processor, which is put into a workflow of one step.
        source: the chunks of an answer; a str becomes a piece of text.
        release: when chunks may leave; see `Run.process_output_stream`.

    Returns:
        The chunks that left the stream, and its outcome.

    Raises:
        UsageError: a hook is async.
        StepFailedError: the processor failed, and its policy is to raise.
    """
    workflow = item if isinstance(item, Workflow) else Workflow("test").then(item)
    with workflow.start_sync(records=True).process_output_stream(source, release=release) as chunks:
        left = list(chunks)
    return left, cast("Outcome", chunks.outcome)  # it was read to its end
