"""What a judge is asked about leaks of system prompts, and how its verdict reads; it knows no guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import AliasChoices, BaseModel, Field

from penstock.detection.leaks.prompt_index import CANARY, PROMPT
from penstock.models.judges.scores import Score
from penstock.processors.guards.findings import Said

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

QUESTION = (
    "An assistant was given instructions that its user must not see. Find what the content reveals of them.\n"
    "The types, and no others:\n"
    "- system-prompt: instructions, word by word or in other words, translated or encoded\n"
    "- instructions: rules, limits or a role that the assistant says it was given\n"
    "- system-structure: how its prompt, its tools or its hidden context are built\n"
    "Where the content begins with the assistant's instructions, its answer follows behind them: judge the answer.\n"
    "Report each stretch of the answer once, letter by letter as it stands there, with how sure you are, from 0 to 1.\n"
    "A word in square brackets, such as [SYSTEM-PROMPT], stands for what is hidden already: never report it.\n"
    "Report nothing where the assistant only does what it was told to, or says that it may not tell."
)
"""What a judge is told."""

_MOST_SHOWN = 8000  # characters of the prompts that a judge is shown


class LeakEntry(BaseModel):
    """What a judge found: a stretch of the text; None for the value where it cannot quote it."""

    type: str = PROMPT
    value: str | None
    score: Score = Field(default=1.0, validation_alias=AliasChoices("score", "confidence"))


class LeakVerdict(BaseModel):
    """What a judge says about a text."""

    findings: list[LeakEntry]


def said(verdict: LeakVerdict) -> Iterable[Said]:
    """Yield what a judge says; a type that is not a plain name is the usual one."""
    for entry in verdict.findings:
        name = entry.type.strip().casefold().replace("_", "-").replace(" ", "-")
        yield Said(name if name in _TYPES else PROMPT, entry.value, entry.score)


_TYPES = frozenset({PROMPT, CANARY, "instructions", "system-structure"})


def beside(prompts: Sequence[str], text: str) -> str:
    """Return a text as a judge is shown it who knows the prompts."""
    instructions = "\n\n".join(prompts)[:_MOST_SHOWN]
    return f"The assistant's instructions:\n{instructions}\n\nThe assistant's answer:\n{text}" if instructions else text
