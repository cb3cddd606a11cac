"""Turn the steps of a policy file into the nodes of a graph, each with the place that it came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.builder import is_name, merge_policy, numbered
from penstock.engine.graph.nodes import (
    DEFAULT,
    Arm,
    Branch,
    Dag,
    DagEdge,
    DagMember,
    Parallel,
    Policy,
    Sequence,
    Step,
    steps_of,
)
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.values.errors import PenstockError
from penstock.engine.workflow import Workflow
from penstock.workflows.policies.conditions import NAMES, PolicyCondition
from penstock.workflows.policies.expressions import ExpressionError, FactNames, unknown_name
from penstock.workflows.policies.fields import list_of, mapping_of, seconds_of, text_of, whole_of, word_of
from penstock.workflows.policies.making import likely_made, made_of, takes_id
from penstock.workflows.policies.problems import StopReadingError, suggestion
from penstock.workflows.policies.registry import condition_of
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode, plain_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.graph.nodes import Condition, Node
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.context import InputContext
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value
    from penstock.workflows.policies.problems import FilePlace, Problems
    from penstock.workflows.policies.yaml_nodes import PolicyNode

MOST_STEPS = 1_000
"""How many steps and conditions a file may have, with those that it includes and uses."""

_POLICY = ("timeout", "on_error", "mode", "overlap", "offload", "retries", "retry_delay")
_KINDS = ("use", "steps", "parallel", "branch", "dag")
_KEYS = {
    "use": ("use", "id", "with", *_POLICY),
    "steps": ("steps", "id", *_POLICY),
    "parallel": ("parallel", "merge", *_POLICY),
    "branch": ("branch", "match", "merge", "on_error"),
    "dag": ("dag", "merge"),
}
"""The keys beside each kind of step."""


class _Unread(Processor[None]):
    """Stands in for a step that cannot be read. It never runs."""

    role = "observer"

    def process_input(self, ctx: InputContext[None]) -> None:
        """Do nothing."""


@dataclass
class StepReader:
    """Reads steps. Lives as long as one file is read.

    Attributes:
        problems: takes the faults.
        nested: returns the workflow of another file, for ``use: ./other.yaml``; None if it cannot be read.
        steps_left: counts the steps and conditions of all files that are read together; it ends at the most.
        facts: the facts that the steps read so far put.
        places: for each node of the graph, in the order of `walk`, where it stands.
    """

    problems: Problems
    nested: Callable[[ScalarNode], Workflow | None]
    steps_left: Iterator[int]
    facts: FactNames = field(default_factory=FactNames)
    places: dict[int, FilePlace] = field(default_factory=dict[int, "FilePlace"])
    unknown_ids: bool = False
    """Whether a step could not be read whose ids nobody knows."""
    _kept: list[Node] = field(default_factory=list["Node"])
    _lost: bool = False  # whether a step could not be read

    def steps(self, node: PolicyNode | None, what: str = "steps") -> tuple[Node, ...]:
        """Return the nodes of a list of steps; those that cannot be read are left out, and told."""
        made = [self.step(item) for item in list_of(node, what, self.problems)]
        return tuple(one for one in made if one is not None)

    def step(self, node: PolicyNode) -> Node | None:
        """Return the node of one step; None if it cannot be read."""
        self._count(node)
        if isinstance(node, ScalarNode) and node.text.strip():
            node = MappingNode(node.place, {"use": (node, node)})  # `- pii-detector`
        kind = self._kind(node)
        if kind is None:
            self._lost = True
            return self._stand_in(node)
        entry = mapping_of(node, f"a step with {kind}:", _KEYS[kind], self.problems)
        made = None if entry is None else getattr(self, f"_{kind}")(entry)
        self._lost = self._lost or (made is None and kind != "use")
        return self._stand_in(entry or node) if made is None else self._placed(made, entry or node)

    def _stand_in(self, node: PolicyNode) -> Node | None:
        """Return a step with the id of one that cannot be read, so that the ids of the graph are checked all the same.

        None if it has no id, and nothing says which one it would have.
        """
        if not isinstance(node, MappingNode):
            return None
        id, use = node.get("id"), node.get("use")
        name = id.text if isinstance(id, ScalarNode) else ""
        likely = likely_made(use.text, name or None) if isinstance(use, ScalarNode) else None
        if likely is not None:
            return self._placed(Step(likely, id="" if name == claims_of(likely).id else name), node)
        if isinstance(use, ScalarNode) and not name:
            self.unknown_ids = True  # of a preset or another file, which may have any
            return None
        return self._placed(Step(_Unread(), id=name), node) if is_name(name) else None

    def _count(self, node: PolicyNode) -> None:
        """Count a step or a condition.

        Raises:
            StopReadingError: there are too many.
        """
        if next(self.steps_left, None) is None:
            self.problems.add(node.place, f"there are more than {MOST_STEPS:,} steps and conditions; make it smaller")
            raise StopReadingError

    def _placed(self, made: Node, node: PolicyNode) -> Node:
        self.places[id(made)] = node.place
        self._kept.append(made)  # a place is found by the identity of its node
        return made

    def _kind(self, node: PolicyNode) -> str | None:
        if not isinstance(node, MappingNode):
            self.problems.add(
                node.place, "a step must be a mapping that begins with `use:`, or the name of a processor"
            )
            return None
        kinds = [kind for kind in _KINDS if kind in node.entries]
        if len(kinds) == 1:
            return kinds[0]
        if kinds:
            where = node.key_place(kinds[1])
            self.problems.add(where, f"{kinds[0]}: and {kinds[1]}: cannot stand in one step; begin another with `- `")
            return None
        self.problems.add(node.place, f"a step needs one of {', '.join(f'{kind}:' for kind in _KINDS)}")
        return None

    # Each kind of step

    def _use(self, entry: MappingNode) -> Node | None:
        item = self._item(entry)
        id = self._id(entry)
        policy = self._policy(entry)
        if item is None:
            self._add_likely_facts(entry.get("use"), id)
            return None
        if isinstance(item, Workflow):
            made: Node = Sequence(item.root.nodes, id or item.name, policy)
            for _ in steps_of(made):
                self._count(entry)
        else:
            made = Step(item, policy, "" if self._is_of_processor(entry) else id or "")
        return self._with_facts(made, entry.place)

    def _add_likely_facts(self, use: PolicyNode | None, id: str | None) -> None:
        """Add the facts that a step with a fault would put, so that conditions behind it are checked, too."""
        likely = likely_made(use.text, id) if isinstance(use, ScalarNode) else None
        if likely is None:
            self._lost = True
        else:
            self.facts = self.facts.with_keys(_provided(Step(likely)))

    def _is_of_processor(self, entry: MappingNode) -> bool:
        """Return whether the id of a step was given to its processor, which takes one, so that the step has none."""
        use, options = cast("ScalarNode", entry.get("use")), entry.get("with")
        own = isinstance(options, MappingNode) and "id" in options.entries
        return not own and takes_id(use.text)

    def _with_facts(self, made: Node, place: FilePlace) -> Node | None:
        try:
            self.facts = self.facts.with_keys(_provided(made))
        except PenstockError as error:
            self.problems.add(place, str(error))
            return None
        return made

    def _item(self, entry: MappingNode) -> AnyProcessor | Workflow | None:
        use = entry.get("use")
        if not isinstance(use, ScalarNode) or not use.text.strip():
            self.problems.add(entry.key_place("use"), "use: takes a name: of a processor, a preset or another file")
            return None
        if use.text.startswith((".", "/")) or use.text.endswith((".yaml", ".yml", ".json")):
            if "with" in entry.entries:
                self.problems.add(entry.key_place("with"), "with: cannot change another file; use its profiles:")
            return self.nested(use)
        id = entry.get("id")
        return made_of(use, entry.get("with"), id if isinstance(id, ScalarNode) else None, self.problems)

    def _steps(self, entry: MappingNode) -> Node | None:
        id = self._id(entry)
        if id is None and "id" not in entry.entries:
            self.problems.add(entry.place, "a group of steps needs an id:, which is its name in the graph")
        nodes = self.steps(entry.get("steps"))
        return Sequence(nodes, id or "group", self._policy(entry))

    def _parallel(self, entry: MappingNode) -> Node | None:
        policy = self._policy(entry)
        given: list[Node] = []
        before = self.facts
        for item in list_of(entry.get("parallel"), "parallel", self.problems):
            self.facts = before  # steps beside each other do not see each other's facts
            node = self.step(item)
            if node is not None:
                given.append(self._policed(node, policy))
        self.facts = before.with_keys(key for node in given for key in _provided(node))
        if not given:
            self.problems.add(entry.key_place("parallel"), "parallel: needs at least one step")
            return None
        return Parallel(tuple(given), self._merge(entry))

    def _policed(self, node: Node, policy: Policy) -> Node:
        """Return a node with the policy of its group, if it has none of its own."""
        if policy == DEFAULT or not isinstance(node, (Step, Sequence)) or node.policy != DEFAULT:
            return node
        return self._placed(replace(node, policy=policy), ScalarNode(self.places[id(node)], ""))

    def _branch(self, entry: MappingNode) -> Node | None:
        arms: list[Arm] = []
        otherwise: Node | None = None
        before = self.facts
        items = list_of(entry.get("branch"), "branch", self.problems)
        for number, item in enumerate(items):
            self.facts = before
            arm = mapping_of(item, "an arm of a branch", ("when", "steps", "id"), self.problems)
            if arm is None:
                continue
            condition = None if "when" not in arm.entries else self._condition(cast("PolicyNode", arm.get("when")))
            node = self._arm_node(arm, number)
            if "when" not in arm.entries:
                if number + 1 < len(items):
                    self.problems.add(arm.place, "only the last arm of a branch may stand without when:; add one")
                otherwise = node
                continue
            if condition is not None and node is not None:
                arms.append(Arm(condition, node))
        nodes = [arm.node for arm in arms] + ([otherwise] if otherwise else [])
        self.facts = before.with_keys(key for node in nodes for key in _provided(node))
        if not items:
            self.problems.add(entry.key_place("branch"), "branch: needs at least one arm, with when: and steps:")
        match = word_of(entry.get("match"), "match", ("first", "all"), self.problems) or "first"
        # A condition that fails must not let a text pass unread, so the default here is to block.
        on_error = word_of(entry.get("on_error"), "on_error", ("block", "raise"), self.problems) or "block"
        if not arms:
            return None
        return Branch(tuple(arms), otherwise, cast("Value", match), self._merge(entry), cast("Value", on_error))

    def _arm_node(self, arm: MappingNode, number: int) -> Node | None:
        nodes = self.steps(arm.get("steps"))
        id = self._id(arm)
        if "steps" not in arm.entries:
            self.problems.add(arm.place, "an arm of a branch needs steps:")
        if not nodes:
            return None
        if len(nodes) == 1 and id is None and isinstance(nodes[0], (Step, Sequence)):
            return nodes[0]
        return self._placed(Sequence(nodes, id or f"arm-{number + 1}"), arm)

    def _dag(self, entry: MappingNode) -> Node | None:
        members: list[DagMember] = []
        given: list[tuple[PolicyNode | None, tuple[DagEdge, ...]]] = []
        known = self.unknown_ids
        for item in list_of(entry.get("dag"), "dag", self.problems):
            after, rest = self._without_after(item)
            edges = self._edges(after)
            given.append((after, edges))
            node = self.step(rest)
            if isinstance(node, (Step, Sequence)):
                id = node.id or node.claims.id if isinstance(node, Step) else node.name
                members.append(DagMember(id, node, edges))
            elif node is not None:
                self.problems.add(item.place, "a member of a dag is a step with use:, or a group with steps: and id:")
        if not members:
            self.problems.add(entry.key_place("dag"), "dag: needs at least one step")
            return None
        named = numbered(tuple(members))
        ids = [member.id for member in named]
        if self.unknown_ids is known:
            self._check_after(given, ids)
        kept = (replace(one, after=tuple(edge for edge in one.after if edge.source in ids)) for one in named)
        return Dag(tuple(kept), self._merge(entry))

    def _check_after(self, given: list[tuple[PolicyNode | None, tuple[DagEdge, ...]]], ids: list[str]) -> None:
        """Tell the names behind ``after:`` that no member of the dag has."""
        for after, edges in given:
            nodes = (
                {one.text: one for one in after.items if isinstance(one, ScalarNode)}
                if isinstance(after, ListNode)
                else {}
            )
            for edge in edges:
                if edge.source not in ids:
                    own = (
                        after.entries[edge.source][0]
                        if isinstance(after, MappingNode)
                        else nodes.get(edge.source, after)
                    )
                    told = f"after: no member of the dag has the id {edge.source}; {suggestion(edge.source, ids)}"
                    self.problems.add(cast("PolicyNode", own).place, told)

    def _without_after(self, item: PolicyNode) -> tuple[PolicyNode | None, PolicyNode]:
        if not isinstance(item, MappingNode):
            return None, item
        kept = {key: value for key, value in item.entries.items() if key != "after"}
        return item.get("after"), replace(item, entries=kept)

    def _edges(self, after: PolicyNode | None) -> tuple[DagEdge, ...]:
        """Return the edges of ``after:``: an id, a list of ids, or a mapping of ids to conditions."""
        if isinstance(after, MappingNode):
            return tuple(DagEdge(source, self._when(value)) for source, (_, value) in after.entries.items())
        ids = after.items if isinstance(after, ListNode) else () if after is None else (after,)
        texts = [text_of(one, "after", self.problems) for one in ids]
        return tuple(DagEdge(one) for one in texts if one is not None)

    def _when(self, node: PolicyNode) -> Condition | None:
        return None if isinstance(node, ScalarNode) and node.value is None else self._condition(node)

    # What stands beside

    def _id(self, entry: MappingNode) -> str | None:
        id = text_of(entry.get("id"), "id", self.problems)
        if id is not None and not is_name(id):
            self.problems.add(entry.key_place("id"), "an id must be a text without '/'")
            return None
        return id

    def _policy(self, entry: MappingNode) -> Policy:
        """Return how a step runs. Of a value that is wrong, the default is taken, and the fault told."""
        told = self.problems
        given: dict[str, Value] = {
            "timeout": seconds_of(entry.get("timeout"), "timeout", told),
            "on_error": self._on_error(entry.get("on_error")),
            "mode": word_of(entry.get("mode"), "mode", ("enforce", "shadow"), told) or "enforce",
            "overlap": word_of(entry.get("overlap"), "overlap", ("model",), told),
            "offload": word_of(entry.get("offload"), "offload", ("thread",), told),
            "retries": whole_of(entry.get("retries"), "retries", told) or 0,
            "retry_delay": seconds_of(entry.get("retry_delay"), "retry_delay", told),
        }
        if given["retry_delay"] is not None and not given["retries"]:
            told.add(entry.key_place("retry_delay"), "retry_delay: needs retries: of 1 or more beside it")
            given["retry_delay"] = None
        made = Policy(**given)
        return DEFAULT if made == DEFAULT else made

    def _on_error(self, node: PolicyNode | None) -> Value:
        """Return ``block``, ``raise``, ``allow``, or the processor that runs in place of a failed step."""
        if not isinstance(node, MappingNode):
            return word_of(node, "on_error", ("block", "raise", "allow"), self.problems)
        entry = mapping_of(node, "on_error", ("use", "with"), self.problems)
        item = None if entry is None else self._item(entry)
        if isinstance(item, Workflow):
            self.problems.add(node.place, "a fallback must be one processor; a preset or another file has several")
            return None
        return item

    def _merge(self, entry: MappingNode) -> MergePolicy:
        """Return how conflicts are resolved: ``first``, ``last``, ``sequence``, or ``pick: id``."""
        node = entry.get("merge")
        if node is None:
            return None
        if isinstance(node, MappingNode) and list(node.entries) == ["pick"]:
            picked = text_of(node.get("pick"), "pick", self.problems)
            return None if picked is None else Pick(picked)
        allowed = ("first", "last") if "dag" in entry.entries else ("first", "last", "sequence")
        if isinstance(node, ScalarNode) and node.text in allowed:
            return merge_policy(cast("MergePolicy", node.text))
        self.problems.add(node.place, f"merge must be one of {', '.join(allowed)}, or {{pick: the id of a step}}")
        return None

    def _condition(self, node: PolicyNode) -> Condition | None:
        """Return the condition of ``when:``: an expression, or ``use:`` and ``with:`` of a registered condition."""
        if isinstance(node, MappingNode):
            entry = mapping_of(node, "when", ("use", "with"), self.problems)
            name = None if entry is None else text_of(entry.get("use"), "use", self.problems)
            options = None if entry is None else entry.get("with")
            try:
                return None if name is None else condition_of(name, {} if options is None else plain_data(options))
            except (LookupError, TypeError, ValueError) as error:
                self.problems.add(node.place, str(error.args[0] if error.args else error))
                return None
        source = text_of(node, "when", self.problems)
        return None if source is None else self._expression(cast("ScalarNode", node), source)

    def _expression(self, node: ScalarNode, source: str) -> PolicyCondition | None:
        self._count(node)
        try:
            return PolicyCondition(source, self.facts.of_source(source))
        except ExpressionError as error:
            told = error.problem
            if error.unknown is not None:
                if self._lost and error.unknown.startswith("facts."):
                    return None  # a step before it that cannot be read may put the fact
                told = unknown_name(error.unknown, [name for name, _ in NAMES] + self.facts.names())
            self.problems.add(_within(node, error), f"when: {told}")
        except PenstockError as error:
            self.problems.add(node.place, str(error))
        return None


def _provided(node: Node) -> Iterator[AnyKey]:
    """Yield the keys of the facts that the steps of a node put."""
    for step in steps_of(node):
        yield from step.claims.provides


def _within(node: ScalarNode, error: ExpressionError) -> FilePlace:
    """Return the place of a fault in an expression of one line, unquoted; else that of its beginning."""
    if error.line > 1 or node.quoted:
        return node.place
    return replace(node.place, column=node.place.column + error.column - 1)
