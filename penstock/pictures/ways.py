"""Which way a run took through a picture: the lines that it passed, and the shapes that it reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from penstock.pictures.marks import Passage

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.pictures.layout import Picture
    from penstock.pictures.marks import Flow, FlowState, Marks, Moment


class _End(NamedTuple):
    """One end of a line. A frame has two: where lines come in, and where they go on."""

    shape: str
    out: bool = False


_Line: TypeAlias = tuple[_End, _End]

_Times: TypeAlias = "dict[int, Moment | None]"
"""Places of lines, and the moment from which each was taken; None: from the start of the run."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The lines and shapes that a run passed, and from which moment on; None: from the start of the run.

    Attributes:
        wires: the lines that it took, by their places.
        shapes: the shapes that it reached, by their ids.
    """

    wires: Mapping[int, Moment | None]
    shapes: Mapping[str, Moment | None]


def ways_of(paths: Paths, marks: Marks) -> Ways:
    """Return the lines and shapes that a run passed in all of its stages.

    Args:
        paths: the lines of the picture.
        marks: the marks of the run.
    """
    ended = any(mark.stops for mark in marks.marks.values())
    taken: _Times = {}
    stopped: dict[str, bool] = {}
    told = {flow.serves for flow in marks.flows if flow.passed}
    for flow in marks.flows:
        if not flow.passed and (flow.serves in told if paths.lists else told):
            continue  # no step has this stage, so it says nothing of the way
        _add_earlier(taken, paths.passed(flow))
        stops = ended and "stopped" in flow.passed.values()  # else a retry followed
        stopped[flow.serves] = stopped.get(flow.serves, False) or stops
    if paths.lists:
        _add_earlier(taken, paths.passed_between(stopped, marks))
    wires = {place: when for place, when in taken.items() if not (ended and paths.wires[place].target == "end")}
    shapes: dict[str, Moment | None] = {}
    for place, when in wires.items():
        _add_earlier(shapes, dict.fromkeys((paths.wires[place].source, paths.wires[place].target), when))
    return Ways(wires, shapes)


_Key = TypeVar("_Key", int, str)


def _add_earlier(times: dict[_Key, Moment | None], others: Mapping[_Key, Moment | None]) -> None:
    """Add times; of two of one thing, the earlier counts."""
    for key, when in others.items():
        known = times.get(key, when)
        times[key] = None if known is None or when is None else min(known, when)


class Paths:
    """The lines of a picture as a graph. It serves the runs of all traces."""

    def __init__(self, picture: Picture) -> None:
        self.wires = picture.wires
        self._shapes = {shape.id: shape for shape in picture.shapes}
        self.lists = {shape.id.rpartition("@")[2]: shape.id for shape in picture.shapes if shape.id.startswith("list@")}
        self._lines: dict[int, _Line] = {}
        self._frames: dict[int, str] = {}  # the processor list of an agent that a line is in; empty for none
        for place, one in enumerate(picture.wires):
            leaving = self._is_frame(one.source) and not self._is_in(one.target, one.source)
            arriving = self._is_frame(one.target) and self._is_in(one.source, one.target)
            self._lines[place] = _End(one.source, leaving), _End(one.target, arriving)
            around = (
                key
                for key, frame in self.lists.items()
                if any(self._is_in(end, frame) for end in (one.source, one.target))
            )
            self._frames[place] = next(around, "")
        self._with_path: dict[str, list[str]] = {}
        for name, shape in self._shapes.items():
            if shape.path and shape.kind != "group":
                self._with_path.setdefault(shape.path, []).append(name)

    def _is_frame(self, shape: str) -> bool:
        return self._shapes[shape].kind == "group"

    def _is_in(self, shape: str, frame: str) -> bool:
        parent = self._shapes[shape].parent
        while parent and parent != frame:
            parent = self._shapes[parent].parent
        return bool(parent)

    def passed(self, flow: Flow) -> _Times:
        """Return the lines that were taken in one stage; of an agent, in the list that serves it."""
        if self.lists and flow.serves not in self.lists:
            return {}
        serves = flow.serves if self.lists else ""
        lines = {place: line for place, line in self._lines.items() if self._frames[place] == serves}
        states: dict[_End, FlowState] = {}
        times: dict[_End, Passage] = {}
        for path, state in flow.passed.items():
            for name in self._with_path.get(path, ()):
                if not serves or self._is_in(name, self.lists[serves]):
                    states[_End(name)] = state
                    if path in flow.times:
                        times[_End(name)] = flow.times[path]
        entry = _End(self.lists[serves] if serves else "start")
        if flow.whole:
            times[entry] = Passage(flow.whole.reached, flow.whole.reached)
        return self._taken(lines, states, times, entry)

    def passed_between(self, stopped: Mapping[str, bool], marks: Marks) -> _Times:
        """Return the lines that were taken between the lists of an agent.

        Args:
            stopped: the lists that ran, and whether the run was stopped there.
            marks: the marks of the run.
        """
        lines = {place: line for place, line in self._lines.items() if not self._frames[place]}
        states: dict[_End, FlowState] = {}
        times = {_End(name): one for name, one in (("model", marks.model), ("tools", marks.tools)) if one}
        if marks.tools is None:
            states[_End("tools")] = "skipped"
        back = [place for place, line in lines.items() if line[0].shape == "tools"]
        for place in back:  # without it there is no circle, in which nothing would be the first
            del lines[place]
        for number, (serves, frame) in enumerate(self.lists.items()):
            lines[-1 - number] = (_End(frame), _End(frame, out=True))
            if stopped.get(serves):
                states[_End(frame, out=True)] = "stopped"
            elif serves == "error" and serves not in stopped:
                states[_End(frame)] = "skipped"
            wholes = [flow.whole for flow in marks.flows if flow.serves == serves and flow.whole]
            if wholes:
                begun, over = min(one.reached for one in wholes), max(one.left for one in wholes)
                times[_End(frame)] = Passage(begun, begun)
                times[_End(frame, out=True)] = Passage(over, over)
        taken = self._taken(lines, states, times, _End("start"))
        if marks.tools is not None:
            taken |= dict.fromkeys(back, marks.tools.left)
        return {place: when for place, when in taken.items() if place >= 0}

    def _taken(
        self,
        lines: Mapping[int, _Line],
        states: Mapping[_End, FlowState],
        times: Mapping[_End, Passage],
        entry: _End,
    ) -> _Times:
        """Return the lines whose two ends were reached, without those to a label behind which nothing was."""
        found, left = _reached(lines.values(), states, times, entry)
        taken = {
            place: times[arriving].reached if arriving in times else left[leaving]
            for place, (leaving, arriving) in lines.items()
            if found[leaving] == "taken" and (found[arriving] == "taken" or states.get(arriving) == "stopped")
        }
        onwards = {lines[place][0] for place in taken}
        return {
            place: when
            for place, when in taken.items()
            if lines[place][1] in onwards or self._shapes[lines[place][1].shape].kind != "label"
        }


def _reached(
    lines: Collection[_Line], known: Mapping[_End, FlowState], times: Mapping[_End, Passage], entry: _End
) -> tuple[dict[_End, FlowState], dict[_End, Moment | None]]:
    """Return whether a run passed each end of a line, and when it went on from there.

    Ends behind a verdict are stopped, too. Where the moment is unknown, it is when the run went on from all that lead
    there.
    """
    before: dict[_End, list[_End]] = {}
    for leaving, arriving in lines:
        before.setdefault(arriving, []).append(leaving)
    found: dict[_End, FlowState] = {}
    left: dict[_End, Moment | None] = {}
    for end in _ordered(lines):
        led = [one for one in before.get(end, []) if one in found]
        states = {found[one] for one in led}
        if end in known:
            found[end] = known[end]
        elif end == entry:
            found[end] = "taken"
        else:
            found[end] = "stopped" if "stopped" in states else "taken" if "taken" in states else "skipped"
        moments = [moment for one in led if found[one] == "taken" and (moment := left[one])]
        left[end] = times[end].left if end in times else max(moments, default=None)
    return found, left


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
