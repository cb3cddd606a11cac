"""Pictures put together from measured blocks: one below the other, side by side, in a frame. Geometry only.

A block has its entry at the top of its spine, which is where x and y are 0, and its exit at the end of its tail. Blocks
that are put together never overlap, and their arrows run through the space between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]

GAP = 26.0
"""The space between two boxes, which an arrow needs."""

PAD = 16.0
"""The space between a frame and its content, and between arms side by side."""

WIDEST = 1120.0
"""The width from which arms that stand side by side wrap into rows."""

LONGEST = 1300.0
"""The height from which a chain folds into columns."""

HEADLINE = 30.0
"""The height of a frame's title of one line."""

_LANE = 6.0
"""How far two arrows that lead there and back are from the middle between them."""

_NEAR = 1e-6
_FEW = 4


@dataclass(frozen=True, slots=True)
class Words:
    """One line of words, and where it stands in its shape: its left end, or its middle, and its baseline."""

    tone: str
    text: str
    x: float
    y: float
    middle: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A box, a dot, a label or a frame, and its place.

    Attributes:
        id: a name that no other shape of the picture has.
        kind: its kind.
        title: its whole title, also where its words are cut.
        notes: the words below or beside the title.
        x: its left edge.
        y: its upper edge.
        width: how wide it is.
        height: how high it is.
        parent: the id of the frame around it; empty for none.
        shadow: whether it runs beside the flow.
        words: its lines of words, and where they stand in it.
        path: the path of the step, workflow or arm that it stands for.
        head: the height of a frame's title.
    """

    id: str
    kind: str
    title: str
    notes: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float
    parent: str = ""
    shadow: bool = False
    words: tuple[Words, ...] = ()
    path: str = ""
    head: float = 0.0


@dataclass(frozen=True, slots=True)
class BlockWire:
    """An arrow from shape to shape.

    Attributes:
        source: the id of the shape that it leaves.
        target: the id of the shape that it reaches.
        points: the corners of its line.
        head: whether it ends in a tip.
        dashed: whether it leads beside the flow.
        curved: whether it swings from one height to the next, rather than to lead there straight.
    """

    source: str
    target: str
    points: tuple[Point, ...]
    head: bool = True
    dashed: bool = False
    curved: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a picture: how far it reaches from its spine, and its first and last shape.

    Attributes:
        left: how far it reaches to the left of its spine.
        right: how far it reaches to the right.
        height: how far it reaches down.
        shapes: the shapes in it.
        wires: the arrows in it.
        first: the id of the shape that an arrow to it leads to.
        last: the id of the shape that an arrow from it comes from.
        tail: the line from the last shape to the exit.
    """

    left: float
    right: float
    height: float
    shapes: tuple[Shape, ...]
    wires: tuple[BlockWire, ...]
    first: str
    last: str
    tail: tuple[Point, ...]

    def moved(self, across: float, down: float) -> Block:
        """Return it at another place."""
        return replace(
            self,
            shapes=tuple(replace(one, x=one.x + across, y=one.y + down) for one in self.shapes),
            wires=tuple(replace(one, points=_moved(one.points, across, down)) for one in self.wires),
            tail=_moved(self.tail, across, down),
        )

    def shape(self, name: str) -> Shape:
        """Return the shape that has this id."""
        return next(one for one in self.shapes if one.id == name)


def single(shape: Shape) -> Block:
    """Return the block of one shape."""
    half = shape.width / 2
    placed = replace(shape, x=-half, y=0.0)
    return Block(half, half, shape.height, (placed,), (), shape.id, shape.id, ((0.0, shape.height),))


def wire(before: Block, after: Block, *points: Point) -> BlockWire:
    """Return the arrow from one block to the next, along its tail and these points; one into a dot has no tip."""
    return BlockWire(
        before.last, after.first, _straight((*before.tail, *points, entry(after, points[-1]))), pointed(after)
    )


def entry(block: Block, point: Point) -> Point:
    """Return where an arrow that comes to a block at this point meets its first shape; a dot may stand lower."""
    return point[0], max(point[1], block.shape(block.first).y)


def pointed(block: Block) -> bool:
    """Return whether an arrow to a block has a tip: one into a dot or a label has none."""
    return block.shape(block.first).kind not in ("dot", "label")


def stack(blocks: list[Block]) -> Block:
    """Return blocks one below the other."""
    placed = [blocks[0]]
    wires: list[BlockWire] = []
    y = blocks[0].height
    for block in blocks[1:]:
        across, above = placed[-1].tail[-1]
        y += GAP
        after = block.moved(0.0, y)
        wires.append(wire(placed[-1], after, (across, above + GAP / 3), (0.0, above + GAP / 3), (0.0, y)))
        placed.append(after)
        y += block.height
    return _joined(placed, wires, y, placed[-1].tail)


def fold(blocks: list[Block]) -> Block:
    """Return blocks one below the other; in several columns if they are too many for one."""
    whole = stack(blocks)
    if whole.height <= LONGEST or len(blocks) < _FEW:
        return whole
    columns = _columns(blocks, math.ceil(math.sqrt(whole.height / (0.75 * (whole.left + whole.right + GAP)))))
    placed = [columns[0]]
    wires: list[BlockWire] = []
    bottom = max(column.height for column in columns) + GAP / 2
    edge = columns[0].right
    for column in columns[1:]:
        lane = edge + GAP / 2
        after = column.moved(edge + GAP * 1.5 + column.left, 0.0)
        before = placed[-1]
        door = after.shape(after.first)
        y = door.y + min(door.height, HEADLINE) / 2
        wires.append(wire(before, after, (before.tail[-1][0], bottom), (lane, bottom), (lane, y), (door.x, y)))
        placed.append(after)
        edge += GAP * 1.5 + column.left + column.right
    tail = (*placed[-1].tail, (placed[-1].tail[-1][0], bottom))
    return replace(_joined(placed, wires, bottom, tail), left=columns[0].left, right=edge)


def _columns(blocks: list[Block], count: int) -> list[Block]:
    """Return blocks as columns of about the same height."""
    aim = sum(block.height + GAP for block in blocks) / count
    columns: dict[int, list[Block]] = {}
    above = 0.0
    for block in blocks:
        columns.setdefault(int((above + block.height / 2) / aim), []).append(block)
        above += block.height + GAP
    return [stack(column) for column in columns.values()]


def spread(head: Block, arms: list[Block], end: Block) -> Block:
    """Return arms side by side, in rows if they are wide, between where they part and where they meet."""
    rows = _rows(arms)
    widest = max(map(_width, rows))
    even = len({arm.left + arm.right for row in rows for arm in row}) == 1
    lanes = (-widest / 2 - PAD, widest / 2 + PAD)
    placed = [head]
    wires: list[BlockWire] = []
    leaving: list[tuple[Block, float, bool]] = []
    y = head.height
    bus = y + GAP / 2
    for number, row in enumerate(rows):
        top = y + GAP / 2 + (GAP / 2 if number else 0.0)
        x = -_centre(row) if len(rows) == 1 else -(widest if even else _width(row)) / 2
        bottom = top + GAP * 1.25 + max(arm.height for arm in row)
        for arm in row:
            x += arm.left
            after = arm.moved(x, top + GAP * 0.8)
            way = ((0.0, bus), (lanes[0], bus), (lanes[0], top)) if number else ((0.0, bus),)
            wires.append(wire(head, after, *way, (x, top), (x, top + GAP * 0.8)))
            leaving.append((after, bottom, number < len(rows) - 1))
            placed.append(after)
            x += arm.right + PAD
        y = bottom
    close = end.moved(0.0, y + GAP / 2)
    for arm, low, passing in leaving:
        past = ((lanes[1], low), (lanes[1], y)) if passing else ()
        wires.append(wire(arm, close, (arm.tail[-1][0], low), *past, (0.0, y), (0.0, y + GAP / 2)))
    made = _joined([*placed, close], wires, y + GAP / 2 + end.height, close.tail)
    return made if len(rows) == 1 else replace(made, left=max(made.left, -lanes[0]), right=max(made.right, lanes[1]))


def _cells(arms: list[Block]) -> list[Block]:
    """Return arms that are a box each as wide as the widest, so that rows of them are columns, too."""
    if any(len(arm.shapes) != 1 or not arm.shapes[0].words for arm in arms):
        return arms
    width = 2 * max(arm.right for arm in arms)
    boxes = [arm.shapes[0] for arm in arms]
    shifts = [(width - box.width) / 2 for box in boxes]  # so that its words stay in its middle
    return [
        single(replace(box, width=width, words=tuple(replace(one, x=one.x + shift) for one in box.words)))
        for box, shift in zip(boxes, shifts, strict=True)
    ]


def _rows(arms: list[Block]) -> list[list[Block]]:
    """Return arms in rows, as few as their widths allow, and about as many in each."""
    if _width(arms) <= WIDEST:
        return [arms]
    cells = _cells(arms)
    aim = max(WIDEST, *(arm.left + arm.right for arm in cells))
    count = len(_filled(cells, aim))
    least = _width(cells) / count
    while len(_filled(cells, least)) > count:
        least = min(aim, least + PAD)
    return _filled(cells, least)


def _filled(arms: list[Block], aim: float) -> list[list[Block]]:
    rows: list[list[Block]] = [[]]
    for arm in arms:
        if rows[-1] and _width([*rows[-1], arm]) > aim:
            rows.append([])
        rows[-1].append(arm)
    return rows


def _width(row: list[Block]) -> float:
    return sum(arm.left + arm.right for arm in row) + PAD * (len(row) - 1)


def _centre(row: list[Block]) -> float:
    """Return how far the middle between the first and the last spine is from the row's left edge.

    A spine that is near to it is taken in its place, so that its arrow leads straight on.
    """
    middle = (row[0].left + _width(row) - row[-1].right) / 2
    spines: list[float] = []
    x = 0.0
    for arm in row:
        spines.append(x + arm.left)
        x += arm.left + arm.right + PAD
    near = min(spines, key=lambda spine: abs(spine - middle))
    return near if abs(near - middle) < GAP else middle


def beside(dot: Block, block: Block) -> Block:
    """Return a dot on the spine, and a block to the right of it that a dashed arrow leads to."""
    y = min(block.height, HEADLINE) / 2
    close = dot.moved(0.0, y - dot.height / 2)
    aside = block.moved(GAP + block.left, 0.0)
    line = BlockWire(dot.first, block.first, ((dot.right, y), (aside.shape(block.first).x, y)), dashed=True)
    made = _joined([close, aside], [line], block.height, (*close.tail, (0.0, block.height)))
    return replace(made, last=dot.last)


def attached(box: Block, label: Block, block: Block) -> Block:
    """Return a box on the spine, and a block to the right of it that a dashed arrow leads to, with a label on it."""
    y = box.height / 2
    across = box.right + GAP / 2 + label.left
    words = label.moved(across, y - label.height / 2)
    across += label.right + GAP + block.left
    aside = block.moved(across, 0.0)
    ends = (across - block.left - GAP, aside.shape(aside.first).x)
    lines = [
        BlockWire(box.first, label.first, ((box.right, y), (box.right + GAP / 2, y)), head=False, dashed=True),
        BlockWire(label.first, block.first, ((ends[0], y), (ends[1], y)), dashed=True),
    ]
    height = max(box.height, block.height)
    made = _joined([box, words, aside], lines, height, _straight((*box.tail, (0.0, height))))
    return replace(made, last=box.last)


def calling(block: Block, aside: Block) -> Block:
    """Return a block, and one to the left of its first box: an arrow leads there, and another one back."""
    box = block.shape(block.first)
    down = max(0.0, aside.height / 2 - box.height / 2)
    moved = block.moved(0.0, down)
    left, y = box.x, down + box.y + box.height / 2
    far = left - GAP * 1.5
    beside = aside.moved(far - aside.right, y - aside.height / 2)
    lines = [
        BlockWire(box.id, aside.first, ((left, y - _LANE), (far, y - _LANE))),
        BlockWire(aside.first, box.id, ((far, y + _LANE), (left, y + _LANE))),
    ]
    height = max(moved.height + down, y + aside.height / 2)
    made = _joined([moved, beside], lines, height, _straight((*moved.tail, (moved.tail[-1][0], height))))
    return replace(made, last=block.last)


def framed(frame: Shape, inside: Block) -> Block:
    """Return a block in a frame, below the frame's title."""
    left = max(inside.left, frame.width / 2) + PAD
    right = max(inside.right, frame.width / 2) + PAD
    top = frame.head + GAP * 0.7
    height = top + inside.height + GAP * 0.6
    moved = inside.moved(0.0, top)
    around = replace(frame, x=-left, y=0.0, width=left + right, height=height)
    wires = (
        BlockWire(frame.id, inside.first, ((0.0, frame.head), entry(moved, (0.0, top))), pointed(moved)),
        *moved.wires,
        BlockWire(inside.last, frame.id, _straight((*moved.tail, (moved.tail[-1][0], height))), head=False),
    )
    shapes = tuple(one if one.parent else replace(one, parent=frame.id) for one in moved.shapes)
    return Block(left, right, height, (around, *shapes), wires, frame.id, frame.id, ((0.0, height),))


def looped(block: Block) -> Block:
    """Return a block with an arrow from its end round to its start."""
    room = GAP / 2
    moved = block.moved(0.0, room)
    low = room + block.height + room
    aside = block.right + room
    back = ((moved.tail[-1][0], low - room / 2), (aside, low - room / 2), (aside, room / 2), (0.0, room / 2))
    points = _straight((*moved.tail, *back, entry(moved, (0.0, room))))
    line = BlockWire(block.last, block.first, points, pointed(block))
    tail = (*moved.tail, (moved.tail[-1][0], low))
    return replace(moved, right=aside + room / 2, height=low, wires=(*moved.wires, line), tail=tail)


def marked(block: Block, mark: str) -> Block:
    """Return a block whose shapes have other ids, so that the same steps can stand in a picture twice."""

    def named(id: str) -> str:
        return f"{id}@{mark}"

    return replace(
        block,
        shapes=tuple(replace(one, id=named(one.id), parent=one.parent and named(one.parent)) for one in block.shapes),
        wires=tuple(replace(one, source=named(one.source), target=named(one.target)) for one in block.wires),
        first=named(block.first),
        last=named(block.last),
    )


def reach(shapes: tuple[Shape, ...], wires: tuple[BlockWire, ...]) -> tuple[float, float]:
    """Return how far shapes and wires reach to the left and to the right of the spine."""
    edges = [edge for one in shapes for edge in (one.x, one.x + one.width)]
    edges += [x for one in wires for x, _ in one.points]
    return -min(0.0, *edges), max(0.0, *edges)


def _joined(placed: list[Block], wires: list[BlockWire], height: float, tail: tuple[Point, ...]) -> Block:
    """Return placed blocks as one; it reaches as far as its shapes and lines do."""
    shapes = tuple(shape for block in placed for shape in block.shapes)
    lines = (*(line for block in placed for line in block.wires), *wires)
    left, right = reach(shapes, lines)
    return Block(left, right, height, shapes, lines, placed[0].first, placed[-1].last, tail)


def _moved(points: tuple[Point, ...], across: float, down: float) -> tuple[Point, ...]:
    return tuple((x + across, y + down) for x, y in points)


def _straight(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return a line without the corners at which it does not turn."""
    kept: list[Point] = []
    for point in points:
        if kept and abs(kept[-1][0] - point[0]) + abs(kept[-1][1] - point[1]) < _NEAR:
            continue
        if len(kept) > 1 and any(
            abs(kept[-2][way] - point[way]) + abs(kept[-1][way] - point[way]) < _NEAR for way in (0, 1)
        ):
            kept[-1] = point
        else:
            kept.append(point)
    return tuple(kept)
