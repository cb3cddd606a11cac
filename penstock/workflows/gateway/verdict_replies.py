"""`VerdictReplies`: the replies of an exchange that ends without an answer of the provider.

`StoppedError` ends it, wherever it stands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.workflows.gateway.claims import NotDecidedError
from penstock.workflows.gateway.endpoints.endpoint import JSON_HEADERS, STREAM_HEADERS
from penstock.workflows.gateway.http import HttpReply, UpstreamError, each_of
from penstock.workflows.gateway.json_text import write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.gateway.budget import Budget
    from penstock.workflows.gateway.ended import Ended
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint, Refusal, SentEvents
    from penstock.workflows.gateway.guards import Guards
    from penstock.workflows.gateway.http import Headers

_ASK_AGAIN = "60"  # seconds after which a client may ask whether a person has decided


class StoppedError(Exception):
    """The exchange ends with this reply in place of the answer."""

    def __init__(
        self, refusal: Refusal | None, error: tuple[int, str, str] | None = None, headers: Headers = ()
    ) -> None:
        self.refusal = refusal
        self.error = error
        self.headers = headers
        super().__init__()


class failures:  # noqa: N801 - used like a function
    """Turns the failure of a guard into a reply that says nothing of it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (StoppedError, NotDecidedError, UpstreamError)):
            raise StoppedError(None, (500, "guard_failed", "a guard could not do its work")) from error


class VerdictReplies:
    """Makes the replies of one exchange that ends without an answer, and notes in `Ended` how it ended."""

    def __init__(self, endpoint: Endpoint, guards: Guards, ended: Ended) -> None:
        self._endpoint = endpoint
        self._guards = guards
        self._ended = ended

    def refusal(self, verdict: Tripwire) -> Refusal:
        """Return the refusal after a verdict.

        Raises:
            StoppedError: it is a verdict of the budget, which is told otherwise.
        """
        self._ended.verdict = verdict
        budget = self._guards.budget
        if budget is not None and budget.blocks(verdict):
            raise self._over_budget(budget, verdict)
        return replace(self._guards.refusal, tripwire=verdict)

    def undecided(self, error: NotDecidedError) -> StoppedError:
        """Return the reply for a request that waits for an operator, or that one has refused."""
        self._ended.review, self._ended.standing = error.run_id, error.standing
        headers: Headers = (
            ("x-penstock-review", f"{error.run_id}; {error.standing.replace(' ', '-')}"),
            ("x-penstock-review-status", f"/v1/reviews/{error.run_id}/status"),
        )
        if error.standing == "rejected":
            text, code = "A person has refused this request", "review_rejected"
            text = f"{text}: {error.reason}" if error.reason else f"{text}."
        else:
            text = "This request waits for the approval of a person. Send it again when it is approved."
            text, code = f"{text} Its number is {error.run_id}.", "review_pending"
            headers = (*headers, ("retry-after", _ASK_AGAIN))
        return StoppedError(replace(self._guards.refusal, text=text, code=code, details=False), headers=headers)

    def _over_budget(self, budget: Budget, verdict: Tripwire) -> StoppedError:
        """Return the error for a client whose budget is spent, or for one that nobody can reckon."""
        if failure := budget.failure(verdict):
            self._ended.verdict, self._ended.reason = None, failure
            return StoppedError(None, (500, "guard_failed", "a guard could not do its work"))
        after = budget.retry_after(verdict)
        told = "the budget is spent, or what is left of it does not cover this request"
        headers: Headers = () if after is None else (("retry-after", str(after)),)
        return StoppedError(None, (429, "insufficient_quota", told), headers)

    def headers(self, refusal: Refusal | None = None) -> Headers:
        """Return the headers of every reply: the policy, its coverage, and the verdict if there is one."""
        guards = self._guards
        made = _headers(guards.name, guards.fingerprint, self._endpoint.name, guards.strict)
        if refusal is None or refusal.tripwire is None:
            return made
        verdict = f"blocked; {refusal.tripwire.processor_id}" if refusal.details else "blocked"
        return (*made, ("x-penstock-verdict", verdict))

    def refused(self, stopped: StoppedError, sent: SentEvents | None) -> HttpReply:
        """Return the reply in place of an answer.

        Args:
            stopped: what ended the exchange.
            sent: the events of the answer, if it has begun; none of them has left.
        """
        if stopped.refusal is None:
            status, code, message = stopped.error or (500, "guard_failed", "a guard could not do its work")
            self._ended.status, self._ended.error = status, self._ended.error or code
            return self._endpoint.refused(status, code, message, (*self.headers(), *stopped.headers))
        refusal = stopped.refusal
        headers = (*self.headers(refusal), *stopped.headers)
        if refusal.style == "error" or not self._endpoint.has_answer:
            self._ended.status = refusal.status
            return self._endpoint.refused(refusal.status, refusal.code, refusal.text, headers)
        if self._ended.streamed:
            events = self._endpoint.refusal_events(refusal, sent or self._endpoint.begin(self._ended.model))
            return HttpReply(200, (*STREAM_HEADERS, *headers), each_of(events))
        body = write_json(self._endpoint.refusal(refusal, self._ended.model))
        return HttpReply(200, (*JSON_HEADERS, *headers), body)

    def last_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        """Return the events that end a stream of which a part may have left."""
        if refusal.style == "error":
            return self._endpoint.error_events(refusal.code, refusal.text, sent)
        return self._endpoint.refusal_events(refusal, sent)

    def upstream_stopped(self, error: UpstreamError) -> StoppedError:
        """Return the error for a client whose provider did not answer."""
        self._ended.error = f"upstream_{error.kind}"
        return StoppedError(None, (error.status, f"upstream_{error.kind}", str(error)))


@lru_cache(256)
def _headers(name: str, fingerprint: str, endpoint: str, strict: bool) -> Headers:  # noqa: FBT001 - a key of the cache
    """Return the headers of every reply of a route, which are the same for all of its requests."""
    return (
        ("x-penstock-policy", f"{name}{f'; {fingerprint}' if fingerprint else ''}"),
        ("x-penstock-coverage", f"{endpoint}; {'strict' if strict else 'unknown=read'}"),
    )
