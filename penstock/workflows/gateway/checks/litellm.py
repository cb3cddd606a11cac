"""LiteLLM's generic guardrail: ``POST /beta/litellm_basic_guardrail_api``.

LiteLLM sends the texts of a request, or of an answer, and takes back as many. The rows of a request (its messages) and
its tools may come back, too. Calls of tools may not: an answer is blocked if a guard would change one of its calls.

An answer that streams comes again and again, with all text so far, and nothing says which time is the last. So each
reply holds the whole text as it would be if the answer ended there, and says for each text how many characters at its
end can still change (``stream_holdback_chars``). The rest is the text that the guards of a stream would have released,
so no further text can change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import ImagePart, Message
from penstock.engine.values.texts import leaves
from penstock.formats.wire import expect_array, expect_object, is_array, is_object, maybe_text
from penstock.workflows.gateway.checks import beside
from penstock.workflows.gateway.checks.answers import check_answer
from penstock.workflows.gateway.checks.contract import BAD_REQUEST, CheckRefusal, CheckReply, Contract
from penstock.workflows.gateway.checks.core import CheckResult, check_input, user_message
from penstock.workflows.gateway.checks.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json, Value

BLOCKED_TEXT = "A guard has blocked this."
"""What a client of LiteLLM gets to read; the reason may help an attacker."""

CHANGED_CALL_TEXT = "A guard would change a call of a tool, which LiteLLM cannot take back."
REMOVED_TEXT = "A guard has removed a part, which LiteLLM cannot take back."

_CHAT = "openai-chat"
_SENT = ("input_type", "texts", "images")
_TOOLS = "tools"


async def check(guards: Workflow, body: Json) -> CheckReply:
    """Check the texts of a request or of an answer.

    Raises:
        MessageError: the body is malformed.
    """
    kind = maybe_text(body, "input_type", "")
    if kind not in ("request", "response"):
        raise MessageError("input_type", "expected request or response")
    texts = _texts(body, "texts")
    context: Json = {"litellm": body.get("request_data") or {}}
    try:
        if kind == "request":
            return await _GuardrailRequest(body, texts).reply(guards, context)
        return await _answered(guards, body, texts, context)
    except MessageError as error:  # a client can write such a message, and it must not pass
        return CheckReply(_blocked(str(CheckRefusal(BAD_REQUEST, error.place.lstrip("."), error.problem))))


def _texts(body: Json, name: str) -> list[str]:
    """Return a list of texts; an empty one if it is missing.

    Raises:
        MessageError: it is something else.
    """
    found = body.get(name)
    texts = [] if found is None else list(expect_array(found, name, "a list of strings"))
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise MessageError(f"{name}[{index}]", f"expected a str, not {type(text).__name__}")
    return texts


def _blocked(why: str) -> Json:
    return {"action": "BLOCKED", "blocked_reason": why}


def _verdict(checked: CheckResult) -> Json:
    """Return the answer for a verdict: which guard it was, and not why."""
    return _blocked(f"{BLOCKED_TEXT} ({checked.guard})" if checked.guard else BLOCKED_TEXT)


# Requests


class _GuardrailRequest:
    """A request: its rows, texts, images, tools and calls.

    Where the texts are those of the rows, guards read the rows alone, with their roles. Otherwise they read both.
    Images and calls of tools are read if they are in no row.

    Raises:
        MessageError: it is malformed.
    """

    def __init__(self, body: Json, texts: list[str]) -> None:
        self._body = body
        self._texts = texts
        self._rows = Rows(body.get("structured_messages") or [], "structured_messages")
        self._same = bool(self._rows.items) and _texts_of(self._rows.items) == texts
        self._own = [] if self._same else [user_message(text) for text in texts]
        shown = {text for _, text in leaves(list(self._rows.items))}
        self._images = [_image(url) for url in _texts(body, "images") if url not in shown]
        self._beside: Json = {}
        if body.get(_TOOLS) is not None:
            self._beside[_TOOLS] = list(expect_array(body[_TOOLS], _TOOLS))
        known = [_call(call) for row in self._rows.items for call in row.get("tool_calls") or ()]
        calls = expect_array(body.get("tool_calls") or [], "tool_calls")
        if others := [call for call in calls if _call(call) not in known]:
            self._beside["tool_calls"] = others

    async def reply(self, guards: Workflow, context: Json) -> CheckReply:
        """Check it."""
        first = [beside.as_message(self._beside)] if self._beside else []  # some guards read the last message alone
        messages = [*first, *self._rows.messages, *self._images, *self._own]
        if not messages:
            return CheckReply({"action": "NONE"})
        checked = await check_input(guards, messages, context=context)
        if checked.blocked:
            return CheckReply(_verdict(checked))
        return CheckReply(self._left(checked))

    def _left(self, checked: CheckResult) -> Json:
        """Return the answer, with each part that the guards have changed."""
        start = 1 if self._beside else 0
        images = start + len(self._rows.messages)
        own = images + len(self._images)
        told = beside.left_of(checked.messages[0], self._beside) if self._beside else {}
        shown = [None if now is None else now.parts for now in checked.messages[images:own]]
        alone = checked.messages[own:]
        if told is None or None in alone or shown != [image.parts for image in self._images]:
            return _blocked(REMOVED_TEXT)
        if told.get("tool_calls") != self._beside.get("tool_calls"):
            return _blocked(CHANGED_CALL_TEXT)
        left = [
            item for index, items in self._rows.changes(checked.part(start, images)) if index >= 0 for item in items
        ]
        made: Json = {}
        texts = [message.text for message in alone if message is not None]
        if self._same:
            texts = _texts_of(left)
        if texts != self._texts:
            made["texts"] = texts
        if left != list(self._rows.items) and not (self._same and _only_texts_differ(left, self._rows.items)):
            made["structured_messages"] = left
        if told.get(_TOOLS) != self._beside.get(_TOOLS):
            made[_TOOLS] = told[_TOOLS]
        return {"action": "GUARDRAIL_INTERVENED", **made} if made else {"action": "NONE"}


def _call(call: Value) -> Value:
    """Return the fields of a call that hold text, by which it is found in the rows; other values as they are."""
    function: Value = call.get("function") if is_object(call) else None
    if not is_object(function):
        return call
    return call.get("id"), call.get("type"), function.get("name"), function.get("arguments")


def _image(url: str) -> Message:
    return Message("user", (ImagePart(url=url),), from_client=True)


def _texts_of(rows: Sequence[Json]) -> list[str]:
    """Return the texts of rows, as LiteLLM lists them."""
    found: list[str] = []
    for row in rows:
        content = row.get("content")
        if isinstance(content, str):
            found.append(content)
        elif is_array(content):
            found += [part["text"] for part in content if is_object(part) and isinstance(part.get("text"), str)]
    return found


def _only_texts_differ(rows: Sequence[Json], given: Sequence[Json]) -> bool:
    """Return whether rows differ in nothing but their texts. LiteLLM puts these in itself, and keeps all else."""
    return list(map(_without_texts, rows)) == list(map(_without_texts, given))


def _without_texts(row: Json) -> Json:
    content: Value = row.get("content")
    if isinstance(content, str):
        return {**row, "content": ""}
    if is_array(content):
        parts = [
            {**part, "text": ""} if is_object(part) and isinstance(part.get("text"), str) else part for part in content
        ]
        return {**row, "content": parts}
    return row


# Answers


async def _answered(guards: Workflow, body: Json, texts: list[str], context: Json) -> CheckReply:
    """Check an answer, each of its texts alone: they are choices, of which nobody reads two."""
    asked = Rows(body.get("structured_messages") or [], "structured_messages").messages
    results: list[CheckResult] = []
    for text in texts:
        results.append(await check_answer(guards, Message.assistant(text), asked=asked, context=context, streams=True))
        if results[-1].blocked:
            return CheckReply(_verdict(results[-1]))
    for message, why in _rest(body):
        checked = await check_answer(guards, message, asked=asked, context=context)
        if checked.blocked:
            return CheckReply(_verdict(checked))
        if checked.verdict != "passed":
            return CheckReply(_blocked(why))
    left = [result.text for result in results]
    held = [len(text) - result.released for text, result in zip(left, results, strict=True)]
    changed: Json = {"action": "NONE"} if left == texts else {"action": "GUARDRAIL_INTERVENED", "texts": left}
    return CheckReply({**changed, "stream_holdback_chars": held})


def _rest(body: Json) -> list[tuple[Message, str]]:
    """Return the calls and images of an answer, each with the text of the block if a guard would change it.

    Raises:
        MessageError: it is malformed.
    """
    calls = list(expect_array(body.get("tool_calls") or [], "tool_calls"))
    for index, call in enumerate(calls):
        expect_object(call, f"tool_calls[{index}]")
    found: list[tuple[Message, str]] = []
    if calls:
        said = Rows([{"role": "assistant", "content": None, "tool_calls": calls}], "tool_calls", _CHAT).messages
        found += [(message, CHANGED_CALL_TEXT) for message in said]
    images = _texts(body, "images")
    if images:
        parts = tuple(ImagePart(url=url) for url in images)
        found.append((Message("assistant", parts), REMOVED_TEXT))
    other = {name: body[name] for name in (_TOOLS,) if body.get(name)}
    if other:
        found.append((beside.as_message(other), REMOVED_TEXT))
    return found


def refused(refusal: CheckRefusal) -> CheckReply:
    """Return the answer to a request that was not checked.

    The status is 400 only where LiteLLM itself has sent something wrong. The rest is a verdict, since a client can
    bring it about, and LiteLLM may be told to go on after errors.
    """
    wrong = refusal.status == BAD_REQUEST and (not refusal.place or refusal.place.startswith(_SENT))
    keyless = refusal.status in (401, 403)
    return CheckReply(_blocked(str(refusal)), refusal.status if wrong or keyless else 200)


CONTRACT = Contract(("/beta/litellm_basic_guardrail_api",), check, refused)
