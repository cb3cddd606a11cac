"""Which way a run took through a picture: the lines that it passed, and the shapes that it reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from penstock.engine.render.blocks import Wire
    from penstock.engine.render.layout import Picture
    from penstock.engine.render.marks import Flow, FlowState


class _End(NamedTuple):
    """One end of a line. A frame has two: where lines come in, and where they go on."""

    shape: str
    out: bool = False


_Line: TypeAlias = tuple[_End, _End]


@dataclass(frozen=True, slots=True)
class Ways:
    """What a run passed.

    Attributes:
        wires: the places of the lines that it took.
        shapes: the ids of the shapes that it reached.
    """

    wires: frozenset[int]
    shapes: frozenset[str]


def ways_of(picture: Picture, flows: Iterable[Flow], *, ended: bool) -> Ways:
    """Return what a run passed in all of its stages.

    Args:
        picture: the picture.
        flows: what happened in each stage.
        ended: whether the run ended before its end.
    """
    paths = _Paths(picture)
    taken: set[int] = set()
    stopped: dict[str, bool] = {}
    for flow in flows:
        taken |= paths.passed(flow)
        stops = ended and "stopped" in flow.passed.values()  # else a retry followed
        stopped[flow.serves] = stopped.get(flow.serves, False) or stops
    if paths.lists:
        taken |= paths.passed_between(stopped)
    if ended:
        taken -= {place for place, wire in enumerate(picture.wires) if wire.target == "end"}
    ends = {end for place in taken for end in (picture.wires[place].source, picture.wires[place].target)}
    return Ways(frozenset(taken), frozenset(ends))


class _Paths:
    """The lines of a picture as a graph."""

    def __init__(self, picture: Picture) -> None:
        self._shapes = {shape.id: shape for shape in picture.shapes}
        self.lists = {shape.id.rpartition("@")[2]: shape.id for shape in picture.shapes if shape.id.startswith("list@")}
        self._lines = {place: self._line(wire) for place, wire in enumerate(picture.wires)}
        self._frames = {place: self._list_around(wire) for place, wire in enumerate(picture.wires)}

    def _line(self, wire: Wire) -> _Line:
        leaving = self._is_frame(wire.source) and not self._is_in(wire.target, wire.source)
        arriving = self._is_frame(wire.target) and self._is_in(wire.source, wire.target)
        return _End(wire.source, leaving), _End(wire.target, arriving)

    def _is_frame(self, shape: str) -> bool:
        return self._shapes[shape].kind == "group"

    def _is_in(self, shape: str, frame: str) -> bool:
        parent = self._shapes[shape].parent
        while parent and parent != frame:
            parent = self._shapes[parent].parent
        return bool(parent)

    def _list_around(self, wire: Wire) -> str:
        """Return the processor list of an agent that a line is in; empty for none."""
        for serves, frame in self.lists.items():
            if self._is_in(wire.source, frame) or self._is_in(wire.target, frame):
                return serves
        return ""

    def passed(self, flow: Flow) -> set[int]:
        """Return the lines that were taken in one stage; of an agent, in the list that serves it."""
        if self.lists and flow.serves not in self.lists:
            return set()
        serves = flow.serves if self.lists else ""
        lines = {place: line for place, line in self._lines.items() if self._frames[place] == serves}
        states: dict[_End, FlowState] = {}
        for name, shape in self._shapes.items():
            if (
                shape.path in flow.passed
                and shape.kind != "group"
                and (not serves or self._is_in(name, self.lists[serves]))
            ):
                states[_End(name)] = flow.passed[shape.path]
        return self._taken(lines, states, _End(self.lists[serves] if serves else "start"))

    def passed_between(self, stopped: Mapping[str, bool]) -> set[int]:
        """Return the lines that were taken between the lists of an agent.

        Args:
            stopped: the lists that ran, and whether the run was stopped there.
        """
        lines = {place: line for place, line in self._lines.items() if not self._frames[place]}
        states: dict[_End, FlowState] = {}
        for number, (serves, frame) in enumerate(self.lists.items()):
            lines[-1 - number] = (_End(frame), _End(frame, out=True))
            if stopped.get(serves):
                states[_End(frame, out=True)] = "stopped"
            elif serves == "error" and serves not in stopped:
                states[_End(frame)] = "skipped"
        return {place for place in self._taken(lines, states, _End("start")) if place >= 0}

    def _taken(self, lines: Mapping[int, _Line], states: Mapping[_End, FlowState], entry: _End) -> set[int]:
        """Return the lines whose two ends were reached, without those to a label behind which nothing was."""
        found = _states(lines.values(), states, entry)
        taken = {
            place
            for place, (leaving, arriving) in lines.items()
            if found[leaving] == "taken" and (found[arriving] == "taken" or states.get(arriving) == "stopped")
        }
        onwards = {lines[place][0] for place in taken}
        return {place for place in taken if lines[place][1] in onwards or not self._is_label(lines[place][1])}

    def _is_label(self, end: _End) -> bool:
        return self._shapes[end.shape].kind == "label"


def _states(lines: Collection[_Line], known: Mapping[_End, FlowState], entry: _End) -> dict[_End, FlowState]:
    """Return whether a run passed each end of a line; what a verdict kept it from is stopped, too."""
    before: dict[_End, list[_End]] = {}
    for leaving, arriving in lines:
        before.setdefault(arriving, []).append(leaving)
    found: dict[_End, FlowState] = {}
    for end in _ordered(lines):
        led = [found[one] for one in before.get(end, []) if one in found]
        if end in known:
            found[end] = known[end]
        elif end == entry:
            found[end] = "taken"
        elif "stopped" in led:
            found[end] = "stopped"
        else:
            found[end] = "taken" if "taken" in led else "skipped"
    return found


def _ordered(lines: Collection[_Line]) -> list[_End]:
    """Return all ends, each behind those that lead to it; those in a circle in the order of the picture."""
    followers: dict[_End, list[_End]] = {}
    waiting: dict[_End, int] = {}
    for leaving, arriving in lines:
        waiting.setdefault(leaving, 0)
        waiting[arriving] = waiting.get(arriving, 0) + 1
        followers.setdefault(leaving, []).append(arriving)
    ordered: list[_End] = []
    ready = [end for end, count in waiting.items() if count == 0]
    while waiting:
        end = ready.pop() if ready else next(iter(waiting))
        del waiting[end]
        ordered.append(end)
        for one in followers.get(end, []):
            if one in waiting:
                waiting[one] -= 1
                if waiting[one] == 0:
                    ready.append(one)
    return ordered
