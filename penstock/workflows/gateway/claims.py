"""`ApprovalClaims`: the approvals of one request: found in the store, claimed, used up or given back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import anyio

from penstock.engine.values.errors import PenstockError, ReviewError, StorageConflictError
from penstock.engine.values.frozen import FrozenDict, freeze
from penstock.engine.values.stored import StoredRun
from penstock.workflows.review.waiting import VERSION, kept_rule, waiting_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.workflows.review.reviews import Reviews
    from penstock.workflows.review.waiting import CallDecision, WaitingCall, WaitingRun

AGENT = "gateway/"
"""The beginning of the names under which requests are listed; the name of the route follows."""

_ATTEMPTS = 5

Standing = Literal["waiting", "in use", "rejected"]


class NotDecidedError(Exception):
    """A request does not go on.

    Attributes:
        run_id: the id under which it is stored.
        standing: ``waiting``: for a decision; ``in use``: the same request goes on at the moment; ``rejected``.
        reason: why it was rejected.
    """

    def __init__(self, run_id: str, standing: Standing, reason: str = "") -> None:
        self.run_id = run_id
        self.standing = standing
        self.reason = reason
        super().__init__(f"{run_id} is {standing}")


@dataclass(slots=True)
class ApprovalClaims:
    """The approvals of one request. Lives as long as it.

    Attributes:
        reviews: the stored requests.
        route: the name of the route.
        policy: the fingerprint of its policy.
        client: the name of the client's key.
        used: the id of the approval that was used last; empty if none was.
    """

    reviews: Reviews
    route: str
    policy: str
    client: str
    used: str = ""
    _claimed: list[StoredRun] = field(default_factory=list[StoredRun])
    _ended: list[StoredRun] = field(default_factory=list[StoredRun])  # with the bodies that they had before

    async def decisions(
        self,
        id: str,
        asked: Sequence[WaitingCall],
        shown: Mapping[str, Value] | Callable[[], Mapping[str, Value]],
        *,
        expires_in: float | None = None,
        once: bool = True,
    ) -> tuple[CallDecision, ...]:
        """Return the decisions about calls or questions.

        Args:
            id: the id under which they are stored.
            asked: the calls or questions.
            shown: more of what is stored with them, or a function that makes it if they are not stored yet.
            expires_in: the seconds for a decision, if they are fewer than usual.
            once: whether this request alone uses the decisions from now on. If not, they count until their time is
                over.

        Raises:
            NotDecidedError: they wait for a decision, are in use, or one was rejected.
            StorageError: the store failed.
        """
        store, made = self.reviews.store, None
        for _ in range(_ATTEMPTS):
            stored = await store.run(id)
            fits = stored is not None and [one.digest for one in waiting_run(stored).calls] == [
                one.digest for one in asked
            ]
            if stored is not None and self.stands(stored, fits=fits) == "decided":
                if made is not None:  # others have stored it, and what is shown was made of an answer that is spent now
                    break
                if not once:
                    self.used = id
                    return _made(waiting_run(stored))
                with suppress(ReviewError):
                    claimed = await self.reviews.claim(id, of_agent=False)
                    self._claimed.append(claimed)
                    return _made(waiting_run(claimed))
                continue
            if made is None:
                said = shown() if callable(shown) else shown
                body = {
                    "version": VERSION,
                    "policy": self.policy,
                    "waiting": [one.dumped() for one in asked],
                    **said,
                }
                made = StoredRun(
                    id, f"{AGENT}{self.route}", body=freeze(body), resource_id=self.client or None
                )  # fmt: skip
            if stored is not None:
                made = replace(made, body=FrozenDict({**made.body, **kept_rule(stored.body)}))
                await self._keep_decisions(stored)
            with suppress(StorageConflictError):  # in place of what was read, not of what others have stored since
                version = 0 if stored is None else stored.version
                await self.reviews.suspend(replace(made, version=version), expires_in=expires_in)
                raise NotDecidedError(id, "waiting")
        raise NotDecidedError(id, "in use")

    def stands(self, stored: StoredRun, *, fits: bool = True) -> Literal["over", "decided"]:
        """Return whether the decisions of a stored request can be used, or it has to be asked anew.

        Args:
            stored: the request.
            fits: whether it asks about the same calls.

        Raises:
            NotDecidedError: it waits, is in use, or was rejected.
        """
        seen = waiting_run(stored)
        over = self.reviews.is_over(seen.due_at)
        if seen.status == "ended":
            return "over"
        if seen.status == "running":
            if over:
                return "decided" if fits else "over"
            raise NotDecidedError(seen.run_id, "in use")
        if over or not fits:
            return "over"
        refused = _refusal(seen)
        if refused is not None:
            raise NotDecidedError(seen.run_id, "rejected", refused)
        if seen.undecided:
            raise NotDecidedError(seen.run_id, "waiting")
        return "decided"

    async def _keep_decisions(self, stored: StoredRun) -> None:
        """Keep the decisions about a request that is asked about anew, under another id."""
        if stored.body.get("decisions"):
            kept = {name: stored.body[name] for name in ("version", "policy", "waiting", "decisions")}
            since = "" if stored.created_at is None else f"{stored.created_at:%Y%m%d%H%M%S%f}-"
            old = StoredRun(
                f"{stored.id}-{since}{stored.version}", stored.agent, "ended",
                body=FrozenDict(kept), resource_id=stored.resource_id,
            )  # fmt: skip
            with suppress(StorageConflictError):  # another gateway has done it
                await self.reviews.store.save_run(old)

    async def use(self) -> None:
        """Use up the approvals: call this before anything leaves that they let through.

        Raises:
            StorageConflictError: another gateway has them, since this one took too long.
            StorageError: the store failed.
        """
        while self._claimed:
            claimed = self._claimed.pop()
            ended = await self.reviews.end(claimed)
            self._ended.append(replace(ended, body=claimed.body))
            self.used = ended.id

    async def close(self, *, left: bool, waits: bool) -> None:
        """Use approvals up if a part of the answer has left, or give them back.

        Args:
            left: whether it has.
            waits: whether a call was withheld. Then the approval of the input counts again when the call is approved.
        """
        with anyio.CancelScope(shield=True), suppress(PenstockError):  # else their lease ends by itself
            if waits or not left:
                self._claimed += self._ended
                self._ended, self.used = [], ""
            else:
                await self.use()
            while self._claimed:
                await self.reviews.release(self._claimed.pop())


def _made(seen: WaitingRun) -> tuple[CallDecision, ...]:
    return tuple(one.decision for one in seen.calls if one.decision is not None)


def _refusal(seen: WaitingRun) -> str | None:
    """Return the reason of a refusal; None if nothing was refused. An answer that says no is for its step."""
    return next((one.decision.reason for one in seen.calls if one.decision and one.decision.verdict == "reject"), None)
