"""The floor for prompt injection: a dozen phrases of known attacks, as one would write them down in an afternoon."""

from __future__ import annotations

import re
from collections.abc import Mapping

PHRASES = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|all|your)\b"
    r"|\bdo anything now\b|\bDAN\b|\bjailbreak|\bdeveloper mode\b|\bgod mode\b"
    r"|\b(?:reveal|show|print|repeat|output)\b[^.\n]{0,30}\b(?:system prompt|instructions|initial prompt)\b"
    r"|\bpretend (?:to be|you are)\b|\bno (?:restrictions|rules|limits|filters)\b|\bunfiltered\b|\bsecret key\b"
    r"|\bnew instructions\b|<\|im_start\|>|\[/?INST\]",
    re.IGNORECASE,
)


class Phrases:
    """One if a phrase occurs, else nought."""

    thresholds: Mapping[str, float] = {"any": 1.0}

    def scores(self, text: str) -> dict[str, float]:
        """Return whether one occurs."""
        return {"any": float(PHRASES.search(text) is not None)}


def make() -> Phrases:
    """Return the floor."""
    return Phrases()
