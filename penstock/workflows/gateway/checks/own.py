"""Our own contract: ``POST /v1/check``.

A request holds one of ``text``, ``texts``, ``messages``, ``tool_call`` and ``tool_result``, and says with ``channel``
whether texts and messages are on their way to a model (``input``) or come from it (``answer``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.formats import FORMATS
from penstock.formats.wire import expect_array, expect_object, expect_text, maybe_flag, maybe_text
from penstock.workflows.gateway.checks.answers import check_answer
from penstock.workflows.gateway.checks.contract import CheckRefusal, CheckReply, Contract
from penstock.workflows.gateway.checks.core import CheckResult, check_call, check_input, check_result, user_message
from penstock.workflows.gateway.checks.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json

KINDS = ("text", "texts", "messages", "tool_call", "tool_result")
CHANNELS = ("input", "answer")
_KNOWN = frozenset({*KINDS, "channel", "format", "conversation", "context", "explain"})
_RANKS = ("passed", "edited", "blocked")


async def check(guards: Workflow, body: Json) -> CheckReply:
    """Check the body of a request.

    Raises:
        MessageError: it is malformed.
    """
    unknown = sorted(body.keys() - _KNOWN)
    if unknown:
        raise MessageError("", f"it has {len(unknown)} unknown keys; the known ones are {', '.join(sorted(_KNOWN))}")
    kinds = [kind for kind in KINDS if body.get(kind) is not None]
    if len(kinds) != 1:
        raise MessageError("", f"it needs exactly one of {', '.join(KINDS)}, and has {len(kinds)} of them")
    asked = _OwnRequest(guards, body)
    return CheckReply(await getattr(asked, kinds[0])())


class _OwnRequest:
    """One request.

    Raises:
        MessageError: it is malformed.
    """

    def __init__(self, guards: Workflow, body: Json) -> None:
        self._guards = guards
        self._body = body
        self._channel = maybe_text(body, "channel", "") or "input"
        if self._channel not in CHANNELS:
            raise MessageError("channel", f"expected one of {', '.join(CHANNELS)}, not another str")
        self._format = maybe_text(body, "format", "")
        if self._format is not None and self._format not in FORMATS:
            raise MessageError("format", f"expected one of {', '.join(FORMATS)}, not another str")
        context = body.get("context")
        self._context = None if context is None else expect_object(context, "context")
        self._explains = bool(maybe_flag(body, "explain", ""))
        before = body.get("conversation")
        self._before = () if before is None else Rows(before, "conversation", self._format).messages
        if self._before and self._channel != "answer":
            raise MessageError("conversation", "only answers have one before them; set channel to answer, or leave it")

    async def text(self) -> Json:
        """Check one text."""
        return await self._one(expect_text(self._body, "text", ""))

    async def texts(self) -> Json:
        """Check texts that have nothing to do with each other, each alone."""
        texts = expect_array(self._body["texts"], "texts")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise MessageError(f"texts[{index}]", f"expected a str, not {type(text).__name__}")
        results = [await self._one(text) for text in texts]
        verdict = max((result["verdict"] for result in results), key=_RANKS.index, default="passed")
        return {"verdict": verdict, "results": results}

    async def _one(self, text: str) -> Json:
        checked = await self._checked([user_message(text)])
        said = self._verdict(checked)
        if not checked.blocked:
            said |= {"text": checked.text, "edits": _edits(checked.edits, {})}
        return said

    async def messages(self) -> Json:
        """Check a conversation, or one answer."""
        rows = Rows(self._body["messages"], "messages", self._format)
        if not rows.messages:
            raise MessageError("messages", "is empty; send at least one message")
        checked = await self._checked(rows.messages)
        said = self._verdict(checked)
        if not checked.blocked:
            numbers = {
                message.id: rows.place_of(number)
                for number, message in enumerate(checked.messages)
                if message is not None
            }
            said |= {"messages": rows.left(checked), "edits": _edits(checked.edits, numbers)}
        return said

    async def _checked(self, messages: tuple[Message, ...] | list[Message]) -> CheckResult:
        if self._channel == "input":
            return await check_input(self._guards, messages, context=self._context, records=True)
        if len(messages) != 1:
            raise MessageError("messages", "an answer is one message; send those before it as conversation")
        return await check_answer(self._guards, messages[0], asked=self._before, context=self._context, records=True)

    async def tool_call(self) -> Json:
        """Check a call of a tool."""
        call = expect_object(self._body["tool_call"], "tool_call")
        checked = await check_call(
            self._guards,
            expect_text(call, "name", "tool_call"),
            expect_object(call.get("arguments"), "tool_call.arguments"),
            call_id=maybe_text(call, "id", "tool_call") or "",
            context=self._context,
            records=True,
        )
        return self._value(checked, "arguments")

    async def tool_result(self) -> Json:
        """Check the result of a tool."""
        call = expect_object(self._body["tool_result"], "tool_result")
        if "result" not in call:
            raise MessageError("tool_result.result", "is missing; send what the tool returned, any JSON value")
        checked = await check_result(
            self._guards,
            expect_text(call, "name", "tool_result"),
            call["result"],
            arguments=call.get("arguments"),
            call_id=maybe_text(call, "id", "tool_result") or "",
            is_error=bool(maybe_flag(call, "is_error", "tool_result")),
            context=self._context,
            records=True,
        )
        return self._value(checked, "result")

    def _value(self, checked: CheckResult, name: str) -> Json:
        said = self._verdict(checked)
        if checked.verdict in ("answered", "asked"):
            said["answer"] = checked.answer
        elif not checked.blocked:
            said |= {name: checked.value, "edits": _edits(checked.edits, {})}
        return said

    def _verdict(self, checked: CheckResult) -> Json:
        said: Json = {"verdict": checked.verdict}
        tripwire = checked.tripwire
        if tripwire is not None:
            said |= {"guard": checked.guard, "stage": tripwire.stage or None, "failed": checked.failed}
            if self._explains:
                said["reason"] = tripwire.reason
        flagged = {record.processor_id: list(record.flagged) for record in checked.records if record.flagged}
        if flagged:
            said["flagged"] = flagged
        return said


def _edits(found: Mapping[TextPlace, Edits], numbers: Mapping[str, int]) -> list[Json]:
    """Return edits as JSON: its place and the new text, never the old one."""
    return [
        {
            **({"message": numbers[place.message_id], "part": place.part} if place.message_id in numbers else {}),
            "field": place.path[0],  # not the keys below it: they are text, too, and could be what was hidden
            "start": edit.start,
            "end": edit.end,
            "text": edit.text,
            "kind": edit.kind,
            "guard": edit.step or None,
        }
        for place, edits in found.items()
        for edit in edits
    ]


def refused(refusal: CheckRefusal) -> CheckReply:
    """Return the answer to a request that was not checked."""
    return CheckReply({"error": {"place": refusal.place, "problem": refusal.problem}}, refusal.status)


CONTRACT = Contract(("/v1/check",), check, refused)
