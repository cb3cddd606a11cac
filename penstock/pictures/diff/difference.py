"""`WorkflowDiff`: what differs between two workflows, as text, as data and as a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from penstock.engine.processor.processor import one_of
from penstock.pictures.diff.fields import FieldChange
from penstock.pictures.diff.matching import path_of
from penstock.pictures.diff.text import text_of
from penstock.pictures.diff.union import union_of
from penstock.pictures.scene import scene_of

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Sequence
    from penstock.pictures.diff.fields import Json
    from penstock.pictures.diff.union import DiffLine

VERSION = 1
FORMATS = ("text", "json", "svg")


@dataclass(frozen=True, slots=True)
class WorkflowChange:
    """One thing that was added, removed or changed.

    Attributes:
        what: ``added``, ``removed`` or ``changed``. A part that was only moved is changed: its ``place`` differs.
        kind: ``workflow``, ``step``, ``parallel``, ``branch``, ``arm``, ``dag``, or ``steps`` (a sequence that nobody
            named).
        path: its path in the new workflow; of something that was removed, in the old one. An arm has the path of its
            branch with ``:0``, ``:1``, … or ``:otherwise``. The whole workflow has an empty path.
        old_path: its path in the old workflow; None if it was added.
        fields: the properties that differ; of something that was added or removed, all of its properties.
    """

    what: Literal["added", "removed", "changed"]
    kind: str
    path: str
    old_path: str | None
    fields: tuple[FieldChange, ...]

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON values."""
        fields: list[Json] = [one.to_json() for one in self.fields]
        return {"what": self.what, "kind": self.kind, "path": self.path, "old_path": self.old_path, "fields": fields}


class WorkflowDiff:
    """What differs between two workflows. It is true if anything does.

    Steps and nested workflows are the same if they have the same id in the same workflow, else if they have the same
    id; parallels, branches and dags, if they hold the same steps. Options are compared by value and functions by their
    code. Strings that may be secrets are shown as ``***``, as `Workflow.draw` does.

    Attributes:
        before: the name of the old workflow.
        after: the name of the new workflow.
    """

    def __init__(self, before: tuple[str, Sequence], after: tuple[str, Sequence]) -> None:
        self.before, self.after = before[0], after[0]
        self._old, self._new = scene_of(*before).root, scene_of(*after).root

    @cached_property
    def _tree(self) -> DiffLine:
        tree = union_of(self._old, self._new)
        if self.before != self.after:
            tree.what, tree.fields = "changed", (FieldChange("name", self.before, self.after),)
        return tree

    @cached_property
    def changes(self) -> tuple[WorkflowChange, ...]:
        """Everything that differs, in the order of the new workflow; removed parts stand in their old places."""
        return tuple(
            WorkflowChange(
                line.what,
                "workflow" if line.part.kind == "root" else line.part.kind,
                path_of(line.part),
                path_of(line.old) if line.old else None,
                line.fields,
            )
            for line in self._tree.walk()
            if line.what != "same"
        )

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.changes

    @property
    def added(self) -> tuple[WorkflowChange, ...]:
        """The changes of parts that only the new workflow has."""
        return tuple(one for one in self.changes if one.what == "added")

    @property
    def removed(self) -> tuple[WorkflowChange, ...]:
        """The changes of parts that only the old workflow has."""
        return tuple(one for one in self.changes if one.what == "removed")

    @property
    def changed(self) -> tuple[WorkflowChange, ...]:
        """The changes of parts that both have, with other properties or in another place."""
        return tuple(one for one in self.changes if one.what == "changed")

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return not self.same

    def __str__(self) -> str:
        """Return the diff as text."""
        steps = sum(1 for _ in self._old.steps()), sum(1 for _ in self._new.steps())
        return text_of((self.before, self.after), steps, self._tree)

    def __repr__(self) -> str:
        """Show the names and the counts."""
        counts = f"{len(self.added)} added, {len(self.removed)} removed, {len(self.changed)} changed"
        return f"<WorkflowDiff {self.before!r} -> {self.after!r}: {counts}>"

    def to_json(self) -> dict[str, Json]:
        """Return it as a mapping of JSON values, for ``json.dumps``."""
        changes: list[Json] = [one.to_json() for one in self.changes]
        counts: dict[str, Json] = {name: len(getattr(self, name)) for name in ("added", "removed", "changed")}
        made: dict[str, Json] = {"version": VERSION, "before": self.before, "after": self.after, "same": self.same}
        return {**made, "counts": counts, "changes": changes}

    def draw(self, format: Literal["text", "json", "svg"] = "svg") -> str:  # noqa: A002
        """Return the diff as a text of a format.

        Args:
            format: ``svg`` (one picture of the new workflow and the removed parts), ``text`` or ``json``.

        Raises:
            OptionError: there is no such format.
        """
        one_of("draw", "format", format, FORMATS)
        if format == "text":
            return str(self)
        if format == "json":
            return json.dumps(self.to_json(), indent=2, ensure_ascii=False)
        from penstock.pictures.diff.picture import picture_text

        return picture_text((self.before, self.after), self._tree)

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        """Return the picture for notebooks, and the text for those that show no pictures."""
        return {"image/svg+xml": self.draw("svg"), "text/plain": str(self)}
