"""`Ended`: how an exchange ended, for the operator of the gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.engine.run.run import Run
    from penstock.engine.values.tripwire import Tripwire


@dataclass(slots=True)
class Ended:
    """How an exchange ended, without any of its texts.

    Attributes:
        endpoint: the name of the protocol.
        route: the name of the route.
        model: the model that the client asked for, if it has the form of a model's name.
        status: the HTTP status of the reply.
        verdict: the verdict that stopped it, or None.
        error: a word for the fault, or empty.
        reason: the fault in words for the operator, if it has more to say than that word.
        cause: the exception behind it. Its text may quote a text: show its class only.
        streamed: whether the answer was streamed.
        edited: whether the guards changed the request or the answer.
        unknown: the fields and events that the table does not know.
        review: the id of the stored request that waits for an operator, or whose approval let this one through.
        standing: of one that does not go on: ``waiting``, ``in use`` or ``rejected``.
        usage: the tokens of prompt and answer, if the provider reported them, or a budget counted them.
        seconds: how long it took.
        first_byte: how long the client waited for the first byte of the answer; None if none came.
        upstream_seconds: how long the provider took until its first byte; None if it was not asked.
        run_id: the id of the run.
        run: the run, with its records and traces if these were asked for; None if the request was refused before it.
    """

    endpoint: str
    route: str = ""
    model: str = ""
    status: int = 200
    verdict: Tripwire | None = None
    error: str = ""
    reason: str = ""
    cause: BaseException | None = field(default=None, repr=False, compare=False)
    streamed: bool = False
    edited: bool = False
    unknown: tuple[str, ...] = ()
    review: str = ""
    standing: str = ""
    usage: tuple[int, int] | None = None
    seconds: float = 0.0
    first_byte: float | None = None
    upstream_seconds: float | None = None
    run_id: str = ""
    run: Run | None = field(default=None, repr=False, compare=False)
