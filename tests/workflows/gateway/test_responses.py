"""OpenAI's responses through the gateway: what leaves as it came, what is patched, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import httpx2
import openai
import pytest
from hypothesis import given, settings, strategies as st
from openai.types.responses import response_input_item, response_output_item, response_stream_event, tool
from openai.types.responses.response_create_params import (
    ResponseCreateParamsBase,
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import BaseModel

from penstock import PIIDetector, Processor
from penstock.engine import Overrides
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import thaw
from penstock.workflows.gateway.endpoints.endpoint import Refusal
from penstock.workflows.gateway.endpoints.responses import Responses
from penstock.workflows.gateway.endpoints.responses_tables import ANSWER, EVENTS, ITEM, REQUEST, TOOL
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.gateway.tables import OneOf
from penstock.workflows.presets import privacy
from tests.laws import examples
from tests.workflows.gateway.exchanges import Got, Scripted, cut, event, run_exchange
from tests.workflows.gateway.responses_stream import message, response, stream_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import InputStepContext, OutputStreamContext, ToolCallContext

RESPONSES = Responses()
ASK = {"model": "gpt-5", "input": "hi", "store": False, "stream": True}
SECRET = "ann.secret@example.com"
HIDDEN = "a********t@*******.com"
HIDE = PIIDetector(strategy="redact")


def raw_of(events: Sequence[tuple[str, Any]]) -> bytes:
    return b"".join(event(data, kind) for kind, data in events)


async def streamed(events: Sequence[tuple[str, Any]], *steps: Any, ask: Any = None, **guards: Any) -> Got:
    return await run_exchange(RESPONSES, ask or ASK, Scripted([raw_of(events)]), *(steps or (HIDE,)), **guards)


def call(arguments: str, name: str = "find", **more: Any) -> dict[str, Any]:
    own = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments}
    return {**own, "status": "completed", **more}


def numbers(got: Got) -> list[int]:
    return [one["sequence_number"] for one in got.events]


async def read_by_client(got: Got, **more: Any) -> Any:
    """Return the response that OpenAI's own client makes of a stream."""

    def serve(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(got.status, headers=got.headers, content=got.body)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(serve)) as http:
        client = openai.AsyncOpenAI(api_key="none", base_url="http://gateway.test/v1", http_client=http, max_retries=0)
        async with client.responses.stream(model="gpt-5", input="hi", **more) as stream:
            return await stream.get_final_response()


# The table


def kinds_of(union: Any) -> set[str]:
    """The types of the objects of a union of the package."""

    def words(value: Any) -> set[str]:
        return {value} if isinstance(value, str) else {word for one in get_args(value) for word in words(one)}

    return {word for one in get_args(get_args(union)[0]) for word in words(one.model_fields["type"].annotation)}


def test_the_table_knows_each_event_of_the_installed_package():
    assert kinds_of(response_stream_event.ResponseStreamEvent) - set(EVENTS) == set()


def test_the_table_knows_each_item_and_tool_of_the_installed_package():
    items = REQUEST.fields["input"]
    assert isinstance(items, OneOf)
    assert items.items is not None
    assert kinds_of(response_output_item.ResponseOutputItem) - set(ITEM.forms) == set()
    assert kinds_of(response_input_item.ResponseInputItem) - set(items.items.item.forms) == set()
    assert kinds_of(tool.Tool) - set(TOOL.forms) == set()


def test_the_table_knows_each_field_of_a_request_and_of_an_answer():
    asked = {
        name
        for kind in (ResponseCreateParamsBase, ResponseCreateParamsStreaming, ResponseCreateParamsNonStreaming)
        for name in kind.__annotations__
    }
    assert asked - set(REQUEST.fields) == set()
    assert set(openai.types.responses.Response.model_fields) - set(ANSWER.fields) == set()


@pytest.mark.parametrize("kind", sorted(kinds_of(response_stream_event.ResponseStreamEvent)))
def test_the_table_knows_each_field_of_an_event(kind):
    found = [
        one
        for one in get_args(get_args(response_stream_event.ResponseStreamEvent)[0])
        if one.model_fields["type"].annotation.__args__ == (kind,)
    ]
    spec: Any = EVENTS[kind]
    assert set(found[0].model_fields) - set(spec.fields) == set()


@pytest.mark.parametrize("kind", sorted(kinds_of(response_output_item.ResponseOutputItem)))
def test_the_table_knows_each_field_of_an_item(kind):
    found = [
        one
        for one in get_args(get_args(response_output_item.ResponseOutputItem)[0])
        if one.model_fields["type"].annotation.__args__ == (kind,)
    ]
    names = {model.alias or name for name, model in found[0].model_fields.items()}
    spec: Any = ITEM.forms[kind]
    assert names - {"type"} - set(spec.fields) == set()


# Requests


async def sent(body: dict[str, Any], **guards: Any) -> tuple[Got, Scripted]:
    upstream = Scripted([json.dumps(response([message("fine")])).encode()], "application/json")
    return await run_exchange(RESPONSES, {"model": "gpt-5", "input": "hi", **body}, upstream, HIDE, **guards), upstream


async def test_a_request_that_does_not_say_so_is_not_kept_by_the_provider():
    body = b'{"model": "gpt-5",\n "input": "hi" }\n'
    upstream = Scripted([json.dumps(response([message("fine")])).encode()], "application/json")
    got = await run_exchange(RESPONSES, body, upstream, HIDE)
    assert upstream.asked[0].body == b'{"model": "gpt-5",\n "input": "hi","store":false}'
    assert (got.status, got.ended.edited, got.body) == (200, False, upstream.sends[0])
    _, upstream = await sent({"store": None})
    assert upstream.got["store"] is False
    _, upstream = await sent({"store": False, "input": f"I am {SECRET}"})
    assert (upstream.got["store"], upstream.got["input"]) == (False, f"I am {HIDDEN}")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("store", True, "store: keeps the answer at the provider"),
        ("previous_response_id", "resp_1", "previous_response_id: takes a conversation"),
        ("conversation", {"id": "conv_1"}, "conversation: takes a conversation"),
        ("conversation", "conv_1", "conversation: takes a conversation"),
        ("background", True, "background: keeps the answer"),
        ("prompt", {"id": "pmpt_1"}, "prompt: is filled in at the provider"),
        ("input", [{"type": "item_reference", "id": "msg_1"}], "input[0]: takes an item"),
        ("tools", [{"type": "web_search"}], "tools[0]: is a tool that the provider runs"),
        ("tools", [{"type": "mcp", "server_label": "x", "server_url": "https://x.example"}], "tools[0]: is a tool"),
        ("tools", [{"type": "shell", "environment": {"type": "container_auto"}}], "tools[0].environment: is a tool"),
        (
            "input",
            [{"type": "additional_tools", "role": "developer", "tools": [{"type": "file_search"}]}],
            "input[0].tools[0]: is a tool",
        ),
    ],
)
async def test_what_escapes_the_guards_is_refused_with_what_to_set(field, value, says):
    got, upstream = await sent({field: value})
    assert (got.status, upstream.asked) == (400, [])
    assert got.json["error"]["message"].startswith(says)
    permit = "hosted-tools" if "tool" in says else "state"
    assert got.json["error"]["message"].endswith(f"set permit: [{permit}]")
    got, upstream = await sent({field: value}, permits=frozenset({permit}))
    assert (got.status, upstream.got[field]) == (200, value)


async def test_what_an_operator_permits_is_read():
    tools = [{"type": "web_search", "user_location": {"type": "approximate", "city": SECRET}}]
    _, upstream = await sent({"tools": tools}, permits=frozenset({"hosted-tools"}))
    assert upstream.got["tools"][0]["user_location"]["city"] == HIDDEN
    _, upstream = await sent({}, permits=frozenset({"state"}))
    assert "store" not in upstream.got


@pytest.mark.parametrize(
    "odd",
    [
        {"instructions": [SECRET]},
        {"instructions": {"text": SECRET}},
        {"input": {"role": "user", "content": SECRET}},
        {"input": 5, "tools": SECRET},
        {"input": [[SECRET]]},
        {"input": [{"type": "nobody_knows", "text": SECRET}]},
        {"input": [{"type": ["message"], "role": "user", "content": SECRET}]},
        {"input": [{"text": SECRET}]},
        {"input": [{"role": "user", "content": {"text": SECRET}}]},
        {"tools": {"type": "function", "name": SECRET}},
        {"tools": [{"type": "function", "name": "f", "parameters": [SECRET]}]},
        {"tools": [SECRET]},
        {"tools": [{"name": SECRET}]},
        {"include": [SECRET]},
        {"reasoning": SECRET},
        {"text": [SECRET]},
        {"metadata": {SECRET: "x"}},
    ],
)
@pytest.mark.parametrize("strict", [True, False])
async def test_fields_of_odd_types_take_nothing_to_the_provider(odd, strict):
    _, upstream = await sent(odd, strict=strict)
    assert not any(SECRET.encode() in asked.body for asked in upstream.asked)


class OnlyOne(Processor):
    """Leaves the model one tool."""

    id = "only-one"

    def process_input_step(self, ctx: InputStepContext) -> Overrides:
        return Overrides(active_tools=["find"])


async def test_tools_that_a_guard_takes_away_are_not_offered():
    tools = [
        {"type": "function", "name": "find", "parameters": {"type": "object"}},
        {"type": "custom", "name": "write"},
        {"type": "shell"},
        {"type": "namespace", "name": "more", "description": "more", "tools": [{"type": "function", "name": "rm"}]},
    ]
    upstream = Scripted([json.dumps(response([message("fine")])).encode()], "application/json")
    await run_exchange(RESPONSES, {**ASK, "stream": False, "tools": tools}, upstream, OnlyOne())
    assert upstream.got["tools"] == tools[:1]


# Answers


async def test_what_nobody_changes_leaves_as_the_bytes_that_came():
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Well, then."}]}
    whole = response([{**thought, "encrypted_content": "gAAA=="}, message("Good day", " to you"), call('{"q": "x"}')])
    raw = raw_of(stream_of(whole))
    got = await run_exchange(RESPONSES, ASK, Scripted([raw]), HIDE)
    assert (got.body, got.ended.usage, got.ended.edited) == (raw, (3, 2), False)
    upstream = Scripted([json.dumps(whole).encode()], "application/json")
    assert (await run_exchange(RESPONSES, {**ASK, "stream": False}, upstream, HIDE)).body == upstream.sends[0]


async def test_all_repeats_of_a_text_follow_its_edit():
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": f"Say {SECRET} ."}]}
    whole = response([thought, message(f"Write to {SECRET} now."), call(json.dumps({"to": SECRET}))])
    got = await streamed(stream_of(whole))
    kinds = {one["type"]: one for one in got.events}
    said = f"Write to {HIDDEN} now."
    deltas = [one["delta"] for one in got.events if one["type"] == "response.output_text.delta"]
    part = kinds["response.content_part.done"]["part"]["text"]
    output = kinds["response.completed"]["response"]["output"]
    assert ["".join(deltas), kinds["response.output_text.done"]["text"], part] == [said] * 3
    assert output[1]["content"][0]["text"] == said
    assert output[0]["summary"][0]["text"] == kinds["response.reasoning_summary_text.done"]["text"] == f"Say {HIDDEN} ."
    arguments = kinds["response.function_call_arguments.done"]["arguments"]
    assert json.loads(arguments) == {"to": HIDDEN}
    assert output[2]["arguments"] == arguments
    assert SECRET.encode() not in got.body
    assert numbers(got) == list(range(len(got.events)))


async def test_the_client_gets_its_own_request_back():
    tools = [{"type": "function", "name": "find", "description": f"Ask {SECRET}", "parameters": {"type": "object"}}]
    ask = {**ASK, "instructions": f"You work for {SECRET}.", "tools": tools, "metadata": {"team": "shoes"}}
    seen = [{**tools[0], "description": f"Ask {HIDDEN}", "strict": True}]
    whole = response(
        [message("Good day")], instructions=f"You work for {HIDDEN}.", tools=seen, metadata={"team": "shoes"}
    )
    got = await streamed(stream_of(whole), ask=ask)
    for one in (got.events[0], got.events[-1]):
        assert one["response"]["instructions"] == ask["instructions"]
        assert one["response"]["tools"] == [{**tools[0], "strict": True}]
    lies = response([message("Good day")], instructions=f"Mail {SECRET}")
    assert SECRET.encode() not in (await streamed(stream_of(lies))).body


def tokens(*texts: str) -> list[dict[str, Any]]:
    return [{"token": text, "logprob": -0.1, "bytes": list(text.encode()), "top_logprobs": []} for text in texts]


async def test_tokens_leave_only_beside_the_text_that_they_spell():
    def spelled(text: str) -> list[tuple[str, Any]]:
        words = [text[:9], text[9:]]
        said = message(text)
        said["content"][0]["logprobs"] = tokens(*words)
        events = stream_of(response([said]), lambda _: words)
        deltas = [data for kind, data in events if kind == "response.output_text.delta"]
        for data, word in zip(deltas, words, strict=True):
            data["logprobs"] = tokens(word)
        return events

    good = spelled("Good day to you")
    assert (await streamed(good)).body == raw_of(good)
    got = await streamed(spelled(f"Write to {SECRET} ."))
    assert SECRET.encode() not in got.body
    left = [one["logprobs"] for one in got.events if one["type"] == "response.output_text.delta"]
    assert left == [tokens("Write to "), []]


async def test_annotations_move_with_the_text():
    text = f"Ask {SECRET} about [shoes](a) today"
    start, end = text.index("["), text.index(")") + 1
    said = message(text)
    said["content"][0]["annotations"] = [
        {"type": "url_citation", "start_index": start, "end_index": end, "title": "t", "url": "https://a.example/b"},
        {"type": "file_citation", "index": start, "file_id": "file_1", "filename": "a.txt"},
    ]
    whole = response([said])
    for got in (
        await streamed(stream_of(whole, lambda text: [text[:7], text[7:30], text[30:]])),
        await run_exchange(
            RESPONSES, {**ASK, "stream": False}, Scripted([json.dumps(whole).encode()], "application/json"), HIDE
        ),
    ):
        last = got.events[-1]["response"] if got.ended.streamed else got.json
        part = last["output"][0]["content"][0]
        one, other = part["annotations"]
        assert part["text"][one["start_index"] : one["end_index"]] == "[shoes](a)"
        assert other["index"] == one["start_index"]
        for added in [data for data in got.events if "annotation.added" in data.get("type", "")][:1]:
            assert added["annotation"] == one


class Footer(Processor):
    """Adds a line behind each text."""

    id = "footer"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Any:
        del ctx
        if chunk.type != "text-end":
            return chunk
        return [Chunk("text-delta", " (checked)", chunk.id, run_id=chunk.run_id), chunk]


async def test_an_event_that_is_added_is_counted():
    got = await streamed(stream_of(response([message("Good day", "and more"), message("Bye", id="msg_2")])), Footer())
    deltas = [(one["output_index"], one["content_index"]) for one in got.events if one["type"].endswith(".delta")]
    assert len(deltas) == 6 + 3
    assert numbers(got) == list(range(len(got.events)))
    last = got.events[-1]["response"]["output"]
    assert [part["text"] for part in last[0]["content"]] == ["Good day (checked)", "and more (checked)"]
    assert (await read_by_client(got)).output_text == "Good day (checked)and more (checked)Bye (checked)"


async def test_a_call_that_may_not_run_does_not_reach_the_client():
    class NoTool(Processor):
        id = "no-tool"

        def process_tool_call(self, ctx: ToolCallContext) -> None:
            if ctx.tool_name == "rm" or "rm -rf" in json.dumps(ctx.arguments):
                ctx.abort("not that one")

    shell = {
        "id": "sc_1",
        "type": "local_shell_call",
        "call_id": "c",
        "action": {"type": "exec", "command": ["rm -rf"]},
    }
    patch = {
        "id": "p_1",
        "type": "apply_patch_call",
        "call_id": "c",
        "operation": {"type": "update", "diff": "rm -rf /"},
    }
    for item in (call("{}", "rm"), call('{"run": "rm -rf"}'), shell, patch, {**shell, "type": "computer_call"}):
        got = await streamed(stream_of(response([message("I remove it."), item])), NoTool())
        assert b'"rm"' not in got.body
        assert b"rm -rf" not in got.body
        assert got.events[-1]["response"]["output"][-1]["content"][0]["type"] == "refusal"


async def test_a_verdict_on_a_whole_answer_is_a_refusal():
    upstream = Scripted([json.dumps(response([message(f"Mail {SECRET}")])).encode()], "application/json")
    got = await run_exchange(RESPONSES, {**ASK, "stream": False}, upstream, PIIDetector(strategy="block"))
    parsed = openai.types.responses.Response.model_validate(got.json)
    assert parsed.output[0].content[0].refusal == "I can't help with that request."
    assert parsed.usage is not None


# Verdicts in a stream


class StopAt(Processor):
    """Stops an answer at a word."""

    id = "stop-at"

    def __init__(self, word: str) -> None:
        self._word = word
        super().__init__()

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        if self._word in chunk.text or self._word in json.dumps(thaw(chunk.payload)):
            ctx.abort("that word")
        return chunk


THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First second."}, {"type": "summary_text", "text": "Third fourth."}],
    "content": [{"type": "reasoning_text", "text": "Fifth sixth."}],
}
LONG = response(
    [
        THOUGHT,
        message("Seventh eighth.", "Ninth tenth."),
        call('{"q": "eleventh"}'),
        message("Twelfth last.", id="msg_2"),
    ]
)
WORDS = ["First", "second", "Third", "fourth", "Fifth", "sixth", "Seventh", "eighth", "Ninth", "tenth", "eleventh"]


def words(text: str) -> list[str]:
    return [piece for piece in text.replace(" ", " |").split("|") if piece]


@pytest.mark.parametrize("word", [*WORDS, "Twelfth", "last"])
@pytest.mark.parametrize("together", [True, False], ids=["in one piece", "event by event"])
async def test_a_stream_that_is_stopped_anywhere_ends_as_a_refusal_that_clients_read(word, together):
    events = stream_of(LONG, words)
    pieces = [raw_of(events)] if together else [raw_of([one]) for one in events]
    got = await run_exchange(RESPONSES, ASK, Scripted(pieces), StopAt(word))
    assert word.encode() not in got.body
    assert got.ended.verdict is not None
    assert numbers(got) == list(range(len(got.events)))
    final = await read_by_client(got)
    assert (final.status, final.id) == ("completed", got.events[0]["response"]["id"])
    assert final.output[-1].content[-1].refusal == "I can't help with that request."
    assert {item.type for item in final.output} == {"message"}
    opened = [one["output_index"] for one in got.events if one["type"] == "response.output_item.added"]
    closed = [one["output_index"] for one in got.events if one["type"] == "response.output_item.done"]
    assert sorted(opened) == sorted(closed)


async def test_half_of_a_json_text_is_not_given_to_a_client_that_parses_it():
    class Found(BaseModel):
        found: str

    form = {"format": {"type": "json_schema", "name": "Found", "schema": {}}}
    events = stream_of(response([message(json.dumps({"found": "it STOP"}))], text=form), words)
    got = await run_exchange(RESPONSES, ASK, Scripted([raw_of([one]) for one in events]), StopAt("STOP"))
    final = await read_by_client(got, text_format=Found)
    assert [part.type for item in final.output for part in item.content] == ["refusal"]


async def test_a_verdict_can_be_an_error():
    events = stream_of(LONG, words)
    own = Refusal("Not here.", style="error", status=403, code="forbidden")
    got = await streamed(events, StopAt("eighth"), refusal=own)
    last = got.events[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"] == {"code": "forbidden", "message": "Not here."}
    blocked = await run_exchange(
        RESPONSES, {**ASK, "input": SECRET}, Scripted([]), PIIDetector(strategy="block"), refusal=own
    )
    assert (blocked.status, blocked.json["error"]["code"]) == (403, "forbidden")


async def test_a_verdict_on_a_request_is_a_whole_stream():
    got = await run_exchange(RESPONSES, {**ASK, "input": SECRET}, Scripted([]), PIIDetector(strategy="block"))
    assert numbers(got) == list(range(len(got.events)))
    assert [one["type"].removeprefix("response.") for one in got.events[:3]] == [
        "created",
        "in_progress",
        "output_item.added",
    ]
    assert (await read_by_client(got)).output[0].content[0].refusal == "I can't help with that request."


class Judge(Processor):
    """Blocks an answer when all of it is there."""

    id = "judge"

    def process_output_result(self, ctx: Any) -> None:
        ctx.abort("no")


async def test_the_end_of_an_answer_waits_for_the_last_verdict():
    got = await streamed(stream_of(response([message("Good day")])), Judge())
    ends = [one["response"] for one in got.events if one["type"] == "response.completed"]
    assert len(ends) == 1
    assert ends[0]["output"][-1]["content"][0]["type"] == "refusal"
    await read_by_client(got)


@pytest.mark.parametrize("after", range(0, 30, 3))
async def test_a_provider_that_breaks_ends_the_stream_as_a_failure(after):
    pieces: list[Any] = [raw_of([one]) for one in stream_of(LONG, words)[:after]]
    got = await run_exchange(RESPONSES, ASK, Scripted([*pieces, UpstreamError("broken", "it broke")]), HIDE)
    last = got.events[-1]
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "upstream_broken")
    assert numbers(got) == list(range(len(got.events)))
    assert got.events[0]["type"] == "response.created"


# Attacks


def changed(events: Sequence[tuple[str, Any]], kind: str, **fields: Any) -> list[tuple[str, Any]]:
    return [(name, {**data, **fields} if name == kind else data) for name, data in events]


SAYS = message("Good day to you.")
TEXT = stream_of(response([SAYS]))
CALL = stream_of(response([call('{"q": "x"}')]))
DELTA = "response.output_text.delta"


@pytest.mark.parametrize(
    "events",
    [
        changed(TEXT, DELTA, delta=[SECRET]),
        changed(TEXT, DELTA, delta={"text": SECRET}),
        changed(TEXT, DELTA, delta=None, text=SECRET),
        changed(TEXT, DELTA, logprobs=[SECRET]),
        changed(TEXT, DELTA, logprobs=SECRET),
        changed(TEXT, DELTA, obfuscation=SECRET),
        changed(TEXT, DELTA, sequence_number=SECRET),
        changed(TEXT, DELTA, output_index=SECRET, content_index=SECRET, item_id=SECRET),
        changed(TEXT, "response.output_text.done", text=f"Mail {SECRET}"),
        changed(TEXT, "response.output_text.done", text=[SECRET]),
        changed(
            TEXT, "response.content_part.done", part={"type": "output_text", "text": SECRET, "annotations": SECRET}
        ),
        changed(TEXT, "response.content_part.done", part={"type": "nobody", "text": SECRET}),
        changed(TEXT, "response.content_part.added", part={"type": "output_text", "text": SECRET}),
        changed(TEXT, "response.output_item.added", item=message(SECRET)),
        changed(TEXT, "response.output_item.done", item=message(SECRET)),
        changed(TEXT, "response.output_item.done", item={"type": "nobody", "text": SECRET}),
        changed(TEXT, "response.output_item.done", item=SECRET),
        changed(TEXT, "response.completed", response=response([message(SECRET)])),
        changed(TEXT, "response.completed", response=SECRET),
        changed(TEXT, "response.completed", response=response([SAYS], error={"message": SECRET})),
        changed(TEXT, "response.completed", response=response([SAYS], conversation={"id": SECRET})),
        changed(TEXT, "response.created", response=response([message(SECRET)])),
        changed(TEXT, "response.created", response=response([], id=SECRET, model=SECRET)),
        [*TEXT[:-1], (DELTA, {**TEXT[4][1], "delta": f" {SECRET}"}), TEXT[-1]],
        [*TEXT, (DELTA, {**TEXT[4][1], "delta": f" {SECRET}"})],
        [TEXT[0], *TEXT[6:], *TEXT[1:6], (DELTA, {**TEXT[4][1], "delta": f" {SECRET}"})],
        [*TEXT[:5], ("response.nobody.knows", {"type": "response.nobody.knows", "text": SECRET}), *TEXT[5:]],
        [*TEXT[:5], ("error", {"type": "error", "message": SECRET, "code": SECRET, "param": [SECRET]}), *TEXT[5:]],
        [("response.created", {"type": DELTA, "delta": SECRET}), *TEXT],
        [(DELTA, {"type": ["x"], "delta": SECRET}), *TEXT],
        [(DELTA, {"delta": SECRET}), *TEXT],
        changed(CALL, "response.function_call_arguments.delta", delta={"to": SECRET}),
        changed(CALL, "response.function_call_arguments.done", arguments=json.dumps({"to": SECRET})),
        changed(CALL, "response.function_call_arguments.done", name=SECRET),
        changed(CALL, "response.output_item.done", item=call(json.dumps({"to": SECRET}))),
        changed(CALL, "response.output_item.done", item=call({"to": SECRET})),  # type: ignore[arg-type]
        changed(CALL, "response.output_item.done", item=call('{"q": "x"}', name=f"mail {SECRET}")),
        changed(CALL, "response.output_item.done", item=call('{"q": "x"}', call_id=SECRET)),
        changed(CALL, "response.output_item.added", item=call("", namespace=SECRET, caller={"type": SECRET})),
        changed(CALL, "response.completed", response=response([call(json.dumps({"to": SECRET}))])),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
async def test_a_stream_that_is_not_as_it_should_be_takes_nothing_to_the_client(events, strict):
    for pieces in ([raw_of(events)], [raw_of([one]) for one in events]):
        got = await run_exchange(RESPONSES, ASK, Scripted(pieces), HIDE, strict=strict)
        assert SECRET.encode() not in got.body


@pytest.mark.parametrize("lost", ["output_index", "content_index", "item_id", "sequence_number"])
async def test_a_secret_that_is_cut_is_hidden_where_events_do_not_say_their_place(lost):
    events = stream_of(response([message(f"Write to {SECRET} now.")]), lambda text: [text[:15], text[15:22], text[22:]])
    without = [(kind, {key: value for key, value in data.items() if key != lost}) for kind, data in events]
    got = await streamed(without)
    assert SECRET.encode() not in got.body
    deltas = "".join(one["delta"] for one in got.events if one["type"] == DELTA)
    assert deltas == f"Write to {HIDDEN} now."


async def test_items_that_come_side_by_side_or_share_an_id_are_read_each_by_itself():
    card = "4111 1111 1111 1111"
    one = stream_of(response([message(f"Pay with {card} now.")]), lambda text: [text[:12], text[12:20], text[20:]])
    deltas = [data for kind, data in one if kind == DELTA]
    other = [{**data, "output_index": 1, "content_index": 0, "delta": "fine 22 "} for data in deltas]
    mixed = [(DELTA, data) for pair in zip(deltas, other, strict=True) for data in pair]
    parts = [(DELTA, {**data, "output_index": 0, "content_index": 1} if data in other else data) for _, data in mixed]
    for events in (mixed, parts):
        got = await streamed([*one[:4], *events, *one[7:]])
        said = [data["delta"] for data in got.events if data["type"] == DELTA]
        assert card not in "".join(said[::2])


@pytest.mark.parametrize(
    "kind", ["response.steer.accepted", "response.steer.pending", "response.steer.failed", "response.audio.delta"]
)
@pytest.mark.parametrize("strict", [True, False])
async def test_what_no_guard_can_read_is_refused_even_where_unknown_events_pass(kind, strict):
    events = [*TEXT[:5], (kind, {"type": kind, "delta": "AAAA"}), *TEXT[5:]]
    got = await streamed(events, strict=strict)
    assert got.events[-1]["response"]["error"]["code"] == "upstream_refused"


class NoRemoval(Processor):
    """Blocks a tool, and a command."""

    id = "no-removal"

    def process_tool_call(self, ctx: ToolCallContext) -> None:
        if ctx.tool_name == "rm" or "rm -rf" in json.dumps(thaw(ctx.arguments)):
            ctx.abort("not that one")


@pytest.mark.parametrize(
    "other", [{"name": "rm"}, {"arguments": '{"run": "rm -rf /"}'}, {"name": "rm", "call_id": "c"}]
)
@pytest.mark.parametrize("kind", ["response.output_item.done", "response.completed"])
async def test_a_call_that_is_repeated_as_another_one_is_judged_as_that(other, kind):
    item = {**call('{"q": "x"}'), **other}
    fields = {"item": item} if kind.endswith("done") else {"response": response([item])}
    got = await streamed(changed(CALL, kind, **fields), NoRemoval())
    assert got.ended.verdict is not None
    assert b'"rm"' not in got.body
    assert b"rm -rf" not in got.body


@pytest.mark.parametrize(("one", "other"), [('{"q": "x"}', '{"q":"x"}'), ("", "{}"), ("{}", "")])
async def test_arguments_that_are_written_in_another_way_are_the_same(one, other):
    events = stream_of(response([call(one)]))
    spaced = changed(events, "response.output_item.done", item=call(other))
    got = await streamed(spaced, NoRemoval())
    assert (got.body, got.ended.error) == (raw_of(spaced), "")


async def test_an_output_that_leaves_out_items_at_its_end_is_read():
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "So so."}]}
    calls = [call(f'{{"to": "{SECRET}", "number": {number}}}', call_id=f"c{number}") for number in range(3)]
    events = stream_of(response([thought, message("Good day"), *calls]))
    short = changed(events, "response.completed", response=response([message("Good day"), *calls]))
    got = await streamed(short)
    assert got.ended.error == ""
    assert SECRET.encode() not in got.body
    last = got.events[-1]["response"]["output"]
    assert [json.loads(item["arguments"])["number"] for item in last[1:]] == [0, 1, 2]


# However it comes

PIECES = ["Good day. ", "Ask ", SECRET, " and ", "é\U0001f600 ", "\n", "42 "]
SAID = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


def _reasoning(summary: list[str], content: list[str]) -> dict[str, Any]:
    texts = [{"type": "summary_text", "text": text} for text in summary]
    more = [{"type": "reasoning_text", "text": text} for text in content]
    return {"id": "rs_1", "type": "reasoning", "summary": texts, "content": more, "encrypted_content": "gAAA=="}


def _of_part(text: str, kind: str) -> dict[str, Any]:
    said = message(text)
    said["content"].append({"type": "refusal", "refusal": text[::-1] if kind == "reversed" else text})
    return said


ITEMS = st.one_of(
    st.lists(SAID, max_size=3).map(lambda texts: message(*texts)),
    st.builds(_reasoning, st.lists(SAID, max_size=2), st.lists(SAID, max_size=2)),
    st.builds(_of_part, SAID, st.sampled_from(["same", "reversed"])),
    SAID.map(lambda text: call(json.dumps({"to": text}))),
    SAID.map(lambda text: {**call(""), "type": "custom_tool_call", "input": text}),
    SAID.map(lambda text: {"id": "ci_1", "type": "code_interpreter_call", "code": text, "container_id": "c_1"}),
    SAID.map(lambda text: {"id": "m_1", "type": "mcp_call", "name": "f", "server_label": "s", "arguments": text}),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ITEMS, max_size=5), st.lists(st.integers(1, 40), max_size=20), st.lists(st.integers(1, 9000)))
async def test_however_texts_and_bytes_are_cut_a_secret_stays_and_all_repeats_agree(output, cuts, places):
    output = [
        {key: f"{value}_{number}" if key in ("id", "call_id") else value for key, value in item.items()}
        for number, item in enumerate(output)
    ]
    whole = response(output)
    raw = raw_of(stream_of(whole, lambda text: [piece.decode() for piece in cut_text(text, cuts)]))
    got = await run_exchange(RESPONSES, ASK, Scripted(cut(raw, places)), HIDE)
    assert SECRET.encode() not in got.body
    assert (got.ended.error, numbers(got)) == ("", list(range(len(got.events))))
    assert got.body == raw or SECRET in json.dumps(whole)
    deltas: dict[tuple[Any, ...], list[str]] = {}
    for one in got.events:
        kind, at = one["type"], tuple(one.get(key) for key in ("output_index", "content_index", "summary_index"))
        own = kind.removesuffix(".delta").removesuffix(".done")
        if kind.endswith(".delta"):
            deltas.setdefault((own, *at), []).append(one["delta"])
        elif kind.endswith(".done") and (own, *at) in deltas:
            (text,) = [one[key] for key in ("text", "refusal", "arguments", "input", "code") if key in one]
            assert "".join(deltas[own, *at]) == text
    done = [one["item"] for one in got.events if one["type"] == "response.output_item.done"]
    assert done == got.events[-1]["response"]["output"]
    final = await read_by_client(got)
    assert [item.type for item in final.output] == [item["type"] for item in output]


def cut_text(text: str, places: list[int]) -> list[bytes]:
    """Return a text in pieces of these lengths, the last one as long as it gets."""
    found, rest = [], text
    for place in places:
        found.append(rest[:place].encode())
        rest = rest[place:]
    return [piece for piece in (*found, rest.encode()) if piece]


# Later stages, and values that come back


class Rewrite(Processor):
    """Changes an answer when all of it is there, and adds to each text."""

    id = "rewrite"

    def process_output_result(self, ctx: Any) -> Any:
        return ctx.message_list.map_text(lambda text: text.replace("tenth", "10th") + " (checked)")


async def test_what_a_later_stage_makes_of_an_answer_stands_in_all_places():
    got = await streamed(stream_of(LONG, words), Rewrite())
    last = got.events[-1]["response"]["output"]
    texts = [part["text"] for item in last if item["type"] == "message" for part in item["content"]]
    assert texts == ["Seventh eighth. (checked)", "Ninth 10th. (checked)", "Twelfth last. (checked)"]
    assert [one["text"] for one in got.events if one["type"] == "response.output_text.done"] == texts
    assert (await read_by_client(got)).output_text == "".join(texts)


async def test_arguments_that_a_guard_changes_stand_in_all_places():
    class More(Processor):
        id = "more"

        def process_tool_call(self, ctx: ToolCallContext) -> Any:
            return {**ctx.arguments, "safe": True}

    got = await streamed(stream_of(response([call('{"q": "x"}')])), More())
    deltas = [one["delta"] for one in got.events if one["type"] == "response.function_call_arguments.delta"]
    done = [one["arguments"] for one in got.events if one["type"] == "response.function_call_arguments.done"]
    final = got.events[-1]["response"]["output"][0]["arguments"]
    assert "".join(deltas) == done[0] == final
    assert json.loads(final) == {"q": "x", "safe": True}


@pytest.mark.parametrize("as_list", [True, False])
async def test_values_are_put_back_for_the_client_in_texts_calls_and_echoes(as_list):
    said = "Write to ann@example.com and to bob@example.com."
    ask = {
        **ASK,
        "input": [{"role": "user", "content": said}] if as_list else said,
        "instructions": "For ann@example.com",
    }
    seen: list[Any] = []

    class Provider(Scripted):
        async def pieces(self) -> Any:
            seen.append(self.got)
            output = [message("I write to [EMAIL_2] now."), call('{"to": "[EMAIL_1]"}')]
            events = stream_of(
                response(output, instructions=self.got["instructions"]), lambda text: [text[:12], text[12:]]
            )
            yield raw_of(events)

    got = await run_exchange(RESPONSES, ask, Provider([]), privacy(restore=True))
    assert "@" not in json.dumps(seen)
    final = await read_by_client(got)
    assert final.output_text == "I write to bob@example.com now."
    assert json.loads(final.output[1].arguments) == {"to": "ann@example.com"}
    assert final.instructions == ask["instructions"]
    assert seen[0]["instructions"] == "For [EMAIL_1]"


async def test_a_whole_answer_without_its_usual_marks_is_read():
    whole = response([message(f"Mail {SECRET} .", "second"), message("third", id="msg_2")])
    del whole["object"]
    upstream = Scripted([json.dumps(whole).encode()], "application/json")
    got = await run_exchange(RESPONSES, {**ASK, "stream": False}, upstream, HIDE)
    texts = [part["text"] for item in got.json["output"] for part in item["content"]]
    assert texts == [f"Mail {HIDDEN} .", "second", "third"]


async def test_streams_as_other_providers_send_them_leave_as_they_came():
    """OpenRouter ends a thought behind the text, and sends a comment first; OpenAI sends heartbeats."""
    thought = {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "So so."}],
    }
    events = stream_of(response([thought, message("4")], output_text="", usage={"input_tokens": 1, "cost": 0.1}))
    at = next(place for place, (_, data) in enumerate(events) if data.get("output_index") == 1)
    late = [one for one in events[:at] if one[0].endswith(".done")]
    mixed = [one for one in events[:at] if one not in late] + events[at:-1] + late + events[-1:]
    mixed.insert(6, ("keepalive", {"type": "keepalive", "sequence_number": 6}))
    raw = b": OPENROUTER PROCESSING\n\n" + b"".join(event(data) for _, data in mixed) + b"data: [DONE]\n\n"
    got = await run_exchange(RESPONSES, ASK, Scripted([raw]), HIDE)
    assert got.body == raw
    patch = {"id": "p_1", "type": "apply_patch_call", "call_id": "c"}
    begun, done = [
        {**patch, "operation": {"type": "update_file", "path": "a.py", "diff": text}} for text in ("", "@@ 1")
    ]
    at_item = {"output_index": 0, "item_id": "p_1"}
    diff = "response.apply_patch_call_operation_diff"
    patching = [
        ("response.output_item.added", {"item": begun}),
        (f"{diff}.delta", {"delta": "@@ 1"}),
        (f"{diff}.done", {"diff": "@@ 1"}),
        ("response.output_item.done", {"item": done}),
    ]
    numbered = [(kind, {"type": kind, **data, **at_item, "sequence_number": 0}) for kind, data in patching]
    assert (await streamed(numbered)).body == raw_of(numbered)
