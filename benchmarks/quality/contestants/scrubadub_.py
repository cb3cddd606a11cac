"""Scrubadub with the detectors it starts with; the underscore is for its package, which has the name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.detection.spans import Span

if TYPE_CHECKING:
    from scrubadub import Scrubber

TYPES: Mapping[str, str] = {
    "email": "email",
    "phone": "phone",
    "credit_card": "credit-card",
    "social_security_number": "ssn",
    "url": "url",
}
"""Its kinds of filth, and what we call them."""


class Scrubadub:
    """The scrubber, asked for what it finds."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber

    def find(self, text: str) -> list[Span]:
        """Return what it finds of the types above; of stretches that it merged, each."""
        spans: list[Span] = []
        for filth in self._scrubber.iter_filth(text):
            parts = getattr(filth, "filths", [filth])
            spans += [Span(each.beg, each.end, TYPES[each.type]) for each in parts if each.type in TYPES]
        return spans


def make() -> Scrubadub:
    """Return it as it starts."""
    from scrubadub import Scrubber

    return Scrubadub(Scrubber())
