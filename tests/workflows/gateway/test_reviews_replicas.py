"""Gateways that are processes, with their reviews on one PostgreSQL server."""

import json
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest

from penstock.testing.provider import FakeProvider
from penstock.workflows.gateway.config.client_keys import line_of_key
from tests.stores.replicas.servers import running
from tests.workflows.gateway.processes import served

pytestmark = pytest.mark.rest

EVE, CLIENT = "eve-" + "k" * 24, "app-" + "k" * 24
POLICY = "penstock: 1\nsteps: [{use: human-review, with: {at: [input]}}, {use: tool-policy, with: {ask: [refund]}}]\n"
TOOLS = [{"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}]
CALL = {"tool_calls": [{"name": "refund", "args": {"order": 7}}]}
BURST = 12  # requests that are sent at once


@pytest.fixture(scope="module")
def server():
    """A server."""
    with running("postgres") as server:
        yield server


@asynccontextmanager
async def gateways(folder, url, provider, count):
    """So many processes; yields their URLs."""
    (folder / "guard.yaml").write_text(POLICY)
    (folder / "operators.txt").write_text(line_of_key("eve", EVE) + "\n")
    (folder / "keys.txt").write_text(line_of_key("app", CLIENT) + "\n")
    (folder / "gateway.yaml").write_text(
        "gateway: 1\npolicy: guard.yaml\nlog: {format: none}\nkeys: keys.txt\n"
        "reviews: {store: '${REVIEWS_URL}', operators: operators.txt}\n"
        f"upstreams: {{up: {{url: '{provider.url}'}}}}\nroutes: [{{}}]\n"
    )
    if not count:
        yield []
        return
    async with (
        served("gateway.yaml", cwd=folder, REVIEWS_URL=url) as (_, base),
        gateways(folder, url, provider, count - 1) as others,
    ):
        yield [base, *others]


class Clients:
    """The clients and the operator of gateways."""

    def __init__(self, session, bases, text) -> None:
        self.session, self.bases = session, bases
        self.body = {"model": "fake-1", "messages": [{"role": "user", "content": text}], "tools": TOOLS}

    async def send(self, base):
        """Return status, number and standing of what waits, and the text of a reply."""
        headers = {"authorization": f"Bearer {CLIENT}"}
        async with self.session.post(f"{base}/v1/chat/completions", json=self.body, headers=headers) as reply:
            number, _, standing = reply.headers.get("x-penstock-review", "").partition("; ")
            return reply.status, number, standing, await reply.text()

    async def burst(self):
        """Send the same request many times at once, to each gateway in turn; return the replies."""
        got = []

        async def keep(base) -> None:
            got.append(await self.send(base))

        async with anyio.create_task_group() as group:
            for number in range(BURST):
                group.start_soon(keep, self.bases[number % len(self.bases)])
        return got

    async def operate(self, path="", body=None, base=None):
        """Return the status of an operator's request, and its answer."""
        headers = {"authorization": f"Bearer {EVE}"}
        url = f"{base or self.bases[-1]}/v1/reviews{path}"
        async with self.session.request("GET" if body is None else "POST", url, json=body, headers=headers) as reply:
            return reply.status, json.loads(await reply.text())


@pytest.mark.parametrize("count", [2, 4])
async def test_of_equal_requests_at_many_gateways_one_passes_an_approval(tmp_path, server, count) -> None:
    """Each time again, also if the server is restarted, or crashes, while they wait."""
    with FakeProvider(["It is done."], repeat_last=True) as provider:
        async with gateways(tmp_path, server.url, provider, count) as bases, aiohttp.ClientSession() as session:
            clients = Clients(session, bases, f"Refund order {count}")
            for how in ("fast", "", "immediate"):
                first = await clients.burst()
                assert {(status, standing) for status, _, standing, _ in first} == {(200, "waiting")}
                (number,) = {number for _, number, _, _ in first}
                if how and server.is_our_own:
                    await server.restart(how)
                status, run = await clients.operate(f"/{number}/approve", {}, bases[0])
                assert (status, run["calls"][0]["decision"]["by"]) == (200, "eve")
                replies = await clients.burst()
                assert {status for status, *_ in replies} == {200}
                passed = [text for _, _, _, text in replies if "It is done." in text]
                assert len(passed) == 1
                assert {standing for _, _, standing, _ in replies} <= {"", "waiting", "in-use"}
            listed = (await clients.operate("?status=ended"))[1]["data"]
            used = [run["calls"][0]["decision"]["by"] for run in listed if run["run_id"].startswith(number)]
            assert used == ["eve"] * 3
        assert len(provider.requests) == 3


async def test_a_call_that_many_gateways_withhold_leaves_one_of_them_once(tmp_path, server) -> None:
    """With the answer that was stored: the provider is asked once, though the server crashes in between."""
    with FakeProvider([CALL]) as provider:
        async with gateways(tmp_path, server.url, provider, 2) as bases, aiohttp.ClientSession() as session:
            clients = Clients(session, bases, "Refund it")
            (number,) = {number for _, number, _, _ in await clients.burst()}
            await clients.operate(f"/{number}/approve", {})
            replies = await clients.burst()
            assert not [text for *_, text in replies if '"arguments"' in text]
            waiting = (await clients.operate())[1]["data"]
            (call,) = [run for run in waiting if run["calls"][0]["kind"] == "approval"]
            if server.is_our_own:
                await server.restart("immediate")
            await clients.operate(f"/{call['run_id']}/approve", {})
            replies = await clients.burst()
            assert len([text for *_, text in replies if '"arguments"' in text]) == 1
        assert len(provider.requests) == 1


async def test_while_the_server_is_gone_nothing_passes(tmp_path, server) -> None:
    """Neither a new request nor an approved one; when it is back, the approval counts once."""
    if not server.is_our_own:
        pytest.skip("the server is not ours: it is not stopped, and this is not tested")
    with FakeProvider(["It is done."], repeat_last=True) as provider:
        async with gateways(tmp_path, server.url, provider, 2) as bases, aiohttp.ClientSession() as session:
            clients = Clients(session, bases, "Refund all")
            _, number, _, _ = await clients.send(bases[0])
            await clients.operate(f"/{number}/approve", {})
            await server.stop()
            assert {(status, "It is done." in text) for status, *_, text in await clients.burst()} == {(500, False)}
            assert (await clients.operate())[0] == 503
            assert len(provider.requests) == 0
            await server.start()
            replies = await clients.burst()
            assert len([text for *_, text in replies if "It is done." in text]) == 1
        assert len(provider.requests) == 1
