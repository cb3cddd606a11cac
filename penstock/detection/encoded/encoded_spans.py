"""`EncodedSpans`: stretches of a text that say behind a code what another detector finds. Pure; it knows no stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.encoded.codes import decoded
from penstock.detection.encoded.prose import is_prose
from penstock.detection.encoded.spaced import joined
from penstock.detection.encoded.stretches import judged, stretches
from penstock.detection.spans import Span
from penstock.detection.views import View
from penstock.detection.words import known_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping, Sequence

    from penstock.detection.encoded.stretches import Judged
    from penstock.engine.values.frozen import Value

_INSIDE = "inside"  # the note that says that a stretch was cut, and what was found in it


class EncodedSpans:
    """Finds what is encoded: all of a code that hides something; of letters set apart the ones that say it.

    Args:
        find: what finds spans in a plain text.
    """

    def __init__(self, find: Callable[[str], Sequence[Span]]) -> None:
        self._find = find

    def scan(self, text: str, start: int, notes: MutableMapping[str, Value], *, final: bool) -> tuple[list[Span], int]:
        """Return the spans that begin at ``start`` or later, and from which place on more text could change them.

        The next call's ``start`` is this one's place; ``notes`` is one mapping for each text, empty at its beginning.
        """
        inside, type = notes.pop(_INSIDE, (False, ""))
        if final and not inside and is_prose(text, start):
            return [], len(text)
        view = View(text[start:] if start else text, final=final)
        words, tail = known_words(view.text, final=final)
        found = stretches(view.plain, words, tail, inside=inside, final=final)
        hidden = judged(view.plain, found, self._hides, bool(type))
        hold = len(view.text) if final else _lowered(min(hidden.hold, tail), hidden)
        spans = [self._span(view, low, high, type) for low, high in hidden.hidden if high <= hold]
        self._note(notes, hidden, hold, (inside, type), spans)
        back = [span._replace(start=start + view.start(span.start), end=start + view.end(span.end)) for span in spans]
        return back, start + (view.source if hold >= len(view.text) else view.start(hold))

    def _note(
        self,
        notes: MutableMapping[str, Value],
        hidden: Judged,
        hold: int,
        begun: tuple[bool, str],
        spans: Sequence[Span],
    ) -> None:
        """Note whether the place lies within a stretch, and what was found in that before it."""
        if hold == 0:
            notes[_INSIDE] = begun
        seam = next((seam for seam in hidden.seams if seam.at == hold), None)
        if seam is not None:
            notes[_INSIDE] = (True, spans[-1].type if seam.hit and spans else "")

    def _span(self, view: View, low: int, high: int, type: str) -> Span:
        found = self._first(view.plain[low:high])
        return Span(low, high, found.type if found else type)

    def _hides(self, piece: str) -> Iterator[tuple[int, int]]:
        if any(self._find(text) for text in decoded(piece)):
            yield 0, len(piece)
            return
        together = joined(piece)
        if together is not None:
            for span in self._find(together.text):
                yield together.places[span.start], together.places[span.end - 1] + 1

    def _first(self, piece: str) -> Span | None:
        together = joined(piece)
        texts = [*decoded(piece), *([] if together is None else [together.text])]
        return next((span for text in texts for span in self._find(text)), None)


def _lowered(hold: int, hidden: Judged) -> int:
    """Return the last place up to that one that lies in no stretch, or between two pieces of one, and cuts nothing."""
    seams = {seam.at for seam in hidden.seams}
    whole = [(one.start, one.end) for one in hidden.found]
    lower = -1
    while lower != hold:
        lower = hold
        hold = min((low for low, high in hidden.hidden if low < hold < high), default=hold)
        if hold not in seams:
            begun = next((low for low, high in whole if low < hold < high), hold)
            hold = max((at for at in seams if begun < at <= hold), default=begun)
    return hold
