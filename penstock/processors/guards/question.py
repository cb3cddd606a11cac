"""`Question`: one question about a text, for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from penstock.engine.values.errors import OptionError

QuestionKind = Literal["boolean", "choice", "score", "shares"]

_FEWEST = 2  # options to choose from


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a text.

    Attributes:
        text: the question for the model.
        kind: the kind of answer: ``boolean`` (the default: True or False), ``choice`` (one of the options), ``score``
            (a number from 0 to 1), ``shares`` (a number from 0 to 1 for each option; the model is asked to make them
            add up to 1).
        options: the names to choose from, two or more, for ``choice`` and ``shares``; none for other kinds.

    Raises:
        OptionError: the text is empty, the kind is unknown, or the options do not fit the kind.
    """

    text: str
    kind: QuestionKind = "boolean"
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the question.

        Raises:
            OptionError: the text is empty, the kind is unknown, or the options do not fit the kind.
        """
        if not isinstance(cast("object", self.text), str) or not self.text.strip():
            raise OptionError("Question", "text", self.text, "a question")
        if self.kind not in get_args(QuestionKind):
            raise OptionError("Question", "kind", self.kind, f"one of {', '.join(get_args(QuestionKind))}")
        object.__setattr__(self, "options", tuple(self.options))
        chooses = self.kind in ("choice", "shares")
        if len(set(self.options)) < _FEWEST if chooses else self.options:
            allowed = "two names or more" if chooses else "left out: only 'choice' and 'shares' have options"
            raise OptionError("Question", "options", self.options, allowed)
