"""Tool calls between formats: argument strings, result texts, steps, results put into calls; it knows no format.

Where a format keeps a call and its result together (UI, stored) or apart (OpenAI), writing moves results there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from penstock.engine.formats.wire import Json, Value, is_object
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import Message, StepStartPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.values.messages import Part

_STYLES: dict[str, Json] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "spaced": {"separators": (", ", ": "), "ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":"), "ensure_ascii": True},
    "spaced-ascii": {"separators": (", ", ": "), "ensure_ascii": True},
    "indented": {"indent": 2, "ensure_ascii": False},
}
"""The ways in which JSON is usually written; which one it was is noted, so that it can be written again."""


def read_arguments(value: Value) -> tuple[Value, str | None]:
    """Return a call's arguments, and how they were written if not compactly.

    A JSON object becomes one. Anything else (broken JSON, another JSON value, a repeated key) stays the str that it
    was, so that nothing is lost; the empty str, which models send for "no arguments", becomes an empty object.
    """
    if not isinstance(value, str):
        return value, "bare"
    if not value:
        return EMPTY, "blank"
    try:
        found = json.loads(value, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return value, None
    if not is_object(found):
        return value, None
    return found, _style_of(found, value)


def _no_repeats(pairs: list[tuple[str, Value]]) -> Json:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a repeated key")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _style_of(found: Json, text: str) -> str | None:
    """Return the style in which the text was written; None for the usual one, or if it is none of ours."""
    for style, options in _STYLES.items():
        if json.dumps(found, **options) == text:
            return None if style == "compact" else style
    return None


def write_arguments(arguments: Value, style: Value) -> Value:
    """Return a call's arguments as they stand on the wire: a JSON str, unless they were bare."""
    if style == "bare":
        return thaw(arguments)
    if isinstance(arguments, str):
        return arguments
    if style == "blank" and arguments == {}:
        return ""
    return as_json(arguments, style)


def as_json(value: Value, style: Value = "compact") -> str:
    """Return a JSON value as text.

    Raises:
        MessageError: it holds something that JSON does not know.
    """
    options = _STYLES.get(style) if isinstance(style, str) else None
    try:
        return json.dumps(thaw(value), **(options or _STYLES["compact"]))
    except (TypeError, ValueError) as error:
        raise MessageError("", "a tool's arguments and result must be JSON values to be written") from error


def result_text(part: ToolPart) -> str:
    """Return what a tool said as text: its error, its text, or its result as JSON."""
    if part.state == "error":
        return part.error or ""
    return part.result if isinstance(part.result, str) else as_json(part.result)


def is_finished(part: Part) -> bool:
    """Whether it is a tool call that has been answered."""
    return isinstance(part, ToolPart) and part.state in {"result", "error"}


def steps(
    parts: Iterable[Part], spoken: Callable[[Part], bool], finished: Callable[[Part], bool] = is_finished
) -> list[list[Part]]:
    """Cut an assistant's parts into model steps: where one starts, and where something is said after a result."""
    made: list[list[Part]] = [[]]
    answered = False
    for part in parts:
        if isinstance(part, StepStartPart) or (answered and spoken(part)):
            made.append([])
            answered = False
        made[-1].append(part)
        answered = answered or finished(part)
    return made


def folded(messages: Iterable[Message], keep: Callable[[Message], bool]) -> list[Message]:
    """Return the messages with the results of tool messages put into the calls that they answer.

    A tool message that may be kept stays; one that answers no earlier call becomes an assistant's.
    """
    made: list[Message] = []
    for message in messages:
        if message.role != "tool" or keep(message):
            made.append(message)
            continue
        rest = [part for part in message.parts if not _answer(made, part)]
        if rest or not message.parts:
            made.append(replace(message, role="assistant", parts=tuple(rest)))
    return made


def _answer(messages: list[Message], part: Part) -> bool:
    """Put a result into the latest open call of its id; tell whether there was one."""
    if not isinstance(part, ToolPart):
        return False
    for index in range(len(messages) - 1, -1, -1):
        parts = _answered(messages[index], part)
        if parts is not None:
            messages[index] = messages[index].with_parts(parts)
            return True
    return False


def _answered(message: Message, result: ToolPart) -> list[Part] | None:
    """Return an assistant's parts with the result in the latest open call of its id; None if there is no such call."""
    parts = list(message.parts) if message.role == "assistant" else []
    for index in range(len(parts) - 1, -1, -1):
        part = parts[index]
        if isinstance(part, ToolPart) and part.call_id == result.call_id and not is_finished(part):
            parts[index] = _joined(part, result)
            return parts
    return None


def _joined(call: ToolPart, result: ToolPart) -> ToolPart:
    """Return the call with its result; notes of both, which use different keys, are laid together."""
    metadata = dict(call.metadata)
    for key, item in result.metadata.items():
        there = metadata.get(key)
        metadata[key] = {**there, **item} if is_object(there) and is_object(item) else item
    return replace(call, state=result.state, result=result.result, error=result.error, metadata=metadata)
