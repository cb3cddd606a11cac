"""What else is asked beside the messages: tools, settings, the form of the answer. It knows values, no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pydantic_ai import ToolDefinition
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition

from penstock.engine.values.frozen import Value, thaw

if TYPE_CHECKING:
    from pydantic_ai.output import OutputMode
    from pydantic_ai.settings import ModelSettings

    from penstock.engine.values.model import ModelRequest, ResponseFormat

_NAMES = {"stop": "stop_sequences", "reasoning_effort": "thinking"}


def settings(request: ModelRequest) -> ModelSettings:
    """Return the settings by pydantic-ai's names; those it shares with nobody go as they are, for one provider."""
    made: dict[str, Value] = {_NAMES.get(name, name): thaw(item) for name, item in request.settings.items()}
    if isinstance(made.get("stop_sequences"), str):
        made["stop_sequences"] = [made["stop_sequences"]]
    if request.tools and request.tool_choice != "auto":
        choice = request.tool_choice
        made["tool_choice"] = list(choice) if isinstance(choice, tuple) else choice
    if request.provider_options:
        made["extra_body"] = {**made.get("extra_body", {}), **thaw(dict(request.provider_options))}
    return cast("ModelSettings", made)


def parameters(request: ModelRequest, *, native: bool) -> ModelRequestParameters:
    """Return tools and form; ``native`` is whether the model can be held to a schema. If not, it is told of it."""
    tools = [
        ToolDefinition(
            name=tool.name,
            parameters_json_schema=thaw(dict(tool.parameters)),
            description=tool.description or None,
            strict=tool.strict,
        )
        for tool in request.tools
    ]
    form = request.response_format
    if form is None:
        return ModelRequestParameters(function_tools=tools)
    mode: OutputMode = "native" if native and form.schema is not None else "prompted"
    return ModelRequestParameters(function_tools=tools, output_mode=mode, output_object=_object(form))


def _object(form: ResponseFormat) -> OutputObjectDefinition:
    schema: dict[str, Value] = {"type": "object"} if form.schema is None else thaw(dict(form.schema))
    return OutputObjectDefinition(schema, form.name, form.description or None, strict=form.strict)
