"""Helpers that several adapters share: data parts of answers, values as text, answers in a tool's place, verdicts."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, ToolPart
from penstock.engine.values.tripwire import BlockedError
from penstock.formats.wire import is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterable

    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.tripwire import Tripwire
    from penstock.formats.wire import Json, Value


def data_left(parts: Iterable[Part], name: str) -> Json:
    """Return the guarded version of a data part; empty if it was removed."""
    found = next((part.data for part in parts if isinstance(part, DataPart) and part.name == name), None)
    return thaw(found) if is_object(found) else {}


def as_text(value: Value) -> str:
    """Return a value as text: a text as it is, and other values as JSON."""
    return value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False)


def refuse_answered(answer: Message | None, tools: Container[str], cure: str) -> None:
    """Refuse an answer in a tool's place, or a question about a call, where the caller runs the tools.

    It would run this one, too. Calls of unknown tools are left to the caller.

    Args:
        answer: the answer of the model.
        tools: the names of the tools that the caller runs.
        cure: the end of the error: why the tool cannot be kept from running, and the function to use instead.

    Raises:
        UsageError: a processor has answered in the place of a tool, or asks a person about a call.
    """
    for part in answer.parts if answer is not None else ():
        if isinstance(part, ToolPart) and part.approval == "requested":
            raise UsageError(f"a processor asks a person about a call of the tool {part.name!r}, and {cure}")
        if isinstance(part, ToolPart) and (part.state == "result" or (part.state == "error" and part.name in tools)):
            raise UsageError(f"a processor answered in the place of the tool {part.name!r}, and {cure}")


@contextmanager
def raised_as(*kinds: type[BlockedError], made: Callable[[Tripwire], BlockedError] | None = None) -> Generator[None]:
    """Raise a verdict as an error that is also one of the framework's.

    Args:
        kinds: the classes of such errors.
        made: returns the error for a verdict. Default: the first class.

    Raises:
        BlockedError: of one of these classes: a guard stopped the request.
    """
    try:
        yield
    except kinds:
        raise
    except BlockedError as blocked:
        raise (made or kinds[0])(blocked.tripwire) from blocked.__cause__
