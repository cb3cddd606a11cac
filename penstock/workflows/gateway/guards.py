"""`Guards`: the guards of a route, with the settings that an exchange reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY
from penstock.workflows.gateway.endpoints.endpoint import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Observer
    from penstock.engine.workflow import Workflow
    from penstock.workflows.gateway.budget import Budget
    from penstock.workflows.gateway.ended import Ended
    from penstock.workflows.gateway.reviewing import RouteReviews

REFUSAL = Refusal("I can't help with that request.")
"""The reply to a client after a verdict, unless the operator says something else."""


@dataclass(slots=True)  # not frozen: that would triple what one costs, and each request makes one
class Guards:
    """The guards of the exchanges of a route, with their settings. Immutable: a reload makes another one.

    Attributes:
        workflow: the guards.
        name: its name, for headers and logs.
        fingerprint: the fingerprint of its policy, for headers and caches.
        strict: whether fields and events that the tables do not know are refused; if not, guards read them as values.
        permits: what clients may use although it escapes the guards: words of `Field.permit` in the tables.
        refusal: the reply to a client after a verdict.
        budget: the budget of the route; None: there is none.
        request_context: the values that hooks share in one request.
        observers: objects with ``on_record`` and ``on_event``.
        records: whether each step is recorded.
        on_end: is called when an exchange has ended.
        reviews: keeps what its guards ask an operator about; None: what they ask about is blocked.
    """

    workflow: Workflow
    name: str = "guard"
    fingerprint: str = ""
    strict: bool = True
    permits: frozenset[str] = frozenset()
    refusal: Refusal = REFUSAL
    budget: Budget | None = None
    request_context: Mapping[str, Value] = EMPTY
    observers: Sequence[Observer] = ()
    records: bool = False
    on_end: Callable[[Ended], None] | None = None
    reviews: RouteReviews | None = None

    def of_request(
        self, workflow: Workflow, context: Mapping[str, Value], on_end: Callable[[Ended], None] | None
    ) -> Guards:
        """Return the guards of one request."""
        return Guards(  # each field by name: `dataclasses.replace` costs five times as much
            workflow=workflow, name=self.name, fingerprint=self.fingerprint, strict=self.strict, permits=self.permits,
            refusal=self.refusal, budget=self.budget, request_context=context, observers=self.observers,
            records=self.records, on_end=on_end, reviews=self.reviews,
        )  # fmt: skip
