"""`ToolContext`: what a tool is told of the run it is called in. It knows values, no agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool is told of the call at hand. A tool asks for it with a parameter of this type.

    Attributes:
        tool_name: the tool's name.
        call_id: the call's id.
        run_id: the run's id.
        request_context: the caller's mapping for this request, as the processors see it.
        messages: the conversation, the answer with the call included, in order.
        step_number: the number of the model step, from 0.
        send: sends a chunk to the client, through the guards of the stream.
    """

    tool_name: str = "tool"
    call_id: str = ""
    run_id: str = ""
    request_context: dict[str, Value] = field(default_factory=dict[str, "Value"])
    messages: tuple[Message, ...] = ()
    step_number: int = 0
    send: Callable[[Chunk], None] | None = field(default=None, repr=False)

    def write(self, chunk: Chunk) -> None:
        """Send a data chunk to the client; it passes the guards of the stream before it leaves.

        Raises:
            UsageError: the chunk is none of an application's own (``data-<name>``).
        """
        if not chunk.is_data:
            raise UsageError(f"a tool writes chunks of type 'data-<name>', not {chunk.type!r}")
        if self.send is not None:
            self.send(chunk)
