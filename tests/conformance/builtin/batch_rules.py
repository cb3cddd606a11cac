"""Where `BatchPartsProcessor` differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

from typing import Any

from tests.conformance.builtin.frame import Fields

ASIDE = ("raw", "response-metadata")


def batched(options: Fields, given: Fields) -> list[Any]:
    """Return the chunks that leave: texts of a block joined up to the size, at a flush, in time and at the end."""
    left: list[Any] = []
    held: list[Any] = []
    waited = 0
    for event in [*given.get("events", given.get("chunks", ())), {"flush": True}]:
        waited += event.get("wait_ms", 0)
        late = 0 < (options["max_wait_time"] or 0) <= waited
        other = event.get("type", "text-delta") != "text-delta"
        stops = other and (options["emit_on_non_text"] or event["type"] not in ASIDE)
        if held and (late or "flush" in event or stops or (not other and another_block(event, held))):
            left.append(as_one(held))
            held = []
        if other:
            left.append(event)
        elif "payload" in event:
            waited = waited if held else 0
            held.append(event)
        if sum(one["payload"]["text"] != "" for one in held) >= options["batch_size"]:
            left.append(as_one(held))
            held = []
    return left


def another_block(event: Fields, held: list[Any]) -> bool:
    """Tell whether a text is of another block than those held, or of another run's."""
    if "payload" not in event:
        return False
    return (event["payload"].get("id"), event.get("runId")) != (held[0]["payload"].get("id"), held[0].get("runId"))


def as_one(held: list[Any]) -> Fields:
    """Return texts as one: what each of them says besides is kept, the last word counting."""
    made: Fields = {}
    for one in held:
        made |= {name: value for name, value in one.items() if name != "payload"}
    payload: Fields = {}
    for one in held:
        payload |= one["payload"]
    return {**made, "payload": {**payload, "text": "".join(one["payload"]["text"] for one in held)}}


def expectation(options: Fields, given: Fields, expected: Fields) -> Fields:
    """Return the expectation in the shape of the method's."""
    left = batched(options, given)
    if given["method"] == "process_output_stream":
        return {**expected, "returns": [{"emit": one} for one in left]}
    return {**expected, "emitted": left}


def a_size_is_positive(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """A batch of none, or of less, is a mistake."""
    return {"error": "batch_size"} if options["batch_size"] < 1 else None


def a_timer_sends(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """When the time is up, what is there is sent, be the source silent or not; it takes no other chunk along."""
    waits = [event["wait_ms"] for event in given.get("events", given.get("chunks", ())) if "wait_ms" in event]
    limit = options["max_wait_time"] or 0
    return expectation(options, given, expected) if 0 < limit <= sum(waits) and options["batch_size"] > 0 else None


def the_end_sends_what_is_left(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Nothing is lost when a stream ends, whatever its last chunk is."""
    if options["batch_size"] < 1:
        return None
    left = expected.get("left_in_state", {})
    sent = [row["type"] for row in expected.get("emitted", ())]
    lost = [row for row in given.get("chunks", ()) if row.get("type", "text-delta") not in ("text-delta", *sent)]
    texts = "".join(row["payload"]["text"] for row in given.get("chunks", ()) if row.get("type") == "text-delta")
    told = "".join(row["payload"]["text"] for row in expected.get("emitted", ()) if row["type"] == "text-delta")
    if not (left.get("batch") or left.get("pending_non_text") or lost or texts != told):
        return None
    return expectation(options, given, expected)


def blocks_stay_apart(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Texts of two blocks are never joined."""
    rows = given.get("events", given.get("chunks", ()))
    ids = {(row["payload"].get("id"), row.get("runId")) for row in rows if row.get("type") == "text-delta"}
    return expectation(options, given, expected) if len(ids) > 1 and options["batch_size"] > 0 else None


def what_a_provider_says_is_kept(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Joined texts keep what their chunks say besides."""
    rows = [row for row in given.get("events", given.get("chunks", ())) if row.get("type") == "text-delta"]
    more = any(row["payload"].keys() - {"id", "text"} or "metadata" in row for row in rows)
    return expectation(options, given, expected) if more and options["batch_size"] > 0 else None


def an_empty_piece_counts_for_nothing(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A batch is full when so many pieces of text are there; one without text is none."""
    rows = [row for row in given.get("events", given.get("chunks", ())) if row.get("type") == "text-delta"]
    empty = any(row["payload"]["text"] == "" for row in rows)
    return expectation(options, given, expected) if empty and options["batch_size"] > 0 else None


def what_has_no_place_in_an_answer_passes_by(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where other chunks do not send the text, those about the answer do not wait for it."""
    aside = any(row.get("type") in ASIDE for row in given.get("events", given.get("chunks", ())))
    covered = aside and not options["emit_on_non_text"] and options["batch_size"] > 0
    return expectation(options, given, expected) if covered else None


RULES = (
    a_size_is_positive,
    a_timer_sends,
    blocks_stay_apart,
    what_a_provider_says_is_kept,
    an_empty_piece_counts_for_nothing,
    what_has_no_place_in_an_answer_passes_by,
    the_end_sends_what_is_left,
)
