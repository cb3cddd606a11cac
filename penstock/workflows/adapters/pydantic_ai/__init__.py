"""A workflow as a capability of pydantic-ai's agents: ``Agent(…, capabilities=[as_capability(guard)])``.

Needs the extra ``pydantic-ai``. The capability wraps the model of each request, so that the stream, the output and the
message history agree; its hooks check input before the model is called, tools around their calls, and what functions
make of the output.
"""

from penstock.engine.values.errors import MissingExtraError

try:
    from penstock.workflows.adapters.pydantic_ai.capability import GuardCapability, as_capability
    from penstock.workflows.adapters.pydantic_ai.messages import DurableRunError, GuardBlockedError
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.pydantic_ai", "pydantic-ai") from error

__all__ = ["DurableRunError", "GuardBlockedError", "GuardCapability", "as_capability"]
