"""Requests of AG-UI's clients: ``RunAgentInput``, its messages, tools, and the answers to interrupts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_items
from penstock.formats.parts import read_arguments
from penstock.workflows.web.client_request import (
    ClientRequest,
    Fields,
    RequestError,
    read_messages,
    read_object,
    read_tools,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.workflows.web.sent import Json

NOT_DECIDED = "the person has not decided"
"""The reason that the model gets for a call whose interrupt the client has cancelled."""


REVIEW_PREFIX = "review-"
"""The beginning of the ids of interrupts that wait for a reviewer, and not for the client."""


def read_request(body: bytes | str | Mapping[str, object]) -> ClientRequest:
    """Return the request of a client: a ``RunAgentInput``.

    ``id`` is the id of the thread, and ``repeated["runId"]`` that of the run. State, context and forwarded properties
    are in ``rest``. Answers to interrupts are approvals of the calls that they are about; those to a question for a
    reviewer count for nothing. Activity messages are left out: they are no part of the conversation.

    Args:
        body: the body of the HTTP request, or the JSON object in it.

    Raises:
        RequestError: the request is malformed; or an answer is about no open call, has edited arguments, or is missing.
    """
    fields = Fields(read_object(body))
    messages = fields.take("messages")
    if is_items(messages):
        names = {str(tool.get("name")) for tool in fields.objects("tools")}
        messages = _Messages(fields.objects("messages"), _answers(fields), names).made()
    tools = [{**tool, "type": "function"} for tool in fields.objects("tools")]
    return ClientRequest(
        messages=read_messages(messages, "penstock", "messages"),
        stream=True,
        id=fields.text("threadId"),
        tools=read_tools(Fields({"tools": tools}), nested=False),
        repeated={"runId": fields.text("runId")},
        rest=fields.rest(),
    )


def _answers(request: Fields) -> dict[str, Json]:
    """Return the approvals of calls, as fields of their parts, by the ids of the calls."""
    made: dict[str, Json] = {}
    for index, entry in enumerate(request.objects("resume")):
        fields = Fields(entry, f"resume[{index}]")
        id, status = fields.text("interruptId"), fields.text("status")
        if id.startswith(REVIEW_PREFIX):
            continue
        if not id or id in made:
            raise RequestError(fields.place("interruptId"), "is missing, or named before; name each interrupt once")
        if status == "cancelled":
            made[id] = {"approval": "rejected", "error": NOT_DECIDED}
        elif status == "resolved":
            made[id] = _decision(Fields(fields.object("payload") or {}, fields.place("payload")))
        else:
            raise RequestError(fields.place("status"), "expected resolved or cancelled")
    return made


def _decision(payload: Fields) -> Json:
    if payload.take("approved") is None:
        raise RequestError(payload.place("approved"), "is missing; send true or false")
    if payload.take("editedArgs") is not None:
        raise RequestError(payload.place("editedArgs"), "is not taken; approve the call as it is, or reject it")
    if payload.flag("approved"):
        return {"approval": "approved"}
    reason = payload.text("reason")
    return {"approval": "rejected", **({"error": reason} if reason else {})}


class _Messages:
    """The messages of a request in Penstock's own form.

    Args:
        given: the client's messages.
        answers: the approvals of calls; see `_answers`.
        own_tools: the names of the tools that the client runs.
    """

    def __init__(self, given: list[Json], answers: dict[str, Json], own_tools: Container[str]) -> None:
        self._given = given
        self._answers = answers
        self._own_tools = own_tools
        self._names: dict[str, str] = {}  # the names of tools by the ids of calls
        results = [one.get("toolCallId") for one in given if one.get("role") == "tool"]
        self._answered = frozenset(id for id in results if isinstance(id, str))

    def made(self) -> list[Json]:
        """Return the messages.

        Raises:
            RequestError: one is malformed, an answer is about no open call, or an open call has none.
        """
        made: list[Json] = []
        for index, message in enumerate(self._given):
            fields = Fields(message, f"messages[{index}]")
            role = fields.text("role")
            if role not in _ROLES:
                raise RequestError(fields.place("role"), f"expected {', '.join(_ROLES)}")
            if role != "activity":
                _add(made, self._message(fields, role))
        unknown = [id for id in self._answers if id not in self._names or id in self._answered]
        if unknown:
            place = list(self._answers).index(unknown[0])
            raise RequestError(f"resume[{place}].interruptId", "names no call of the messages that is open")
        open_calls = [
            call["call_id"]
            for call in _last_calls(made)
            if call["call_id"] not in self._answered and call["name"] not in self._own_tools
        ]
        if self._answers and not all(id in self._answers for id in open_calls):
            raise RequestError("resume", "leaves calls without an answer; answer all interrupts of a run at once")
        return made

    def _message(self, fields: Fields, role: str) -> Json:
        id, name = fields.text("id"), fields.text("name")
        about = {**({"id": id} if id else {}), **({"name": name} if name else {})}
        if role == "tool":
            return {**about, "role": "tool", "parts": [self._result(fields)]}
        if role == "reasoning":
            return {**about, "role": "assistant", "parts": [{"type": "reasoning", "text": fields.text("content")}]}
        if role == "assistant":
            text = fields.text("content")
            said = [{"type": "text", "text": text}] if text else []
            return {**about, "role": role, "parts": [*said, *self._calls(fields)]}
        return {**about, "role": "user" if role == "user" else "system", "parts": _content(fields)}

    def _calls(self, message: Fields) -> list[Json]:
        made: list[Json] = []
        for index, call in enumerate(message.objects("toolCalls")):
            fields = Fields(call, f"{message.place('toolCalls')}[{index}]")
            function = Fields(fields.object("function") or {}, fields.place("function"))
            id, name = fields.text("id"), function.text("name")
            if not id or not name:
                raise RequestError(fields.place("id"), "a call needs an id, and a function with a name")
            self._names[id] = name
            arguments, _ = read_arguments(function.text("arguments"))
            part = {"type": "tool", "call_id": id, "name": name, "arguments": arguments, "state": "call"}
            made.append({**part, **self._answers.get(id, {})})
        return made

    def _result(self, fields: Fields) -> Json:
        id, error = fields.text("toolCallId"), fields.text("error")
        if not id:
            raise RequestError(fields.place("toolCallId"), "is missing; name the call")
        part: Json = {"type": "tool", "call_id": id, "name": self._names.get(id, "tool")}
        if error:
            return {**part, "state": "error", "error": error}
        return {**part, "state": "result", "result": fields.take("content")}


def _add(made: list[Json], message: Json) -> None:
    """Add a message, or add its parts to the answer in front of it: clients split an answer with text behind calls."""
    if made and made[-1]["role"] == message["role"] == "assistant":
        made[-1] = {**made[-1], "parts": [*made[-1]["parts"], *message["parts"]]}
    else:
        made.append(message)


def _last_calls(made: list[Json]) -> list[Json]:
    """Return the calls of the last answer that has some."""
    for message in reversed(made):
        calls: list[Json] = [part for part in message["parts"] if part["type"] == "tool"]
        if calls and message["role"] == "assistant":
            return calls
    return []


_ROLES = ("developer", "system", "assistant", "user", "tool", "activity", "reasoning")


def _content(message: Fields) -> list[Json]:
    """Return the parts of a message of a user or of an application."""
    given: Value = message.take("content")
    if not is_items(given):
        return [{"type": "text", "text": message.text("content")}]
    parts = message.objects("content")
    return [_part(Fields(part, f"{message.place('content')}[{index}]")) for index, part in enumerate(parts)]


_KINDS = {"image": "image", "audio": "audio", "video": "file", "document": "file"}


def _part(fields: Fields) -> Json:
    kind = fields.text("type")
    if kind == "text":
        return {"type": "text", "text": fields.text("text")}
    if kind not in _KINDS:
        raise RequestError(fields.place("type"), f"expected text, {', '.join(_KINDS)}")
    source = Fields(fields.object("source") or {}, fields.place("source"))
    where = source.text("type")
    if where not in ("data", "url"):
        raise RequestError(source.place("type"), "expected data or url; files at a provider are not read")
    value, media_type = source.text("value"), source.text("mimeType")
    if not value:
        raise RequestError(source.place("value"), "is missing")
    return {"type": _KINDS[kind], where: value, **({"media_type": media_type} if media_type else {})}
