"""Clients of the gateway that lose their stream and come back for the rest: real sockets, a scripted provider."""

# ruff: noqa: F811 - the fixture is imported

import asyncio
import json

import aiohttp
import anyio
import pytest

from penstock.testing.provider import FakeProvider, Gate, Sent, Wire
from penstock.workflows.gateway.config.client_keys import line_of_key, new_key
from tests.workflows.gateway.test_serving import (
    PATH,
    asked,
    connect,
    gateway,  # noqa: F401 - see above
    head,
    post,
    recorded,
)

RESUMABLE = "routes: [{resumable: true}]\n"
STREAM = json.dumps(asked(stream=True)).encode()


class Client:
    """A client that reads events, and may leave after any of them."""

    def __init__(self, base: str) -> None:
        self._base = base

    async def read(self, most: int | None = None, key: str = "") -> tuple[str, list[str]]:
        """Send a request; return the id of its stream, and its first events. The connection ends then."""
        reader, writer = await connect(self._base)
        writer.write(head(len(STREAM), *([f"authorization: Bearer {key}"] if key else [])) + STREAM)
        stream, events = await _events(reader, most)
        writer.close()
        return stream, events

    async def rest(self, after: str, path: str = PATH, key: str = "") -> tuple[int, list[str]]:
        """Come back; return the status and the events."""
        headers = {"last-event-id": after} | ({"authorization": f"Bearer {key}"} if key else {})
        async with aiohttp.ClientSession() as session, session.get(self._base + path, headers=headers) as reply:
            text = await reply.text()
        return reply.status, text.split("\n\n")[:-1] if reply.status == 200 else [text]


async def _events(reader: asyncio.StreamReader, most: int | None) -> tuple[str, list[str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    stream = next((line.partition(": ")[2] for line in lines if line.startswith("x-penstock-stream")), "")
    text = ""
    while most is None or text.count("\n\n") < most:
        size = int(await reader.readline(), 16)
        text += (await reader.readexactly(size + 2))[:-2].decode()
        if not size:
            break
    return stream, text.split("\n\n")[: -1 if most is None else most]


def last_id(events: list[str]) -> str:
    """The id of the last event."""
    return events[-1].rpartition("\nid: ")[2]


@pytest.mark.rest
async def test_a_client_that_is_cut_at_any_event_gets_the_rest(gateway):
    answer = {"deltas": ["Mail ", "ann@exam", "ple.com", " now"]}
    with FakeProvider([answer], repeat_last=True) as provider:
        async with gateway(provider.url, RESUMABLE) as (base, _, records):
            client = Client(base)
            whole = (await client.read())[1]
            cuts = range(0, len(whole), 2)
            for cut in cuts:
                stream, got = await client.read(cut)
                status, more = await client.rest(last_id(got) if got else f"{stream}/0")
                _, again = await client.rest("", f"{PATH}/streams/{stream}")
                assert (status, got + more) == (200, again)
                assert len(again) == len(whole)
                assert last_id(again) == f"{stream}/{len(whole)}"
                assert "exam" not in "".join(again)
            await recorded(records, 1 + 3 * len(cuts))
    assert {record.outcome for record in records} == {"ok"}
    assert sum(record.resumed for record in records) == 2 * len(cuts)


async def test_the_request_goes_on_without_its_client_and_is_followed_live(gateway):
    gate = Gate()
    with FakeProvider([Sent("one two three", Wire(gate=gate))]) as provider:
        async with gateway(provider.url, RESUMABLE) as (base, _, records):
            client = Client(base)
            gate.let(1)
            stream, got = await client.read(1)
            async with aiohttp.ClientSession() as session:
                async with session.get(base + PATH, params={"after": last_id(got)}) as reply:
                    assert reply.headers["content-type"].startswith("text/event-stream")
                    assert reply.headers["x-penstock-stream"] == stream
                    gate.open()
                    text = await reply.text()
                async with session.get(base + PATH, params={"after": last_id(text.split("\n\n")[:-1])}) as reply:
                    assert (reply.status, await reply.read()) == (204, b"")
            await recorded(records, 3)
        assert not provider.requests[0].hung_up.is_set()
    assert "three" in text
    assert f"data: [DONE]\nid: {stream}/" in text
    assert [record.outcome for record in records] == ["ok"] * 3


@pytest.mark.rest
async def test_the_provider_ends_when_nobody_comes_back_within_the_grace(gateway):
    more = RESUMABLE + "resume: {grace: 20ms}\n"
    with FakeProvider([Sent("a b c", Wire(endless="silence"))]) as provider:
        async with gateway(provider.url, more) as (base, _, records):
            client = Client(base)
            _, got = await client.read(1)
            assert await asyncio.to_thread(provider.requests[0].hung_up.wait, 60)
            (record,) = await recorded(records)
            status, (told,) = await client.rest(last_id(got))
    assert (record.outcome, status, json.loads(told)["error"]["code"]) == ("gone", 410, "stream_gone")


async def test_only_the_key_that_asked_may_come_back(gateway, tmp_path):
    mine, other = new_key(), new_key()
    (tmp_path / "keys.txt").write_text(line_of_key("team-a", mine) + "\n" + line_of_key("team-b", other) + "\n")
    with FakeProvider(["Hi"]) as provider:
        async with gateway(provider.url, RESUMABLE + "keys: keys.txt\n") as (base, _, _):
            client = Client(base)
            stream, whole = await client.read(key=mine)
            replies = [await client.rest(f"{stream}/0", key=key) for key in ("", other, mine)]
    assert [reply[0] for reply in replies] == [401, 404, 200]
    assert replies[2][1] == whole


async def test_a_blocked_answer_is_kept_as_it_was_sent(gateway):
    with FakeProvider([{"deltas": ["All is well here, and it is ", "for", "bidden", " to say more"]}]) as provider:
        async with gateway(provider.url, RESUMABLE) as (base, _, records):
            client = Client(base)
            stream, sent = await client.read()
            _, again = await client.rest(f"{stream}/0")
            await recorded(records, 2)
    assert records[0].outcome == "blocked"
    assert again == sent
    assert "content_filter" in "".join(again)
    assert "bidden" not in "".join(again)


async def test_a_route_that_is_not_resumable_sends_the_bytes_that_came(gateway):
    more = "routes: [{name: r, models: [other], resumable: true}, {name: plain}]\n"
    with FakeProvider(["Hi"]) as provider:
        async with gateway(provider.url, more) as (base, _, _):
            _, headers, text = await post(base, asked(stream=True))
            async with aiohttp.ClientSession() as session:
                statuses = []
                for method, path in (("GET", PATH), ("GET", f"{PATH}/streams/x"), ("POST", f"{PATH}/streams/x")):
                    async with session.request(method, base + path, json={}) as reply:
                        statuses.append(reply.status)
    assert "x-penstock-stream" not in headers
    assert "\nid: " not in text
    assert statuses == [404, 404, 405]


async def test_a_sign_of_life_of_a_resumable_stream_has_no_empty_line(gateway):
    gate = Gate()
    with FakeProvider([Sent("a b", Wire(gate=gate))]) as provider:
        async with gateway(provider.url, RESUMABLE + "limits: {keep_alive: 20ms}\n") as (base, _, _):
            reader, writer = await connect(base)
            writer.write(head(len(STREAM)) + STREAM)
            gate.let(1)
            with anyio.fail_after(60):
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"\n\n")
                sent = await reader.readuntil(b": keep-alive\n\r\n")
                gate.open()
                rest = await reader.readuntil(b"[DONE]")
            writer.close()
    assert b": keep-alive\n\n" not in sent + rest


@pytest.mark.rest
async def test_a_request_without_a_client_ends_with_the_gateway(gateway):
    with FakeProvider([Sent("a b c", Wire(endless="silence"))]) as provider:
        async with gateway(provider.url, RESUMABLE) as (base, made, records):
            await Client(base).read(1)
            for side in made.counts.sides:
                side.shut()  # as the server does when the drain is over
            assert await asyncio.to_thread(provider.requests[0].hung_up.wait, 60)
            (record,) = await recorded(records)
    assert record.outcome == "cut"


@pytest.mark.rest
async def test_openai_s_client_reads_a_resumable_stream_with_signs_of_life(gateway, monkeypatch):
    import openai

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    gate = Gate()
    with FakeProvider([Sent("one two", Wire(gate=gate, comments=True))]) as provider:
        async with (
            gateway(provider.url, RESUMABLE + "limits: {keep_alive: 20ms}\n") as (base, _, _),
            openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client,
        ):
            gate.let(2)
            stream = await client.chat.completions.create(
                model="fake-1", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            said = (await anext(aiter(stream))).choices[0].delta.content or ""
            await anyio.sleep(0.05)
            gate.open()
            said += "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert said == "one two"
