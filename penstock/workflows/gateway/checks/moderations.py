"""OpenAI's moderations: ``POST /v1/moderations``, answered by the policy.

A result has the 13 categories of that API. A category that no guard of the policy judges has the score 0 and no type of
input in ``category_applied_input_types``. Text that the policy blocks or hides is flagged, also where none of the
categories says so: a caller of this API can only take a text or leave it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.messages import ImagePart, Message, TextPart
from penstock.formats.openai_moderations import CATEGORIES
from penstock.formats.wire import expect_object, expect_text, is_array, maybe_text
from penstock.workflows.gateway.checks.contract import FAILED, CheckRefusal, CheckReply, Contract
from penstock.workflows.gateway.checks.core import CheckResult, check_input, user_message

if TYPE_CHECKING:
    from penstock.engine.values.messages import Part
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json, Value


async def check(guards: Workflow, body: Json) -> CheckReply:
    """Judge the input of a request.

    Raises:
        MessageError: it is malformed.
    """
    maybe_text(body, "model", "")
    results = [_result(await check_input(guards, [message], records=True)) for message in _inputs(body)]
    return CheckReply({"id": f"modr-{uuid4().hex}", "model": f"penstock/{guards.name}", "results": results})


def _inputs(body: Json) -> list[Message]:
    """Return a message for each result: a text, each text of a list, or all parts of a list together.

    Raises:
        MessageError: the input is malformed.
    """
    given: Value = body.get("input")
    if isinstance(given, str):
        return [user_message(given)]
    if not is_array(given) or not given:
        raise MessageError("input", "expected a string, or a list of strings or of parts, with at least one of them")
    if all(isinstance(item, str) for item in given):
        return [user_message(item) for item in given]
    parts = tuple(_part(item, f"input[{index}]") for index, item in enumerate(given))
    return [Message("user", parts, from_client=True)]


def _part(item: Value, place: str) -> Part:
    part = expect_object(item, place, "a part with a type: text or image_url")
    kind = expect_text(part, "type", place)
    if kind == "text":
        return TextPart(expect_text(part, "text", place))
    if kind != "image_url":
        raise MessageError(f"{place}.type", "expected text or image_url")
    image = expect_object(part.get("image_url"), f"{place}.image_url")
    return ImagePart(url=expect_text(image, "url", f"{place}.image_url"))


def _result(checked: CheckResult) -> Json:
    scores, flagged = _scores(checked), _flagged(checked)
    hidden = any(edit.hidden for record in checked.records for _, edit in record.edits)
    judged = {name for name in CATEGORIES if name in scores or name in flagged}
    return {
        "flagged": checked.blocked or hidden or bool(flagged),
        "categories": {name: name in flagged for name in CATEGORIES},
        "category_scores": {name: scores.get(name, 0.0) for name in CATEGORIES},
        "category_applied_input_types": {name: ["text"] if name in judged else [] for name in CATEGORIES},
        "penstock": {"verdict": checked.verdict, "guard": checked.guard, "failed": checked.failed},
    }


def _scores(checked: CheckResult) -> dict[str, float]:
    """Return the highest score of each category that any step has given."""
    said: list[Value] = [record.details.get("scores") for record in checked.records]
    if checked.tripwire is not None:
        said.append(checked.tripwire.metadata.get("scores"))
    found: dict[str, float] = {}
    for scores in said:
        for name, score in scores.items() if is_mapping(scores) else ():
            if isinstance(score, (int, float)):
                found[_named(name)] = max(float(score), found.get(_named(name), 0.0))
    return found


def _flagged(checked: CheckResult) -> set[str]:
    """Return what steps have flagged, or blocked for."""
    names = [name for record in checked.records for name in record.flagged]
    blocked: Value = None if checked.tripwire is None else checked.tripwire.metadata.get("categories")
    return set(map(_named, [*names, *(blocked or ())]))


def _named(name: Value) -> str:
    return str(name).lower().replace("_", "-")


def refused(refusal: CheckRefusal) -> CheckReply:
    """Return the answer to a request that was not checked, in OpenAI's form."""
    kind = "server_error" if refusal.status == FAILED else "invalid_request_error"
    error = {"message": str(refusal), "type": kind, "param": refusal.place or None, "code": None}
    return CheckReply({"error": error}, refusal.status)


CONTRACT = Contract(("/v1/moderations",), check, refused)
