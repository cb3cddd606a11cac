"""A workflow around the agents of the OpenAI Agents SDK: ``as_runner(guard).run(agent, …)``.

Needs the extra ``openai-agents``. `as_runner` takes the place of the SDK's ``Runner``: it guards the input, the model
of each agent, and the tools, so that the stream, the final output and the session agree.
"""

from penstock.engine.values.errors import MissingExtraError

try:
    from penstock.workflows.adapters.openai_agents.runner import GuardRunner, as_runner
    from penstock.workflows.adapters.openai_agents.running import InputBlockedError, OutputBlockedError
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.openai_agents", "openai-agents") from error

__all__ = ["GuardRunner", "InputBlockedError", "OutputBlockedError", "as_runner"]
