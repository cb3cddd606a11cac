"""Models of every provider that pydantic-ai speaks; it knows no other library. Names load when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.workflows.models.pydantic_ai.model import PydanticAIModel
else:
    __getattr__, __dir__ = lazily(__name__, model=["PydanticAIModel"])

__all__ = ["PydanticAIModel"]
