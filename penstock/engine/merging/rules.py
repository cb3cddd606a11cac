"""How the changes of parallel steps become one; this module knows changes by place, no step runs here.

Deletions win; equal changes are one; edits to one text merge span by span; everything else that differs is a conflict,
which a policy may settle: ``first`` or ``last`` in declared order, `pick`, or a function. No policy but a function lets
a redaction go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from penstock.engine.merging.changes import TEXT_FIELDS, Added, Delta, Gone, Place, Put, as_tree, flatten, rebuild
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, is_mapping
from penstock.engine.values.messages import Message
from penstock.engine.values.texts import KeyText

if TYPE_CHECKING:
    from penstock.engine.merging.changes import Tree, Twig
    from penstock.engine.processor.payload import Payload
    from penstock.engine.values.frozen import Value, Values


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that parallel steps changed differently.

    Attributes:
        place: where, as a path from the payload down.
        base: what stood there before; None if nothing did.
        values: what each branch made of it, by the branch's id, in declared order; None for removed.
    """

    place: Place
    base: Value
    values: Values


@dataclass(frozen=True, slots=True)
class Pick:
    """Settles conflicts in favour of one branch; made by `pick`."""

    branch: str


Resolver: TypeAlias = Callable[[Conflict], object]
MergePolicy: TypeAlias = 'Literal["first", "last", "sequence"] | Pick | Resolver | None'


ACTIVE_TOOLS: Place = ("fields", "active_tools")
"""A restriction of what was unrestricted; two of them leave what both allow."""


def pick(branch: str) -> Pick:
    """Return the merge policy that settles every conflict in favour of the branch with that id."""
    return Pick(branch)


class Branch(NamedTuple):
    """What one branch did: its id, and its changes since the fork."""

    id: str
    delta: Delta


FIRST_WINS: frozenset[Place] = frozenset({("fields", "answer"), ("fields", "retry")})
"""What only one step can give: the first in declared order wins, as it does in a sequence."""


class Unsettled(NamedTuple):
    """A conflict that no policy settled: where, and the steps that disagree."""

    place: Place
    steps: tuple[str, ...]


class Merged(NamedTuple):
    """The changes of all branches as one, and what could not be settled."""

    delta: Delta
    unsettled: tuple[Unsettled, ...]


def merge(base: Payload, branches: Sequence[Branch], policy: MergePolicy = None) -> Merged:
    """Merge what the branches changed since ``base``; their order is the declared one, whatever finished first."""
    filled = [branch for branch in branches if branch.delta]
    if len(filled) == 1:
        return Merged(filled[0].delta, ())
    work = _Merge(base, policy)
    if all(type(change) is tuple for branch in filled for change in branch.delta.values()):
        return Merged(work.flat(filled), tuple(work.unsettled))  # texts only: no place lies within another
    tree: Tree = work.nodes((), [(branch.id, as_tree(branch.delta)) for branch in filled]) if filled else {}
    return Merged(flatten(tree), tuple(work.unsettled))


Alternatives: TypeAlias = "list[tuple[str, Twig]]"


class _Merge:
    """One merge under way: what it is over, how conflicts are settled, and those that were not."""

    def __init__(self, base: Payload, policy: MergePolicy) -> None:
        self.base = base
        self.policy = policy
        self.unsettled: list[Unsettled] = []

    def flat(self, branches: Sequence[Branch]) -> Delta:
        """Return the changes where all are edits of texts, place by place."""
        found: dict[Place, Alternatives] = {}
        for branch in branches:
            for place, edits in branch.delta.items():
                found.setdefault(place, []).append((branch.id, edits))
        return {place: edits[0][1] if len(edits) == 1 else self._texts(place, edits) for place, edits in found.items()}

    def nodes(self, place: Place, found: Alternatives) -> Twig:
        """Return what the alternatives at one place become: a change, or a mapping of them."""
        values = [node for _, node in found]
        if len(found) == 1 or place in FIRST_WINS:
            return values[0]
        if len(place) > 1:
            gone = next((node for node in values if isinstance(node, Gone)), None)
            if gone is not None:
                return gone
        if all(isinstance(node, dict) for node in values):
            return self._mappings(place, found)
        if all(type(node) is tuple for node in values):
            return self._texts(place, found)
        if _all_equal(values):
            return values[0]
        if place == ACTIVE_TOOLS and all(isinstance(node, Put) and node.value is not None for node in values):
            return _narrowed(values)
        return self._settle(place, found)

    def _mappings(self, place: Place, found: Alternatives) -> Tree:
        keys = dict.fromkeys(key for _, node in found for key in node)
        return {
            key: self.nodes((*place, key), [(branch, node[key]) for branch, node in found if key in node])
            for key in keys
        }

    def _texts(self, place: Place, found: Alternatives) -> Twig:
        merged, conflicts = edit_ops.merge([edits for _, edits in found])
        if not conflicts:
            return merged
        if callable(self.policy):
            return self._settle(place, found)
        settled = list(merged)
        for cluster in conflicts:
            spans = {(edit.start, edit.end, edit.text) for edit in cluster}  # equal edits are one, of all who made it
            mine = [(way, [e for e in edits if (e.start, e.end, e.text) in spans]) for way, edits in found]
            chosen = self._chosen([item for item in mine if item[1]])
            if chosen is None:
                steps = tuple(dict.fromkeys(edit.step for _, edits in mine for edit in edits))
                self.unsettled.append(Unsettled(place, steps))
            else:
                settled.extend(_kept(cluster, chosen[1]))
        return edit_ops.in_order(settled)

    def _settle(self, place: Place, found: Alternatives) -> Twig:
        if callable(self.policy):
            return self._asked(place, found, self.policy)
        chosen = self._chosen(found)
        if chosen is not None and not any(_redacts(node) for branch, node in found if branch != chosen[0]):
            return chosen[1]
        self.unsettled.append(
            Unsettled(place, tuple(dict.fromkeys(step for _, node in found for step in _steps(node))))
        )
        return found[0][1]

    def _chosen(self, found: Alternatives) -> tuple[str, Twig] | None:
        if self.policy == "first":
            return found[0]
        if self.policy == "last":
            return found[-1]
        if isinstance(self.policy, Pick):
            wanted = self.policy.branch
            return next((item for item in found if item[0] == wanted), None)
        return None

    def _asked(self, place: Place, found: Alternatives, resolver: Resolver) -> Twig:
        before = value_at(self.base, place)
        values = {branch: _made_of(self.base, place, before, node) for branch, node in found}
        value = freeze(resolver(Conflict(place, before, values)))
        added = next((node for _, node in found if isinstance(node, Added)), None)
        if added is not None:
            return _added(added, value)
        if isinstance(before, str) and isinstance(value, str) and type(found[0][1]) is tuple:
            return edit_ops.difference(before, value, "merge")
        return Put(value, "merge")


def _added(added: Added, value: Value) -> Twig:
    """Return what becomes of a message that branches added under one id: the one that a merge function gave, or none.

    Raises:
        UsageError: it gave something else.
    """
    if value is None:
        return Gone("merge")
    if not isinstance(value, Message):
        raise UsageError("a merge function returns one of the added messages, another, or None for none of them")
    return replace(added, entry=added.entry._replace(message=value), step="merge")


def _all_equal(values: list[Twig]) -> bool:
    first = values[0]
    if isinstance(first, Put):
        return all(isinstance(node, Put) and node.value == first.value for node in values)
    if isinstance(first, Added):
        return all(isinstance(node, Added) and node.entry == first.entry for node in values)
    return False


def _narrowed(values: list[Twig]) -> Put:
    """Return the tools that every branch left active, where all were before."""
    allowed = set(values[0].value).intersection(*(node.value for node in values[1:]))
    return Put(tuple(name for name in values[0].value if name in allowed), values[0].step)


def _kept(cluster: edit_ops.Edits, chosen: edit_ops.Edits) -> list[edit_ops.Edit]:
    """Return what a conflict becomes in favour of one branch: its edits, but no redaction of another is let go."""
    spans = {(edit.start, edit.end, edit.text) for edit in chosen}
    kept = [edit for edit in cluster if (edit.start, edit.end, edit.text) in spans]
    if all(edit in kept for edit in cluster if edit.hidden):
        return kept
    return [edit_ops.cover(cluster)]


def _redacts(node: Twig) -> bool:
    """Tell whether a redaction is among the changes of a node."""
    if is_mapping(node):
        return any(_redacts(below) for below in node.values())
    edits: Any = node
    return type(node) is tuple and any(edit.hidden for edit in edits)


def _steps(node: Twig) -> Iterable[str]:
    """Yield the steps that made the changes of a node."""
    if isinstance(node, (Put, Added, Gone)):
        yield node.step
    elif is_mapping(node):
        for below in node.values():
            yield from _steps(below)
    else:
        yield from (edit.step for edit in node)


def _made_of(base: Payload, place: Place, before: Value, node: Put | Added | edit_ops.Edits | Tree) -> Value:
    """Return what a branch made of what stood at a place; the whole, also of one that only changed what lies within."""
    if isinstance(node, Put):
        return node.value
    if isinstance(node, Added):
        return node.entry.message
    if isinstance(node, tuple):
        return edit_ops.apply(before, node)
    return value_at(rebuild(base, flatten(node, place)), place)


def value_at(base: Payload, place: Place) -> Value:
    """Return what stood at a place before the fork, or None; where keys are edited, the key."""
    if isinstance(place[-1], KeyText):
        return place[-1].key
    if place[0] == "facts":
        return base.facts.get(place[1])
    value: Value = base.fields if place[0] == "fields" else None
    rest = place[1:]
    if place[0] == "messages":
        value, rest = base.message_list.get(place[1]), place[2:]
    for key in rest:
        try:
            value = getattr(value, key) if isinstance(key, str) and not is_mapping(value) else value[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
    return value


def describe_place(place: Place) -> str:
    """Return a place in words for an error; never a text, nor a key that may be one."""
    head = place[0] if place else "the payload"
    if head == "messages":
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place[2:5])
        return f"message {place[1]!r}{path}"
    if head == "facts":
        return f"the fact {place[1]!r}"
    if head == "fields":
        return ".".join(str(key) for key in (place[1:2] if place[1] in TEXT_FIELDS else place[1:]))
    return "the order of the messages" if head == "order" else str(head)
