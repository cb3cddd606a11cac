"""Verdicts as the errors that users of the SDK know."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from agents import (
    Agent,
    AgentsException,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
)

from penstock.engine.values.tripwire import BlockedError, Tripwire

if TYPE_CHECKING:
    from collections.abc import Generator

INPUT_STAGES = ("process_input", "process_input_step", "process_llm_request")
"""The stages of which a verdict means that the model was not called."""


class InputBlockedError(BlockedError, InputGuardrailTripwireTriggered):
    """A guard stopped a run before the model was called. It is the SDK's error for input guardrails, too.

    Attributes:
        tripwire: the verdict; also the ``output_info`` of `guardrail_result`.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        AgentsException.__init__(self, str(BlockedError(tripwire)))  # the SDK's own say what was triggered only
        self.tripwire = tripwire
        guardrail = InputGuardrail(_never, name=tripwire.processor_id)
        self.guardrail_result = InputGuardrailResult(guardrail, GuardrailFunctionOutput(tripwire, True))  # noqa: FBT003


class OutputBlockedError(BlockedError, OutputGuardrailTripwireTriggered):
    """A guard stopped a run at an answer, a tool or the result. It is the SDK's error for output guardrails, too.

    Attributes:
        tripwire: the verdict; also the ``output_info`` of `guardrail_result`, which does not hold the blocked text.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        AgentsException.__init__(self, str(BlockedError(tripwire)))  # the SDK's own say what was triggered only
        self.tripwire = tripwire
        guardrail = OutputGuardrail(_never, name=tripwire.processor_id)
        output = GuardrailFunctionOutput(tripwire, True)  # noqa: FBT003
        agent = Agent(name=tripwire.processor_id)
        self.guardrail_result = OutputGuardrailResult(guardrail, agent_output=None, agent=agent, output=output)


def _never(*_: object) -> GuardrailFunctionOutput:
    """Stand for the processor; the verdict has been given."""
    raise NotImplementedError("a processor has given this verdict; it is no guardrail that can be run")


@contextmanager
def raised_here() -> Generator[None]:
    """Raise a verdict as one of the SDK's errors.

    Raises:
        InputBlockedError: a guard stopped the request before the model was called.
        OutputBlockedError: a guard stopped it later.
    """
    try:
        yield
    except (InputBlockedError, OutputBlockedError):
        raise
    except BlockedError as blocked:
        raise blocked_error(blocked.tripwire) from blocked.__cause__


def blocked_error(tripwire: Tripwire) -> InputBlockedError | OutputBlockedError:
    """Return a verdict as one of the SDK's errors."""
    return (InputBlockedError if tripwire.stage in INPUT_STAGES else OutputBlockedError)(tripwire)
