"""Models to choose from, and what was decided; they know no processor and no judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.ports import Model

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Values

Abstained: TypeAlias = Literal["no-text", "below-threshold", "no-model-for-choice", "error"]
"""Why no model was chosen: the request says nothing in words; the choice was not sure enough; no choice was named, or
none that there is; nobody could say."""

_FEWEST = 2  # models to choose from
_KEYS = ("model", "criteria", "name")


def name_of(model: Model | str) -> str:
    """Return what a model is called."""
    return model if isinstance(model, str) else model.name


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model, and when it is to be chosen.

    Attributes:
        model: the model, or its name.
        criteria: for which requests, in words.
        name: what the choice is called; the model's name by default.

    Raises:
        OptionError: it is no model, or there are no words.
    """

    model: Model | str
    criteria: str
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be chosen."""
        _check_model("ModelChoice", "model", self.model)
        for option, given in (("criteria", self.criteria), ("name", self.name or name_of(self.model))):
            if not isinstance(cast("object", given), str) or not given.strip():
                raise OptionError("ModelChoice", option, given, "a text that says something")
        object.__setattr__(self, "name", self.name or name_of(self.model))


@dataclass(frozen=True, slots=True)
class ModelDecision:
    """Which model was chosen for a request, or why none was.

    Attributes:
        model: the model, or its name; None: the one that is configured stays.
        choice: what the choice is called, where one was named that there is.
        probability: how sure the choice is, from 0 to 1; None where nobody said.
        abstained: why no model was chosen; None if one was.
    """

    model: Model | str | None = None
    choice: str | None = None
    probability: float | None = None
    abstained: Abstained | None = None

    def __repr__(self) -> str:
        """Show names, which are its user's own."""
        named = None if self.model is None else name_of(self.model)
        told = {"model": named, "choice": self.choice, "probability": self.probability, "abstained": self.abstained}
        return f"ModelDecision({', '.join(f'{key}={it!r}' for key, it in told.items() if it is not None)})"


MODEL_CHOICE: Key[ModelDecision] = Key("model-choice")
"""The fact with what was decided for this request, for the conditions of branches."""


def choices_of(processor: str, given: object) -> tuple[ModelChoice, ...]:
    """Return the choices of an option: `ModelChoice`s, or mappings that make some.

    Raises:
        OptionError: they are something else, fewer than two, or two have one name.
    """
    made = tuple(_choice(processor, each) for each in _listed(given))
    names = {choice.name.strip().casefold() for choice in made}
    if len(made) < _FEWEST or len(names) < len(made):
        raise OptionError(
            processor, "choices", given, f"a list of {_FEWEST} ModelChoices or more, each of its own name"
        )
    return made


def _listed(given: object) -> Sequence[object]:
    return cast("Sequence[object]", given) if isinstance(given, Sequence) and not isinstance(given, str) else ()


def _choice(processor: str, given: object) -> ModelChoice:
    if isinstance(given, ModelChoice):
        return given
    told = _mapping(given)
    if not {"model", "criteria"} <= told.keys() <= set(_KEYS):
        raise OptionError(processor, "choices", given, f"ModelChoices, or mappings with {', '.join(_KEYS)}")
    return ModelChoice(**told)


def _mapping(given: object) -> Values:
    return cast("Values", given) if isinstance(given, Mapping) else {}


def checked_model(given: object) -> Model | str:
    """Return a model, or the name of one, that somebody's code picked.

    Raises:
        OptionError: it is neither.
    """
    _check_model("select", "model", given)
    return cast("Model | str", given)


def _check_model(processor: str, option: str, given: object) -> None:
    if not (isinstance(given, Model) or (isinstance(given, str) and given.strip())):
        raise OptionError(processor, option, given, "a Model, or the name of one")
