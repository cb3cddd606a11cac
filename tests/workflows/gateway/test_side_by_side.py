"""Texts that come side by side, in odd cuts and frames: each is read whole, stays in its place, and none is lost."""

from __future__ import annotations

import json

import pytest

from penstock import PIIDetector, Processor, RegexFilterProcessor
from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.gateway.endpoints.completions import Completions
from penstock.workflows.gateway.endpoints.messages import Messages
from penstock.workflows.gateway.held_texts import aligned, spread
from tests.workflows.gateway.exchanges import Scripted, event, run_exchange

DONE = b"data: [DONE]\n\n"
CHAT = ChatCompletions(), {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
COMPLETIONS = Completions(), {"model": "m", "stream": True, "prompt": "Hi"}
MESSAGES = Messages(), {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def piece(index=0, end=None, **delta):
    return event({"id": "c", "choices": [{"index": index, "delta": delta, "finish_reason": end}]})


def spelled(got, index, key):
    choices = [choice for data in got.events for choice in data["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get(key) or "" for choice in choices)


class Late(Processor):
    """Judges an answer when it is whole."""

    id = "late"

    def process_output_result(self, ctx):
        return ctx.message_list.map_text(lambda text: text.replace("Paris", "P."), kinds=("text", "reasoning"))


async def test_a_choice_that_ends_before_another_one_loses_no_text():
    """The guards give the second choice back behind the first one."""

    def one(index, text, end=None):
        return event({"id": "c", "choices": [{"index": index, "text": text, "finish_reason": end}]})

    raw = [one(0, "Go"), one(1, "It is {json:"), one(1, "", "stop"), one(0, "od day"), one(0, "", "stop"), DONE]
    guards = PIIDetector(), RegexFilterProcessor(rules=[{"name": "code", "pattern": r"ZEBRA-\d\d"}])
    got = await run_exchange(*COMPLETIONS, Scripted(raw), *guards)
    assert got.body == b"".join(raw)


async def test_the_mark_behind_a_stream_is_the_last_that_leaves():
    raw = [piece(content="Good day"), piece(1, content="ask ann@example.com"), DONE]
    got = await run_exchange(*CHAT, Scripted(raw), PIIDetector(strategy="redact"))
    assert got.body.endswith(DONE)
    assert spelled(got, 1, "content").startswith("ask a")
    assert b"ann@example.com" not in got.body


async def test_pieces_of_one_choice_in_one_event_keep_their_places():
    """A secret that is cut between them is hidden; what is left of each stays where it was."""

    def two(*texts):
        choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None} for text in texts]
        return event({"id": "c", "choices": choices})

    plain = [two("Good ", "day", "!"), DONE]
    assert (await run_exchange(*CHAT, Scripted(plain), PIIDetector())).body == b"".join(plain)
    got = await run_exchange(*CHAT, Scripted([two("ask ann@exa", "mple.com now", "!"), DONE]), PIIDetector())
    assert [choice["delta"]["content"] for choice in got.events[0]["choices"]] == ["ask a*n@*******.com", " now", "!"]


async def test_blocks_of_a_whole_message_that_follow_each_other_keep_their_texts():
    blocks = [{"type": "text", "text": text} for text in ("It is ", "a quote, ann@exa", "mple.com", " says so.")]
    answer = {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"}
    clean = {**answer, "content": [blocks[0], blocks[3]]}
    sent = Scripted([json.dumps(clean).encode()], "application/json")
    assert (await run_exchange(*MESSAGES, sent, PIIDetector())).body == sent.sends[0]
    sent = Scripted([json.dumps(answer).encode()], "application/json")
    got = await run_exchange(*MESSAGES, sent, PIIDetector(strategy="redact"))
    texts = [block["text"] for block in got.json["content"]]
    assert texts == ["It is ", "a quote, a*n@*******.com", "", " says so."]


@pytest.mark.parametrize("other", ["content", "refusal", "reasoning_content"])
async def test_a_secret_that_is_cut_where_another_text_of_the_answer_stands_does_not_leave(other):
    key = "reasoning" if other == "content" else "content"
    cut = ["ask ann.se", "cret@exam", "ple.com now"]
    raw = [one for text in cut for one in (piece(**{key: text}), piece(**{other: "word "}))]
    got = await run_exchange(*CHAT, Scripted([*raw, piece(end="stop"), DONE]), PIIDetector(strategy="redact"))
    assert "ann.secret@example.com" not in spelled(got, 0, key)
    assert spelled(got, 0, key).endswith(" now")
    assert spelled(got, 0, other) == "word " * 3


async def test_a_late_guard_reads_each_text_whole_and_leaves_it_in_its_place():
    raw = [
        piece(0, reasoning="To Pa"),
        piece(1, content="Pa"),
        piece(0, content="Good "),
        piece(0, reasoning="ris, then"),
        piece(1, reasoning="Hm"),
        piece(1, content="ris it is"),
        piece(0, content="day"),
        piece(0, end="stop"),
        piece(1, end="stop"),
        DONE,
    ]
    got = await run_exchange(*CHAT, Scripted(raw), Late())
    assert [spelled(got, 0, key) for key in ("reasoning", "content")] == ["To P., then", "Good day"]
    assert [spelled(got, 1, key) for key in ("reasoning", "content")] == ["Hm", "P. it is"]


async def test_json_over_several_lines_leaves_on_one_and_a_byte_order_mark_stays():
    data = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Good day"}, "finish_reason": None}]}
    lines = "".join(f"data: {line}\n" for line in json.dumps(data, indent=1).splitlines())
    got = await run_exchange(*CHAT, Scripted([f"{lines}\n".encode(), DONE]), PIIDetector())
    assert got.events == [data]
    marked = [b"\xef\xbb", b"\xbf" + piece(content="Good"), piece(content=" day"), DONE]
    assert (await run_exchange(*CHAT, Scripted(marked), PIIDetector())).body == b"".join(marked)


@pytest.mark.parametrize(
    ("before", "after", "made"),
    [
        (["a", "b"], ["a", "c"], ["a", "c"]),
        (["a", "b", "c"], ["a", "c"], ["a", None, "c"]),
        (["a", "b"], ["x"], ["x", None]),
        (["a"], ["a", "b"], ["ab"]),
        ([], ["a"], []),
        (["a"], [], [None]),
    ],
)
def test_texts_that_a_late_guard_removes_or_adds_leave_the_others_where_they_are(before, after, made):
    assert aligned(before, after) == made


@pytest.mark.parametrize(
    ("pieces", "text", "made"),
    [
        (["Good ", "day"], "Good day", ["Good ", "day"]),
        (["Go to Pa", "ris", " now"], "Go to P. now", ["Go to P.", "", " now"]),
        (["Good ", "day"], "Good day (checked)", ["Good ", "day (checked)"]),
        (["Good ", "day"], "", ["", ""]),
        ([], "", []),
    ],
)
def test_what_does_not_change_stays_in_its_piece(pieces, text, made):
    assert spread(pieces, text) == made
