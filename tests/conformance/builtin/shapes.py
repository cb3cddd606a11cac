"""What families share: stored messages and chunks read and written, verdicts and errors reduced to their structure.

It knows the engine's values and the vectors' spelling of them; no processor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from penstock import Chunk, Message, Outcome, dump_messages, parse_messages
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from tests.conformance.builtin.frame import Fields, Projection, Spelling

HEAD = ("type", "runId", "from", "payload", "data", "transient")


def read(rows: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Return the messages of stored rows."""
    return list(parse_messages(list(rows), format="stored"))


def write(messages: Iterable[Message]) -> list[Any]:
    """Return messages as stored rows."""
    return list(dump_messages(messages, format="stored"))


def told(outcome: Outcome) -> Fields:
    """Return the verdict of an outcome as the vectors tell it; nothing if there is none."""
    tripwire = outcome.tripwire
    if tripwire is None:
        return {}
    shown = {"reason": tripwire.reason, "retry": tripwire.retry, "metadata": thaw(tripwire.metadata)}
    return {"tripwire": {**shown, "processorId": tripwire.processor_id}}


def constructed(make: Callable[[], object]) -> Fields:
    """Return what comes of making a processor: the option it refuses, or nothing."""
    try:
        make()
    except OptionError as error:
        return {"error": str(error)}
    return {}


FUNCTION = re.compile(r"_fn$|_function$|_returns$|^dynamic|^(?:fn|function|returns?)$")
RAISING = re.compile(r"raise|throw|reject|error", re.IGNORECASE)
NO_NUMBERS = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}


def option_given(name: str, options: Fields, given: Fields) -> Any:
    """Return the value of an option, or the function that a row says it is.

    Rows tell of a function by an object in place of the value (``{"dynamic": 2}``), by its word (``"dynamic"``) or by
    another field (``max_cost_fn``, ``dynamic_limit``). It gives what is told there, or what a field of the context of
    that name holds; told that it raises, it does.
    """
    value = options.get(name)
    inner = value if isinstance(value, dict) else {}
    others = ((key, place[key]) for place in (options, given) for key in place if FUNCTION.search(key))
    told = [told for key, told in others if key != name] or list(inner.values())
    if told:
        return _function(told[0], given)
    return _function(value, given) if isinstance(value, str) else value


def _function(told: Any, given: Fields) -> Callable[..., Any]:
    def called(*_given: Any) -> Any:
        value = told
        if isinstance(value, dict):
            key, inner = next(iter(value.items()), ("", None))
            value = key if RAISING.search(key) else inner
        if not isinstance(value, str):
            return value
        if RAISING.search(value):
            raise ArithmeticError(value)
        context = given.get("context") or {}
        return context[value] if value in context else NO_NUMBERS.get(value.lower(), value)

    return called


def options_named(text: str, options: Iterable[str]) -> list[str]:
    """Return which options an error names, in either spelling: what an error's text is compared by."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    return sorted(name for name in options if re.search(rf"\b{name}\b", snake))


def chunk(row: Mapping[str, Any]) -> Chunk:
    """Return the chunk of a recorded one."""
    kind = row["type"]
    if kind.startswith("data-"):
        return Chunk(kind, payload=row.get("data") or {}, transient=row.get("transient", False))
    payload = {**(row.get("payload") or {}), **{name: value for name, value in row.items() if name not in HEAD}}
    text, id = payload.pop("text", ""), payload.pop("id", "")
    return Chunk(kind, text=text, id=id, payload=payload, run_id=row.get("runId", ""))


def recorded(piece: Chunk) -> Fields:
    """Return a chunk in the shape of the recorded ones."""
    payload = thaw(piece.payload)
    if piece.is_data:
        return {"type": piece.type, "data": payload, "transient": piece.transient}
    if piece.type == "object":
        return {"type": piece.type, **payload}
    named = {name: it for name, it in (("id", piece.id), ("text", piece.text)) if it or piece.type == "text-delta"}
    return {"type": piece.type, "payload": {**named, **payload}}


def streamed(emitted: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return a stream as what it says: the joined text of each block, and the other chunks in their order.

    When a piece went out, and how the text was cut, is not compared; nor are run ids.
    """
    found: list[Any] = []
    for row in emitted:
        if row["type"] == "text-delta":
            id, text = row["payload"].get("id", ""), row["payload"]["text"]
            if found and found[-1][0] == "text" and found[-1][1] == id:
                found[-1][2] += text
            elif text:
                found.append(["text", id, text])
        else:
            body = row.get("payload", row.get("data", {name: it for name, it in row.items() if name not in HEAD}))
            found.append([row["type"], body])
    return found


def chunks_given(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the chunks among what was given; waits and the like are left out."""
    return (row for row in rows if "type" in row)


STREAMS = ("process_output_stream", "stream_through_runner")


def spelt_as(method: str, returned: Callable[[list[Any], list[Any]], list[Any]] = lambda _chunks, out: out) -> Spelling:
    """Return what spells rows of streams as those of a method: without waits, and what left as that method has it.

    Args:
        method: ``process_output_stream`` (``returns``, call by call) or ``stream_through_runner`` (``emitted``).
        returned: makes ``returns`` of the chunks and of those that left.
    """

    def spelt(given: Fields, expected: Fields) -> tuple[Fields, Fields]:
        if given.get("method") not in STREAMS:
            return given, expected
        events: list[Any] = given.get("chunks", given.get("events")) or []
        chunks = list(chunks_given(events))
        rest = {name: value for name, value in given.items() if name != "events"}
        found = {**rest, "method": method, "chunks": chunks}
        if method == STREAMS[1] and "returns" in expected:
            return found, {**_without(expected, "returns"), **emitted_of(events, expected["returns"])}
        if method == STREAMS[0] and "emitted" in expected:
            returns = returned(chunks, expected["emitted"])
            return found, {**_without(expected, "emitted", "text"), "returns": returns}
        return found, expected

    return spelt


def emitted_of(events: Iterable[Any], returns: Iterable[Any]) -> Fields:
    """Return what calls returned as what left: ``emitted``, its ``text``, and a ``tripwire`` if there was one."""
    emitted: list[Any] = []
    fields: Fields = {}
    for event, told in zip(events, returns, strict=False):
        if told == "emit":
            emitted.append(event)
        elif isinstance(told, dict) and "tripwire" in told:
            why = told["tripwire"]
            fields["tripwire"] = why if isinstance(why, dict) else {"reason": str(why)}
        elif isinstance(told, dict):
            emitted += [told] if "type" in told else [one for one in (told.get("emit"), told.get("reprocess")) if one]
    return {"emitted": emitted, "text": joined(emitted), **fields}


def _without(fields: Fields, *names: str) -> Fields:
    return {name: value for name, value in fields.items() if name not in names}


def naming(*options: str) -> Projection:
    """Return the projection of what is only made: of an error, which of the options it names."""

    def named(fields: Fields) -> Fields:
        return {**fields, "error": options_named(str(fields["error"]), options)} if "error" in fields else fields

    return named


def joined(emitted: Iterable[Mapping[str, Any]]) -> str:
    """Return the text that a client sees."""
    return "".join(row["payload"]["text"] for row in emitted if row["type"] == "text-delta")
