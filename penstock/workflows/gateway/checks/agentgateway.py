"""agentgateway's webhooks: ``POST /request`` and ``POST /response``, and its raw form of messages.

agentgateway knows the action of a reply by its fields: a mask has a body with messages or choices, a rejection has a
text as its body and a status, and everything else passes. It reads the body whatever the status is. So every reply,
also one to a malformed request, is one of the first two, unless all may pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.formats.wire import expect_array, expect_object
from penstock.workflows.gateway.checks.answers import check_answer
from penstock.workflows.gateway.checks.contract import FAILED, CheckRefusal, CheckReply, Contract
from penstock.workflows.gateway.checks.core import check_input
from penstock.workflows.gateway.checks.rows import Rows

if TYPE_CHECKING:
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json
    from penstock.workflows.gateway.checks.core import CheckResult

BLOCKED_STATUS = 403
BLOCKED_TEXT = "A guard has blocked this."
SECONDS = 9.0
"""After how many seconds the reply is a rejection: agentgateway waits for ten, and then follows its failure mode."""

_CHAT = "openai-chat"


async def check_request(guards: Workflow, body: Json) -> CheckReply:
    """Check the messages of a request, in the form of a guardrail or as the provider gets them.

    Raises:
        MessageError: the body is malformed.
    """
    if "body" not in body and "messages" in body:
        return await _raw(guards, body)
    inner = expect_object(body.get("body"), "body")
    rows = Rows(inner.get("messages"), "body.messages", _CHAT)
    if not rows.messages:
        return _passed()
    checked = await check_input(guards, rows.messages)
    if checked.blocked:
        return _rejected(checked)
    left = rows.left(checked)
    return _passed() if left == list(rows.items) else _masked({"messages": list(map(_plain, left))})


async def check_response(guards: Workflow, body: Json) -> CheckReply:
    """Check the choices of an answer, each alone.

    Raises:
        MessageError: the body is malformed.
    """
    inner = expect_object(body.get("body"), "body")
    choices = expect_array(inner.get("choices"), "body.choices", "a list of choices")
    left: list[Json] = []
    for index, choice in enumerate(choices):
        place = f"body.choices[{index}]"
        message = expect_object(expect_object(choice, place).get("message"), f"{place}.message")
        rows = Rows([message], f"{place}.message", _CHAT)
        checked = await check_answer(guards, rows.messages[0])
        if checked.blocked:
            return _rejected(checked)
        said = rows.left(checked) or [{**message, "content": ""}]
        left.append({**choice, "message": _plain(said[0])})
    return _passed() if left == list(choices) else _masked({"choices": left})


async def _raw(guards: Workflow, body: Json) -> CheckReply:
    """Check messages as the provider gets them. There is no rejection: a reply that cannot be read stands for it."""
    try:
        rows = Rows(body.get("messages"), "messages")
        checked = await check_input(guards, rows.messages) if rows.messages else None
        left = list(rows.items) if checked is None or checked.blocked else rows.left(checked)
    except (MessageError, RecursionError):
        return _raw_refused("the messages are malformed")
    if checked is not None and (checked.blocked or not left):
        return _raw_refused(BLOCKED_TEXT)
    return CheckReply({} if left == list(rows.items) else {"messages": left})


def _raw_refused(why: str) -> CheckReply:
    return CheckReply({"messages": False, "error": why}, BLOCKED_STATUS)


def _plain(row: Json) -> Json:
    """Return a message with the two fields that agentgateway takes.

    Raises:
        MessageError: its content is no text any more.
    """
    content = row.get("content")
    if not isinstance(content, str):
        raise MessageError("body", "what the guards left of a message is no text, and agentgateway takes texts only")
    return {"role": row.get("role"), "content": content}


def _passed() -> CheckReply:
    return CheckReply({"action": {"reason": "passed"}})


def _masked(body: Json) -> CheckReply:
    return CheckReply({"action": {"body": body, "reason": "masked"}})


def _rejected(checked: CheckResult) -> CheckReply:
    return _rejection(BLOCKED_TEXT, BLOCKED_STATUS, f"blocked by {checked.guard}" if checked.guard else "blocked")


def _rejection(text: str, status: int, reason: str) -> CheckReply:
    return CheckReply({"action": {"body": text, "status_code": status, "reason": reason}})


def refused(refusal: CheckRefusal) -> CheckReply:
    """Return the answer to a request that was not checked.

    It is a rejection in the one form, and in the other a reply that cannot be read: without messages, all would pass.
    """
    text = "The check failed." if refusal.status == FAILED else "The check could not read this."
    reply = _rejection(text, refusal.status, str(refusal))
    return CheckReply({**reply.body, "messages": False}, refusal.status)


REQUEST = Contract(("/request", "/agentgateway/request"), check_request, refused, SECONDS)
RESPONSE = Contract(("/response", "/agentgateway/response"), check_response, refused, SECONDS)
