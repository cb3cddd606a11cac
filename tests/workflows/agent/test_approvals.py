"""Approvals over two requests: what was decided runs or is refused, with its guards, and nothing runs without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import Agent, InMemoryStorage, Memory, PIIDetector, Processor, Tool
from penstock.engine import ToolPart, ToolSpec, UsageError
from penstock.formats import ai_sdk_model
from penstock.testing import ScriptedModel
from penstock.workflows.web import ui_messages

if TYPE_CHECKING:
    from penstock.engine.processor.context import ToolCallContext, ToolResultContext
    from penstock.workflows.agent.results import AgentResult

pytestmark = pytest.mark.anyio

WHERE: Any = {"thread_id": "t", "resource_id": "r"}
CALL = {"id": "c1", "name": "pay", "args": {"amount": 5}}
OTHER = {"id": "c2", "name": "pay", "args": {"amount": 7}}


class Watch(Processor):
    """Notes the calls and the results that it reads."""

    id = "watch"

    def __init__(self) -> None:
        self.seen: list[object] = []

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        """Note the call."""
        self.seen.append(ctx.arguments)

    def process_tool_result(self, ctx: ToolResultContext) -> None:
        """Note the result."""
        self.seen.append(ctx.result)


class Bank:
    """An agent that pays if it may."""

    def __init__(self, *turns: Any, **options: Any) -> None:
        self.paid: list[int] = []
        self.watch = Watch()
        self.model = ScriptedModel(turns)

        def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        options.setdefault("processors", [self.watch])
        self.agent = Agent(self.model, tools=[Tool(pay, approval=True)], **options)

    def sent(self) -> list[ToolPart]:
        """Return the calls of the last prompt."""
        return [one for message in self.model.requests[-1].messages for one in message.parts if type(one) is ToolPart]


async def suspended(*calls: dict[str, Any], **options: Any) -> tuple[Bank, AgentResult]:
    """Return a request that waits for approval, and its agent."""
    bank = Bank({"tool_calls": list(calls or [CALL])}, "Done.", **options)
    result = await bank.agent.generate("Pay.")
    assert (result.status, bank.paid) == ("suspended", [])
    assert {call.approval for call in result.pending} == {"requested"}
    bank.watch.seen.clear()
    return bank, result


async def test_an_approved_call_runs_with_its_guards() -> None:
    """The model gets the result, and so do the guards."""
    bank, result = await suspended()
    ended = await bank.agent.generate(result.approve("c1"))
    assert (ended.text, bank.paid, bank.watch.seen) == ("Done.", [5], [{"amount": 5}, "paid 5"])
    assert [(part.state, part.result) for part in bank.sent()] == [("result", "paid 5")]


async def test_a_rejected_call_does_not_run_and_the_model_gets_the_reason() -> None:
    """The guards of results read the reason, too."""
    bank, result = await suspended()
    ended = await bank.agent.generate(result.reject("c1", "too much"))
    assert (ended.status, bank.paid) == ("success", [])
    [part] = bank.sent()
    assert part.state == "error"
    assert "too much" in str(part.error)
    assert any("too much" in str(seen) for seen in bank.watch.seen)


async def test_a_reason_is_read_by_guards() -> None:
    """It is text of the user like any other."""
    bank, result = await suspended(processors=[PIIDetector()])
    await bank.agent.generate(result.reject("c1", "ask ann@example.com"))
    assert "ann@example.com" not in repr(bank.model.requests[-1].messages)


@pytest.mark.parametrize("answer", [True, False])
async def test_a_bare_bool_is_no_result_of_a_call_that_waits_for_approval(answer: bool) -> None:
    """It would end in success without the tool having run."""
    _, result = await suspended()
    with pytest.raises(UsageError, match=r"result\.approve"):
        result.answered({"c1": answer})
    assert result.answered({"c1": "paid in cash"})


async def test_only_calls_that_wait_for_approval_are_approved() -> None:
    """A call to a tool that the caller runs needs a result."""
    model = ScriptedModel([{"tool_calls": [CALL]}])
    result = await Agent(model, tools=[ToolSpec("pay", {"type": "object"})]).generate("Pay.")
    with pytest.raises(UsageError, match="not for approval"):
        result.approve("c1")
    with pytest.raises(UsageError, match="no call with the id c9"):
        result.reject("c9")
    assert result.answered({"c1": True})


async def test_calls_without_a_decision_keep_waiting() -> None:
    """The model is not asked before all calls are decided."""
    bank, result = await suspended(CALL, OTHER)
    again = await bank.agent.generate(result.approve("c1"))
    assert (again.status, bank.paid, [call.call_id for call in again.pending]) == ("suspended", [5], ["c2"])
    ended = await bank.agent.generate(again.reject("c2"))
    assert (ended.status, bank.paid) == ("success", [5])
    assert [part.state for part in bank.sent()] == ["result", "error"]


async def test_calls_are_decided_together() -> None:
    """One is approved, the other is refused."""
    bank, result = await suspended(CALL, OTHER)
    ended = await bank.agent.generate(result.answered({}, approvals={"c1": "no", "c2": True}))
    assert (ended.status, bank.paid) == ("success", [7])


class Doubles(Processor):
    """Changes what calls ask for."""

    id = "doubles"

    def process_tool_call(self, ctx: ToolCallContext) -> Any:
        """Double the amount."""
        return {"amount": ctx.arguments["amount"] * 2}


async def test_an_approval_is_one_of_the_very_arguments() -> None:
    """What a guard changes after the approval is not what was approved."""
    bank = Bank({"tool_calls": [CALL]}, "Done.", processors=[Doubles()])
    result = await bank.agent.generate("Pay.")
    again = await bank.agent.generate(result.approve("c1"))
    assert (again.status, bank.paid) == ("suspended", [])
    assert [call.arguments["amount"] for call in (*result.pending, *again.pending)] == [10, 20]


class Refuses(Processor):
    """Blocks the calls of the second request."""

    id = "refuses"

    def __init__(self) -> None:
        self.blocks = False

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        """Block."""
        if self.blocks:
            ctx.abort("no payments today")


async def test_a_guard_blocks_an_approved_call() -> None:
    """The request ends with its verdict."""
    guard = Refuses()
    bank = Bank({"tool_calls": [CALL]}, "Done.", processors=[guard])
    result = await bank.agent.generate("Pay.")
    guard.blocks = True
    ended = await bank.agent.generate(result.approve("c1"))
    assert (ended.status, bank.paid, len(bank.model.requests)) == ("blocked", [], 1)


async def test_an_approval_of_a_thread_is_used_once() -> None:
    """The memory holds the result, and later requests do not run the call again."""
    bank = Bank({"tool_calls": [CALL]}, "Done.", "Noon.", "Yes?", memory=Memory(InMemoryStorage()))
    result = await bank.agent.generate("Pay.", **WHERE)
    await bank.agent.generate(result.approve("c1"), **WHERE)
    ended = await bank.agent.generate("What time is it?", **WHERE)
    assert (ended.text, bank.paid) == ("Noon.", [5])
    assert [part.state for part in bank.sent()] == ["result"]
    await bank.agent.generate(result.approve("c1"), **WHERE)
    assert bank.paid == [5]


async def test_a_refusal_in_a_thread_is_kept() -> None:
    """The memory has asked for approval; the client's answer counts."""
    bank = Bank({"tool_calls": [CALL]}, "Done.", memory=Memory(InMemoryStorage()))
    result = await bank.agent.generate("Pay.", **WHERE)
    await bank.agent.generate(result.reject("c1", "too much"), **WHERE)
    assert bank.paid == []
    assert [(part.state, "too much" in str(part.error)) for part in bank.sent()] == [("error", True)]


@pytest.mark.parametrize("approvals", ["any", "asked"])
@pytest.mark.parametrize("is_another", [False, True])
async def test_what_was_rejected_is_not_approved_later(approvals: Any, is_another: bool) -> None:
    """By the same result, without a thread; also where another process has asked."""
    bank = Bank({"tool_calls": [CALL]}, "Sorry.", "Sorry.", approvals=approvals)
    result = await bank.agent.generate("Pay.")
    if is_another:
        bank = Bank("Sorry.", "Sorry.", approvals=approvals)
    await bank.agent.generate(result.reject("c1", "too much"))
    await bank.agent.generate(result.approve("c1"))
    assert bank.paid == []


@pytest.mark.parametrize("approved", [True, False])
async def test_a_client_with_its_own_ids_decides_in_a_thread(approved: bool) -> None:
    """The call of the thread has its result once."""
    bank = Bank({"tool_calls": [CALL]}, "Done.", "Noon.", memory=Memory(InMemoryStorage()))
    await bank.agent.generate("Pay.", **WHERE)
    asked = ui_messages.read_request(body(decided(approved)))
    for question in (asked.messages, "What time is it?"):
        await bank.agent.generate(question, **WHERE)
        assert bank.paid == ([5] if approved else [])
        assert [part.state for part in bank.sent()] == ["result" if approved else "error"]


def body(*parts: dict[str, Any], behind: str = "") -> bytes:
    """Return what a client of the AI SDK sends."""
    import json

    messages = [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Pay."}]},
        {"id": "2", "role": "assistant", "parts": list(parts)},
    ]
    if behind:
        messages.append({"id": "3", "role": "user", "parts": [{"type": "text", "text": behind}]})
    return json.dumps({"messages": messages}).encode()


def decided(approved: bool | None, kind: str = "tool-pay", **more: Any) -> dict[str, Any]:
    """Return a call of the AI SDK with a decision; None: it was asked for."""
    said = {"id": "a1", **more} if approved is None else {"id": "a1", "approved": approved, **more}
    state = "approval-requested" if approved is None else "approval-responded"
    named = {"type": kind, "toolName": "pay"} if kind == "dynamic-tool" else {"type": kind}
    return {**named, "toolCallId": "c1", "state": state, "input": {"amount": 5}, "approval": said}


@pytest.mark.parametrize("behind", ["", "Go on."])
@pytest.mark.parametrize("kind", ["tool-pay", "dynamic-tool"])
@pytest.mark.parametrize("approved", [True, False, None])
async def test_decisions_of_the_ai_sdk_are_used(approved: bool | None, kind: str, behind: str) -> None:
    """An approval runs the tool, a refusal gives the model its reason, and an open question is closed."""
    bank = Bank("Fine.")
    asked = ui_messages.read_request(body(decided(approved, kind, reason="my own"), behind=behind))
    result = await bank.agent.generate(asked.messages)
    assert (result.text, bank.paid) == ("Fine.", [5] if approved else [])
    [part] = bank.sent()
    assert part.state == ("result" if approved else "error")
    assert ("my own" in str(part.error)) is (approved is False)


CALLED = {"type": "tool-call", "toolCallId": "c1", "toolName": "pay", "input": {"amount": 5}}
ASKED = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
DONE = {"type": "tool-result", "toolCallId": "c1", "toolName": "pay", "output": {"type": "text", "value": "paid 5"}}


def of_models(*behind: list[dict[str, Any]], approved: bool = True) -> Any:
    """Return a conversation of the AI SDK's model messages with a decision, and tool messages behind it."""
    response = {"type": "tool-approval-response", "approvalId": "a1", "approved": approved, "reason": "my own"}
    return ai_sdk_model.read(
        [
            {"role": "user", "content": "Pay."},
            {"role": "assistant", "content": [CALLED, ASKED]},
            {"role": "tool", "content": [response, *(behind[0] if behind else [])]},
            *({"role": "tool", "content": more} for more in behind[1:]),
        ]
    )


@pytest.mark.parametrize("approved", [True, False])
async def test_decisions_in_model_messages_of_the_ai_sdk_are_used(approved: bool) -> None:
    """No part of an approval is sent to the model, which would refuse it."""
    bank = Bank("Fine.")
    await bank.agent.generate(of_models(approved=approved))
    assert bank.paid == ([5] if approved else [])
    [part] = bank.sent()
    assert part.state == ("result" if approved else "error")
    assert ("my own" in str(part.error)) is not approved
    assert [[one.type for one in message.parts] for message in bank.model.requests[-1].messages] == [["text"], ["tool"]]


def histories(*, as_ui: bool) -> list[Any]:
    """Return histories in which an approved call has its result."""
    if not as_ui:
        return [of_models([DONE]), of_models([], [DONE])]
    done = {**decided(approved=True), "state": "output-available", "output": "paid 5"}
    return [ui_messages.read_request(body(*parts)).messages for parts in ([done], [done, decided(approved=True)])]


@pytest.mark.parametrize("as_ui", [True, False])
async def test_a_call_whose_result_the_client_sends_does_not_run_again(as_ui: bool) -> None:
    """Wherever the result stands."""
    for messages in histories(as_ui=as_ui):
        bank = Bank("Fine.")
        await bank.agent.generate(messages)
        assert (bank.paid, len(bank.model.requests)) == ([], 1)


@pytest.mark.parametrize("as_ui", [True, False])
async def test_the_same_approval_twice_runs_the_call_once_in_a_thread(as_ui: bool) -> None:
    """The memory has the result that the client does not send."""
    bank = Bank("Fine.", "Fine.", "Fine.", memory=Memory(InMemoryStorage()))
    for _ in range(3):
        asked = ui_messages.read_request(body(decided(approved=True))).messages if as_ui else of_models()
        await bank.agent.generate(asked, **WHERE)
    assert bank.paid == [5]


@pytest.mark.parametrize("release", ["live", "step", "result"])
async def test_a_client_of_the_ai_sdk_is_asked_for_approval(release: Any) -> None:
    """Behind the call; the SDK answers with the id of the approval, which is that of the call."""
    bank = Bank({"text": "Let me pay.", "tool_calls": [CALL]})
    encoder, older = ui_messages.UIMessagesEncoder(), ui_messages.UIMessagesEncoder(approvals=False)
    seen: list[Any] = []
    plain: list[Any] = []
    async with bank.agent.stream("Pay.", release=release, ui_messages=True) as stream:
        async for chunk in stream:
            seen += encoder.events(chunk)
            plain += older.events(chunk)
            if chunk.type == "finish":
                [message] = chunk.payload["ui_messages"]
    asked = {"type": "tool-approval-request", "toolCallId": "c1", "approvalId": "c1"}
    kinds = [event["type"] for event in seen]
    assert seen[kinds.index("tool-input-available") + 1] == asked
    assert plain == [event for event in seen if event != asked]
    part = message["parts"][-1]
    assert (part["state"], part["approval"]) == ("approval-requested", {"id": "c1"})
    whole = ui_messages.answer(await stream.result, ui_messages.UIMessagesEncoder())
    assert asked in whole


async def test_a_client_gets_the_result_of_a_call_that_it_approved() -> None:
    """The SDK shows it in the part that it has."""
    bank = Bank("Fine.")
    asked = ui_messages.read_request(body(decided(approved=True)))
    encoder = ui_messages.UIMessagesEncoder.answering(asked)
    events: list[Any] = []
    async with bank.agent.stream(asked.messages) as stream:
        async for chunk in stream:
            events += encoder.events(chunk)
    assert {"type": "tool-output-available", "toolCallId": "c1", "output": "paid 5"} in events
