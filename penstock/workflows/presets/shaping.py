"""`shaped`: the step that stands first in presets of guards, so that they are shown what readers see."""

from __future__ import annotations

from penstock.processors.text import UnicodeNormalizer


def shaped() -> UnicodeNormalizer:
    """Return a normaliser that takes disguises off: full-width and styled letters, look-alikes, what nobody sees.

    Guards read through these themselves; behind it, the model and steps of one's own read plain letters, too.
    """
    return UnicodeNormalizer(form="NFKC", confusables="fold")
