"""`Manner`: how a tool is called, once its arguments are read. It knows no function."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from penstock.engine.processor.processor import is_async
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value, Values

    Approval: TypeAlias = bool | Callable[[Values], bool]

Told = Literal["message", "type"]
"""What a model is told of an exception: its type and message, or its type alone."""


class MannerOptions(TypedDict, total=False):
    """The fields of a `Manner`, as keywords."""

    approval: Approval
    concurrent: bool
    timeout: float | None
    offload: bool | None
    errors: Told
    max_result_characters: int | None


@dataclass(frozen=True, slots=True)
class Manner:
    """How a tool is called.

    Attributes:
        approval: whether a call wants somebody's approval: always, never, or what a function of its arguments says.
        concurrent: whether it may run beside other calls of the same answer.
        timeout: for how many seconds a call may run; None: without a limit.
        offload: whether the function runs in a worker thread; None: if it is sync.
        errors: what the model is told when the function raises.
        max_result_characters: how long a result may be, as JSON text.

    Raises:
        OptionError: one is not allowed.
    """

    approval: Approval = False
    concurrent: bool = True
    timeout: float | None = None
    offload: bool | None = None
    errors: Told = "message"
    max_result_characters: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is not allowed."""
        allowed = {
            "approval": (_is_approval(self.approval), "True, False, or a plain function (def, not async def)"),
            "concurrent": (_is_bool(self.concurrent), "True or False"),
            "timeout": (self.timeout is None or _is_duration(self.timeout), "seconds, more than 0, or None"),
            "offload": (self.offload is None or _is_bool(self.offload), "True, False, or None"),
            "errors": (self.errors in ("message", "type"), "'message' or 'type'"),
            "max_result_characters": (_is_limit(self.max_result_characters), "an int, 1 or more, or None"),
        }
        for option, (fits, told) in allowed.items():
            if not fits:
                raise OptionError("Tool", option, getattr(self, option), told)


def _is_bool(value: Value) -> bool:
    return isinstance(value, bool)


def _is_approval(value: Value) -> bool:
    return _is_bool(value) or (callable(value) and not is_async(value))


def _is_duration(value: Value) -> bool:
    return not _is_bool(value) and isinstance(value, (int, float)) and 0 < value < math.inf


def _is_limit(value: Value) -> bool:
    return value is None or (not _is_bool(value) and isinstance(value, int) and value > 0)
