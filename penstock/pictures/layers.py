"""A dag as layers of blocks: longest-path layers, ordered by barycenters, with edges routed through the layers."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from penstock.pictures.blocks import GAP, PAD, Block, BlockWire, Point, entry, pointed, reach

Edge: TypeAlias = tuple[int, int]

_SWEEPS = 6
_MANY = 60
"""The most steps from layer to layer for which each change is tried: with more, it takes long."""

_LANE = 10.0
"""The width that an edge takes where it passes a layer."""

_DOOR = 18.0
"""The space between two edges that leave or reach a block at one side."""


@dataclass(slots=True)
class _Spot:
    """A block, or the place where an edge passes a layer (None), and where its spine stands."""

    block: Block | None
    layer: int
    x: float = 0.0

    @property
    def left(self) -> float:
        return self.block.left if self.block else _LANE

    @property
    def right(self) -> float:
        return self.block.right if self.block else _LANE


def layered(blocks: list[Block], edges: list[Edge]) -> Block:
    """Return blocks in layers; the first leads to all others, and the last is reached from all others.

    Args:
        blocks: the blocks, in an order in which edges lead onwards.
        edges: pairs of two places in it. One that leads back is drawn upwards.
    """
    spots = [_Spot(block, layer) for block, layer in zip(blocks, _layers(len(blocks), edges), strict=True)]
    ways = [_way(spots, edge) for edge in dict.fromkeys(edges)]
    steps = [pair for _, way in ways for pair in pairwise(way)]
    rows = _ordered(spots, steps)
    _place(rows, steps, spots)
    _straighten(rows, ways, spots)
    if len(steps) <= _MANY:
        _align(rows, ways, steps, spots)
    shift = spots[len(blocks) - 1].x = spots[0].x  # the last one stands alone in its layer, so it may be moved
    for spot in spots:
        spot.x -= shift
    return _drawn(spots, ways, rows, len(blocks))


def _layers(count: int, edges: list[Edge]) -> list[int]:
    """Return the layer of each block: one below the lowest of those before it that it is tied to."""
    layers = [0] * count
    for upper, lower in sorted((sorted(edge) for edge in edges), key=max):
        layers[lower] = max(layers[lower], layers[upper] + 1)
    if count > 1:
        layers[-1] = max(layers[:-1]) + 1  # alone in its layer, also where members of a cycle do not lead to it
    return layers


def _way(spots: list[_Spot], edge: Edge) -> tuple[Edge, list[int]]:
    """Return an edge with the spots along it, from above to below; it passes each layer between at a spot."""
    upper, lower = sorted(edge)
    way = [upper]
    for layer in range(spots[upper].layer + 1, spots[lower].layer):
        way.append(len(spots))
        spots.append(_Spot(None, layer))
    return edge, [*way, lower]


def _ordered(spots: list[_Spot], steps: list[tuple[int, int]]) -> list[list[int]]:
    """Return the spots of each layer from left to right: of several orders, the one with the fewest crossings."""
    rows: list[list[int]] = [[] for _ in range(max(spot.layer for spot in spots) + 1)]
    for index, spot in enumerate(spots):
        rows[spot.layer].append(index)
    lanes_first = [sorted(row, key=lambda one: spots[one].block is not None) for row in rows]
    tried = [made for start in (rows, lanes_first) for made in _swept(start, steps)]
    return min(tried, key=lambda made: _crossings(made, steps))


def _swept(rows: list[list[int]], steps: list[tuple[int, int]]) -> list[list[list[int]]]:
    """Return an order and its versions after each sweep down or up, in which spots follow their neighbours."""
    above, below = _beside(steps)
    made = [[list(row) for row in rows]]
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            at = {one: place for line in rows for place, one in enumerate(line)}
            wish = {one: _mean([at[other] for other in near.get(one, [])], at[one]) for one in row}
            row.sort(key=wish.__getitem__)
        if len(steps) <= _MANY:
            _swap(rows, steps)
        made.append([list(row) for row in rows])
    return made


def _swap(rows: list[list[int]], steps: list[tuple[int, int]]) -> None:
    """Swap neighbours wherever that leaves fewer crossings."""
    least = _crossings(rows, steps)
    for row in rows:
        for place in range(len(row) - 1):
            row[place], row[place + 1] = row[place + 1], row[place]
            crossings = _crossings(rows, steps)
            if crossings < least:
                least = crossings
            else:
                row[place], row[place + 1] = row[place + 1], row[place]


def _beside(steps: list[tuple[int, int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for upper, lower in steps:
        above.setdefault(lower, []).append(upper)
        below.setdefault(upper, []).append(lower)
    return above, below


def _crossings(rows: list[list[int]], steps: list[tuple[int, int]]) -> int:
    at = {one: (layer, place) for layer, row in enumerate(rows) for place, one in enumerate(row)}
    seen: list[list[int]] = [[] for _ in rows]
    count = 0
    for (layer, _), end in sorted((at[upper], at[lower][1]) for upper, lower in steps):
        place = bisect_right(seen[layer], end)
        count += len(seen[layer]) - place
        seen[layer].insert(place, end)
    return count


def _mean(values: list[float] | list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(rows: list[list[int]], steps: list[tuple[int, int]], spots: list[_Spot]) -> None:
    """Give each spot its x: each as near to those it is tied to as its neighbours let it be."""
    above, below = _beside(steps)
    for row in rows:
        _pack(row, spots, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            _pack(row, spots, [_mean([spots[other].x for other in near.get(one, [])], spots[one].x) for one in row])


def _pack(row: list[int], spots: list[_Spot], wanted: list[float]) -> None:
    """Place a row from left to right without overlaps, then move it to the middle of where it wants to be."""
    fits: list[tuple[float, float, int]] = []  # runs of spots that touch: the sum of wished starts, and their count
    offsets: list[float] = []
    reach = 0.0
    for place, one in enumerate(row):
        spot = spots[one]
        reach += spot.left + (PAD if place else 0.0)
        offsets.append(reach)
        fits.append((wanted[place] - reach, wanted[place] - reach, 1))
        while len(fits) > 1 and fits[-2][0] > fits[-1][0]:
            (_, first, many), (_, second, more) = fits[-2:]
            fits[-2:] = [((first + second) / (many + more), first + second, many + more)]
        reach += spot.right
    starts = [start for start, _, count in fits for _ in range(count)]
    for one, start, offset in zip(row, starts, offsets, strict=True):
        spots[one].x = start + offset


def _straighten(rows: list[list[int]], ways: list[tuple[Edge, list[int]]], spots: list[_Spot]) -> None:
    """Let an edge pass all its layers at one x, where the spots beside it leave room for that."""
    at = {one: (row, place) for row in rows for place, one in enumerate(row)}
    for _, way in ways:
        passed = way[1:-1]
        low, high = (-math.inf, math.inf) if passed else (0.0, 0.0)
        for one in passed:
            row, place = at[one]
            for other in [spots[other] for other in row[max(0, place - 1) : place]]:
                low = max(low, other.x + other.right + PAD + spots[one].left)
            for other in [spots[other] for other in row[place + 1 : place + 2]]:
                high = min(high, other.x - other.left - PAD - spots[one].right)
        if low <= high:
            x = min(max(_mean([spots[one].x for one in passed], 0.0), low), high)
            for one in passed:
                spots[one].x = x


def _align(
    rows: list[list[int]], ways: list[tuple[Edge, list[int]]], steps: list[tuple[int, int]], spots: list[_Spot]
) -> None:
    """Move blocks, and edges where they pass layers, below their neighbours, if all lines bend less then.

    An edge moves in all its layers at once, and pushes its neighbours aside.
    """
    lanes = [way[1:-1] for _, way in ways if len(way) > len(("from", "to"))]
    groups = [*lanes, *([one] for one, spot in enumerate(spots) if spot.block)]
    least = _bends(steps, spots)
    for group in groups * 2:
        near = {spots[one].x for pair in steps for one in pair if set(pair) & set(group)}
        for x in sorted({*near, _mean(sorted(near), 0.0)}):
            before = [spot.x for spot in spots]
            for one in group:
                spots[one].x = x
                _push(next(row for row in rows if one in row), one, spots)
            bends = _bends(steps, spots)
            if bends < least - 1:
                least = bends
            else:
                for spot, old in zip(spots, before, strict=True):
                    spot.x = old


def _bends(steps: list[tuple[int, int]], spots: list[_Spot]) -> float:
    """Return how far lines lead sideways; between the layers that an edge passes, it counts most."""
    return sum(
        abs(spots[upper].x - spots[lower].x) * (1, 2, 8)[(not spots[upper].block) + (not spots[lower].block)]
        for upper, lower in steps
    )


def _push(row: list[int], one: int, spots: list[_Spot]) -> None:
    """Push the others of a row aside, as far as a spot that has moved needs it."""
    at = row.index(one)
    for near, far in pairwise(row[at:]):
        spots[far].x = max(spots[far].x, spots[near].x + spots[near].right + PAD + spots[far].left)
    for near, far in pairwise(row[at::-1]):
        spots[far].x = min(spots[far].x, spots[near].x - spots[near].left - PAD - spots[far].right)


def _drawn(spots: list[_Spot], ways: list[tuple[Edge, list[int]]], rows: list[list[int]], count: int) -> Block:
    tops: list[float] = []
    bottoms: list[float] = []
    y = 0.0
    for row in rows:
        tops.append(y)
        y += max(spot.block.height if spot.block else 0.0 for spot in map(spots.__getitem__, row))
        bottoms.append(y)
        y += GAP * 1.6
    placed = [spot.block.moved(spot.x, tops[spot.layer]) for spot in spots[:count] if spot.block]
    wires = [line for block in placed for line in block.wires]
    doors = _doors(placed, ways, spots)
    for number, (edge, way) in enumerate(ways):
        wires.append(_line(placed, spots, edge, way, (tops, bottoms), (doors[number, 0], doors[number, 1])))
    shapes = tuple(shape for block in placed for shape in block.shapes)
    left, right = reach(shapes, tuple(wires))
    end = placed[-1]
    tail = (*end.tail, (end.tail[-1][0], bottoms[-1]))
    return Block(left, right, bottoms[-1], shapes, tuple(wires), placed[0].first, end.last, tail)


def _doors(placed: list[Block], ways: list[tuple[Edge, list[int]]], spots: list[_Spot]) -> dict[Edge, float]:
    """Return how far from the spine an edge leaves or reaches a block: those at one side stand in a row.

    The keys are an index in ``ways``, and 0 where it leaves, 1 where it arrives.
    """
    found: dict[Edge, float] = {}
    sides: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for number, (_, way) in enumerate(ways):
        sides.setdefault((way[0], 0), []).append((spots[way[1]].x, number))
        sides.setdefault((way[-1], 1), []).append((spots[way[-2]].x, number))
    for (place, side), lines in sides.items():
        room = _room(placed[place], spots[place].x, below=not side)
        space = min(_DOOR, 2 * room / len(lines))
        for at, (_, number) in enumerate(sorted(lines)):
            found[number, side] = (at - (len(lines) - 1) / 2) * space
    for (place, side), lines in sides.items():
        if len(lines) == 1:  # one that is alone leads straight on where the block is wide enough
            ((x, number),) = lines
            direct = len(ways[number][1]) == len(("from", "to"))
            offset = x + (found[number, 1 - side] if direct else 0.0) - spots[place].x
            if abs(offset) <= _room(placed[place], spots[place].x, below=not side):
                found[number, side] = offset
    return found


def _room(block: Block, spine: float, *, below: bool) -> float:
    """Return how far from its spine a block can be left or reached; the spine need not be in its middle."""
    shape = block.shape(block.last if below else block.first)
    if shape.kind in ("dot", "label") or (below and len(block.tail) != 1):
        return 0.0
    spine = block.tail[0][0] if below else spine
    return max(0.0, min(spine - shape.x, shape.x + shape.width - spine) - PAD / 2)


def _line(
    placed: list[Block],
    spots: list[_Spot],
    edge: Edge,
    way: list[int],
    heights: tuple[list[float], list[float]],
    doors: tuple[float, float],
) -> BlockWire:
    tops, bottoms = heights
    upper, lower = placed[way[0]], placed[way[-1]]
    leaving = [(x + doors[0], y) for x, y in upper.tail]
    points: list[Point] = [*leaving, (leaving[-1][0], bottoms[spots[way[0]].layer])]
    for one in way[1:-1]:
        points += [(spots[one].x, tops[spots[one].layer]), (spots[one].x, bottoms[spots[one].layer])]
    points.append((spots[way[-1]].x + doors[1], tops[spots[way[-1]].layer]))
    points.append(entry(lower, points[-1]))
    kept = tuple(point for place, point in enumerate(points) if not place or point != points[place - 1])
    if edge[0] > edge[1]:
        return BlockWire(lower.first, upper.last, tuple(reversed(kept)), curved=True)
    return BlockWire(upper.last, lower.first, kept, pointed(lower), curved=True)
