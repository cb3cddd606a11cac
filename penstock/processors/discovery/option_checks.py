"""Shared parts of the processors of this family: notices in the system prompt, name conflicts, checks of options."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.tracing.display import visible
from penstock.engine.values.errors import OptionError
from penstock.engine.values.messages import Message
from penstock.engine.values.protocols import Clock

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList


S = TypeVar("S")


def with_notices(ctx: InputStepContext[S], texts: Sequence[str]) -> MessageList | None:
    """Return the conversation with these texts as the only system messages of the step; None if nothing changes."""
    messages, owner = ctx.message_list, ctx.step_path
    if [message.text for message in messages.tagged(owner)] == list(texts):
        return None
    return messages.replace_system([Message.system(text) for text in texts], tag=owner)


_LOG = logging.getLogger("penstock")


class NameConflicts:
    """Warns once if a processor's tools hide tools of the request. Lives as long as the processor."""

    __slots__ = ("_warned",)

    def __init__(self) -> None:
        self._warned = False

    def warn(self, processor: str, names: Iterable[str], given: Container[str]) -> None:
        """Log a warning if the request has tools with these names."""
        taken = ", ".join(visible(name) for name in names if name in given)
        if taken and not self._warned:
            self._warned = True
            _LOG.warning(
                "%r adds tools named %s: the request's own tools of that name cannot be called", processor, taken
            )

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is one too: whether it has warned is not an option."""
        return isinstance(other, NameConflicts)

    __hash__ = None  # type: ignore[assignment]


SHOWN = 150
"""The most characters of a description in a list (as in Mastra, builtins.md §13)."""


def checked_function(owner: str, option: str, given: Value) -> Value:
    """Check an option that must be a function or None, and return it.

    Raises:
        OptionError: it is neither.
    """
    if given is not None and not callable(given):
        raise OptionError(owner, option, type(given).__name__, "a function or None")
    return given


def checked_clock(owner: str, given: object) -> Clock:
    """Check an option that must be a clock, and return it.

    Raises:
        OptionError: it is none.
    """
    if not isinstance(given, Clock):
        raise OptionError(owner, "clock", type(given).__name__, "a Clock: an object with now()")
    return given


def one_line(text: str, longest: int | None = SHOWN) -> str:
    """Return a text on one line, with single spaces, cut to a number of characters (None: not cut)."""
    line = " ".join(text.split())
    return line if longest is None or len(line) <= longest else f"{line[: longest - 3]}..."
