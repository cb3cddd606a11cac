"""`PIIVerdict`: what a judge says about personal data; loaded where a judge is asked, for pydantic takes its time."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, Field

from penstock.models.judges.scores import Score


class PIIEntry(BaseModel):
    """What a judge found: a value of a type, as it stands in the text; None where it can name the type alone."""

    type: str
    value: str | None
    score: Score = Field(validation_alias=AliasChoices("score", "confidence"))


class PIIVerdict(BaseModel):
    """What a judge says about a text."""

    findings: list[PIIEntry]
