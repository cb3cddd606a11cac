"""The flattened copies beside the parts of UI and stored messages: ``content``, ``reasoning``, ``toolInvocations``.

A copy that repeats the parts is only noted, and written anew from them. One that says something else becomes a part
flagged with the field it stands in, so that guards read it and it is written back there. Knows no message around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._copies import copied, rule_of
from penstock.engine.formats._notes import kept, notes_of
from penstock.engine.formats._sdk_tools import read_invocation, same_call, write_invocation
from penstock.engine.formats.wire import Json, Value, expect_object, is_array, is_object
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Part

TEXT_COPIES: dict[str, type[TextPart | ReasoningPart]] = {"content": TextPart, "reasoning": ReasoningPart}
CALLS = "toolInvocations"
FLAG = "copy_in"
"""The note of a part that stands only in the flattened copy; its value names the field."""


def read_copies(body: Json, parts: Sequence[Part], place: str, fmt: str) -> tuple[list[Part], Json]:
    """Return the parts with what only the copies say, and notes on the copies; empty ones are not looked at.

    Raises:
        MessageError: a copied tool call is malformed.
    """
    made, notes = list(parts), Json()
    for key, kind in TEXT_COPIES.items():
        copy = body.get(key)
        if isinstance(copy, str) and copy:
            rule = rule_of([part.text for part in parts if isinstance(part, kind)], copy)
            notes[key] = rule or "own"
            if rule is None:
                made.append(kind(copy, kept(fmt, {FLAG: key})))
    calls = body.get(CALLS)
    if is_array(calls) and calls:
        notes[CALLS] = []
        for index, call in enumerate(calls):
            where = f"{place}.{CALLS}[{index}]"
            read = read_invocation(expect_object(call, where), where, fmt)
            if any(isinstance(part, ToolPart) and same_call(part, read) for part in parts):
                notes[CALLS].append(read.call_id)
            else:
                made.append(
                    ToolPart(
                        read.call_id,
                        read.name,
                        read.arguments,
                        read.state,
                        read.result,
                        read.error,
                        kept(fmt, {**notes_of(read, fmt), FLAG: CALLS}),
                    )
                )
    return made, notes


def is_flagged(part: Part, fmt: str, key: str | None = None) -> bool:
    """Whether the part stands only in a copy (in that one)."""
    flag = notes_of(part, fmt).get(FLAG)
    if isinstance(part, ToolPart):
        return flag == CALLS and key in (None, CALLS)
    kind = TEXT_COPIES.get(flag) if isinstance(flag, str) else None
    return kind is not None and isinstance(part, kind) and key in (None, flag)


def write_copies(parts: Sequence[Part], notes: Value, fmt: str) -> Json:
    """Return the copies that there were, made from the parts as they are now."""
    noted: Json = notes if is_object(notes) else {}
    body: Json = {}
    for key, kind in TEXT_COPIES.items():
        own = [part.text for part in parts if isinstance(part, kind) and is_flagged(part, fmt, key)]
        if own:
            body[key] = "\n".join(own)
        elif key in noted:
            said = [part.text for part in parts if isinstance(part, kind) and not is_flagged(part, fmt)]
            body[key] = copied(said, noted[key])
    calls = [part for part in parts if isinstance(part, ToolPart)]
    ids = noted.get(CALLS)
    listed = [
        write_invocation(part, fmt)
        for part in calls
        if is_flagged(part, fmt) or (is_array(ids) and part.call_id in ids)
    ]
    if listed or CALLS in noted:
        body[CALLS] = listed
    return body
