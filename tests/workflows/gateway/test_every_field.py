"""A secret in any field of any protocol: none passes, in a request, a whole answer or a stream, however it is cut."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from penstock import PIIDetector
from tests.laws import seeds
from tests.workflows.gateway.exchanges import Scripted, cut, event, run_exchange
from tests.workflows.gateway.planting import SECRET, holds_secret, places, planted, with_value
from tests.workflows.gateway.samples import SAMPLES, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.workflows.gateway.exchanges import Got

BOTH = pytest.mark.parametrize("strict", [True, False], ids=["strict", "unknown read"])
REDACTING = PIIDetector(strategy="redact")
"""Made once, as a gateway does: much of the time went into making one for each request."""
LONG = ("messages", "responses")  # of which a test takes many seconds
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.rest] if name in LONG else []) for name in sorted(SAMPLES)]
)


MOST = 160
"""How many of its places the tests of a long protocol take, evenly over all of them."""
PARTS = 4
EACH_PART = pytest.mark.parametrize("part", seeds(range(PARTS)))


def taken(name: str, found: Iterable[tuple[str, Any]], part: int) -> list[tuple[str, Any]]:
    """Return a part of the planted values that the tests take: all, unless the protocol is a long one."""
    every = list(found)
    return (every[:: max(1, len(every) // MOST)] if name in LONG else every)[part::PARTS]


def stream(events: list[tuple[str, Any]], end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(event(data, kind) for kind, data in events) + end


async def streamed(sample: Sample, raw: bytes, *, strict: bool = True, places: tuple[int, ...] = ()) -> Got:
    body = {**sample.request, "stream": True}
    return await run_exchange(sample.endpoint, body, Scripted(cut(raw, places)), REDACTING, strict=strict)


@EACH
async def test_what_holds_nothing_leaves_as_it_came(name):
    sample = SAMPLES[name]
    if sample.events:
        raw = stream(sample.events)
        got = await streamed(sample, raw)
        assert got.body == raw
        assert (got.ended.error, got.ended.unknown) == ("", ())
    upstream = Scripted([json.dumps(sample.answer).encode()], "application/json")
    whole = await run_exchange(sample.endpoint, sample.request, upstream, REDACTING)
    assert whole.body == upstream.sends[0]
    assert upstream.got == sample.request


@BOTH
@EACH
@EACH_PART
async def test_no_field_of_a_request_takes_a_secret_to_the_provider(name, strict, part):
    sample = SAMPLES[name]
    for how, body in taken(name, planted(sample.request), part):
        upstream = Scripted([json.dumps(sample.answer).encode()], "application/json")
        await run_exchange(sample.endpoint, body, upstream, REDACTING, strict=strict)
        assert not any(holds_secret(asked.body) for asked in upstream.asked), how


@BOTH
@EACH
@EACH_PART
async def test_no_field_of_an_answer_takes_a_secret_to_the_client(name, strict, part):
    sample = SAMPLES[name]
    for how, body in taken(name, planted(sample.answer), part):
        upstream = Scripted([json.dumps(body).encode()], "application/json")
        got = await run_exchange(sample.endpoint, sample.request, upstream, REDACTING, strict=strict)
        assert not holds_secret(got.body), how


@BOTH
@EACH
@EACH_PART
async def test_no_field_of_an_event_takes_a_secret_to_the_client(name, strict, part):
    sample = SAMPLES[name]
    every = [
        (f"{number}: {how}", (number, kind, changed))
        for number, (kind, data) in enumerate(sample.events)
        for how, changed in planted(data)
    ]
    for how, (number, kind, changed) in taken(name, every, part):
        raw = stream([*sample.events[:number], (kind, changed), *sample.events[number + 1 :]])
        got = await streamed(sample, raw, strict=strict)
        assert not holds_secret(got.body), how


@EACH
@pytest.mark.parametrize("seed", seeds(range(4)))
async def test_a_secret_that_is_cut_over_events_and_bytes_does_not_leave(name, seed):
    """In the texts that two or more neighbours spell."""
    sample, chance = SAMPLES[name], random.Random(seed)  # noqa: S311
    for first in range(len(sample.events) - 1):
        kind, data = sample.events[first]
        for path in places(data):
            next_kind, then = sample.events[first + 1]
            if next_kind != kind or not _spells_on(data, then, path):
                continue
            at = chance.randint(1, len(SECRET) - 1)
            events = list(sample.events)
            events[first] = kind, with_value(data, path, f"Ask {SECRET[:at]}")
            events[first + 1] = events[first + 1][0], with_value(then, path, f"{SECRET[at:]} now")
            raw = stream(events)
            cuts = tuple(chance.randint(1, len(raw)) for _ in range(chance.randint(0, 20)))
            got = await streamed(sample, raw, places=cuts)
            assert not holds_secret(got.body), path
            assert SECRET not in "".join(_texts(got.events, path)), path


def _spells_on(one: Any, other: Any, path: tuple[str | int, ...]) -> bool:
    try:
        for key in path:
            one, other = one[key], other[key]
    except (KeyError, IndexError, TypeError):
        return False
    return isinstance(one, str) and isinstance(other, str) and one != other


def _texts(events: list[Any], path: tuple[str | int, ...]) -> list[str]:
    found = []
    for value in events:
        try:
            for key in path:
                value = value[key]  # noqa: PLW2901 - on the way to the text
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(value, str):
            found.append(value)
    return found


@EACH
async def test_a_secret_as_the_name_of_an_unknown_field_is_the_client_s_fault(name):
    """No guard can rename it, and the provider gets nothing."""
    sample = SAMPLES[name]
    upstream = Scripted([json.dumps(sample.answer).encode()], "application/json")
    got = await run_exchange(sample.endpoint, {**sample.request, SECRET: 1}, upstream, REDACTING, strict=False)
    assert (got.status, got.ended.error, upstream.asked) == (400, "unguarded_field", [])
    assert not holds_secret(got.body)
