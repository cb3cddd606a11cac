"""Calls that a guard asks a person about: an interrupt of LangGraph, in the form of `HumanInTheLoopMiddleware`.

The state of the graph holds which calls are asked about, each bound to its tool, arguments and processors, and the
decisions. LangGraph runs an interrupted node from its start: this one only reads the state before it asks.
"""

from __future__ import annotations

import json
from inspect import signature
from typing import TYPE_CHECKING, Annotated, cast

from langchain.agents.middleware.human_in_the_loop import Decision
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command, interrupt
from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict

from penstock.engine.values.frozen import EMPTY, Value, freeze, thaw
from penstock.formats.wire import is_array, is_object
from penstock.processors.tools.pins import definition_hash
from penstock.workflows.adapters.langchain.reading import as_json
from penstock.workflows.hosting import HostCall
from penstock.workflows.review.waiting import call_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage, ToolCall
    from langgraph.types import Interrupt

    from penstock.formats.wire import Json
    from penstock.workflows.hosting import HostRequest
    from penstock.workflows.hosting.reviews import HostDecision, HostReviews

_VALIDATES = "response_schema" in signature(interrupt).parameters
"""Whether this LangGraph checks an answer before it stores it."""

_ALLOWED = ("approve", "edit", "reject", "respond")
_REVIEWS = "reviews"
"""The field of an interrupt with the ids under which its calls are stored."""

_REASON = "A guard asks for approval of this call."
_EDITED = (
    "Note: a person edited the arguments of this call before it ran, on purpose. Do not repeat your original call. "
    "It ran with: "
)


def digest_of(call: HostCall, policy: str) -> str:
    """Return the digest that binds a decision to a call.

    Args:
        call: the call.
        policy: the fingerprint of the processors.
    """
    return call_digest(definition_hash(call.name, call.tool), call.arguments, policy)


def asked_call(tool: object, call: ToolCall) -> HostCall:
    """Return a call as a person is asked about it; ``tool``: as LangChain has it; None if it is not known."""
    known: Value = EMPTY if tool is None else convert_to_openai_tool(cast("Value", tool))["function"]
    return HostCall(call["name"], as_json(call["args"]), call["id"] or "", thread_id(), known)


def thread_id() -> str | None:
    """Return the id of the thread that this code runs in; None if it has none."""
    known: Mapping[str, Value] = ensure_config().get("configurable") or {}
    return str(known["thread_id"]) if known.get("thread_id") is not None else None


def asked_calls(request: HostRequest, answers: Sequence[BaseMessage], tools: Sequence[Value]) -> list[HostCall]:
    """Return the calls of answers that a person is asked about."""
    asked = {call.call_id for call in request.asked}
    named = {_name_of(tool): tool for tool in tools}
    calls = [call for answer in answers if isinstance(answer, AIMessage) for call in answer.tool_calls]
    return [asked_call(named.get(call["name"]), call) for call in calls if call["id"] in asked]


def _name_of(tool: Value) -> str:
    return str(tool.get("name") or tool.get("function", {}).get("name")) if is_object(tool) else str(tool.name)


def waiting_calls(messages: Sequence[BaseMessage], asked: Mapping[str, str]) -> list[ToolCall]:
    """Return the calls of the last answer that a person is asked about."""
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    calls = () if last is None else last.tool_calls
    return [call for call in calls if call["id"] in asked and call["id"] not in answered]


def decisions_about(
    calls: Sequence[ToolCall], asked: Mapping[str, str], reviews: HostReviews | None = None
) -> dict[str, Json]:
    """Ask a person about calls; return the decisions by the ids of the calls, each with the digest of its call.

    A LangGraph that checks answers stores no decisions that do not fit the calls, so that others can be given.

    Args:
        calls: the calls.
        asked: the digests of calls by their ids.
        reviews: where the calls are stored, if they are; the interrupt then has the ids under which they are.

    Raises:
        GraphInterrupt: nobody has decided yet.
        ValidationError: the decisions do not fit the calls.
    """

    def fitting(given: list[Value]) -> list[Value]:
        if len(given) != len(calls):
            raise ValueError(f"{len(calls)} calls wait for a decision; give one for each, in their order")
        for call, one in zip(calls, given, strict=True):
            if one["type"] == "edit" and one["edited_action"]["name"] != call["name"]:
                raise ValueError(f"an edit gives other arguments to the same tool, {call['name']!r}")
        return given

    made: Value = TypedDict
    form = made("Decisions", {"decisions": Annotated[list[Decision], AfterValidator(fitting)]})
    requests = [{"name": call["name"], "args": call["args"], "description": _REASON} for call in calls]
    configs = [{"action_name": call["name"], "allowed_decisions": list(_ALLOWED)} for call in calls]
    asks: Json = {"action_requests": requests, "review_configs": configs}
    if reviews is not None:
        asks[_REVIEWS] = [reviews.id_of(asked_call(None, call)) for call in calls]
    said = (
        interrupt(asks, response_schema=form)
        if _VALIDATES
        else TypeAdapter[Value](form).validate_python(interrupt(asks))
    )
    return {
        str(call["id"]): _decision(one, asked[str(call["id"])])
        for call, one in zip(calls, said["decisions"], strict=True)
    }


def _decision(given: Value, digest: str) -> Json:
    made: Json = {"type": given["type"], "digest": digest, "message": given.get("message") or ""}
    return {**made, "args": dict(given["edited_action"]["args"])} if given["type"] == "edit" else made


async def stored_decisions(reviews: HostReviews, interrupts: Sequence[Interrupt]) -> Command[Value] | None:
    """Return the command that resumes a graph with the stored decisions; None if calls of all interrupts wait."""
    values: dict[str, Json] = {}
    for one in interrupts:
        ids: Sequence[str] = one.value.get(_REVIEWS, ()) if is_object(one.value) else ()
        made = [await reviews.decision(id) for id in ids]
        if made and None not in made:
            actions = one.value["action_requests"]
            said = [_as_resumed(each, action) for each, action in zip(made, actions, strict=True) if each is not None]
            values[one.id] = {"decisions": said}
    if not values:
        return None
    return Command(resume=next(iter(values.values())) if len(interrupts) == 1 else values)


def _as_resumed(made: HostDecision, action: Json) -> Json:
    if made.approved and made.arguments is None:
        return {"type": "approve"}
    if made.approved:
        return {"type": "edit", "edited_action": {"name": action["name"], "args": thaw(made.arguments)}}
    return {"type": "reject" if made.rejected else "respond", "message": made.reason}


def refusal(call: ToolCall, reason: str) -> str:
    """Return the text that tells the model of a rejected call."""
    if reason:
        return f"The call was not run: a person rejected it: {reason}"
    return f"The call was not run: a person rejected it. Do not call {call['name']} again unless the user asks for it."


def with_notice(result: Value, arguments: Value) -> Value:
    """Return the result of an edited call with a note for the model that it was edited."""
    if is_array(result):
        return [with_notice(one, arguments) for one in cast("Sequence[Value]", result)]
    if not isinstance(result, ToolMessage):
        return result
    notice = f"{_EDITED}{json.dumps(as_json(arguments), ensure_ascii=False)}"
    content = result.content
    if isinstance(content, str):
        return result.model_copy(update={"content": f"{notice}\n\n{content}"})
    return result.model_copy(update={"content": [{"type": "text", "text": notice}, *content]})


def is_edit(decision: Json | None, call: ToolCall) -> bool:
    """Return whether a decision gives a call other arguments."""
    return decision is not None and "args" in decision and freeze(decision["args"]) != freeze(as_json(call["args"]))
