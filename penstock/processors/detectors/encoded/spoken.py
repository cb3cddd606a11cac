"""What a text says behind codes, for detectors that read texts whole. Pure; it judges nothing."""

from __future__ import annotations

from penstock.processors.detectors.encoded.codes import decoded
from penstock.processors.detectors.encoded.prose import is_prose
from penstock.processors.detectors.encoded.spaced import joined
from penstock.processors.detectors.encoded.stretches import stretches
from penstock.processors.detectors.reading.views import View
from penstock.processors.detectors.reading.words import known_words

_MOST = 16  # readings of one text


def spoken(text: str) -> list[str]:
    """Return what a text says besides what it shows: what codes in it stand for, and itself with its letters together.

    Nothing for plain prose, which is told at a glance.
    """
    if is_prose(text, 0):
        return []
    view = View(text)
    words, tail = known_words(view.text, final=True)
    together = joined(view.plain)
    found = [] if together is None else [together.text]
    for stretch in stretches(view.plain, words, tail, inside=False, final=True).found:
        found += decoded(view.plain[stretch.start : stretch.end])
    return found[:_MOST]
