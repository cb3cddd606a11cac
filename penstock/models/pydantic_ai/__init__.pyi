from penstock.models.pydantic_ai.model import PydanticAIModel as PydanticAIModel
