"""`ToolContext`: the call at hand, for tools that ask for it; `ToolError` and `ToolFailed`: how calls fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message


ToolErrorKind = Literal[
    "unknown", "invalid-arguments", "failed", "timed-out", "not-json", "refused", "expired", "interrupted"
]


class ToolError(PenstockError):
    """A tool call without a result. An exception of the tool is its ``__cause__``.

    Its message quotes nothing that a model wrote or a tool returned: no arguments, no results, no texts of exceptions,
    and not the name of a tool that does not exist.

    Attributes:
        tool: the name that was called.
        kind: ``unknown`` (there is no such tool), ``invalid-arguments``, ``failed`` (it raised, or its result is too
            long), ``timed-out``, ``not-json`` (its result is not a JSON value), ``refused`` (the call was not
            approved), ``expired`` (nobody decided about it in time), ``interrupted`` (its process ended while it ran,
            so that its effect is unknown).
        problem: what happened, in words.
        for_model: the text that is added to the history in place of a result. It may quote arguments and messages of
            exceptions, so it must pass the guards like a result.
    """

    def __init__(self, tool: str, kind: ToolErrorKind, problem: str, *, for_model: str | None = None) -> None:
        self.tool = tool
        self.kind: ToolErrorKind = kind
        self.problem = problem
        text = problem if for_model is None else for_model
        self.for_model = text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
        which = "a tool" if kind == "unknown" else f"tool {tool!r}"
        super().__init__(f"{which}: {problem} ({kind})")


class ToolFailed(PenstockError):  # noqa: N818 - a signal of the tool, not a defect
    """Raise it in a tool to report that the call failed. The model gets its text."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool is called for. A tool gets it in a parameter of this type.

    Attributes:
        tool_name: the tool's name.
        call_id: the call's id.
        run_id: the run's id.
        request_context: the caller's mapping for this request, as processors see it.
        messages: the conversation, including the answer with the call, in order.
        step_number: the number of the model step, from 0.
        send: sends a chunk to the client, through the guards of the stream.
        steps: the results of the agent's steps so far; the last one is the answer with the call.
    """

    tool_name: str = "tool"
    call_id: str = ""
    run_id: str = ""
    request_context: dict[str, Value] = field(default_factory=dict[str, "Value"])
    messages: tuple[Message, ...] = ()
    step_number: int = 0
    send: Callable[[Chunk], None] | None = field(default=None, repr=False)
    steps: tuple[Value, ...] = field(default=(), repr=False)

    def write(self, chunk: Chunk) -> None:
        """Send a data chunk to the client; the guards of the stream see it first.

        Raises:
            UsageError: the chunk's type is not ``data-<name>``.
        """
        if not chunk.is_data:
            raise UsageError(f"a tool writes chunks of type 'data-<name>', not {chunk.type!r}")
        if self.send is not None:
            self.send(chunk)
