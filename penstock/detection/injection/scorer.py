"""`InjectionScorer`: how much a text looks like an attempt to take over a model; it knows no guard.

A linear model gives the score; rules name what explains it. The model was trained by ``training/injection.py`` on the
data sets that its file names. It knows direct attacks. An order hidden in an e-mail or a web page that reads like any
other order is beyond it, as it is beyond every detector that does not know who may give orders.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.injection.rules import CERTAIN_RULES, HIDDEN, INJECTION, RULES, TYPES, matching
from penstock.detection.injection.wrappings import hidden, readings
from penstock.detection.linear.model import load
from penstock.detection.linear.reading import undisguised

if TYPE_CHECKING:
    from collections.abc import Mapping

WEIGHTS = Path(__file__).parent / "weights.bin"
"""The file of the weights; its first line, JSON, says what they were made from, and under which licences."""

CERTAIN = 0.99
"""The score of what is an attack whatever else the text says."""


_DOUBTFUL = 0.02  # below that, it is not worth the time to ask which kind a text would be


class InjectionScorer:
    """Scores the six kinds of attacks; safe to share between threads. The weights are loaded at the first text.

    ``injection`` has the model's score, which is the share of attacks among development texts of that margin. Another
    kind has the same score where a rule speaks for it, and 0 otherwise. Attacks in full-width, look-alike or invisible
    characters, and in leet, rot13 or reversed ones, are read as what they stand for; the highest score counts.
    """

    categories: tuple[str, ...] = TYPES

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The score from which on a kind counts: below 1 % of the benign development prompts reach it."""
        limit = load(WEIGHTS).thresholds[INJECTION]
        return dict.fromkeys(TYPES, limit)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are of one class: they have no options, so the guards that use them can be equal."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Go with equality."""
        return hash(type(self))

    def scores(self, text: str) -> dict[str, float]:
        """Return the score of each kind, from 0 to 1, for one window of a text."""
        texts = [text, *readings(text)]
        score = max(load(WEIGHTS).scores(each)[INJECTION] for each in texts)
        rules = RULES if score >= _DOUBTFUL else CERTAIN_RULES
        found = [rule for each in texts for rule in matching(undisguised(each).lower(), rules)]
        if hidden(text) or any(rule.certain for rule in found):
            score = max(score, CERTAIN)
        named = {INJECTION, *[rule.type for rule in found]}
        return {kind: score if kind in named else 0.0 for kind in TYPES}

    def reasons(self, text: str) -> tuple[str, ...]:
        """Return the names of what a text says that attacks say; whether it is one, the scores tell."""
        texts = [text, *readings(text)]
        names = [rule.name for each in texts for rule in matching(undisguised(each).lower())]
        return tuple(dict.fromkeys([*([HIDDEN] if hidden(text) else []), *names]))
