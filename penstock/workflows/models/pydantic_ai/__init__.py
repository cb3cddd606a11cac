"""Models of every provider that pydantic-ai speaks; it knows no other library. Names load when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.workflows.models.pydantic_ai.model import PydanticAIModel

__all__ = ["PydanticAIModel"]


def __getattr__(name: str) -> object:
    """Load the model (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"{__name__} has no {name!r}")
    from penstock.workflows.models.pydantic_ai import model

    return getattr(model, name)
