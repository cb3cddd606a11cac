"""An agent's arrays, resolved for a request: functions evaluated once, what comes by itself placed around.

The input's stages: memory, the user's processors, what belongs to the agent (`prepare_step` last), and savers.
The output's: the user's processors, then memory, so that nothing is saved before it was judged.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast, runtime_checkable

from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.context import Context
from penstock.engine.processor.processor import Processor, is_processor
from penstock.engine.values.errors import OptionError, PenstockError
from penstock.engine.workflow import Workflow, check_lists, plans_of_lists, stages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.engine.graph.plans import Plans
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.frozen import Value
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.options import Array, Placed, RequestContext


class Around(NamedTuple):
    """What is placed around the user's processors.

    Attributes:
        before: before them, at the input's stages; at the output's they come behind them.
        after: behind them, at every stage.
    """

    before: tuple[Item, ...] = ()
    after: tuple[Item, ...] = ()


@runtime_checkable
class AgentMemory(Protocol):
    """A memory: it says which processors stand around the user's. An agent knows no more of it."""

    def around(self, placed: Sequence[AnyProcessor]) -> Around:
        """Return what to place; ``placed``: the user's own processors, those within workflows included."""
        ...


@runtime_checkable
class Surrounding(Protocol):
    """A processor that stands around all others at the output: what it makes first they judge, and it reads it last."""

    def around(self) -> tuple[Item, ...]:
        """Return its two halves."""
        ...


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays as they were given, to an agent or to a call.

    Attributes:
        processors: bound at every stage that they have.
        input: bound at the input's stages only.
        output: bound at the output's.
        error: bound where a model call failed.
        memory: what places itself around them.
        own_input: the agent's own, behind the user's input processors.
        own_judging: the agent's own, before the user's output processors.
        own_output: the agent's own, behind them.
    """

    processors: Array = ()
    input: Array = ()
    output: Array = ()
    error: Array = ()
    memory: AgentMemory | None = None
    own_input: tuple[Item, ...] = ()
    own_judging: tuple[Item, ...] = ()
    own_output: tuple[Item, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether they are the same for every request."""
        return not any(_depends(array) for array in (self.processors, self.input, self.output, self.error))

    async def resolved(self, name: str, context: RequestContext) -> Plans:
        """Return the plans for a request; each function is called once.

        Raises:
            OptionError, ProcessorError, WorkflowError: what the functions give cannot be placed.
        """
        every = await _evaluated("processors", self.processors, context)
        given = (
            await _evaluated("input_processors", self.input, context),
            await _evaluated("output_processors", self.output, context),
            await _evaluated("error_processors", self.error, context),
        )
        return self._placed(name, every, *given)

    def compiled(self, name: str) -> Plans:
        """Return the plans of arrays that are fixed.

        Raises:
            OptionError, ProcessorError, WorkflowError: what stands in them cannot be placed.
        """
        arrays = (self.processors, self.input, self.output, self.error)
        return self._placed(name, *[tuple(cast("Sequence[Item]", array)) for array in arrays])

    def check_known(self, name: str) -> None:
        """Refuse what cannot stand where it was placed, whatever the functions beside it will give.

        Raises:
            OptionError, ProcessorError, WorkflowError: as in `compiled`.
        """
        arrays = (self.processors, self.input, self.output, self.error)
        every, given, judging, error = [() if callable(array) else _known(array) for array in arrays]
        _check_bound(name, every)
        check_lists(
            name,
            {
                "input": [*_of("input", every), *given],
                "output": [*_of("output", every), *judging],
                "error": [*_of("error", every), *error],
            },
        )

    def _placed(
        self, name: str, every: Sequence[Item], given: Sequence[Item], judging: Sequence[Item], error: Sequence[Item]
    ) -> Plans:
        _check_bound(name, every)
        mine = [*every, *given, *judging, *error]
        around = Around() if self.memory is None else self.memory.around(list(_processors(mine)))
        before, after = around.before, around.after
        bound, judges = _parted(every), _parted(judging)
        return plans_of_lists(
            name,
            {
                "input": [*_of("input", (*before, *bound.items)), *given, *self.own_input, *_of("input", after)],
                "output": [
                    *self.own_judging,
                    *bound.first,
                    *judges.first,
                    *_of("output", bound.between),
                    *judges.between,
                    *judges.last,
                    *bound.last,
                    *self.own_output,
                    *_of("output", (*before, *after)),
                ],
                "error": [*_of("error", bound.items), *error],
            },
        )


class _Parted(NamedTuple):
    """Items of an array, some of which stand around the others at the output.

    Attributes:
        items: all, with the first half in the place of each that does.
        between: those that do not.
        first: the first halves of those that do.
        last: their second halves, inside out.
    """

    items: list[Item]
    between: list[Item]
    first: list[Item]
    last: list[Item]


def _parted(items: Sequence[Item]) -> _Parted:
    """Return items, those that stand around the others (they have ``around``) in two halves."""
    halves = [item.around() if isinstance(item, Surrounding) else (item,) for item in items]
    two = [both for both in halves if len(both) > 1]
    between = [both[0] for both in halves if len(both) == 1]
    return _Parted([both[0] for both in halves], between, [both[0] for both in two], [both[-1] for both in two[::-1]])


def _depends(array: Array) -> bool:
    return callable(array) or any(_is_function(entry) for entry in array)


def _known(array: Sequence[Placed]) -> tuple[Item, ...]:
    """Return an array's items, with nothing in the place of each function."""
    return tuple([Workflow("later") if _is_function(entry) else cast("Item", entry) for entry in array])


def _is_function(entry: object) -> bool:
    return callable(entry) and not isinstance(entry, (Processor, Workflow, type))


async def _evaluated(name: str, array: Array, context: RequestContext) -> tuple[Item, ...]:
    """Return the items of an array, its functions evaluated."""
    if callable(array):
        return tuple(await _given(name, array, context))
    items: list[Item] = []
    for place, entry in enumerate(array):
        if _is_function(entry):
            function = cast("Callable[[RequestContext], Value]", entry)
            items.extend(await _given(f"{name}[{place}]", function, context))
        else:
            items.append(cast("Item", entry))
    return tuple(items)


async def _given(place: str, function: Callable[[RequestContext], Value], context: RequestContext) -> Iterable[Item]:
    """Return the items that a function of the request context gives."""
    if _takes_context(function):
        raise OptionError(
            "Agent", place, _named(function), "a processor: this function takes a stage's context; add @processor"
        )
    found = function(context)
    if inspect.isawaitable(found):
        found = await found
    if is_processor(found) or isinstance(found, Workflow):
        return (found,)
    if isinstance(found, (list, tuple)):
        return cast("Iterable[Item]", found)
    kind = type(found).__name__
    allowed = (
        "a function of the request context that returns a processor, a workflow, or a list of them; "
        f"it returned {kind} (to be a processor itself it needs @processor)"
    )
    raise OptionError("Agent", place, _named(function), allowed)


def _takes_context(function: Callable[..., object]) -> bool:
    """Tell whether a function is meant to be a hook: the annotation of its first parameter says so."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (TypeError, ValueError, NameError):
        return False
    kind: object = parameters[0].annotation if parameters else None
    return isinstance(kind, type) and issubclass(kind, Context)


def _named(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _processors(items: Iterable[Item]) -> Iterable[AnyProcessor]:
    """Yield the processors that items are made of, those within workflows included."""
    for item in items:
        if isinstance(item, Workflow):
            yield from (step.processor for step in steps_of(item.root))
        elif is_processor(item):
            yield item


def _of(array: str, items: Iterable[Item]) -> list[Item]:
    """Return the items that have a stage which the array serves."""
    return [item for item in items if _stages(item).intersection(_SERVED[array])]


def _stages(item: Item) -> set[str]:
    root = item.root if isinstance(item, Workflow) else Workflow("one").then(item).root
    return {stage for step in steps_of(root) for stage in step.claims.hooks}


def _check_bound(name: str, every: Sequence[Item]) -> None:
    """Refuse what is no item, or has no stage at all."""
    for place, item in enumerate(every):
        try:
            stages = _stages(item)
        except PenstockError as error:
            wanted = f"a processor or a workflow: {error}"
            raise OptionError(name, f"processors[{place}]", item, wanted) from error
        if not stages and not (isinstance(item, Workflow) and not item.root.nodes):
            raise OptionError(name, f"processors[{place}]", item, "something with at least one stage")


_SERVED: Mapping[str, tuple[str, ...]] = {array: stages_of(array) for array in ("input", "output", "error")}
