"""`ModerationVerdict`: a judge's verdict about harm. Loaded only if a model judges, since pydantic takes time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, WithJsonSchema, create_model

from penstock.models.judges.scores import Score
from penstock.models.judges.spoken import SpokenVerdict

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


class CategoryScore(BaseModel):
    """An entry of a judge's verdict: how sure it is that the content falls into a category, from 0 to 1."""

    category: str
    score: Score


class ModerationVerdict(SpokenVerdict):
    """A judge's verdict: the score of each category that applies (none if none does), and a reason in a few words."""

    category_scores: list[CategoryScore] | None
    reason: str | None = None


@cache
def verdict_type(categories: tuple[str, ...]) -> type[ModerationVerdict]:
    """Return the type of a verdict that offers these categories.

    It accepts other categories, too, so that an entry that a judge made up is not lost unread.
    """
    offered = Annotated[str, WithJsonSchema({"type": "string", "enum": list(categories)})]
    entry = create_model("ScoredCategory", __base__=CategoryScore, category=(offered, ...))
    scores: Value = list[entry] | None  # type: ignore[valid-type] # made at run time
    return create_model("OfferedModerationVerdict", __base__=ModerationVerdict, category_scores=(scores, ...))
