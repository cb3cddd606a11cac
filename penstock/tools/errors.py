"""How a tool call fails: `ToolError`, and `ToolFailed`, which a tool raises itself. They know no tool."""

from __future__ import annotations

from typing import Literal

from penstock.engine.values.errors import PenstockError

ToolErrorKind = Literal["unknown", "invalid-arguments", "failed", "timed-out", "not-json", "refused"]


class ToolError(PenstockError):
    """A call to a tool that gave no result. What was raised in the tool is the ``__cause__``.

    Its message quotes nothing that a model wrote or a tool found: no arguments, no results, no texts of exceptions,
    and not the name of a tool that does not exist.

    Attributes:
        tool: the name that was called.
        kind: ``unknown`` (there is no such tool), ``invalid-arguments``, ``failed`` (it raised, or gave too much),
            ``timed-out``, ``not-json`` (its result is no JSON value), ``refused`` (somebody decided against it).
        problem: what happened, in words.
        for_model: the text that goes into the history in place of a result. It may quote arguments and texts of
            exceptions, so it has to pass the guards as a result has to.
    """

    def __init__(self, tool: str, kind: ToolErrorKind, problem: str, *, for_model: str | None = None) -> None:
        self.tool = tool
        self.kind: ToolErrorKind = kind
        self.problem = problem
        told = problem if for_model is None else for_model
        self.for_model = told.encode(errors="replace").decode()  # half a surrogate pair could not be sent
        which = "a tool" if kind == "unknown" else f"tool {tool!r}"
        super().__init__(f"{which}: {problem} ({kind})")


class ToolFailed(PenstockError):  # noqa: N818 - a tool's way to say so, not a defect
    """Raised in a tool: the call failed, and this text, of the tool's choosing, is what the model is told."""
