"""How marks look in a picture: the classes of shapes and lines, their colours, and the legend below.

Colour is never the only sign: badges repeat in words the meaning of a colour, and lines that were not taken are thin.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from penstock.engine.tracing.display import visible
from penstock.pictures.layout import NOTE
from penstock.pictures.marks import GONE
from penstock.pictures.ways import Paths, Ways, ways_of
from penstock.pictures.wrapping import text_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.blocks import Shape
    from penstock.pictures.layout import Picture
    from penstock.pictures.marks import Mark, MarkAt, MarkKind, Marks

_ROLES = ("guard", "transform", "observer", "undeclared", "branch", "pass", "model", "tools", "start", "end")
_LISTS = ("input", "output", "error")

_COLOURS: dict[MarkKind, tuple[str, str, str, str]] = {
    "added": ("#e2f6e6", "#1a7f37", "#12351d", "#5fd07f"),
    "removed": ("#fdeaea", "#b42318", "#3d1513", "#f58f86"),
    "changed": ("#fff5d6", "#9a6700", "#3a2d08", "#e3b341"),
    "passed": ("#eef7f0", "#2f7d46", "#16261b", "#6fbf8b"),
    "edited": ("#e4eefc", "#1f5fbf", "#10294d", "#7fb2f0"),
    "tripped": ("#fde2e0", "#c01c0e", "#4a1512", "#ff8b80"),
    "failed": ("#fbe4f3", "#a3126f", "#43122f", "#f08bc6"),
    "skipped": ("#ffffff", "#8a8a8a", "#161616", "#8f8f8f"),
}
"""The colours of a marked box: its surface, and its edge and badge, in light and in dark."""

_MEANINGS: dict[MarkKind, str] = {
    "added": "added",
    "removed": "removed",
    "changed": "changed or moved",
    "passed": "passed",
    "edited": "made changes",
    "tripped": "gave a verdict",
    "failed": "failed",
    "skipped": "not run",
}

_PLAIN = ("#ffffff", "#8a8a8a", "#1c1c1c", "#8f8f8f")
_STRONG = ("#1a1a1a", "#f2f2f2")
_PALE = ("#c4c4c4", "#4d4d4d")
ORDER = ("", "idle", "added", "removed", "taken")
"""The looks of lines, as they are drawn: strong lines above pale ones."""

_MARGIN = 16.0
_LINE = 16.0
_SWATCH = 22.0
_LEAST = 420.0


def mark_style(about: Literal["diff", "trace"], *, dark: bool) -> str:
    """Return the style rules of marks."""
    at = 2 if dark else 0
    strong, pale = _STRONG[dark], _PALE[dark]
    rules = [
        f".penstock .plain{{fill:{_PLAIN[at]};stroke:{_PLAIN[at + 1]}}}",
        f".penstock .badge{{font-size:{NOTE:g}px;font-weight:bold}}.penstock .idle{{opacity:.5}}",
    ]
    kinds: tuple[MarkKind, ...] = ("added", "removed", "changed")
    if about == "trace":
        kinds = ("passed", "edited", "tripped", "failed", "skipped")
        rules += [
            f".penstock .taken>.wire{{stroke:{strong};stroke-width:2.6}}",
            f".penstock .taken>.tip{{fill:{strong}}}.penstock .flow.idle{{opacity:1}}",
            f".penstock .idle>.wire{{stroke:{pale}}}.penstock .idle>.tip{{fill:{pale}}}",
        ]
    for kind in kinds:
        surface, edge = _COLOURS[kind][at : at + 2]
        rules += [
            f".penstock .{kind}>rect{{stroke:{edge};stroke-width:2}}",
            f".penstock .{kind}>rect:not(.group){{fill:{surface}}}",
            f".penstock .{kind}>.badge,.penstock .dot.{kind}{{fill:{edge}}}",
        ]
        if about == "diff":
            wire = f".penstock .{kind}>.wire{{stroke:{edge};stroke-width:2}}"
            rules.append(f"{wire}.penstock .{kind}>.tip{{fill:{edge}}}")
    if about == "diff":
        rules += [
            ".penstock .removed>rect,.penstock .removed>.wire{stroke-dasharray:5 4}",
            ".penstock .removed>.title,.penstock [data-kind=arm].removed>.note{text-decoration:line-through}",
        ]
    else:
        rules += [
            ".penstock .skipped>rect{stroke-dasharray:2 3;stroke-width:1.3}.penstock .stops>rect{stroke-width:4}",
            f".penstock .stop{{stroke:{_COLOURS['tripped'][at + 1]};stroke-width:6}}",
            f".penstock .dot.taken{{fill:{strong}}}.penstock .dot.idle{{fill:{pale};opacity:1}}",
        ]
    return "".join(rules)


def page_mark_style() -> str:
    """Return the style rules of the marks of a run, for a page that marks a picture which was drawn without any.

    Boxes lose the colours of their roles as soon as the picture has the class ``marked``.
    """
    styles: list[str] = []
    for dark in (False, True):
        fill, stroke = _PLAIN[2 * dark : 2 * dark + 2]
        roles = ",".join(f"rect.{role}" for role in _ROLES)
        plain = f".penstock:where(.marked) :is({roles}){{fill:{fill};stroke:{stroke}}}"
        styles.append(plain + mark_style("trace", dark=dark))
    return f"{styles[0]}@media (prefers-color-scheme: dark){{{styles[1]}}}"


@dataclass(frozen=True, slots=True)
class Below:
    """The words and the legend below a picture, and their size.

    Attributes:
        width: the least width of the picture.
        height: the height of all.
        lines: the words, with their x and y.
        samples: the class of each look in the picture, the x and y of a small box or line with it, and whether it is a
            line.
    """

    width: float = 0.0
    height: float = 0.0
    lines: tuple[tuple[str, float, float], ...] = ()
    samples: tuple[tuple[str, float, float, bool], ...] = ()


class MarkedPicture:
    """The marks of a picture by its shapes and lines."""

    def __init__(self, picture: Picture, marks: Marks | None, paths: Paths | None = None) -> None:
        self._picture = picture
        self._marks = marks
        self._paths = paths
        self._agent = any(shape.id.startswith("list@") for shape in picture.shapes)

    @cached_property
    def ways(self) -> Ways | None:
        """The way of a run; None if the marks are of none."""
        if self._marks is None or self._marks.about != "trace":
            return None
        return ways_of(self._paths or Paths(self._picture), self._marks)

    @cached_property
    def _kinds(self) -> dict[str, MarkKind]:
        """The kinds of all marked shapes by their ids."""
        return {shape.id: mark.kind for shape in self._picture.shapes if (mark := self.mark(shape))}

    def mark(self, shape: Shape) -> Mark | None:
        """Return the mark of a shape."""
        key = self._key(shape)
        return self._marks.marks.get(key) if self._marks and key is not None else None

    def history(self, shape: Shape) -> tuple[MarkAt, ...]:
        """Return the marks that a shape has in a run, in the order of time."""
        key = self._key(shape)
        return self._marks.history.get(key, ()) if self._marks and key is not None else ()

    def _key(self, shape: Shape) -> str | None:
        """Return the path by which a shape has its mark; that of the whole workflow is empty. None: it has none."""
        kind, _, path = shape.id.partition(":")
        if shape.kind == "start":
            return ""
        named = shape.path or (path if kind in ("fork", "join") else "")
        serves = shape.id.rpartition("@")[2] if self._agent else ""
        return (f"{named}@{serves}" if serves in _LISTS else named) or None

    def tone(self, shape: Shape) -> str:
        """Return the class of a shape's rectangle; roles have no colour of their own in a picture with marks."""
        return "plain" if self._marks and shape.kind in _ROLES else shape.kind

    def tones(self, shape: Shape) -> list[str]:
        """Return the classes that say what became of a shape."""
        mark = self.mark(shape)
        if mark is not None:
            return self.marked_tones(shape, mark)
        if self.ways is None or shape.kind == "group":
            return []
        return self.reached_tones(shape) if shape.id in self.ways.shapes else ["idle"]

    def reached_tones(self, shape: Shape) -> list[str]:
        """Return the classes of a shape without a mark that a run has reached."""
        return ["taken"] if shape.kind == "dot" else []

    def marked_tones(self, shape: Shape, mark: Mark) -> list[str]:
        """Return the classes of a shape with a mark."""
        if shape.kind == "label" and self._marks and self._marks.about == "trace":
            return [] if mark.kind == "passed" else ["idle"]
        return [mark.kind, *(["stops"] if mark.stops else [])]

    def wire(self, place: int) -> str:
        """Return the class of a line."""
        if self.ways is not None:
            return "taken" if place in self.ways.wires else "idle"
        if self._marks is None:
            return ""
        one = self._picture.wires[place]
        kinds = [self._kinds.get(one.source), self._kinds.get(one.target)]
        return next((kind for kind in ("removed", "added") if kind in kinds), "")

    # Below the picture

    def below(self) -> Below:
        """Return the words and the legend below the picture."""
        if self._marks is None:
            return Below()
        width = max(self._picture.width, _LEAST)
        wide = int((width - 2 * _MARGIN) / (NOTE * 0.55))
        texts = [
            part for line in [*self._marks.lines, *self._without_shape(self._marks)] for part in wrapped(line, wide, 4)
        ]
        lines = [(text, _MARGIN, _LINE * (at + 1)) for at, text in enumerate(texts)]
        samples: list[tuple[str, float, float, bool]] = []
        x, y = _MARGIN, _LINE * len(texts) + _LINE / 2
        for tone, meaning, wire in self._meanings():
            needed = _SWATCH + 6 + text_width(meaning, NOTE) + 14
            if x > _MARGIN and x + needed > width:
                x, y = _MARGIN, y + _LINE + 2
            samples.append((tone, x, y, wire))
            lines.append((meaning, x + _SWATCH + 6, y + 10))
            x += needed
        bottom = y + _LINE if samples else y
        return Below(width, bottom + _MARGIN, tuple(lines), tuple(samples))

    def _without_shape(self, marks: Marks) -> Iterator[str]:
        """Yield the marks that have no words in the picture, so that nothing is lost."""
        drawn = {self._key(shape) for shape in self._picture.shapes if shape.kind not in ("dot", "label", "start")}
        labels = {self._key(shape) for shape in self._picture.shapes if shape.kind == "label"}
        trace = marks.about == "trace"
        for path, mark in marks.marks.items():
            wordy = not trace and any(not line.startswith("condition: ") for line in mark.lines)
            of_list = path.rpartition("@")[2] in _LISTS and "@" in path
            if path in drawn or (path in labels and not wordy) or (trace and of_list is not self._agent):
                continue  # the last: a key of a list of an agent in a picture of no agent, or the other way round
            said = "; ".join(mark.lines) if not trace else ", ".join(mark.words)
            own, _, serves = path.rpartition("@") if trace and self._agent else (path, "", "")
            name = visible(own.removeprefix(GONE)) or "the workflow"
            name += f" of the {serves} processors" if serves else ""
            if said or not trace:
                yield f"{mark.kind}: {name}{f' ({said})' if said else ''}"

    def _meanings(self) -> Iterator[tuple[str, str, bool]]:
        """Yield the legend: the class of each look in the picture, its meaning, and whether it is a line."""
        present = set(self._kinds.values())
        for kind, meaning in _MEANINGS.items():
            if kind in present:
                yield kind, meaning, False
        if self._marks and any(mark.stops for mark in self._marks.marks.values()):
            yield "stop", "the run ends here", True
        if self.ways is not None and any(shape.shadow for shape in self._picture.shapes):
            yield "shadow", "in shadow: changes nothing", True
        if self.ways is not None:
            yield "taken", "the way that was taken", True
            if len(self.ways.wires) < len(self._picture.wires):
                yield "idle", "not taken", True
