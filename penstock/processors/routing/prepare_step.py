"""`PrepareStepProcessor`: a callback that sets the options of each model call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, is_async
from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ProcessorRole
    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message

Prepared: TypeAlias = "Overrides | MessageList | Sequence[Message] | Values | None"
"""What a callback may return: what `process_input_step` may, or a mapping of the fields of `Overrides`."""

PrepareStep: TypeAlias = "Callable[[InputStepContext], Prepared | Awaitable[Prepared]]"
"""A function that is called before every model call."""

_FIELDS = tuple(field.name for field in fields(Overrides))


class PrepareStepProcessor(Processor):
    """Calls a function before every model call. Its result counts for that call.

    The function is application code: its exceptions are raised, unless the step in which it is placed says otherwise.

    Args:
        prepare_step: called with the `InputStepContext`; async or not. It returns None for no change, messages, a list
            derived from ``ctx.message_list``, `Overrides`, or a mapping of their fields.
        provides: the facts that the function puts.
        requires: the facts that must be there before it is called.
        id: the name in graphs and records. Default ``prepare-step``.

    Raises:
        OptionError: ``prepare_step`` is not callable.
    """

    id = "prepare-step"
    role: ProcessorRole = "transform"
    edits = "anything"

    def __init__(
        self,
        prepare_step: PrepareStep,
        *,
        provides: Iterable[AnyKey] = (),
        requires: Iterable[AnyKey] = (),
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        if not callable(cast("object", prepare_step)):
            raise OptionError(type(self).__name__, "prepare_step", prepare_step, "a function of an InputStepContext")
        self.prepare_step = prepare_step
        self.provides = provides
        self.requires = requires
        self.awaits = is_async(prepare_step)

    def process_input_step(self, ctx: InputStepContext) -> Value:
        """Call the function."""
        made: Value = self.prepare_step(ctx)
        return _await_hook_result(made) if self.awaits else _as_hook_result(made)


async def _await_hook_result(made: Awaitable[Prepared]) -> Value:
    return _as_hook_result(await made)


def _as_hook_result(made: Value) -> Value:
    """Return the result in a form that a hook may return.

    Raises:
        WrongReturnError: a mapping has keys that are not fields of `Overrides`.
    """
    if not isinstance(made, Mapping):
        return made
    values = cast("Values", made)
    unknown = [name for name in values if name not in _FIELDS]
    if unknown:
        raise WrongReturnError(
            f"it returned a mapping with {', '.join(map(repr, unknown))}; it takes {', '.join(_FIELDS)}"
        )
    return Overrides(**values) if values else None
