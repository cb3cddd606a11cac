"""Providers that go on with a part that has ended, or begin it twice or too late: readers would join what was cut."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import PIIDetector, Processor
from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.gateway.endpoints.messages import Messages
from penstock.workflows.gateway.endpoints.responses import Responses
from tests.workflows.gateway.exchanges import Scripted, event, run_exchange
from tests.workflows.gateway.planting import SECRET, holds_secret
from tests.workflows.gateway.responses_stream import message, response, stream_of

Json = dict[str, Any]
TRUTH: Any = True
GUARD = PIIDetector(strategy="redact")
A, B = SECRET[:12], SECRET[12:]
ASK_MESSAGE = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
ASK_RESPONSE = {"model": "m", "input": "Hi", "stream": True, "store": False}


class Late(Processor):
    """Reads the answer when it is whole, so that it is held."""

    id = "late"

    def process_output_result(self, ctx: Any) -> Any:
        """Hide the secret."""
        return ctx.message_list.map_text(lambda text: text.replace(SECRET, "[X]"))


@pytest.mark.parametrize("guard", [GUARD, Late()], ids=["live", "held"])
async def test_a_response_that_goes_on_behind_its_end_spells_no_secret(guard: Any) -> None:
    """Neither in its pieces, nor in what repeats them."""
    made = stream_of(response([message(f"Ask {SECRET} now")]), lambda text: [text[:18], text[18:]])
    at = next(number for number, (kind, _) in enumerate(made) if kind.endswith("text.delta")) + 1
    end = ("response.incomplete", {"type": "response.incomplete", "response": response([], "incomplete")})
    sends = [event(data, kind) for kind, data in (*made[:at], end, *made[at:])]
    ask = {"model": "m", "input": "Hi", "stream": True, "store": False}
    got = await run_exchange(Responses(), ask, Scripted(sends), guard)
    assert not holds_secret(got.body)
    said = "".join(one["delta"] for one in got.events if one["type"] == "response.output_text.delta")
    assert SECRET not in said
    assert got.ended.error == ("" if guard is GUARD else "upstream_malformed")


@pytest.mark.parametrize("guard", [GUARD, Late()], ids=["live", "held"])
@pytest.mark.parametrize("again", ["message", "block"])
async def test_a_part_that_begins_twice_ends_the_message_with_an_error(again: str, guard: Any) -> None:
    """A client would go on with the first one, and guards with the second."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    frame: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    begun = {"type": "message_start", "message": {**frame, "content": [], "stop_reason": None, "stop_sequence": None}}
    block: dict[str, Any] = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

    def delta(text: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}

    second = begun if again == "message" else {**block, "content_block": {"type": "text", "text": " or "}}
    made: list[dict[str, Any]] = [begun, block, delta(f"Ask {SECRET[:12]}"), second, delta(SECRET[12:])]
    ask = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    got = await run_exchange(Messages(), ask, Scripted([event(one, str(one["type"])) for one in made]), guard)
    assert got.ended.error == "upstream_malformed"
    assert SECRET[12:] not in got.body.decode()


def begun(index: Any, text: str = "") -> Json:
    """The beginning of a content block."""
    return {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": text}}


def piece(index: Any, text: str) -> Json:
    """A piece of its text."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


MESSAGES: dict[str, list[Json]] = {
    "twice": [begun(0), begun(0), piece(0, A), piece(1, B)],
    "twice, and one between": [begun(0), begun(1), begun(0), piece(0, A), piece(2, B)],
    "back": [begun(1), begun(0), piece(0, B), piece(1, A)],
    "back, with texts": [begun(1, A[:6]), begun(0, A[6:]), piece(1, B)],
    "the later text first": [begun(0), begun(1), piece(1, B), piece(0, A)],
    "without a beginning": [piece(0, A), begun(2, " and "), piece(1, B)],
    "a text of digits": [begun(0), piece("0", A), piece(0, B)],
    "a fraction": [begun(0.0), piece(0, A), piece(0.0, B)],
    "a truth": [begun(1), piece(TRUTH, A), piece(1, B)],
    "from the end": [begun(0), piece(-1, A), piece(0, B)],
}


@pytest.mark.parametrize("guard", [GUARD, Late()], ids=["live", "held"])
@pytest.mark.parametrize("made", MESSAGES.values(), ids=list(MESSAGES))
async def test_blocks_of_a_message_begin_in_order_and_once(made: list[Json], guard: Any) -> None:
    """Also while they are empty: clients count the blocks as they begin, or sort them."""
    got = await run_exchange(Messages(), ASK_MESSAGE, Scripted(sent(made)), guard)
    assert got.ended.error == "upstream_malformed"
    assert A not in got.body.decode() or B not in got.body.decode()


async def test_a_text_that_has_left_in_part_goes_on_before_no_later_one() -> None:
    """The later one has left, and stands behind it."""
    got = await run_exchange(Messages(), ASK_MESSAGE, Scripted(sent([begun(0, "x "), begun(1, B), piece(0, A)])), GUARD)
    assert (got.ended.error, A in got.body.decode()) == ("upstream_malformed", False)


def sent(made: list[Json]) -> list[bytes]:
    """The events of a message as they are sent."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    frame: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    start: Json = {"type": "message_start", "message": {**frame, "stop_reason": None, "stop_sequence": None}}
    return [event(one, one["type"]) for one in (start, *made)]


def item(place: Any, id: str = "msg_1") -> Json:
    """The beginning of a message among the items of a response."""
    where: Json = {} if place is None else {"output_index": place}
    return {"type": "response.output_item.added", **where, "item": message(id=id, status="in_progress")}


def part(place: Any, index: Any, **where: Any) -> Json:
    """The beginning of a part of it."""
    empty: Json = {"type": "output_text", "text": "", "annotations": []}
    return {**spelled(place, index, "", **where), "type": "response.content_part.added", "part": empty}


def spelled(place: Any, index: Any, text: str, **where: Any) -> Json:
    """A piece of the text of a part."""
    where = {"output_index": place, "item_id": "msg_1", "content_index": index, **where}
    where = {key: value for key, value in where.items() if value is not None}
    return {"type": "response.output_text.delta", **where, **({"delta": text} if text else {})}


RESPONSES: dict[str, list[Json]] = {
    "an item twice": [item(0), item(0), part(0, 0), spelled(0, 0, A)],
    "an item without a place twice": [item(None), item(None), part(None, 0), spelled(None, 0, A)],
    "an item back": [item(1), item(0, "msg_2"), part(0, 0), spelled(0, 0, A)],
    "a part twice": [item(0), part(0, 0), part(0, 0), spelled(0, 0, A), spelled(0, 1, B)],
    "a part without a place twice": [item(0), part(0, None), part(0, None), spelled(0, None, A)],
    "a part back": [item(0), part(0, 1), part(0, 0), spelled(0, 0, B), spelled(0, 1, A)],
    "a part behind its text": [item(0), spelled(0, 0, A), part(0, 0), spelled(0, 0, B)],
    "the response twice": [item(0), part(0, 0), spelled(0, 0, A), stream_of(response([]))[0][1], spelled(0, 0, B)],
    "an item's place as digits": [item(0), part(0, 0), spelled(0, 0, A), spelled("0", 0, B)],
    "a part's place as digits": [item(0), part(0, 0), spelled(0, 0, A), spelled(0, "0", B)],
    "a part's place as a fraction": [item(0), part(0, 0), spelled(0, 0, A), spelled(0, 0.0, B)],
    "a part's place from the end": [item(0), part(0, 0), spelled(0, 0, A), spelled(0, -1, B)],
}


@pytest.mark.parametrize("guard", [GUARD, Late()], ids=["live", "held"])
@pytest.mark.parametrize("made", RESPONSES.values(), ids=list(RESPONSES))
async def test_items_and_parts_of_a_response_begin_in_order_and_once(made: list[Json], guard: Any) -> None:
    """Also while they are empty."""
    first = stream_of(response([]))[0][1]
    sends = [event({**one, "sequence_number": at}, one["type"]) for at, one in enumerate((first, *made))]
    got = await run_exchange(Responses(), ASK_RESPONSE, Scripted(sends), guard)
    assert got.ended.error == "upstream_malformed"
    said = [one.get("delta", "") for one in got.events]
    assert B not in said


@pytest.mark.parametrize("index", ["0", 0.0, False, -1])
async def test_the_place_of_a_choice_is_a_whole_number(index: Any) -> None:
    """A client takes some others for the same place, and guards for another one."""

    def chunk(place: Any, text: str) -> bytes:
        choice = {"index": place, "delta": {"content": text}, "finish_reason": None}
        return event({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})

    ask = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    got = await run_exchange(ChatCompletions(), ask, Scripted([chunk(0, A), chunk(index, B)]), GUARD)
    assert (got.ended.error, B in got.body.decode()) == ("upstream_malformed", False)


@pytest.mark.parametrize("guard", [GUARD, Late()], ids=["live", "held"])
async def test_empty_parts_and_items_side_by_side_pass(guard: Any) -> None:
    """Each part begins once, and in its order."""
    both = [item(0), item(1, "msg_2"), part(0, 0), part(0, 1), part(1, 0, item_id="msg_2")]
    texts = [spelled(1, 0, "day", item_id="msg_2"), spelled(0, 1, "Good"), spelled(1, 0, "s", item_id="msg_2")]
    first, *_, last = (one for _, one in stream_of(response([message("", "Good"), message("days", id="msg_2")])))
    events = [first, *both, *texts, last]
    sends = [event({**one, "sequence_number": at}, one["type"]) for at, one in enumerate(events)]
    got = await run_exchange(Responses(), ASK_RESPONSE, Scripted(sends), guard)
    assert (got.ended.error, got.body) == ("", b"".join(sends))


@pytest.mark.parametrize("guard", [GUARD, Late()], ids=["live", "held"])
async def test_calls_side_by_side_without_ids_and_places_pass(guard: Any) -> None:
    """So does llama.cpp send them: their pieces name the id of the call."""

    def called(id: str, kind: str, arguments: str) -> Json:
        call = {"type": "function_call", "call_id": id, "name": "look", "arguments": arguments}
        return {"type": f"response.output_item.{kind}", "item": {**call, "status": "completed"}}

    def argued(id: str) -> Json:
        return {"type": "response.function_call_arguments.delta", "item_id": id, "delta": "{}"}

    both = [one for id in ("fc_a", "fc_b") for one in (called(id, "added", ""), argued(id))]
    first, *_, last = (one for _, one in stream_of(response([])))
    made = [first, *both, *(called(id, "done", "{}") for id in ("fc_a", "fc_b")), last]
    sends = [event({**one, "sequence_number": at}, one["type"]) for at, one in enumerate(made)]
    got = await run_exchange(Responses(), ASK_RESPONSE, Scripted(sends), guard)
    assert (got.ended.error, got.body) == ("", b"".join(sends))
