"""`SyncOutputStream`: a stream in sync form, over a sync source. It knows the stream, which then never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.driving import drive
from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.streams.stream import OutputStream
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Tripwire

_WHAT = "process_output_stream"


class SyncOutputStream:
    """The chunks of one answer, as they leave the workflow; enter it, iterate. Works inside an event loop too."""

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream
        self._entered = False

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until it has ended."""
        return self._stream.outcome

    @property
    def judged(self) -> Outcome | None:
        """The outcome of the stage that its chunks were held for, if they were."""
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
        """Make ready; nothing is read yet."""
        drive(self._stream.__aenter__(), _WHAT)
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything, however far it was read."""
        drive(self._stream.__aexit__(kind, error, trace), _WHAT)

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
                chunk: Chunk = drive(chunks.__anext__(), _WHAT)  # type: ignore[arg-type]
            except StopAsyncIteration:
                return
            yield chunk
