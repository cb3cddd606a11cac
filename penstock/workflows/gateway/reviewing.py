"""Questions of guards to an operator: stored with the request, found when it is sent again, answered once.

The id of a stored request is a hash of the policy, the client and the conversation as the guards left it, so that every
gateway on the store finds it when the client sends the request again. Nothing hidden is in it or stored with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.frozen import freeze, thaw
from penstock.processors.memory import VAULT, vault_redactor
from penstock.workflows.gateway.claims import ApprovalClaims
from penstock.workflows.review.stored_run import dump_message, redactor_of
from penstock.workflows.review.waiting import WaitingCall, call_digest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.questions import PendingQuestion
    from penstock.workflows.gateway.blocks import CallBlock
    from penstock.workflows.gateway.http import Headers
    from penstock.workflows.review.reviews import Reviews
    from penstock.workflows.review.waiting import CallDecision

Reply: TypeAlias = "tuple[str, Callable[[], bytes]]"
Decided: TypeAlias = "Callable[[int, Outcome, Sequence[WaitingCall]], Awaitable[Sequence[CallDecision]]]"

EVENTS = "text/event-stream"
"""The content type of a streamed answer."""

PREFIX = "gw-"
"""The beginning of the ids of requests that a gateway stores."""

MOST_BYTES = 1_000_000
"""The longest answer that is stored with its calls. After a longer one the provider is asked again."""

_SWEPT = 100  # requests that are read at once; each may hold an answer


@dataclass(frozen=True, slots=True)
class StoredReply:
    """An answer that was stored with its calls, as the guards left it; it has the shape of a provider's reply."""

    headers: Headers
    body: bytes
    status: int = 200

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the body."""
        yield self.body


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that a guard asks about, with its arguments as the guards left them."""

    block: CallBlock
    arguments: Value


@dataclass(frozen=True, slots=True)
class RouteReviews:
    """The reviews of a route.

    Attributes:
        reviews: the stored requests.
        route: the name of the route.
        policy: the fingerprint of its policy.
    """

    reviews: Reviews
    route: str
    policy: str

    def of(self, endpoint: str, client: str) -> RequestReviews:
        """Return those of one request."""
        return RequestReviews(self, endpoint, client)


class RequestReviews:
    """The reviews of one request: what its guards ask, and the approvals that it uses. Lives as long as it.

    Attributes:
        claims: the approvals that it uses.
    """

    def __init__(self, of: RouteReviews, endpoint: str, client: str) -> None:
        self.claims = ApprovalClaims(of.reviews, of.route, of.policy, client)
        self._of = of
        self._endpoint = endpoint
        self._client = client
        self._answer_id = ""
        self._question = ""

    # Questions about the request

    async def input(self, run: Run, outcome: Outcome) -> Outcome:
        """Return the outcome of `process_input` with the answers of operators to its questions.

        Raises:
            NotDecidedError: one of the questions has no answer yet, or it is a refusal.
            StorageError: the store failed.
        """

        async def decided(rounds: int, outcome: Outcome, asked: Sequence[WaitingCall]) -> Sequence[CallDecision]:
            shown = {"question": redactor_of(run)(outcome.text), "text": ""}
            id = self._id(f"input {rounds}", outcome.message_list.all)
            return await self.claims.decisions(id, asked, shown, expires_in=_seconds(outcome))

        return await self._answered(run, outcome, decided)

    async def result(self, run: Run, outcome: Outcome, before: Sequence[Message]) -> Outcome:
        """Return the outcome of `process_tool_result` with the answers of operators to its questions.

        An answer counts for the same result in the same conversation until its time is over: clients send the results
        of earlier turns again with each request.

        Args:
            run: the run of the request.
            outcome: the outcome, which is suspended.
            before: the conversation before the result.

        Raises:
            NotDecidedError: one of the questions has no answer yet, or it is a refusal.
            StorageError: the store failed.
        """
        said = next((one.text for one in reversed(before) if one.role == "user"), "")

        async def decided(rounds: int, outcome: Outcome, asked: Sequence[WaitingCall]) -> Sequence[CallDecision]:
            hide = redactor_of(run)
            result = [outcome.details.get("tool_name"), hide(thaw(freeze(outcome.result)))]
            id = self._id(f"result {rounds}", before, result)
            shown = {"question": hide(said), "text": ""}
            return await self.claims.decisions(id, asked, shown, expires_in=_seconds(outcome), once=False)

        return await self._answered(run, outcome, decided, call_id=outcome.details.get("call_id"))

    def judged(self, run: Run, messages: Sequence[Message]) -> None:
        """Note the request as its guards left it."""
        self._answer_id = self._id("calls", messages)
        said = next((one.text for one in reversed(messages) if one.role == "user"), "")
        self._question = str(redactor_of(run)(said))

    # Calls of tools in the answer, and questions about it

    async def reply(self, *, streamed: bool) -> StoredReply | None:
        """Return the answer that was stored with questions which are decided by now; None: ask the provider.

        Args:
            streamed: whether the client wants a stream.

        Raises:
            NotDecidedError: they wait, or were rejected: the provider need not be asked.
            StorageError: the store failed.
        """
        stored = await self._of.reviews.store.run(self._answer_id)
        if stored is None or self.claims.stands(stored) != "decided":
            return None
        kept: Values | None = stored.body.get("reply")
        if kept is None or (kept["type"] == EVENTS) != streamed:
            return None
        return StoredReply((("content-type", kept["type"]),), kept["body"].encode())

    async def answer(
        self, run: Run, outcome: Outcome, calls: Sequence[AskedCall], text: str, reply: Reply
    ) -> tuple[Outcome, Sequence[CallDecision]]:
        """Return the outcome of `process_output_result` with the answers to its questions, and the approvals of calls.

        Args:
            run: the run of the request.
            outcome: the outcome; it may be suspended.
            calls: the calls of the answer that a guard asks about.
            text: the text of the answer, as the guards left it.
            reply: the content type of the answer, and what makes its bytes as they would leave.

        Raises:
            NotDecidedError: one of them has no answer yet, or one was rejected.
            StorageError: the store failed.
        """
        hide = redactor_of(run)
        waiting = [
            WaitingCall(
                f"{one.block.id}#{number}", one.block.tool, freeze(hide(thaw(freeze(one.arguments)))),
                digest=call_digest(one.block.tool, hide(thaw(freeze(one.arguments))), self._of.policy),
            )
            for number, one in enumerate(calls, 1)
        ]  # fmt: skip
        shown: dict[str, Value] = {"question": self._question, "text": hide(text)}

        def with_reply() -> dict[str, Value]:
            if vault_redactor(run.facts.get(VAULT)) is not None:
                return shown  # the answer holds values that were put back for the client
            kind, made = reply
            body = made()
            if len(body) > MOST_BYTES:
                return shown
            return {**shown, "reply": {"type": kind, "body": body.decode(errors="surrogatepass")}}

        approvals: Sequence[CallDecision] = ()

        async def decided(rounds: int, outcome: Outcome, asked: Sequence[WaitingCall]) -> Sequence[CallDecision]:
            nonlocal approvals
            if rounds > 1:  # a step asks because of an answer: the reply is stored with the first question
                id = f"{self._answer_id}-{rounds}"
                return await self.claims.decisions(id, asked, shown, expires_in=_seconds(outcome))
            both = [*waiting, *asked]
            made = await self.claims.decisions(self._answer_id, both, with_reply, expires_in=_seconds(outcome))
            approvals = made[: len(waiting)]
            return made[len(waiting) :]

        if outcome.suspended:
            return await self._answered(run, outcome, decided), approvals
        return outcome, await self.claims.decisions(self._answer_id, waiting, with_reply)

    async def _answered(self, run: Run, outcome: Outcome, decided: Decided, **details: Value) -> Outcome:
        """Return the outcome of a stage with the answers to its questions, and to those that follow from answers."""
        answers: dict[str, Value] = {}
        rounds = 0
        while outcome.suspended:
            rounds += 1
            questions = outcome.questions
            decisions = await decided(rounds, outcome, self._asked(run, questions))
            answers |= {one.id: _answer(made) for one, made in zip(questions, decisions, strict=True)}
            outcome = await run.resume_stage(outcome.stage, answers, outcome.finished, fresh=outcome.fresh, **details)
        return outcome

    def _asked(self, run: Run, questions: Iterable[PendingQuestion]) -> list[WaitingCall]:
        hide = redactor_of(run)
        return [
            WaitingCall(
                one.id, one.processor_id, freeze(hide(thaw(freeze(one.shown)))), "question",
                call_digest(one.id, [one.reason, one.schema, hide(thaw(freeze(one.shown)))], self._of.policy),
                reason=one.reason, schema=one.schema,
            )
            for one in questions
        ]  # fmt: skip

    def _id(self, what: str, messages: Iterable[Message], *more: Value) -> str:
        said = [_plain(dump_message(one)) for one in messages]
        whole = [self._of.policy, self._of.route, self._endpoint, self._client, what, said, *more]
        written = json.dumps(whole, sort_keys=True).encode("utf-8", "surrogatepass")
        return f"{PREFIX}{sha256(written).hexdigest()[:40]}"


def _seconds(outcome: Outcome) -> float | None:
    """Return the seconds for the answers; None: as many as usual."""
    return min((one.expires_in for one in outcome.questions if one.expires_in is not None), default=None)


def _plain(dumped: Values) -> Value:
    """Return a message without its id and its time, which differ when it is sent again."""
    return {name: thaw(value) for name, value in dumped.items() if name not in ("id", "created_at")}


def _answer(made: CallDecision) -> Value:
    return made.value if made.verdict == "answer" else {"decision": made.verdict}


async def sweep(reviews: Reviews, keep: float) -> int:
    """Delete the requests of gateways that nobody needs any more; return how many.

    Args:
        reviews: the stored requests.
        keep: how many seconds one is kept after its end, or after the time for a decision was over.
    """
    store, deleted = reviews.store, 0
    for status in ("waiting", "ended"):
        after: str | None = None
        while True:
            page = await store.runs(status=status, limit=_SWEPT, after=after)
            for run in page.items:
                since = run.due_at if status == "waiting" else run.updated_at
                over = since is not None and reviews.is_over(since + timedelta(seconds=keep))
                if over and run.id.startswith(PREFIX):
                    deleted += await store.delete_run(run.id)
            after = page.following
            if after is None:
                break
    return deleted
