"""Portkey's webhook: ``POST /portkey``.

Portkey counts an error, and a reply that does not come in time, as a passed check. So every reply has the status 200
and a verdict, also one to a malformed request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.formats.wire import expect_object, is_array, is_object
from penstock.workflows.gateway.checks.answer_bodies import check_answer_body
from penstock.workflows.gateway.checks.contract import CheckRefusal, CheckReply, Contract
from penstock.workflows.gateway.checks.request_bodies import check_request_body
from penstock.workflows.gateway.checks.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.checks.request_bodies import BodyChecked

SECONDS = 2.5
"""After how many seconds the verdict is false: Portkey waits for three, and then counts the check as passed."""

_EVENTS = {"beforeRequestHook": "request", "afterRequestHook": "response"}


async def check(guards: Workflow, body: Json) -> CheckReply:
    """Check the request to a model, or its answer.

    Older versions name no event: there, an answer has a status.

    Raises:
        MessageError: the body is malformed.
    """
    event = body.get("eventType")
    if event is None:
        given: Value = body.get("response")
        answered = is_object(given) and given.get("statusCode") is not None
        event = "afterRequestHook" if answered else "beforeRequestHook"
    if event not in _EVENTS:
        raise MessageError("eventType", f"expected one of {', '.join(_EVENTS)}")
    side = _EVENTS[event]
    inner = expect_object(body.get(side), side)
    sent = expect_object(inner.get("json"), f"{side}.json")
    context: Json = {"portkey": {"metadata": body.get("metadata"), "provider": body.get("provider")}}
    if side == "request":
        checked = await check_request_body(guards, sent, context=context)
    else:
        checked = await check_answer_body(guards, sent, asked=_asked(body), context=context)
    return CheckReply(_reply(checked, side, sent))


def _asked(body: Json) -> Sequence[Message]:
    """Return the messages that an answer belongs to, if they can be read; they were checked before."""
    request: Value = body.get("request")
    sent: Value = request.get("json") if is_object(request) else None
    messages: Value = sent.get("messages") if is_object(sent) else None
    if not is_array(messages):
        return ()
    try:
        return Rows(messages).messages
    except MessageError:
        return ()


def _reply(checked: BodyChecked, side: str, given: Json) -> Json:
    if checked.body is None:
        guard = checked.blocked.guard if checked.blocked is not None else None
        return _failed(f"blocked by {guard}" if guard else checked.why or "blocked")
    if checked.body is given:
        return {"verdict": True}
    said: Json = {"json": checked.body}
    if side == "response":
        said["text"] = _text_of(checked.body)
    return {"verdict": True, "transformedData": {side: said}, "data": {"reason": "edited"}}


def _text_of(body: Json) -> str:
    """Return the text of the first choice, which Portkey shows beside the body."""
    choices: Value = body.get("choices")
    first: Value = choices[0] if is_array(choices) and choices else None
    if not is_object(first):
        return ""
    message: Value = first.get("message")
    text: Value = first.get("text") or (message.get("content") if is_object(message) else None)
    return text if isinstance(text, str) else ""


def _failed(why: str) -> Json:
    return {"verdict": False, "data": {"reason": why}}


def refused(refusal: CheckRefusal) -> CheckReply:
    """Return the answer to a request that was not checked."""
    return CheckReply(_failed(str(refusal)))


CONTRACT = Contract(("/portkey",), check, refused, SECONDS)
