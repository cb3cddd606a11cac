"""The goals, and whether a figure meets them: a floor, and what is aimed for. They are about kept-back texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from benchmarks.quality.tables import Section
from penstock.workflows.evaluation.figures import Interval

Verdict = Literal["ambitious", "acceptable", "missed", "not measured"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be at least, or at most.

    Attributes:
        key: by which a section tells its figure.
        guardrail: whose figure it is.
        metric: what is measured.
        acceptable: the floor; None where none was set.
        ambitious: what is aimed for; None where none was set.
        at_most: whether smaller is better.
    """

    key: str
    guardrail: str
    metric: str
    acceptable: float | None
    ambitious: float | None
    at_most: bool = False

    def verdict(self, measured: float | None) -> Verdict:
        """Return the highest of the two that is met."""
        if measured is None:
            return "not measured"
        if self._met(measured, self.ambitious):
            return "ambitious"
        return "acceptable" if self._met(measured, self.acceptable) else "missed"

    def _met(self, measured: float, goal: float | None) -> bool:
        return goal is not None and (measured <= goal if self.at_most else measured >= goal)


GOALS: tuple[Goal, ...] = (
    Goal("honest.blocked", "honest work", "harmless rows blocked by safety()", 0.005, 0.0, at_most=True),
    Goal("honest.edited", "honest work", "harmless rows edited by safety()", 0.01, 0.005, at_most=True),
    Goal("honest.broken", "honest work", "JSON values with other keys or types, by safety()", 0.01, 0.0, at_most=True),
    Goal("honest.hidden", "honest work", "items to hide that are hidden, but for names", 0.97, 1.0),
    Goal("honest.attacks", "honest work", "attacks among the rows that safety() blocks", 0.75, 0.95),
    Goal("personal.f1", "personal data", "macro F1 of 7 types, fully labelled sets", 0.97, 0.988),
    Goal("personal.phone", "personal data", "F1 of phone, fully labelled sets", 0.90, 0.95),
    Goal("personal.recall", "personal data", "recall of email, card, iban, ip: all sets", 0.98, 0.99),
    Goal("personal.least", "personal data", "the least recall of the four", 0.98, 0.985),
    Goal("personal.false", "personal data", "false spans in 100,000 characters, benign", 1.0, 0.3, at_most=True),
    Goal("personal.speed", "personal data", "MB/s, all types, labelled sentences", 1.0, 2.5),
    Goal("personal.prose", "personal data", "MB/s, all types, prompts and answers", 1.9, 4.0),
    Goal("personal.long", "personal data", "MB/s, all types, documents of 100,000 characters", 0.84, 4.0),
    Goal("secrets.recall", "keys", "recall where an API's key is labelled", 0.85, 0.93),
    Goal("secrets.flagged", "keys", "benign prompts flagged", 0.003, 0.002, at_most=True),
    Goal("secrets.answers", "keys", "clean answers flagged", 0.01, 0.003, at_most=True),
    Goal("language.tatoeba", "language", "macro accuracy, Tatoeba", 0.96, 0.97),
    Goal("language.macro", "language", "macro accuracy, Tatoeba, macro-languages", 0.975, 0.98),
    Goal("language.short", "language", "Tatoeba, under 20 characters: right, or not known", 0.918, 0.94),
    Goal("language.top", "language", "macro accuracy, Tatoeba, 30 languages", 0.985, 0.993),
    Goal("language.xquad", "language", "macro accuracy, XQuAD", 0.99, 0.997),
    Goal("language.pud", "language", "macro accuracy, PUD", 0.99, 0.998),
    Goal("injection.auc", "prompt injection", "ROC-AUC, pooled", 0.965, 0.98),
    Goal("injection.recall", "prompt injection", "recall at the default threshold, pooled", 0.77, 0.83),
    Goal("injection.flagged", "prompt injection", "benign pool flagged at that threshold", 0.01, 0.01, at_most=True),
    Goal("injection.notinject", "prompt injection", "NotInject flagged", 0.02, 0.01, at_most=True),
    Goal("injection.multilingual", "prompt injection", "multilingual benign flagged", 0.015, 0.005, at_most=True),
    Goal("injection.act_as", "prompt injection", "act-as personas flagged", 0.05, 0.02, at_most=True),
    Goal("injection.untouched", "prompt injection", "a set not trained on, most flagged", 0.021, 0.005, at_most=True),
    Goal("injection.language", "prompt injection", "a language, most flagged", 0.16, 0.02, at_most=True),
    Goal("moderation.auc", "moderation", "ROC-AUC of any, OpenAI set", 0.83, 0.87),
    Goal("moderation.ap", "moderation", "average precision of any, OpenAI set", 0.68, 0.75),
    Goal("moderation.sexual", "moderation", "ROC-AUC of sexual, OpenAI set", 0.92, 0.95),
    Goal("moderation.self-harm", "moderation", "ROC-AUC of self-harm, OpenAI set", 0.95, 0.97),
    Goal("moderation.hate", "moderation", "ROC-AUC of hate, OpenAI set", 0.80, 0.86),
    Goal("moderation.harassment", "moderation", "ROC-AUC of harassment, OpenAI set", 0.80, 0.86),
    Goal("moderation.violence", "moderation", "ROC-AUC of violence, OpenAI set", 0.78, 0.83),
    Goal("moderation.xstest", "moderation", "XSTest's safe prompts flagged", 0.08, 0.05, at_most=True),
    Goal("leaks.recall", "prompt leaks", "excerpts of 12 words and more found, least of 10 forms", 1.0, 1.0),
    Goal("leaks.false", "prompt leaks", "clean answers flagged", 0.0, 0.0, at_most=True),
    Goal("leaks.changed", "prompt leaks", "20 words with 20 % changed, found", 0.90, 0.95),
)


@dataclass(frozen=True, slots=True)
class Result:
    """A goal and what was measured.

    Attributes:
        goal: the goal.
        measured: our figure; None if it was not measured.
        interval: where it lies in 95 of 100 samples of such texts; None if that was not computed.
    """

    goal: Goal
    measured: float | None
    interval: Interval | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether the goal is met."""
        return self.goal.verdict(self.measured)


def results(sections: Iterable[Section]) -> list[Result]:
    """Return every goal of these sections, with its figure."""
    by_name = {section.name: section for section in sections}
    found: list[Result] = []
    for goal in GOALS:
        section = by_name.get(goal.key.partition(".")[0])
        if section is not None:
            found.append(Result(goal, section.measured.get(goal.key), section.intervals.get(goal.key)))
    return found
