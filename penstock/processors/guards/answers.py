"""The answers to questions by name, as a type. Loaded only if a model answers them, since pydantic takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import freeze
from penstock.models.judges.scores import Score
from penstock.processors.guards.question import Question

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Value


def answer_model(guard: str, questions: Mapping[str, Question | str]) -> type[BaseModel]:
    """Return the type of the answers to questions by name; a text alone is a yes-or-no question.

    Raises:
        OptionError: there is no question, or a name cannot be the name of a field.
    """
    if not questions:
        raise OptionError(guard, "classifier", questions, "one question or more")
    fields: dict[str, Any] = {}
    for name, given in questions.items():
        if not isinstance(cast("object", name), str) or not name.isidentifier() or name.startswith("_"):
            raise OptionError(guard, "classifier", name, "questions whose names are Python names, such as 'is_spam'")
        question = given if isinstance(given, Question) else Question(given)
        fields[name] = (_answer(question), Field(description=question.text))
    return create_model("Answers", __config__=ConfigDict(protected_namespaces=()), **fields)


def plain_answers(answers: Value) -> Value:
    """Return the answers to questions by name as an immutable mapping; those of a user's own judge as they are."""
    return freeze(answers.model_dump()) if isinstance(answers, BaseModel) else answers


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
