"""`as_model`: what is taken wherever a model is: a `Model`, the name of one, or a model of pydantic-ai."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.protocols import Model

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


def as_model(given: object, owner: str, option: str = "model") -> Model:
    """Return a model as it is, the model with a name such as ``openai/gpt-5``, or an adapter for one of pydantic-ai.

    Args:
        given: what was given for a model.
        owner: the class whose option it is, for errors.
        option: the option, for errors.

    Raises:
        OptionError: it is none of these, no model has that name, or its key is missing.
        MissingExtraError: the name needs an extra that is not installed.
    """
    if isinstance(given, str):
        from penstock.models.openai.model import model  # loaded where a name is given

        return model(given)
    if isinstance(given, Model) and not isinstance(given, type):
        return given
    if is_pydantic_ai(given):
        from penstock.models.pydantic_ai.model import PydanticAIModel  # its library is an extra

        return PydanticAIModel(cast("Value", given))
    allowed = "a Model, a name such as 'openai/gpt-5', or a model of pydantic-ai's"
    raise OptionError(owner, option, type(given).__name__, allowed)


def names_model(given: object) -> TypeGuard[object]:
    """Tell whether `as_model` makes a model of a value that is none yet."""
    return isinstance(given, str) or is_pydantic_ai(given)


def is_pydantic_ai(given: object) -> bool:
    """Tell whether a value is a model of pydantic-ai, without loading that library."""
    return type(given).__module__.partition(".")[0] == "pydantic_ai" and hasattr(given, "request")
