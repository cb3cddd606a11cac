"""`PrepareStepProcessor`: a callback that says what a model call is made with. It knows no agent and no model."""

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
"""Called before every model call."""

_FIELDS = tuple(field.name for field in fields(Overrides))


class PrepareStepProcessor(Processor):
    """Calls a function before every model call; what it returns holds for that call, as of any such step.

    The function is its user's code: what it raises is raised, unless the step that it is placed in says otherwise.
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
        """Check the options.

        Args:
            prepare_step: called with the step's context; async or not. It returns None for no change, messages, a list
                derived from ``ctx.message_list``, `Overrides`, or a mapping of their fields.
            provides: the facts that it puts.
            requires: the facts that must be there before it is called.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
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
        return _awaited(made) if self.awaits else _settled(made)


async def _awaited(made: Awaitable[Prepared]) -> Value:
    return _settled(await made)


def _settled(made: Value) -> Value:
    """Return what a hook may return.

    Raises:
        WrongReturnError: a mapping has other keys than the fields of `Overrides`.
    """
    if not isinstance(made, Mapping):
        return made
    told = cast("Values", made)
    odd = [name for name in told if name not in _FIELDS]
    if odd:
        raise WrongReturnError(f"it returned a mapping with {', '.join(map(repr, odd))}; it takes {', '.join(_FIELDS)}")
    return Overrides(**told) if told else None
