"""Rules for what stands behind a label and a separator: the value, or the whole assignment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from penstock.detection.patterns.built_in import BuiltIn
from penstock.detection.patterns.shapes import Shape, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.detection.patterns.shapes import Scan

_SEPARATOR = re.compile(r"(?<![:=!])(?:[:=]{1,3}+>?|!==?)(?![:=])")  # more of them are a line that is drawn
_QUOTE = re.compile(r"""\s{0,12}+(["'`]?)""")
_BEHIND = r"""["'\])]{0,2}\s{0,12}"""  # what may part a label from its separator
_WINDOW = 72  # how far before its separator a label may begin
_LONGEST = 128  # characters of a value that are looked at


@dataclass(frozen=True, slots=True)
class Value:
    """How a value must look behind a label.

    Attributes:
        bare: the characters of a value without quotes, as the inside of a class.
        quoted: those of a value in quotes.
        least: how many there must be.
        check: has the last word; it is told whether the value stood in quotes.
    """

    bare: str
    quoted: str
    least: int
    check: Callable[[str, bool], bool]


class _Labelled:
    """Searches for one label's values. ``whole`` is what to look for at a text's end if the label is found, too."""

    def __init__(self, label: str, value: Value, whole: Shape | None, stems: Sequence[str]) -> None:
        self._stems = stems
        self._label = re.compile(rf"(?i)(?:{label}){_BEHIND}$", re.ASCII)
        self._bare = re.compile(f"[{value.bare}]{{0,{_LONGEST}}}+")
        self._quoted = re.compile(f"[{value.quoted}]{{0,{_LONGEST}}}+")
        self._rest = re.compile(f"[{value.bare}]*")
        self._value = value
        self._whole = whole

    def search(self, text: str, start: int, *, final: bool) -> Scan:
        """Return the traces of assignments, and where one is open."""
        traces: list[Trace] = []
        hold = len(text) if final or self._whole is None else self._whole.open_at(text, start)
        reach = 0
        plain = text[max(start - _WINDOW, 0) :].lower()
        if not any(stem in plain for stem in self._stems):  # the cheaper question comes first
            return traces, hold
        for separator in _SEPARATOR.finditer(text, start):
            at = separator.start()
            found = self._behind(text, separator.end(), final=final) if at >= reach else None
            label = self._label.search(text, max(at - _WINDOW, 0), at) if found else None
            if found is None or label is None:
                continue
            begin, end, bare = found
            reach = _end(self._rest, text, end) if bare else end  # read once for each value: it may be long
            low = at if self._whole is None else label.start()
            if reach > len(text) or (reach == len(text) and not final):
                return traces, min(hold, low)
            traces.append(Trace(low, reach, begin if self._whole is None else low, reach))
        return traces, hold

    def _behind(self, text: str, at: int, *, final: bool) -> tuple[int, int, bool] | None:
        """Return where a value behind a separator begins and ends, and whether it goes on as far as it can.

        The end is beyond the text if more of it must be seen.
        """
        opening = _QUOTE.match(text, at)
        mark, begin = (opening.group(1), opening.end()) if opening else ("", at)
        end = _end(self._quoted if mark else self._bare, text, begin)
        if end == len(text) and not final:
            return begin, end + 1, False
        if end - begin < self._value.least or (mark and text[end : end + 1] not in (mark, "")):
            if not mark or self._whole is None:
                return None
            end = _end(self._bare, text, begin)
            if end - begin < self._value.least:
                return None
        if not self._value.check(text[begin:end], bool(mark)) or text[end : end + 1] in ("(", "["):
            return None
        return begin, end, not mark


def _end(run: re.Pattern[str], text: str, at: int) -> int:
    found = run.match(text, at)
    return found.end() if found else at


def labelled(name: str, replacement: str, label: str, value: Value, stems: str, *, whole: str = "") -> BuiltIn:
    """Return the rule for what stands behind a label and a separator.

    Args:
        name: what it finds.
        replacement: what stands in its place.
        label: a pattern, in any case.
        value: how the value must look.
        stems: words, parted by spaces, of which each label has one in it.
        whole: the trigger that a label begins with; given if the label is found, too.
    """
    before = Shape(rf"(?:{label}){_BEHIND}(?:[:=]|!=)", regex.ASCII | regex.IGNORECASE) if whole else None
    trigger = f"[:=]|{whole}" if whole else "[:=]"
    return BuiltIn(name, replacement, trigger, _Labelled(label, value, before, stems.split()).search)
