"""What a normaliser finds in one text: the edits, and what they took away. Pure; it knows no message and no stage."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.detection.unicode._confusables import confusables
from penstock.detection.unicode._invisibles import invisibles
from penstock.detection.unicode._normal_form import form_edits
from penstock.detection.unicode._whitespace import trim_edits, whitespace_edits
from penstock.engine.values.edits import Edit, apply, compose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.detection.unicode._normal_form import NormalForm
    from penstock.detection.unicode._whitespace import Whitespace
    from penstock.engine.values.edits import Edits

Form = Literal["NFC", "NFKC", "keep"]
Invisible = Literal["strip", "mark", "keep"]
Confusables = Literal["off", "detect", "fold"]

# What the reference's strip_control_chars deletes: C0 without TAB, LF, CR; DEL; C1.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, slots=True)
class Profile:
    """What is done to a text, whole; see `UnicodeNormalizer` for the meaning of each field."""

    form: Form = "NFC"
    invisible: Invisible = "strip"
    confusables: Confusables = "off"
    whitespace: Whitespace = "keep"
    keep_layout: bool = True
    trim: bool = False
    strip_control_chars: bool = False
    preserve_emojis: bool = True

    @property
    def edits(self) -> bool:
        """Whether it can change a text at all."""
        passive = (self.form, self.invisible, self.whitespace) == ("keep", "keep", "keep")
        return not passive or self.confusables == "fold" or self.trim or self.strip_control_chars


@dataclass(slots=True)
class Normalised:
    """The text as it becomes; the edits, in positions of the text before; how much of what kind was found."""

    text: str
    edits: Edits = ()
    counts: Counter[str] = field(default_factory=Counter[str])

    def change(self, edits: Edits, kind: str = "") -> None:
        """Make edits that are in positions of the text as it stands, and count them under ``kind``, if given."""
        if edits:
            self.text = apply(self.text, edits)
            self.edits = compose(self.edits, edits) if self.edits else edits
            if kind:
                self.counts[kind] += len(edits)


def normalise(text: str, profile: Profile, *, prose: bool = True) -> Normalised:
    """Return what the profile makes of a text; white space is touched only in ``prose``.

    What cannot be seen goes first, since it may stand between a letter and its accent; only where it is kept are
    control characters stripped after the normal form, as the reference does.
    """
    found = Normalised(text)
    if profile.invisible != "keep":
        _hide(found, profile)
    if profile.strip_control_chars and profile.invisible != "keep":
        _strip_controls(found)
    if profile.form != "keep":
        _to_form(found, profile.form)
    if profile.confusables != "off" and _unmask(found, fold=profile.confusables == "fold") and profile.form != "keep":
        _to_form(found, profile.form)  # a letter that was folded may melt with its accent now
    if profile.strip_control_chars and profile.invisible == "keep":
        _strip_controls(found)
    if prose:
        found.change(whitespace_edits(found.text, profile.whitespace, keep_layout=profile.keep_layout), "white space")
        if profile.trim:
            found.change(trim_edits(found.text), "white space")
    return found


def _to_form(found: Normalised, form: NormalForm) -> None:
    found.change(form_edits(found.text, form), form)


def _hide(found: Normalised, profile: Profile) -> None:
    edits: list[Edit] = []
    for start, end, kind in invisibles(found.text, preserve_emojis=profile.preserve_emojis):
        found.counts[kind] += end - start
        gone = profile.invisible == "strip" or (profile.strip_control_chars and kind in ("control", "ansi"))
        edits.append(Edit(start, end, "" if gone else _mark(kind, end - start)))
    found.change(tuple(_united(edits)))


def _mark(kind: str, length: int) -> str:
    return f"[{kind}]" if length == 1 or kind == "ansi" else f"[{kind} x{length}]"


def _strip_controls(found: Normalised) -> None:
    edits = tuple(Edit(run.start(), run.end()) for run in _CONTROLS.finditer(found.text))
    if edits:
        found.counts["control"] += sum(edit.end - edit.start for edit in edits)
    found.change(edits)


def _unmask(found: Normalised, *, fold: bool) -> bool:
    """Count disguised letters, and fold them if asked to; tell whether the text changed."""
    edits = tuple(Edit(*disguise) for disguise in confusables(found.text))
    if edits:
        found.counts["confusable"] += len(edits)
    found.change(tuple(_united(edits)) if fold else ())
    return fold and bool(edits)


def _united(edits: Iterable[Edit]) -> Iterator[Edit]:
    """Yield the edits, those that touch as one."""
    begin, stop, pieces = -1, -1, list[str]()
    for edit in edits:
        if edit.start != stop and begin >= 0:
            yield Edit(begin, stop, "".join(pieces))
            begin, pieces = -1, []
        begin = edit.start if begin < 0 else begin
        pieces.append(edit.text)
        stop = edit.end
    if begin >= 0:
        yield Edit(begin, stop, "".join(pieces))
