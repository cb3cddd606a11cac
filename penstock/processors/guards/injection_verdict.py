"""`InjectionVerdict`: a judge's verdict about attacks. Loaded only if a model judges, since pydantic takes time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, WithJsonSchema, create_model

from penstock.models.judges.scores import Score
from penstock.models.judges.spoken import SpokenVerdict

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


class TypeScore(BaseModel):
    """How sure a judge is of a kind of attack, from 0 to 1."""

    type: str
    score: Score


class InjectionVerdict(SpokenVerdict):
    """A judge's verdict: the score of each kind of attack that applies (none if none does), and a reason."""

    categories: list[TypeScore] | None
    reason: str | None = None


class RewriteVerdict(InjectionVerdict):
    """The same, with what the content says without the attack; None if nothing remains."""

    rewritten_content: str | None = None


@cache
def verdict_type(types: tuple[str, ...], *, rewrites: bool = False) -> type[InjectionVerdict]:
    """Return the type of a verdict that offers these kinds; it accepts others, too, so that none is lost unread."""
    offered = Annotated[str, WithJsonSchema({"type": "string", "enum": list(types)})]
    entry = create_model("OfferedTypeScore", __base__=TypeScore, type=(offered, ...))
    listing: Value = list[entry] | None  # type: ignore[valid-type] # made at run time
    base = RewriteVerdict if rewrites else InjectionVerdict
    return create_model("OfferedInjectionVerdict", __base__=base, categories=(listing, ...))
