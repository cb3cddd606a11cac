"""A verdict as the errors that users of LiteLLM know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.tripwire import BlockedError
from penstock.workflows.adapters.litellm.theirs import litellm

if TYPE_CHECKING:
    from penstock.engine.values.tripwire import Tripwire

    _Raised = Exception
else:
    _Raised = litellm.exceptions.GuardrailRaisedException


class GuardBlockedError(BlockedError, _Raised):
    """A guard stopped a request. It is LiteLLM's ``GuardrailRaisedException``, and carries the verdict.

    Attributes:
        tripwire: the verdict.
        guardrail_name: the id of the processor that stopped the request.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        Exception.__init__(self, str(BlockedError(tripwire)))
        self.tripwire = tripwire
        self.guardrail_name = tripwire.processor_id
        self.message = str(self)
        self.status_code = 400
        self.blocked_content = True
