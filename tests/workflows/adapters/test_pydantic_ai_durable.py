"""`GuardOperations`: the work of guards as recorded operations, without an engine."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import exceptions
from pydantic_ai.messages import ToolReturnPart

from penstock import Message, PIIDetector
from penstock.engine.values.tripwire import Tripwire
from penstock.workflows.adapters.pydantic_ai import DurableRunError, GuardBlockedError
from penstock.workflows.adapters.pydantic_ai.durable import GuardOperations
from penstock.workflows.adapters.pydantic_ai.results import retries_counted
from penstock.workflows.hosting import Host, HostRequest, HostSupport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CONTEXT: Any = None
"""The context of a run, which an engine would read."""


@pytest.fixture
def anyio_backend() -> str:
    """It needs no other loop."""
    return "asyncio"


class Log:
    """An engine's record of operations, as pickles."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    async def run(self, name: str, work: Callable[[], Awaitable[object]], given: Any = ()) -> Any:
        """Record some work, in a process of its own."""
        operations = GuardOperations(request())

        async def operation(_: object, name: str) -> dict[str, Any]:
            self.values.append(pickle.dumps(await operations.do(name)))
            return pickle.loads(self.values[-1])  # type: ignore[no-any-return]  # noqa: S301 - our own

        return await operations.run(operation, CONTEXT, name, work, given)

    async def replay(self, name: str, to: HostRequest) -> Any:
        """Replay the first one, in another process, where nothing works."""

        async def operation(_: object, __: str) -> dict[str, Any]:
            return pickle.loads(self.values[0])  # type: ignore[no-any-return]  # noqa: S301 - our own

        async def never() -> None:
            raise AssertionError("it was done again")

        return await GuardOperations(to).run(operation, CONTEXT, name, never)


def request() -> HostRequest:
    """Return a new request."""
    return Host(HostSupport("tests"), [PIIDetector(redaction_method="placeholder")]).open(run_id="run-1")


ERRORS = [
    exceptions.ModelRetry("ask again"),
    exceptions.ToolFailed("no"),
    exceptions.ToolRetryError(ToolReturnPart("look", "ask again", "c1", outcome="retried")),
    exceptions.ToolFailedError(ToolReturnPart("look", "no", "c1", outcome="failed")),
    exceptions.CallDeferred({"id": 1}, kind="question"),
    exceptions.ApprovalRequired({"why": "money"}),
    GuardBlockedError(Tripwire("why", "p", "process_input", metadata={"n": 1})),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_error_that_is_a_result_is_replayed(error: Exception) -> None:
    """Engines would record it as a failure, and repeat the work."""
    log = Log()

    async def work() -> None:
        raise error

    with pytest.raises(type(error)) as first:
        await log.run("call c1", work)
    with pytest.raises(type(error)) as second:
        await log.replay("call c1", request())
    assert vars(first.value) == vars(second.value) == vars(error)


async def test_a_replayed_retry_request_is_counted() -> None:
    """pydantic-ai counts those that it has made itself where it makes them, which no replay does."""
    with pytest.raises(exceptions.ModelRetry, match="ask again"), retries_counted():
        raise exceptions.ToolRetryError(ToolReturnPart("look", "ask again", "c1", outcome="retried"))
    details = [{"type": "missing", "loc": ("order",), "msg": "Field required", "input": {}}]
    with pytest.raises(exceptions.ToolRetryError), retries_counted():
        raise exceptions.ToolRetryError(ToolReturnPart("look", details, "c1", outcome="retried"))


async def test_a_value_of_other_work_is_refused() -> None:
    """A result of one tool may not become that of another one."""
    log = Log()

    async def work() -> str:
        return "one"

    assert await log.run("call c1", work) == "one"
    assert await log.replay("call c1", request()) == "one"
    with pytest.raises(DurableRunError, match=r"replayed 'call c1' where the guards do 'call c2'"):
        await log.replay("call c2", request())


async def test_work_within_work_is_recorded_once() -> None:
    """With the outer one."""
    log, operations = Log(), GuardOperations(request())

    async def inner() -> str:
        return "inner"

    async def operation(_: object, __: str) -> dict[str, Any]:
        raise AssertionError("it was recorded by itself")

    async def outer() -> Any:
        return await operations.run(operation, CONTEXT, "error c1", inner)

    assert await log.run("call c1", outer) == "inner"
    assert len(log.values) == 1


async def test_messages_are_known_by_their_text_again_without_being_recorded() -> None:
    """The replayed run has them from its own workflow."""
    log, judged = Log(), request()
    given = [Message.user("I am ann@example.com")]
    operations = GuardOperations(judged)

    async def operation(_: object, name: str) -> dict[str, Any]:
        log.values.append(pickle.dumps(await operations.do(name)))
        return pickle.loads(log.values[-1])  # type: ignore[no-any-return]  # noqa: S301 - our own

    async def begin() -> bool:
        return await judged.begin(given)

    assert await operations.run(operation, CONTEXT, "input 1", begin, given)
    assert b"ann@" not in log.values[0]
    again = request()

    async def recorded(_: object, __: str) -> dict[str, Any]:
        return pickle.loads(log.values[0])  # type: ignore[no-any-return]  # noqa: S301 - our own

    assert await GuardOperations(again).run(recorded, CONTEXT, "input 1", begin, given)
    assert [one.text for one in again.current(given) if one] == ["I am [EMAIL]"]
    assert again.ids_of(given) == judged.ids_of(given)
