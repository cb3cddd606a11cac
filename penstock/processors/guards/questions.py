"""`Question`: what a classifier asks a model about a text, and the form of its answers; it knows no guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import freeze
from penstock.models.judges.scores import Score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Values

QuestionKind = Literal["boolean", "choice", "score", "shares"]

_FEWEST = 2  # options to choose from


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a text.

    Attributes:
        text: the question, as the model is asked it.
        kind: what answers it: ``boolean`` (True or False), ``choice`` (one of the options), ``score`` (a number from 0
            to 1), ``shares`` (a number from 0 to 1 for each option, which the model is asked to let add up to 1).
        options: what there is to choose from.
    """

    text: str
    kind: QuestionKind = "boolean"
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be asked.

        Raises:
            OptionError: no text, no such kind, or options that do not go with it.
        """
        if not isinstance(_any(self.text), str) or not self.text.strip():
            raise OptionError("Question", "text", self.text, "a question")
        if self.kind not in get_args(QuestionKind):
            raise OptionError("Question", "kind", self.kind, f"one of {', '.join(get_args(QuestionKind))}")
        object.__setattr__(self, "options", tuple(self.options))
        chooses = self.kind in ("choice", "shares")
        if len(set(self.options)) < _FEWEST if chooses else self.options:
            allowed = "two names or more" if chooses else "left out: only 'choice' and 'shares' have options"
            raise OptionError("Question", "options", self.options, allowed)


class Shares(BaseModel):
    """A number from 0 to 1 for each of several options."""


def form(guard: str, questions: Mapping[str, Question | str]) -> type[BaseModel]:
    """Return the form of the answers to questions by name; a text alone is a question of yes or no.

    Raises:
        OptionError: there is no question, or a name that no field can have.
    """
    if not questions:
        raise OptionError(guard, "classifier", questions, "one question or more")
    fields: dict[str, Any] = {}
    for name, given in questions.items():
        if not isinstance(_any(name), str) or not name.isidentifier() or name.startswith("_"):
            raise OptionError(guard, "classifier", name, "questions by names that are Python's, such as 'is_spam'")
        question = given if isinstance(given, Question) else Question(given)
        fields[name] = (_answer(question), Field(description=question.text))
    return create_model("Answers", __config__=ConfigDict(protected_namespaces=()), **fields)


def plain(answers: BaseModel) -> Values:
    """Return the answers to questions by name, as values that nobody can change."""
    return cast("Values", freeze(answers.model_dump()))


def _answer(question: Question) -> object:
    if question.kind == "boolean":
        return bool
    if question.kind == "score":
        return Score
    if question.kind == "choice":
        return Literal[question.options]  # made at run time
    shares: dict[str, Any] = {
        f"option_{place}": (Score, Field(alias=name)) for place, name in enumerate(question.options)
    }
    return create_model("Shares", __config__=ConfigDict(serialize_by_alias=True), **shares)


def _any(given: object) -> object:
    """Return it as one of any type: what callers without a type checker give may be."""
    return given
