"""`PageMarks`: the marks of runs, for a page that has their picture and only applies the marks.

Each box has the states that it goes through, and each arrow that was taken the moment from which it was; so a page can
show the end of a run, and any moment before it, without knowing what makes a mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NotRequired, TypedDict

from penstock.engine.tracing.display import columns, visible
from penstock.pictures.layout import picture_of
from penstock.pictures.marked_picture import MarkedPicture
from penstock.pictures.overlay import marks_of
from penstock.pictures.ways import Paths
from penstock.pictures.wrapping import wrapped

if TYPE_CHECKING:
    from penstock.engine.tracing.trace import Trace
    from penstock.pictures.blocks import Shape
    from penstock.pictures.marks import Mark, Moment
    from penstock.pictures.scene import Scene

_COLUMN = 5.7
_LINE = 11.5
_PADDING = 12.0
"""How wide a letter of a badge is, how high a line, and the space beside its letters, in pixels."""

_ABOVE = 3.0
"""How far a badge reaches into its box."""

_WIDEST = 260.0
_MOST_LINES = 4
"""How large a badge may be where nothing stands in its way."""


class Room(NamedTuple):
    """How large the badge of a box may be.

    Attributes:
        width: its width, in pixels.
        lines: its lines.
    """

    width: float
    lines: int


UNKNOWN_ROOM = Room(160.0, 2)
"""The room of any box, where the picture is not known: two lines fit between two boxes of a chain."""


class MarkJson(TypedDict):
    """The mark of a box; empty fields are left out.

    ``kind`` is that of the mark, ``look`` its classes, ``words`` the lines of its badge, and ``tip`` the
    tooltip. ``when`` is the moment from which the box has it: ``start ID`` or ``end ID`` of a span; without it, from
    the start.
    """

    kind: NotRequired[str]
    look: NotRequired[str]
    words: NotRequired[list[str]]
    tip: NotRequired[str]
    when: NotRequired[str]


class RunMarksJson(TypedDict):
    """The marks of a run.

    ``shapes`` has the states of each box in the order of time, by its id; a box that is not in it was not reached.
    ``wires`` has each arrow that was taken: the ids of the boxes at its ends, and from when on, empty for always.
    """

    shapes: dict[str, list[MarkJson]]
    wires: list[tuple[str, str, str]]


class PageMarks:
    """The marks of any number of runs over one picture.

    Args:
        scene: the scene that the picture shows.
    """

    def __init__(self, scene: Scene) -> None:
        self._stage = scene.stage
        self._picture = picture_of(scene)
        self._paths = Paths(self._picture)
        frames = {shape.id: shape for shape in self._picture.shapes if shape.kind == "group"}
        boxes = [shape for shape in self._picture.shapes if shape.kind not in ("group", "dot")]
        self._rooms = {shape.id: _room(shape, boxes, frames.get(shape.parent)) for shape in boxes}

    def of(self, trace: Trace) -> RunMarksJson:
        """Return the marks of a run."""
        marked = MarkedPicture(self._picture, marks_of(trace, self._stage), self._paths)
        ways = marked.ways
        if ways is None:
            return {"shapes": {}, "wires": []}
        shapes: dict[str, list[MarkJson]] = {}
        for shape in self._picture.shapes:
            states = [_state(when, self._shown(shape, mark, marked)) for when, mark in marked.history(shape)]
            if not states and shape.id in ways.shapes and shape.kind != "group":
                look = " ".join(marked.reached_tones(shape))
                states = [_state(ways.shapes[shape.id], {"look": look} if look else {})]
            if states:
                shapes[visible(shape.id)] = states
        wires = self._picture.wires
        return {
            "shapes": shapes,
            "wires": [
                (visible(wires[place].source), visible(wires[place].target), _key(when) if when else "")
                for place, when in ways.wires.items()
            ],
        }

    def _shown(self, shape: Shape, mark: Mark, marked: MarkedPicture) -> MarkJson:
        look = " ".join(marked.marked_tones(shape, mark))
        if shape.kind == "label":
            return {"look": look} if look else {}
        return {**mark_json(mark, self._rooms.get(shape.id, UNKNOWN_ROOM)), "look": look}


def _room(shape: Shape, boxes: list[Shape], frame: Shape | None) -> Room:
    """Return the room at a box for a badge that covers no other box, badge or edge of a frame."""
    middle, low = shape.x + shape.width / 2, shape.y + shape.height
    deep = _LINE * _MOST_LINES
    half = _WIDEST / 2
    if frame is not None:
        half = min(half, middle - frame.x, frame.x + frame.width - middle)
    for other in boxes:
        gap = max(other.x - shape.x - shape.width, shape.x - other.x - other.width)
        if gap > 0 and low - _ABOVE - deep < other.y + other.height and other.y < low + deep:  # it stands beside it
            half = min(half, shape.width / 2 + gap / 2)
    under = [one for one in boxes if one.y >= low and abs(one.x + one.width / 2 - middle) < half + one.width / 2]
    below = [one.y - low for one in under]
    lines = int((min(below, default=deep) + _ABOVE) / _LINE)
    return Room(2 * half - 2, min(max(lines, 1), _MOST_LINES))


def _state(when: Moment | None, mark: MarkJson) -> MarkJson:
    return {**mark, "when": _key(when)} if when else mark


def _key(when: Moment) -> str:
    return f"{'end' if when.over else 'start'} {when.span}"


def mark_json(mark: Mark, room: Room = UNKNOWN_ROOM) -> MarkJson:
    """Return the part of a mark that fits into a box.

    Args:
        mark: the mark.
        room: how large its badge may be.
    """
    made: MarkJson = {"kind": mark.kind, "look": mark.kind}
    if words := _badge(mark, room):
        made["words"] = words
    if tip := "\n".join(map(visible, (*mark.words, *mark.lines))):
        made["tip"] = tip
    return made


def _badge(mark: Mark, room: Room) -> list[str]:
    """Return the lines of a badge: what happened, and its cost if there is room."""
    wide = int((room.width - _PADDING) / _COLUMN)
    whole = " · ".join(word for word in (mark.badge, mark.cost) if word)
    if columns(whole) <= wide:
        return [whole] if whole else []
    # A verdict or an error needs its words, though they may hide the tip of the next arrow.
    most = room.lines if mark.kind in ("tripped", "failed") else max(room.lines - 1, 1)
    lines = wrapped(mark.badge, wide, most) if mark.badge else ()
    return [*lines, mark.cost] if mark.cost and len(lines) < most else list(lines)
