"""`LeakVerdict`: a judge's verdict about leaks. Loaded only if a model judges, since pydantic takes time."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, Field

from penstock.detection.leaks.prompt_index import PROMPT
from penstock.models.judges.scores import Score


class LeakEntry(BaseModel):
    """A finding of a judge: a type, and the stretch of the text; None for the value if it cannot quote it."""

    type: str = PROMPT
    value: str | None
    score: Score = Field(default=1.0, validation_alias=AliasChoices("score", "confidence"))


class LeakVerdict(BaseModel):
    """A judge's verdict about a text."""

    findings: list[LeakEntry]
