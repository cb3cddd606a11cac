"""`Workflow`: an immutable graph of processors, and how to build, check, run and draw it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.graph.builder import (
    After,
    PolicyOptions,
    RunOptions,
    check_run_options,
    check_stage,
    edges_of,
    is_name,
    merge_policy,
    numbered,
    policy_of,
    processor_of,
)
from penstock.engine.graph.checks import problems, unmet_facts
from penstock.engine.graph.nodes import (
    DEFAULT,
    Arm,
    Branch,
    Dag,
    DagMember,
    Node,
    Parallel,
    Policy,
    Sequence,
    Step,
    resolve,
    steps_of,
)
from penstock.engine.graph.plan import needs_loop
from penstock.engine.graph.plan_cache import Plans
from penstock.engine.processor.processor import claims_of, one_of
from penstock.engine.processor.stages import STAGES, ProcessorList, full_name
from penstock.engine.run.run import Run
from penstock.engine.run.sync import SyncRun
from penstock.engine.tasks import run_in_own_loop, run_without_loop
from penstock.engine.values.errors import OptionError, PenstockError, UsageError, WorkflowError
from penstock.lazy import by_name

if TYPE_CHECKING:
    from collections import abc
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.graph.networks import Graph
    from penstock.engine.graph.nodes import Condition, Node
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.frozen import Layer, Value
    from penstock.engine.values.protocols import Observer
    from penstock.pictures.diff.difference import WorkflowDiff
    from penstock.workflows.coverage.coverage import Coverage


Item: TypeAlias = "AnyProcessor | Workflow"
"""What can be added to a workflow: a processor, or another workflow."""


class Workflow:
    """A graph of processors, as an immutable value. Each method that adds to it returns a new workflow.

    The graph is checked as a whole when it is first used, or by `validate`. All problems are reported at once. Two
    workflows are equal if their names and graphs are equal.
    """

    __slots__ = ("_plans", "name", "root")

    name: str
    root: Sequence
    _plans: Plans | None

    def __init__(self, name: str, root: Sequence | None = None) -> None:
        if not is_name(name):
            raise UsageError(f"a workflow's name must be a non-empty str without '/', not {name!r}")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "root", root or Sequence())
        object.__setattr__(self, "_plans", None)

    # Building

    def then(self, item: Item, *, id: str | None = None, **policy: Unpack[PolicyOptions]) -> Workflow:
        """Return the workflow with one more step at its end.

        Args:
            item: a processor, or a workflow as one step.
            id: the step's id; None: the processor's.
            policy: ``timeout``, ``on_error``, ``mode``, ``overlap``, ``offload``, ``retries``, ``retry_delay``; see
                `Policy`.
        """
        return self._with(_node(item, policy_of(policy), id))

    def parallel(self, *items: Item, merge: MergePolicy = None, **policy: Unpack[PolicyOptions]) -> Workflow:
        """Return the workflow with steps that run in parallel on the same payload; their edits are merged afterwards.

        Args:
            items: processors and workflows, in declared order.
            merge: how conflicting edits are resolved: ``"first"``, ``"last"``, ``pick("id")``, ``"sequence"`` (the
                items run one after another instead), or a function of a `Conflict`. None: a conflict is an error.
            policy: as in `then`, for each of the items.
        """
        given = policy_of(policy)
        nodes = tuple(_node(item, given) for item in items)
        if not nodes:
            raise UsageError("parallel() needs at least one processor or workflow")
        return self._with(Parallel(nodes, merge_policy(merge)))

    def branch(
        self,
        *arms: tuple[Condition, Item],
        otherwise: Item | None = None,
        match: Literal["first", "all"] = "first",
        merge: MergePolicy = None,
        on_error: Literal["block", "raise"] = "raise",
    ) -> Workflow:
        """Return the workflow with a branch: it runs the first arm whose condition holds, or all (``match="all"``).

        Args:
            arms: pairs of a condition ``(ctx) -> bool`` (sync or async) and what to run.
            otherwise: what to run if no condition holds; None: nothing.
            match: ``first`` (if, elif, else) or ``all`` (in parallel).
            merge: as in `parallel`, for ``match="all"``.
            on_error: what happens if a condition raises: ``block`` or ``raise``. It never counts as false.
        """
        one_of("branch", "match", match, ("first", "all"))
        one_of("branch", "on_error", on_error, ("block", "raise"))
        made = tuple(_arm(arm, number) for number, arm in enumerate(arms))
        if not made:
            raise UsageError("branch() needs at least one arm: branch((condition, processor), ...)")
        rest = None if otherwise is None else _node(otherwise, DEFAULT)
        return self._with(Branch(made, rest, match, merge_policy(merge), on_error))

    def dag(self, *members: DagMember, merge: MergePolicy = None) -> Workflow:
        """Return the workflow with a dag: each member names the members that it comes after; see `member`.

        Args:
            members: made by `member`, in declared order.
            merge: as in `parallel`, without ``"sequence"``.
        """
        for given in cast("tuple[object, ...]", members):
            if not isinstance(given, DagMember):
                raise UsageError(f"dag() takes members: member(processor, after=...), not {type(given).__name__}")
        if not members:
            raise UsageError("dag() needs at least one member")
        if merge == "sequence":
            raise UsageError("dag() has no merge='sequence'; to run members one after another, give them after=")
        return self._with(Dag(numbered(members), merge_policy(merge)))

    def named(self, name: str) -> Workflow:
        """Return the same graph under another name."""
        return Workflow(name, self.root)

    @classmethod
    def from_graph(cls, graph: Graph, name: str | None = None) -> Workflow:
        """Return the workflow of a networkx graph.

        Args:
            graph: a `networkx.DiGraph`. The node attribute ``step`` (or ``processor``) is what to run; the edge
                attribute ``when`` is a condition.
            name: the workflow's name; None for the name of the graph.

        Raises:
            WorkflowError: a node has neither attribute, or an edge's ``when`` is not a condition.
        """
        from penstock.engine.graph.networks import dag_from

        made, dag = dag_from(graph, name, member)
        return cls(made).dag(*dag.members, merge=dag.merge) if dag.members else cls(made)

    @property
    def graph(self) -> Graph:
        """The workflow as a `networkx.DiGraph`, which `from_graph` reads."""
        from penstock.engine.graph.networks import to_graph

        return to_graph(self.name, self.root)

    def draw(
        self,
        format: Literal["mermaid", "dot", "text", "json", "svg", "html"] = "mermaid",  # noqa: A002
        stage: str | None = None,
        *,
        detail: Literal["short", "full"] | None = None,
        trace: Trace | None = None,
    ) -> str:
        """Return the workflow as a diagram.

        Args:
            format: ``mermaid`` (a flowchart), ``dot`` (for graphviz), ``text`` (for a terminal), ``json``,
                ``svg`` (a picture), or ``html`` (a page in one file, with search, docs and options).
            stage: draw only the steps that have this stage; None: all steps.
            detail: ``short``: names, roles, conditions and policies; ``full``: stages, facts and edits, too. None:
                short in pictures (Mermaid, DOT, SVG), full in text. JSON always has everything.
            trace: a run to lay over the picture, as ``outcome.trace`` or ``result.trace``: which way it took, what each
                step did and cost, and what stopped it. Only for ``svg`` and
                ``html``.

        Raises:
            OptionError: there is no such format, stage or detail.
            UsageError: there is a trace, and the format does not show it.
        """
        render: Callable[..., str] = by_name("penstock.pictures", "render")
        return render(self.name, self.root, format, stage, detail, trace=trace)

    def diff(self, other: Workflow) -> WorkflowDiff:
        """Return what differs between this workflow and a newer one.

        Args:
            other: the newer workflow. Steps that only it has were added; steps that only this one has were removed.

        Raises:
            UsageError: ``other`` is not a workflow.
        """
        if not isinstance(cast("object", other), Workflow):
            raise UsageError(f"diff() takes a workflow, not {type(other).__name__}; load one with load_workflow")
        compare: type[WorkflowDiff] = by_name("penstock.pictures.diff.difference", "WorkflowDiff")
        return compare((self.name, self.root), (other.name, other.root))

    def coverage(self) -> Coverage:
        """Return which step reads which channel: messages, files, arguments and results of tools, streams, and so on.

        It is computed from the plan. Nothing is run.

        Raises:
            WorkflowError: the graph has problems.
        """
        computed: type[Coverage] = by_name("penstock.workflows.coverage", "Coverage")
        return computed(self.plans)

    def to_policy(self) -> str:
        """Return the workflow as the text of a policy file, which `penstock.workflows.policies.parse_policy` reads.

        Raises:
            PolicyWriteError: parts of it can only be written in Python: conditions that are functions, options that are
                objects, processors that are not registered. It names all of them.
        """
        write: Callable[[str, Sequence], str] = by_name("penstock.workflows.policies", "to_policy")
        return write(self.name, self.root)

    # Checking and running

    def validate(self, stage: str | None = None) -> None:
        """Check the graph as a whole.

        Args:
            stage: a stage that it will be used for, and that at least one step must have.

        Raises:
            WorkflowError: it has problems; all of them at once.
            UsageError: there is no such stage.
        """
        named = None if stage is None else full_name(stage)
        if named is not None:
            check_stage(named, STAGES)
        found = problems(self.root, named)
        if found:
            raise WorkflowError(self.name, found)

    @property
    def plans(self) -> Plans:
        """The compiled graph, one plan for each stage; made once and shared by all runs."""
        if self._plans is None:
            object.__setattr__(self, "_plans", made := Plans(self.name, self.root))
            return made
        return self._plans

    def start(self, **options: Unpack[RunOptions]) -> Run:
        """Return a run: one request on its way through the stages.

        Args:
            options: ``request_context``, ``run_id``, ``records``, ``texts``, ``observers``, ``overlap``,
                ``max_processor_retries``, ``max_error_retries``, ``ids``, ``clock``, ``may_suspend``; see `Run`.

        Raises:
            WorkflowError: the graph has problems.
        """
        if options:
            check_run_options(options)
        plans = self.plans
        _ = plans.resolved  # a graph with problems does not start
        return Run(plans, **options)

    def start_sync(self, **options: Unpack[RunOptions]) -> SyncRun:
        """Return a run in sync form, for a workflow of sync hooks.

        Args:
            options: as in `start`.

        Raises:
            WorkflowError: the graph has problems.
        """
        return SyncRun(self.start(**options))

    async def check(
        self,
        messages: object,
        *,
        stage: str = "process_input",
        request_context: dict[str, Value] | None = None,
        records: bool = True,
        texts: bool = False,
        observers: abc.Sequence[Observer] = (),
        **details: object,
    ) -> Outcome:
        """Run one stage alone, as a run of its own.

        Args:
            messages: a str, messages, dicts in a known chat format, or a `MessageList`; for the tools' stages a JSON
                value.
            stage: the stage to run.
            request_context: the caller's mapping, which hooks can read.
            records: whether the outcome has a record of each step, and a trace.
            texts: whether the trace has the texts, also those that steps have hidden.
            observers: objects with ``on_record``, called with the record of each step; see `Observer`.
            details: details of the call for its hooks, for example ``tool_name``.

        Raises:
            WorkflowError: the graph has problems.
            MessageError: a message is malformed.
            StepFailedError: a step failed, and its policy is to raise.
        """
        stage = self._checked_stage(messages, stage)
        run = self.start(request_context=request_context, records=records, texts=texts, observers=observers)
        async with run:
            outcome = await run.stage(stage, messages, **details)
        return outcome.with_records(lambda: run.records)

    def check_sync(
        self,
        messages: object,
        *,
        stage: str = "process_input",
        request_context: dict[str, Value] | None = None,
        records: bool = True,
        texts: bool = False,
        observers: abc.Sequence[Observer] = (),
        **details: object,
    ) -> Outcome:
        """The same as `check`, for code that is not async.

        A stage whose steps are all sync needs no event loop, and also works inside a running one. A stage with async
        steps, such as guards that ask a model, runs in a loop of its own.

        Raises:
            UsageError: a step of that stage is async, and an event loop runs in this thread already.
        """
        stage = self._checked_stage(messages, stage)
        block = self.plans.stage(stage) if stage in STAGES else None
        if needs_loop(block):
            options: RunOptions = {
                "request_context": request_context,
                "records": records,
                "texts": texts,
                "observers": observers,
            }
            check = partial(self.check, messages, stage=stage, **options, **details)
            return run_in_own_loop(check, f"`await workflow.check(...)`: {self.name!r} has async steps in {stage}")
        run = self.start(request_context=request_context, records=records, texts=texts, observers=observers)
        stepping = run.told(run.stage(stage, messages, **details))
        return run_without_loop(stepping, f"workflow {self.name!r}")

    def _checked_stage(self, messages: object, given: str) -> str:
        """Return the stage's full name. Refuse to check nothing: no messages, or a stage that no step has."""
        stage = full_name(given)
        if messages is None and not (stage in STAGES and STAGES[stage].value):
            raise UsageError("there is nothing to check; pass a str, messages, or chat dicts")
        if stage in STAGES and self.root.nodes and self.plans.stage(stage) is None:
            self.validate(stage)
        return stage

    # As a value

    def _with(self, node: Node) -> Workflow:
        return Workflow(self.name, Sequence((*self.root.nodes, node)))

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same name and equal graphs."""
        return isinstance(other, Workflow) and (self.name, self.root) == (other.name, other.root)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Workflow], tuple[str, Sequence]]:
        """Copy and pickle the name and the graph; its processors must support it."""
        return (type(self), (self.name, self.root))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to change a workflow.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"a workflow is immutable, so {name} cannot be set; its methods return new workflows")

    def __repr__(self) -> str:
        """Show the name and the steps."""
        return f"<Workflow {self.name!r}: {', '.join(step.id or step.claims.id for step in steps_of(self.root))}>"

    def __str__(self) -> str:
        """Return the diagram as text."""
        return self.draw("text")

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        """Return the forms that a notebook can show: the picture, or the text."""
        return {"image/svg+xml": self.draw("svg"), "text/plain": str(self)}


def member(
    item: Item,
    *,
    id: str | None = None,
    after: After = (),
    **policy: Unpack[PolicyOptions],
) -> DagMember:
    """Return a member for `Workflow.dag`.

    Args:
        item: a processor, or a workflow.
        id: its id; None: the id of the processor or workflow.
        after: the ids of the members that it comes after; as a mapping, with the condition of each edge.
        policy: as in `Workflow.then`.
    """
    own = id or (item.name if isinstance(item, Workflow) else None)
    node = _node(item, policy_of(policy), id)
    return DagMember(own or claims_of(processor_of(item)).id, node, edges_of(after))


def _node(item: object, policy: Policy, id: str | None = None) -> Node:
    if id and not is_name(id):
        raise UsageError(f"an id must be a non-empty str without '/', not {id!r}")
    if isinstance(item, Workflow):
        return Sequence(item.root.nodes, id or item.name, policy)
    step = Step(processor_of(item), policy, id or "")
    _ = step.claims  # checks what the processor declares
    return step


def _arm(arm: Layer, number: int) -> Arm:
    if not (isinstance(arm, tuple) and len(arm) == len(("condition", "item")) and callable(arm[0])):
        raise UsageError(f"arm {number} of branch() must be a pair of a condition and a processor or workflow")
    condition, item = arm
    return Arm(condition, _node(item, DEFAULT))


PROCESSOR_LISTS: tuple[ProcessorList, ...] = get_args(ProcessorList)


def stages_of(processors: ProcessorList) -> tuple[str, ...]:
    """Return the stages that a processor list serves, in the order of a run."""
    return tuple(name for name, stage in STAGES.items() if stage.processor_list == processors)


def plans_of_lists(name: str, lists: Mapping[ProcessorList, Iterable[Item]]) -> Plans:
    """Return the plans of a run in which the items of each processor list serve the list's stages, in the order given.

    Raises:
        OptionError: an item is neither a processor nor a workflow, stands twice in one list, or has no stage that its
            list serves.
        WorkflowError: the items together have problems; all of them at once.
    """
    plans = _unchecked_plans(name, lists)
    _ = plans.resolved  # raises where there are problems
    return plans


def check_lists(name: str, lists: Mapping[ProcessorList, Iterable[Item]]) -> None:
    """Check processor lists to which further items will be added: those may provide facts that are missing now.

    Raises:
        OptionError, WorkflowError: as in `plans_of_lists`.
    """
    plans = _unchecked_plans(name, lists)
    found = problems(plans.root, None, plans.orders)
    lacking = set(unmet_facts(resolve(plans.root), plans.orders)) if found else set[str]()
    if lacking.issuperset(found):
        return
    raise WorkflowError(name, [problem for problem in found if problem not in lacking])


def _unchecked_plans(name: str, lists: Mapping[ProcessorList, Iterable[Item]]) -> Plans:
    items: list[Item] = []
    nodes: list[Node] = []
    orders: dict[str, tuple[int, ...]] = {}
    for processors in PROCESSOR_LISTS:
        order: list[int] = []
        for place, item in enumerate(lists.get(processors, ())):
            index = next((index for index, known in enumerate(items) if known is item), len(items))
            if index == len(items):
                nodes.append(_list_node(name, f"{processors}_processors[{place}]", item))
                items.append(item)
            _check_serves(name, processors, nodes[index])
            if index in order:
                raise OptionError(name, f"{processors}_processors", _node_name(nodes[index]), "each item once")
            order.append(index)
        orders[processors] = tuple(order)
    return Plans(name, Sequence(tuple(nodes)), orders)


def _list_node(name: str, place: str, item: Item) -> Node:
    try:
        return Workflow(name).then(item).root.nodes[0]
    except PenstockError as error:
        raise OptionError(name, place, item, f"a processor or a workflow: {error}") from error


def _check_serves(name: str, processors: ProcessorList, node: Node) -> None:
    """Refuse an item with no stage that the list serves: it would never be called."""
    serves = stages_of(processors)
    has = {stage for step in steps_of(node) for stage in step.claims.hooks}
    if has and not has.intersection(serves):
        elsewhere = sorted({STAGES[stage].processor_list for stage in has})
        cure = " or ".join(f"{other}_processors=" for other in elsewhere)
        allowed = f"what has one of {', '.join(serves)}; it has {', '.join(sorted(has))}: place it in {cure}"
        raise OptionError(name, f"{processors}_processors", _node_name(node), f"{allowed}, or in processors=")


def _node_name(node: Node) -> str:
    if isinstance(node, Sequence):
        return node.name
    return next((step.id or step.claims.id for step in steps_of(node)), "")
