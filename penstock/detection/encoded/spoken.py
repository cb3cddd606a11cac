"""What a text says behind codes, for detectors that read texts whole. Pure; it judges nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.encoded.codes import decoded
from penstock.detection.encoded.prose import is_prose
from penstock.detection.encoded.spaced import joined
from penstock.detection.encoded.stretches import stretches
from penstock.detection.views import View
from penstock.detection.words import known_words

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH = 2  # codes within codes
# Markup within a word, which whoever shows the text takes for none: em**phasis**, ta<b>gs</b>, com<!-- -->ments.
_MARKUP = re.compile(r"(?<=[^\W_])(?:\*{1,3}|_{2,3}|`{1,3}|~~|</?[a-zA-Z]{1,10}>|<!--[^>]{0,40}-->)(?=[^\W_])")
_MARKED = 3  # words with markup in them, from which on they are no accident


def spoken(text: str) -> list[str]:
    """Return what a text says besides what it shows.

    That is what codes in it stand for, itself with its letters together, and itself without markup within words.
    Nothing for plain prose, which is told at a glance. All together is no longer than a few times the text.
    """
    found = [*_decoded(text, _DEPTH)]
    unmarked, count = _MARKUP.subn("", text)
    return [*found, unmarked] if count >= _MARKED else found


def _decoded(text: str, depth: int) -> Iterator[str]:
    if is_prose(text, 0):
        return
    view = View(text)
    words, tail = known_words(view.text, final=True)
    together = joined(view.plain)
    if together is not None:
        yield together.text
    for stretch in stretches(view.plain, words, tail, inside=False, final=True).found:
        for said in decoded(view.plain[stretch.start : stretch.end]):
            yield said
            if depth > 1:
                yield from _decoded(said, depth - 1)
