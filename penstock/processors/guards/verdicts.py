"""The verdicts of the judges that guards ask. Loaded only if a model judges, since pydantic takes time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, BaseModel, Field, WithJsonSchema, create_model

from penstock.detection.leaks.prompt_index import PROMPT
from penstock.models.judges.scores import Score
from penstock.models.judges.spoken import SpokenVerdict

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


class PIIEntry(BaseModel):
    """A finding of a judge: a type, and the value as it stands in the text; None if it can only name the type."""

    type: str
    value: str | None
    score: Score = Field(validation_alias=AliasChoices("score", "confidence"))


class PIIVerdict(BaseModel):
    """A judge's verdict about a text."""

    findings: list[PIIEntry]


class LeakEntry(BaseModel):
    """A finding of a judge: a type, and the stretch of the text; None for the value if it cannot quote it."""

    type: str = PROMPT
    value: str | None
    score: Score = Field(default=1.0, validation_alias=AliasChoices("score", "confidence"))


class LeakVerdict(BaseModel):
    """A judge's verdict about a text."""

    findings: list[LeakEntry]


class CategoryScore(BaseModel):
    """An entry of a judge's verdict: how sure it is that the content falls into a category, from 0 to 1."""

    category: str
    score: Score


class ModerationVerdict(SpokenVerdict):
    """A judge's verdict: the score of each category that applies (none if none does), and a reason in a few words."""

    category_scores: list[CategoryScore] | None
    reason: str | None = None


@cache
def moderation_verdict(categories: tuple[str, ...]) -> type[ModerationVerdict]:
    """Return the type of a verdict that offers these categories; it accepts others, too, so none is lost unread."""
    offered = Annotated[str, WithJsonSchema({"type": "string", "enum": list(categories)})]
    entry = create_model("ScoredCategory", __base__=CategoryScore, category=(offered, ...))
    scores: Value = list[entry] | None  # type: ignore[valid-type] # made at run time
    return create_model("OfferedModerationVerdict", __base__=ModerationVerdict, category_scores=(scores, ...))


class LanguageVerdict(SpokenVerdict):
    """A judge's verdict: the tag of the language and how sure it is; ``und`` and 0 if it cannot tell."""

    iso_code: str | None
    confidence: Score | None


class TranslationVerdict(LanguageVerdict):
    """The verdict of a judge that translates, too: None if the content needs no translation or cannot be translated."""

    translated_text: str | None


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
def injection_verdict(types: tuple[str, ...], *, rewrites: bool = False) -> type[InjectionVerdict]:
    """Return the type of a verdict that offers these kinds; it accepts others, too, so that none is lost unread."""
    offered = Annotated[str, WithJsonSchema({"type": "string", "enum": list(types)})]
    entry = create_model("OfferedTypeScore", __base__=TypeScore, type=(offered, ...))
    listing: Value = list[entry] | None  # type: ignore[valid-type] # made at run time
    base = RewriteVerdict if rewrites else InjectionVerdict
    return create_model("OfferedInjectionVerdict", __base__=base, categories=(listing, ...))
