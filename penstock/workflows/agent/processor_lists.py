"""The processor lists of an agent, and the plans that a request gets from them.

Functions in a list are called once per request. The order at the input stages: the memory's loaders, your
processors, the agent's own (`prepare_step` last), and the memory's savers. At the output stages: your processors,
then the memory, so that nothing is saved before it was checked.
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

    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.frozen import Value
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.options import ProcessorEntry, ProcessorList, RequestContext


class MemoryPlacement(NamedTuple):
    """The processors that a memory adds.

    Attributes:
        before: placed before yours at the input stages, and after yours at the output stages.
        after: placed after yours at every stage.
    """

    before: tuple[Item, ...] = ()
    after: tuple[Item, ...] = ()


@runtime_checkable
class AgentMemory(Protocol):
    """The interface of a memory for an agent."""

    def around(self, processors: Sequence[AnyProcessor]) -> MemoryPlacement:
        """Return the processors to add.

        Args:
            processors: your processors, including those inside workflows.
        """
        ...


@runtime_checkable
class SplitProcessor(Protocol):
    """A processor with two halves at the output: the first runs before all others, and the second after them.

    The others check the messages of the first half; the second half reads the checked ones.
    """

    def around(self) -> tuple[Item, ...]:
        """Return the two halves."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessorLists:
    """The processor lists of an agent or a request, with the processors that the agent adds.

    Attributes:
        processors: run at every stage that they implement.
        input: run at the input stages only.
        output: run at the output stages only.
        error: run when a model call fails.
        memory: adds its processors.
        own_input: the agent's own processors, after your input processors.
        own_output_first: the agent's own, before your output processors.
        own_output_last: the agent's own, after your output processors.
    """

    processors: ProcessorList = ()
    input: ProcessorList = ()
    output: ProcessorList = ()
    error: ProcessorList = ()
    memory: AgentMemory | None = None
    own_input: tuple[Item, ...] = ()
    own_output_first: tuple[Item, ...] = ()
    own_output_last: tuple[Item, ...] = ()

    @property
    def fixed(self) -> bool:
        """Whether the lists are the same for every request."""
        return not any(_is_dynamic(entries) for entries in (self.processors, self.input, self.output, self.error))

    async def resolved(self, name: str, context: RequestContext) -> Plans:
        """Return the plans of one request; each function in the lists is called once.

        Raises:
            OptionError: a function returned something else than processors and workflows.
            ProcessorError: a processor cannot be used.
            WorkflowError: the processors cannot run together.
        """
        every = await _evaluate_list("processors", self.processors, context)
        given = (
            await _evaluate_list("input_processors", self.input, context),
            await _evaluate_list("output_processors", self.output, context),
            await _evaluate_list("error_processors", self.error, context),
        )
        return self._placed(name, every, *given)

    def compiled(self, name: str) -> Plans:
        """Return the plans of fixed lists.

        Raises:
            OptionError: an entry is neither a processor nor a workflow.
            ProcessorError: a processor cannot be used.
            WorkflowError: the processors cannot run together.
        """
        lists = (self.processors, self.input, self.output, self.error)
        return self._placed(name, *[tuple(cast("Sequence[Item]", entries)) for entries in lists])

    def check_known(self, name: str) -> None:
        """Check the entries that are not functions, so that mistakes are found before the first request.

        Raises:
            OptionError: an entry is neither a processor nor a workflow.
            ProcessorError: a processor cannot be used.
            WorkflowError: the processors cannot run together.
        """
        lists = (self.processors, self.input, self.output, self.error)
        every, given, output, error = [() if callable(entries) else _known(entries) for entries in lists]
        _check_items(name, every)
        check_lists(
            name,
            {
                "input": [*_serving("input", every), *given],
                "output": [*_serving("output", every), *output],
                "error": [*_serving("error", every), *error],
            },
        )

    def _placed(
        self, name: str, every: Sequence[Item], given: Sequence[Item], output: Sequence[Item], error: Sequence[Item]
    ) -> Plans:
        _check_items(name, every)
        mine = [*every, *given, *output, *error]
        around = MemoryPlacement() if self.memory is None else self.memory.around(list(_processors(mine)))
        before, after = around.before, around.after
        shared, judges = _split_items(every), _split_items(output)
        return plans_of_lists(
            name,
            {
                "input": [
                    *_serving("input", (*before, *shared.items)),
                    *given,
                    *self.own_input,
                    *_serving("input", after),
                ],
                "output": [
                    *self.own_output_first,
                    *shared.first,
                    *judges.first,
                    *_serving("output", shared.between),
                    *judges.between,
                    *judges.last,
                    *shared.last,
                    *self.own_output_last,
                    *_serving("output", (*before, *after)),
                ],
                "error": [*_serving("error", shared.items), *error],
            },
        )


class _SplitItems(NamedTuple):
    """The items of a list, those with two halves split.

    Attributes:
        items: all items, with the first half in place of each split one.
        between: the items without halves.
        first: the first halves.
        last: the second halves, in reverse order.
    """

    items: list[Item]
    between: list[Item]
    first: list[Item]
    last: list[Item]


def _split_items(items: Sequence[Item]) -> _SplitItems:
    """Split the items that implement `SplitProcessor` into their halves."""
    halves = [item.around() if isinstance(item, SplitProcessor) else (item,) for item in items]
    two = [both for both in halves if len(both) > 1]
    between = [both[0] for both in halves if len(both) == 1]
    return _SplitItems(
        [both[0] for both in halves], between, [both[0] for both in two], [both[-1] for both in two[::-1]]
    )


def _is_dynamic(entries: ProcessorList) -> bool:
    return callable(entries) or any(_is_function(entry) for entry in entries)


def _known(entries: Sequence[ProcessorEntry]) -> tuple[Item, ...]:
    """Return the items of a list, with an empty workflow in place of each function."""
    return tuple([Workflow("later") if _is_function(entry) else cast("Item", entry) for entry in entries])


def _is_function(entry: object) -> bool:
    return callable(entry) and not isinstance(entry, (Processor, Workflow, type))


async def _evaluate_list(name: str, entries: ProcessorList, context: RequestContext) -> tuple[Item, ...]:
    """Return the items of a list, with its functions called."""
    if callable(entries):
        return tuple(await _call_function(name, entries, context))
    items: list[Item] = []
    for place, entry in enumerate(entries):
        if _is_function(entry):
            function = cast("Callable[[RequestContext], Value]", entry)
            items.extend(await _call_function(f"{name}[{place}]", function, context))
        else:
            items.append(cast("Item", entry))
    return tuple(items)


async def _call_function(
    place: str, function: Callable[[RequestContext], Value], context: RequestContext
) -> Iterable[Item]:
    """Call a function of the request context, and return its items.

    Raises:
        OptionError: the function is a hook without ``@processor``, or returned something else than items.
    """
    if _takes_context(function):
        raise OptionError(
            "Agent",
            place,
            _function_name(function),
            "a processor; this function takes the context of a stage, so decorate it with @processor",
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
        f"it returned {kind} (a function that is a processor itself needs @processor)"
    )
    raise OptionError("Agent", place, _function_name(function), allowed)


def _takes_context(function: Callable[..., object]) -> bool:
    """Return whether a function is a hook: the annotation of its first parameter is a `Context`."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (TypeError, ValueError, NameError):
        return False
    kind: object = parameters[0].annotation if parameters else None
    return isinstance(kind, type) and issubclass(kind, Context)


def _function_name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _processors(items: Iterable[Item]) -> Iterable[AnyProcessor]:
    """Yield the processors of items, including those inside workflows."""
    for item in items:
        if isinstance(item, Workflow):
            yield from (step.processor for step in steps_of(item.root))
        elif is_processor(item):
            yield item


def _serving(entries: str, items: Iterable[Item]) -> list[Item]:
    """Return the items that implement a stage of that list."""
    return [item for item in items if _stages(item).intersection(_LIST_STAGES[entries])]


def _stages(item: Item) -> set[str]:
    root = item.root if isinstance(item, Workflow) else Workflow("one").then(item).root
    return {stage for step in steps_of(root) for stage in step.claims.hooks}


def _check_items(name: str, every: Sequence[Item]) -> None:
    """Check the items of ``processors``.

    Raises:
        OptionError: an item is neither a processor nor a workflow, or implements no stage.
    """
    for place, item in enumerate(every):
        try:
            stages = _stages(item)
        except PenstockError as error:
            wanted = f"a processor or a workflow: {error}"
            raise OptionError(name, f"processors[{place}]", item, wanted) from error
        if not stages and not (isinstance(item, Workflow) and not item.root.nodes):
            raise OptionError(name, f"processors[{place}]", item, "a processor or a workflow with at least one stage")


_LIST_STAGES: Mapping[str, tuple[str, ...]] = {entries: stages_of(entries) for entries in ("input", "output", "error")}
"""The stages that each list serves."""
