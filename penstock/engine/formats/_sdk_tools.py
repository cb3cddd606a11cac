"""Tool parts of UI and stored messages: ``tool-<name>``, ``dynamic-tool``, ``tool-invocation``; knows no other part.

The three shapes say the same in different words; `Words` holds those of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.formats._notes import kept, notes_of, restored, unknown
from penstock.engine.formats.ai_sdk_notes import CALL_PROVIDER, PROVIDER, read_metadata, write_metadata
from penstock.engine.formats.wire import Json, expect_object, expect_text, maybe_text
from penstock.engine.values.frozen import EMPTY, FrozenDict, thaw
from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.messages import ToolState


@dataclass(frozen=True)
class Words:
    """What a shape calls arguments and result, and the states; of several words for a state the first is usual."""

    arguments: str
    result: str
    states: Mapping[str, ToolState]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that the shape gives a meaning."""
        return frozenset({"toolCallId", "state", "errorText", self.arguments, self.result})

    def word(self, state: ToolState) -> str:
        """Return the usual word for a state."""
        return next(word for word, meant in self.states.items() if meant == state)


INVOCATION = Words(
    "args", "result", {"partial-call": "partial", "call": "call", "result": "result", "output-error": "error"}
)
UI = Words(
    "input",
    "output",
    {
        "input-streaming": "partial",
        "input-available": "call",
        "output-available": "result",
        "output-error": "error",
        "approval-requested": "call",
        "approval-responded": "call",
        "output-denied": "error",
    },
)
_PREFIX = "tool-"


def read_tool(item: Json, place: str, fmt: str) -> ToolPart:
    """Return the part for any of the three shapes.

    Raises:
        MessageError: it is malformed.
    """
    kind = item["type"]
    if kind == "tool-invocation" and "toolCallId" not in item:
        invocation = expect_object(item.get("toolInvocation"), f"{place}.toolInvocation")
        part = read_invocation(invocation, f"{place}.toolInvocation", fmt)
        metadata = read_metadata(item, fmt, {"type", "toolInvocation"}, {"shape": "invocation"})
        return _with_notes(part, metadata, fmt)
    dynamic = kind == "dynamic-tool"
    name = expect_text(item, "toolName", place) if dynamic else kind.removeprefix(_PREFIX)
    known = UI.keys | {"type", "toolName"} if dynamic else UI.keys | {"type"}
    part = _read_call(item, place, UI, name, fmt)
    notes: Json = {"shape": "dynamic" if dynamic else "named"}
    return _with_notes(part, read_metadata(item, fmt, known, notes, CALL_PROVIDER), fmt)


def _with_notes(part: ToolPart, metadata: Json, fmt: str) -> ToolPart:
    """Return the part with the metadata, the notes of both laid together."""
    notes = {**notes_of(part, fmt), **metadata.get(fmt, {})}
    return replace(part, metadata=kept(fmt, notes, {**metadata}))


def read_invocation(body: Json, place: str, fmt: str) -> ToolPart:
    """Return the part for a ``toolInvocation`` object, its unknown keys noted as the inner ones.

    Raises:
        MessageError: it is malformed.
    """
    part = _read_call(body, place, INVOCATION, expect_text(body, "toolName", place), fmt)
    known = INVOCATION.keys | {"toolName"}
    return replace(part, metadata=kept(fmt, {**notes_of(part, fmt), "inner": unknown(body, known, known)}))


def _read_call(body: Json, place: str, words: Words, name: str, fmt: str) -> ToolPart:
    said = expect_text(body, "state", place)
    state = words.states.get(said, "call")
    error = maybe_text(body, "errorText", place)
    result = body.get(words.result)
    notes = {
        "state": said if said != words.word(state) else None,
        "arguments": None if words.arguments in body else "absent",
        "result": _oddity(body, words.result, state),
        "error": "null" if error is None and "errorText" in body else None,
    }
    return ToolPart(
        expect_text(body, "toolCallId", place),
        name,
        body.get(words.arguments, EMPTY),
        state,
        result,
        error,
        kept(fmt, notes),
    )


def _oddity(body: Json, key: str, state: ToolState) -> str | None:
    """Return a note if a result is missing where one is due, or null where none is."""
    if body.get(key) is not None or (key in body) == (state == "result"):
        return None
    return "null" if key in body else "absent"


def write_tool(part: ToolPart, fmt: str, usual: str) -> Json:
    """Return the part in the shape that it was read in, else in the usual one: invocation, named or dynamic."""
    shape = notes_of(part, fmt).get("shape")
    if shape not in ("invocation", "named", "dynamic"):
        shape = usual
    if shape == "invocation":
        body: Json = {"type": "tool-invocation", "toolInvocation": write_invocation(part, fmt)}
        return write_metadata(body, part, fmt, {"type", "toolInvocation"}, PROVIDER)
    kind: Json = {"type": f"{_PREFIX}{part.name}"}
    if shape == "dynamic":
        kind = {"type": "dynamic-tool", "toolName": part.name}
    body = {**kind, **_write_call(part, UI, notes_of(part, fmt))}
    return write_metadata(body, part, fmt, UI.keys | {"type", *kind}, CALL_PROVIDER)


def write_invocation(part: ToolPart, fmt: str) -> Json:
    """Return the ``toolInvocation`` object."""
    notes = notes_of(part, fmt)
    body: Json = {"toolName": part.name, **_write_call(part, INVOCATION, notes)}
    return restored(body, notes, INVOCATION.keys | {"toolName"}, "inner")


def _write_call(part: ToolPart, words: Words, notes: Json) -> Json:
    said = notes.get("state")
    known = isinstance(said, str) and words.states.get(said, "call") == part.state
    body: Json = {"state": said if known else words.word(part.state), "toolCallId": part.call_id}
    if notes.get("arguments") != "absent" or part.arguments != {}:
        body[words.arguments] = thaw(part.arguments)
    due = part.state == "result" and notes.get("result") != "absent"
    if part.result is not None or due or notes.get("result") == "null":
        body[words.result] = thaw(part.result)
    if part.error is not None or notes.get("error") == "null":
        body["errorText"] = part.error
    return body


def same_call(one: ToolPart, other: ToolPart) -> bool:
    """Whether both say the same, whatever was noted about them."""
    return replace(one, metadata=FrozenDict()) == replace(other, metadata=FrozenDict())
