"""`CategoryScore`: an entry of verdicts that give scores; it knows no guard."""

from __future__ import annotations

from pydantic import BaseModel

from penstock.models.judges.scores import Score


class CategoryScore(BaseModel):
    """An entry of a judge's verdict: how sure it is that the content falls into a category."""

    category: str
    score: Score
