"""Models of every provider that pydantic-ai speaks; it knows no other library. Names load when used."""

from penstock.workflows.models.pydantic_ai.model import PydanticAIModel as PydanticAIModel
