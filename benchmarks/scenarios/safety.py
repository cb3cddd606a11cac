"""What guards cost beside their detectors called by hand, and a process up to its first verdict; no target is set.

A guard also reads tool calls, joins parts, keeps records and applies a policy. Prompts are new each time, so nothing is
remembered from one to the next but words.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import anyio
from harness import FLOOR, OURS, Contest, Effort, Row, Timed
from scenarios.imports import seconds

from penstock import ModerationProcessor, PIIDetector, PromptInjectionDetector, Workflow
from penstock.detection.encoded import spoken
from penstock.detection.injection import InjectionScorer
from penstock.detection.moderation import ModerationScorer
from penstock.detection.personal_data.detector import DEFAULT, PersonalData
from penstock.workflows.presets import safety

PROMPT = (
    "Please write a short note to my colleagues about the meeting next week. We talk about the new plan for the garden,"
    " who waters the plants in summer, and whether the old shed can be repaired before winter comes. Keep it friendly,"
    " two paragraphs, and end with a question that people like to answer"
)
Judge = Callable[[str], bool]

FIRST_VERDICT = f"from penstock.workflows.presets import safety; safety().check_sync({PROMPT!r})"
DETECTORS = f"""
from penstock.detection.injection import InjectionScorer; from penstock.detection.moderation import ModerationScorer
from penstock.detection.personal_data.detector import PersonalData
InjectionScorer().scores({PROMPT!r}); ModerationScorer().scores({PROMPT!r}); PersonalData().find({PROMPT!r})
""".strip().replace("\n", "; ")

personal = PersonalData(DEFAULT)
moderation, injection = ModerationScorer(), InjectionScorer()


def finds_personal_data(text: str) -> bool:
    """Return whether the detector of personal data finds some, also in codes."""
    return bool(personal.find(text) or personal.encoded.scan(text, 0, {}, final=True)[0])


def is_harmful(text: str) -> bool:
    """Return whether the moderation model flags a text."""
    return _flags(moderation, text)


def is_attack(text: str) -> bool:
    """Return whether the injection model flags a text."""
    return _flags(injection, text)


def _flags(scorer: ModerationScorer | InjectionScorer, text: str) -> bool:
    limits = scorer.thresholds
    return any(score >= limits[name] for each in (text, *spoken(text)) for name, score in scorer.scores(each).items())


def all_three(text: str) -> bool:
    """Return whether any of the three finds something."""
    return finds_personal_data(text) or is_harmful(text) or is_attack(text)


async def contests() -> list[Contest]:
    """Return a contest for each guard, and for all of them."""
    return [
        _prompt("PIIDetector", Workflow("w").then(PIIDetector()), finds_personal_data),
        _prompt("ModerationProcessor", Workflow("w").then(ModerationProcessor()), is_harmful),
        _prompt("PromptInjectionDetector", Workflow("w").then(PromptInjectionDetector()), is_attack),
        _prompt("safety()", safety(), all_three),
    ]


def _prompt(name: str, workflow: Workflow, judge: Judge) -> Contest:
    numbers = count()

    async def ours(times: int) -> bool:
        found = False
        for _ in range(times):
            outcome = workflow.check_sync(f"{PROMPT} {next(numbers)}?", records=False)
            found = outcome.blocked or not outcome.text.startswith(PROMPT)
        return found

    async def floor(times: int) -> bool:
        found = False
        for _ in range(times):
            found = judge(f"{PROMPT} {next(numbers)}?")
        return found

    return Contest(f"{name}, check_sync of a prompt of 300 characters", "its detectors alone", ours, floor)


class Safety(Timed):
    """The contests, and a row for a new process."""

    def rows(self, effort: Effort) -> list[Row]:
        """Time the contests, then new processes in turn; the first of each, which writes byte-code, does not count."""
        cold: dict[str, list[float]] = {FLOOR: [], OURS: []}
        for index in range(effort.repetitions // 10 + 1):
            for name, statement in ((FLOOR, DETECTORS), (OURS, FIRST_VERDICT)):
                taken = seconds(statement)
                if index:
                    cold[name].append(taken)
        best = {name: min(found) for name, found in cold.items()}
        row = Row(self.name, "a new process, to the first verdict of safety()", "the three detectors alone", best, None)
        return [*anyio.run(self._rows, effort), row]


SCENARIO = Safety("safety", contests)
