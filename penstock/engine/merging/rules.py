"""The rules by which the changes of parallel branches are merged into one.

A deletion wins. Equal changes count once. Edits of one text merge span by span, by the rules of
`penstock.engine.values.edits.merge`. Any other difference is a conflict, which the merge policy may resolve: ``first``
or ``last`` in declared order, `pick`, or a function. Of the policies, only a function may drop a redaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from penstock.engine.merging.changes import MOVED, TEXT_FIELDS, as_tree, credited, flatten, path_of, rebuild, value_at
from penstock.engine.merging.diff import diff
from penstock.engine.processor.payload import NO_CHANGES, Added, Changes, Gone, PayloadPath, Put
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping
from penstock.engine.values.messages import Message
from penstock.engine.values.texts import editable_text, replaced

if TYPE_CHECKING:
    from penstock.engine.merging.changes import ChangeNode, Tree
    from penstock.engine.processor.payload import Payload
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.texts import TextPlace


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something that parallel branches changed differently; the argument of a merge function.

    Attributes:
        place: where it stands, as a path from the payload down: ``("messages", id, "parts", 0, "text")``.
        base: the value before the branches; None if there was none.
        values: the value that each branch left, by the branch's id, in declared order; None where it was removed.
    """

    place: PayloadPath
    base: Value
    values: Values


@dataclass(frozen=True, slots=True)
class Pick:
    """The merge policy that resolves conflicts in favour of one branch; made by `pick`.

    Attributes:
        branch: the id of the branch.
    """

    branch: str


Resolver: TypeAlias = Callable[[Conflict], object]
MergePolicy: TypeAlias = 'Literal["first", "last", "sequence"] | Pick | Resolver | None'


ACTIVE_TOOLS: PayloadPath = ("fields", "active_tools")
"""Where every tool was active and two branches restrict them, the tools that both allow stay active."""


def pick(branch: str) -> Pick:
    """Return the merge policy that resolves every conflict in favour of the branch with that id."""
    return Pick(branch)


class BranchChanges(NamedTuple):
    """The changes of one branch.

    Attributes:
        id: the id by which a policy refers to the branch.
        changes: its changes since the fork; complete.
    """

    id: str
    changes: Changes


FIRST_WINS: frozenset[PayloadPath] = frozenset({("fields", name) for name in ("answer", "question", "retry")})
"""Fields that one step alone can set: the first branch in declared order wins, as the first step of a sequence does."""


class Unresolved(NamedTuple):
    """A conflict that no policy resolved.

    Attributes:
        path: where it stands.
        steps: the paths of the steps or branches that disagree.
    """

    path: PayloadPath
    steps: tuple[str, ...]


class Merged(NamedTuple):
    """The result of a merge.

    Attributes:
        changes: the changes of all branches as one.
        unresolved: the conflicts that remain; the changes are of use only where there are none.
    """

    changes: Changes
    unresolved: tuple[Unresolved, ...]


def merge(base: Payload, branches: Sequence[BranchChanges], policy: MergePolicy = None) -> Merged:
    """Merge what parallel branches changed.

    Args:
        base: the payload before the branches.
        branches: the branches in declared order, which the result depends on, and not on which finished first.
        policy: how to resolve conflicts; None leaves them unresolved.
    """
    filled = [branch for branch in branches if branch.changes.texts or branch.changes.others]
    if not filled:
        return Merged(NO_CHANGES, ())
    if len(filled) == 1:
        return Merged(filled[0].changes, ())
    work = _Merge(base, policy)
    changes = work.flat(filled)
    if changes is None:
        changes = flatten(work.nodes((), [(branch.id, as_tree(branch.changes)) for branch in filled]))
    return Merged(changes, tuple(work.unresolved))


Alternatives: TypeAlias = "list[tuple[str, ChangeNode]]"


class _Merge:
    """One call of `merge`: the payload before the branches, the policy, and the conflicts it could not resolve."""

    def __init__(self, base: Payload, policy: MergePolicy) -> None:
        self.base = base
        self.policy = policy
        self.unresolved: list[Unresolved] = []

    def flat(self, branches: Sequence[BranchChanges]) -> Changes | None:
        """Merge branches that only edited texts and put facts, one by one: no tree is needed. None if they did more."""
        found: dict[TextPlace, Alternatives] = {}
        facts: dict[PayloadPath, Alternatives] = {}
        for name, changes in branches:
            for place, edits in changes.texts.items():
                found.setdefault(place, []).append((name, edits))
            for path, change in changes.others.items():
                if path[0] != "facts":
                    return None
                facts.setdefault(path, []).append((name, change))
        others: dict[PayloadPath, Put | Added | Gone] = {
            path: alternatives[0][1] if len(alternatives) == 1 else self.nodes(path, alternatives)
            for path, alternatives in facts.items()
        }
        texts: dict[TextPlace, edit_ops.Edits] = {}
        for place, alternatives in found.items():
            one = alternatives[0][1] if len(alternatives) == 1 else self._texts(path_of(place), alternatives)
            if isinstance(one, tuple):
                texts[place] = one
            else:  # a merge function gave something else for a text
                others[path_of(place)] = one
        return Changes(texts, others)

    def nodes(self, place: PayloadPath, found: Alternatives) -> ChangeNode:
        """Merge the nodes that branches have at one path: return a change, or a mapping of nodes."""
        values = [node for _, node in found]
        if len(found) == 1 or place in FIRST_WINS:
            return values[0]
        if len(place) > 1:
            gone = next((node for node in values if isinstance(node, Gone)), None)
            if gone is not None:
                return Gone(gone.step, any(map(_redacts, values)))
        if all(isinstance(node, dict) for node in values):
            if place[2:] == MOVED[:1] and _may_show_hidden(values):
                return self._resolve(place, found)
            return self._mappings(place, found)
        if all(type(node) is tuple for node in values):
            return self._texts(place, found)
        if _all_equal(values):
            return next(filter(_redacts, values), values[0])
        if place == ACTIVE_TOOLS and all(isinstance(node, Put) and node.value is not None for node in values):
            return _narrowed(values)
        return self._resolve(place, found)

    def _mappings(self, place: PayloadPath, found: Alternatives) -> Tree:
        keys = dict.fromkeys(key for _, node in found for key in node)
        return {
            key: self.nodes((*place, key), [(branch, node[key]) for branch, node in found if key in node])
            for key in keys
        }

    def _texts(self, place: PayloadPath, found: Alternatives) -> ChangeNode:
        merged, conflicts = edit_ops.merge([edits for _, edits in found])
        if not conflicts:
            return merged
        if callable(self.policy):
            return self._resolve(place, found)
        resolved = list(merged)
        for cluster in conflicts:
            mine = [(way, _among(edits, cluster)) for way, edits in found]  # equal edits are one, of all who made it
            chosen = self._chosen([item for item in mine if item[1]])
            if chosen is None or _may_show_another(cluster, [edits for _, edits in mine]):
                steps = tuple(dict.fromkeys(edit.step for _, edits in mine for edit in edits))
                self.unresolved.append(Unresolved(place, steps))
            else:
                resolved.extend(_chosen_edits(cluster, chosen[1]))
        return edit_ops.in_order(resolved)

    def _resolve(self, place: PayloadPath, found: Alternatives) -> ChangeNode:
        if callable(self.policy):
            return self._ask(place, found, self.policy)
        chosen = self._chosen(found)
        if chosen is not None and not any(_redacts(node) for branch, node in found if branch != chosen[0]):
            return chosen[1]
        steps = dict.fromkeys(step for _, node in found for step in _steps(node))
        self.unresolved.append(Unresolved(place, tuple(steps)))
        return found[0][1]

    def _chosen(self, found: Alternatives) -> tuple[str, ChangeNode] | None:
        if self.policy == "first":
            return found[0]
        if self.policy == "last":
            return found[-1]
        if isinstance(self.policy, Pick):
            wanted = self.policy.branch
            return next((item for item in found if item[0] == wanted), None)
        return None

    def _ask(self, place: PayloadPath, found: Alternatives, resolver: Resolver) -> ChangeNode:
        before = value_at(self.base, place)
        values = {branch: _made_of(self.base, place, before, node) for branch, node in found}
        value = freeze(resolver(Conflict(place, before, values)))
        added = next((node for _, node in found if isinstance(node, Added)), None)
        if added is not None:
            return _added(added, value)
        hides = any(_redacts(node) for _, node in found)
        if isinstance(before, str) and isinstance(value, str) and type(found[0][1]) is tuple:
            return edit_ops.stamp(edit_ops.difference(before, value, "merge"), "merge", hides=hides)
        return self._compared(place, value, hides=hides)

    def _compared(self, place: PayloadPath, value: Value, *, hides: bool) -> ChangeNode:
        """Return the changes of a merge function, found by comparison as the changes of a step are."""
        after = rebuild(self.base, Changes({}, {place: Put(value)}))
        may_move = {(*place[:2], *MOVED): Gone()} if place[2:] == MOVED[:1] else {}
        node: ChangeNode = as_tree(credited(diff(self.base, after, "merge", hides=hides, noted=may_move), "merge"))
        for key in place:
            node = node.get(key, EMPTY)
        return node


def _added(added: Added, value: Value) -> ChangeNode:
    """Return the change for a message that several branches added under one id, as the merge function decided.

    Raises:
        UsageError: it returned something other than a message or None.
    """
    if value is None:
        return Gone("merge")
    if not isinstance(value, Message):
        raise UsageError(
            "messages were added under one id: a merge function returns one Message for them, or None to add none"
        )
    return replace(added, entry=added.entry._replace(message=value), step="merge")


def _all_equal(values: list[ChangeNode]) -> bool:
    first = values[0]
    if isinstance(first, Put):
        return all(isinstance(node, Put) and node.value == first.value for node in values)
    if isinstance(first, Added):
        return all(isinstance(node, Added) and node.entry == first.entry for node in values)
    return False


def _narrowed(values: list[ChangeNode]) -> Put:
    """Return the tools that every branch left active, where every tool was active before."""
    allowed = set(values[0].value).intersection(*(node.value for node in values[1:]))
    return Put(tuple(name for name in values[0].value if name in allowed), values[0].step)


def _chosen_edits(cluster: edit_ops.Edits, chosen: edit_ops.Edits) -> list[edit_ops.Edit]:
    """Resolve a cluster of overlapping edits in favour of one branch.

    Where that would drop what another branch hides, the whole cluster is hidden instead.
    """
    kept = _among(cluster, chosen)
    if all(edit in kept for edit in cluster if edit.hidden):
        return kept
    return [edit_ops.cover(cluster)]


def _may_show_another(cluster: edit_ops.Edits, branches: Sequence[Sequence[edit_ops.Edit]]) -> bool:
    """Return whether several branches hid text there, none by a redaction: the text of one may repeat the rest."""
    hiding = [edit for edit in cluster if edit.hidden]
    if not hiding or any(edit.kind == "redact" for edit in cluster):
        return False
    return not any(_among(hiding, edits) == hiding for edits in branches)


def _among(edits: Sequence[edit_ops.Edit], others: Sequence[edit_ops.Edit]) -> list[edit_ops.Edit]:
    """Return those edits that replace the same text as others, with the same replacement."""
    known = {(edit.start, edit.end, edit.text) for edit in others}
    return [edit for edit in edits if (edit.start, edit.end, edit.text) in known]


def _redacts(node: ChangeNode) -> bool:
    """Tell whether a redaction is among the changes of a node."""
    if isinstance(node, (Put, Added, Gone)):
        return node.hides
    if is_mapping(node):
        return any(_redacts(below) for below in node.values())
    edits: Any = node
    return type(node) is tuple and any(edit.hidden for edit in edits)


def _may_show_hidden(values: list[Tree]) -> bool:
    """Tell whether a branch may have moved a part of a message in which another branch hid text."""
    return any(
        key in moved and _redacts(below)
        for moved in values
        if MOVED[-1] in moved
        for node in values
        if node is not moved
        for key, below in node.items()
    )


def _steps(node: ChangeNode) -> Iterable[str]:
    """Yield the steps that made the changes of a node."""
    if isinstance(node, (Put, Added, Gone)):
        yield node.step
    elif is_mapping(node):
        for key, below in node.items():
            if key != MOVED[-1]:  # which is no change
                yield from _steps(below)
    else:
        yield from (edit.step for edit in node)


def _made_of(base: Payload, place: PayloadPath, before: Value, node: Put | Added | edit_ops.Edits | Tree) -> Value:
    """Return the whole value that a branch left at a path, also where it changed something within only."""
    if isinstance(node, Put):
        return node.value
    if isinstance(node, Added):
        return node.entry.message
    if isinstance(node, tuple):
        return replaced(before, edit_ops.apply(editable_text(before) or "", node))
    return value_at(rebuild(base, flatten(node, place)), place)


def describe_place(place: PayloadPath) -> str:
    """Return a path in words for an error; never a text, nor a key that may be one."""
    head = place[0] if place else "the payload"
    if head == "messages":
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place[2:5])
        return f"message {place[1]!r}{path}"
    if head == "facts":
        return f"the fact {place[1]!r}"
    if head == "fields":
        return ".".join(str(key) for key in (place[1:2] if place[1] in TEXT_FIELDS else place[1:]))
    return "the order of the messages" if head == "order" else str(head)
