"""`Marks`: the marks of a picture, which show a run of the workflow or the differences between two versions.

A mark belongs to a path: of a step, a nested workflow, a branch or a parallel; of an arm, ``PATH:0`` or
``PATH:otherwise``; of an edge of a dag, ``PATH:MEMBER:0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

FlowState: TypeAlias = Literal["taken", "skipped", "stopped"]
MarkKind: TypeAlias = Literal["added", "removed", "changed", "passed", "edited", "tripped", "failed", "skipped"]

GONE = "removed//"
"""The prefix of the path of a removed part in the picture of a diff; no path of a workflow has two slashes."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of one box, arm or frame.

    Attributes:
        kind: of a difference ``added``, ``removed`` or ``changed``; of a run, how it ended there.
        badge: a few words in the box, for example ``2 edits``; in several lines if there are line breaks.
        cost: a last line in the box, for example ``1.3 ms · 2 runs``.
        lines: lines of the tooltip in a browser, below the path.
        stops: whether the run ends there.
    """

    kind: MarkKind
    badge: str = ""
    cost: str = ""
    lines: tuple[str, ...] = ()
    stops: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words in the box, a line each."""
        return tuple(words for words in (*self.badge.split("\n"), self.cost) if words)


class Moment(NamedTuple):
    """A moment of a run: when one of its spans starts or ends. Moments sort by time.

    Attributes:
        at: the time, in seconds since the start of the run.
        span: the id of the span.
        over: whether the span ends; else it starts.
    """

    at: float
    span: int
    over: bool


class Passage(NamedTuple):
    """When a run reached something, and when it went on.

    Attributes:
        reached: when it started.
        left: when it ended.
    """

    reached: Moment
    left: Moment


class Flow(NamedTuple):
    """What happened in one stage of a run.

    Attributes:
        serves: the processor list of an agent that serves the stage; empty if that is unknown.
        passed: of each step and arm ``taken``, ``skipped``, or ``stopped`` where the stage ended there.
        times: when each of them was passed.
        whole: when the stage started and ended; None if that is unknown.
    """

    serves: str
    passed: Mapping[str, FlowState]
    times: Mapping[str, Passage] = EMPTY
    whole: Passage | None = None


class MarkAt(NamedTuple):
    """A mark that a box has from some moment of a run on."""

    when: Moment
    mark: Mark


@dataclass(frozen=True, slots=True)
class Marks:
    """All marks of one picture.

    Attributes:
        about: whether they show a difference or a run; it selects the legend.
        marks: the marks, by path.
        flows: of a run, what happened in each of its stages; the lines that were taken follow from it.
        history: of a run, the marks of each path in the order of time; the last one is that in ``marks``.
        model: when the model of an agent was first asked; None if it was not.
        tools: when the first tool of an agent ran; None if none did.
        lines: words below the picture, for example totals.
    """

    about: Literal["diff", "trace"]
    marks: Mapping[str, Mark]
    flows: tuple[Flow, ...] = ()
    lines: tuple[str, ...] = ()
    history: Mapping[str, tuple[MarkAt, ...]] = EMPTY
    model: Passage | None = None
    tools: Passage | None = None
