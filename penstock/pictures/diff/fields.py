"""Compare the properties of two versions of one thing; the diffs of workflows and of traces both use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.processor.processor import is_same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts.

    Attributes:
        shown: the value as JSON, without secrets.
        compared: the object to compare; it may be a secret.
    """

    shown: Json
    compared: object = field(repr=False)

    def same(self, other: Leaf) -> bool:
        """Return whether both are the same value; one whose comparison raises is not."""
        return is_same(self.compared, other.compared)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One property that differs.

    Attributes:
        name: of a workflow ``place`` (of something that was moved), ``policy.timeout``, ``options.strategy``,
            ``condition``, ``merge``, ``after`` (the edges to a member of a dag) and others; of a run ``status``,
            ``arms``, ``edits``, ``texts``, ``tripwire`` and others.
        before: the old value, as a JSON value; of edits and texts only those that the other run does not have.
        after: the new value.
        only: ``before`` or ``after`` if only that version has the property; else empty.
        hidden: whether the values differ although both are shown alike: secrets, or the code of a function.
    """

    name: str
    before: Json = None
    after: Json = None
    only: Literal["", "before", "after"] = ""
    hidden: bool = False

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON values; without the value of a version that has no such property."""
        made: dict[str, Json] = {"name": self.name}
        if self.only != "after":
            made["before"] = self.before
        if self.only != "before":
            made["after"] = self.after
        return {**made, "hidden": True} if self.hidden else made


def differing(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> Iterator[FieldChange]:
    """Yield the properties that differ, in the order of the old ones; then those that only the new version has."""
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before is None:
            yield FieldChange(name, after=after.shown if after else None, only="after")
        elif after is None:
            yield FieldChange(name, before=before.shown, only="before")
        elif not before.same(after):
            yield FieldChange(name, before.shown, after.shown, hidden=before.shown == after.shown)
