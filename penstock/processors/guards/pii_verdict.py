"""`PIIVerdict`: a judge's verdict about personal data. Loaded only when a judge is asked, since pydantic takes time."""

from __future__ import annotations

from pydantic import AliasChoices, BaseModel, Field

from penstock.models.judges.scores import Score


class PIIEntry(BaseModel):
    """A finding of a judge: a type, and the value as it stands in the text; None if it can only name the type."""

    type: str
    value: str | None
    score: Score = Field(validation_alias=AliasChoices("score", "confidence"))


class PIIVerdict(BaseModel):
    """A judge's verdict about a text."""

    findings: list[PIIEntry]
