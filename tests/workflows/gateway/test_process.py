"""`penstock serve` as a process: SIGTERM drains, a second signal ends it, SIGHUP reads the files, errors are lines."""

import json
import re
import signal
from contextlib import suppress

import aiohttp
import anyio
import pytest

from penstock.testing.provider import FakeProvider, Gate, Sent, Wire
from penstock.workflows.gateway.config.client_keys import line_of_key
from tests.workflows.gateway.processes import served

pytestmark = pytest.mark.rest

POLICY = "penstock: 1\nsteps: [{use: regex-filter, with: {rules: [{name: word, pattern: forbidden}]}}]\n"
BODY = {"model": "fake-1", "messages": [{"role": "user", "content": "Hello"}]}


async def test_sigterm_lets_streams_end_and_takes_no_new_ones(tmp_path) -> None:
    """Then the process ends with 0; nothing of a stream is lost."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    gate = Gate()
    with FakeProvider([Sent("one two three", Wire(gate=gate))]) as provider:
        async with served("guard.yaml", "--upstream", provider.url, cwd=tmp_path) as (process, base):
            url = f"{base}/v1/chat/completions"
            async with aiohttp.ClientSession() as session, aiohttp.ClientSession() as other:
                async with other.get(f"{base}/readyz") as reply:
                    assert reply.status == 200  # and the connection stays
                async with session.post(url, json={**BODY, "stream": True}) as stream:
                    gate.let(2)
                    assert await stream.content.readany()
                    process.send_signal(signal.SIGTERM)
                    statuses = set()
                    with anyio.fail_after(60):
                        while 503 not in statuses:
                            async with other.post(url, json=BODY) as reply:
                                statuses.add(reply.status)
                    async with other.get(f"{base}/readyz") as reply:
                        assert (reply.status, json.loads(await reply.text())["status"]) == (503, "draining")
                    gate.open()
                    rest = (await stream.content.read()).decode()
            with anyio.fail_after(60):
                assert await process.wait() in (0, -signal.SIGTERM)

    assert rest.endswith("data: [DONE]\n\n")


async def test_a_stream_that_outlasts_the_drain_ends_with_an_error(tmp_path) -> None:
    """In the client's protocol; the log says that it was cut, and nothing else is said."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    gate = Gate()
    with FakeProvider([Sent("one two three", Wire(gate=gate))]) as provider:
        gateway = {
            "gateway": 1,
            "policy": "guard.yaml",
            "upstreams": {"fake": {"url": provider.url}},
            "limits": {"drain": "1s"},
        }
        (tmp_path / "gateway.yaml").write_text(json.dumps(gateway))
        async with served("gateway.yaml", cwd=tmp_path) as (process, base):
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{base}/v1/chat/completions", json={**BODY, "stream": True}) as stream,
            ):
                gate.let(2)
                assert await stream.content.readany()
                process.send_signal(signal.SIGTERM)
                with anyio.fail_after(60):
                    rest = (await stream.content.read()).decode()
            with anyio.fail_after(60):
                said = (await process.stderr.read()).decode()
                assert await process.wait() in (0, -signal.SIGTERM)
        gate.open()
    assert '"code":"shutting_down"' in rest
    assert rest.endswith("data: [DONE]\n\n")
    assert " cut " in said
    assert "Exception" not in said
    assert "Cancel" not in said


async def test_a_second_signal_ends_it_at_once(tmp_path) -> None:
    """Whoever presses Ctrl-C twice means it."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    with FakeProvider([Sent("one", Wire(gate=Gate()))]) as provider:
        arguments = ("guard.yaml", "--upstream", provider.url)
        body = {**BODY, "stream": True}
        async with (
            served(*arguments, cwd=tmp_path) as (process, base),
            aiohttp.ClientSession() as session,
            session.post(f"{base}/v1/chat/completions", json=body),
        ):
            process.send_signal(signal.SIGINT)
            await anyio.sleep(0.3)
            assert process.returncode is None
            process.send_signal(signal.SIGINT)
            with anyio.fail_after(60):
                await process.wait()


async def reloads(session, base):
    """How often the files were read again, and how often they had problems."""
    async with session.get(f"{base}/metrics") as reply:
        text = await reply.text()
    return [
        int((re.search(rf'reloads_total{{result="{result}"}} (\d+)', text) or [0, 0])[1]) for result in ("ok", "failed")
    ]


async def test_reload_under_load_loses_no_request(tmp_path) -> None:
    """Files change again and again, also to broken ones, while clients ask."""
    guard = tmp_path / "guard.yaml"
    guard.write_text(POLICY)
    with FakeProvider(["Hi"], repeat_last=True) as provider:
        (tmp_path / "gateway.yaml").write_text(
            f"gateway: 1\npolicy: guard.yaml\nupstreams: {{up: {{url: '{provider.url}'}}}}\nlog: {{format: none}}\n"
        )
        async with served("gateway.yaml", cwd=tmp_path) as (process, base), aiohttp.ClientSession() as session:
            statuses = []
            over = anyio.Event()

            async def ask():
                while not over.is_set():
                    async with session.post(f"{base}/v1/chat/completions", json=BODY) as reply:
                        statuses.append((reply.status, "Hi" in await reply.text()))

            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(ask)
                for read, text in enumerate((POLICY.replace("forbidden", "other"), "penstock: 1\nsteps: [", POLICY)):
                    answered = len(statuses)
                    guard.write_text(text)
                    process.send_signal(signal.SIGHUP)
                    with anyio.fail_after(60):
                        while sum(await reloads(session, base)) <= read or len(statuses) < answered + 20:  # noqa: ASYNC110 - of a server
                            await anyio.sleep(0.02)
                over.set()
            ok, failed = await reloads(session, base)

    assert set(statuses) == {(200, True)}
    assert ok
    assert failed


async def test_keys_of_the_process_are_in_nothing_that_it_writes(tmp_path) -> None:
    """Neither in its log nor in its records, also where the provider refuses the key."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    key = "sk-planted-in-the-environment"
    with FakeProvider(["never"], key="another") as provider:
        arguments = ("guard.yaml", "--upstream", provider.url, "--key-env", "MY_KEY", "--log-format", "json")
        async with served(*arguments, "--records", "records.jsonl", cwd=tmp_path, MY_KEY=key) as (process, base):
            async with aiohttp.ClientSession() as session:
                headers = {"authorization": "Bearer sk-planted-by-the-client"}
                async with session.post(f"{base}/v1/chat/completions", json=BODY, headers=headers) as reply:
                    text = await reply.text()
            process.send_signal(signal.SIGTERM)
            log = (await process.stderr.read()).decode()

    records = (tmp_path / "records.jsonl").read_text()
    assert json.loads(records)["status"] == 401
    assert records.strip() in log
    assert {json.loads(line).get("status") for line in log.splitlines()} == {401, None}  # the drain may be told first
    assert "planted" not in text + log + records


async def test_what_waits_survives_gateways_that_are_killed(tmp_path) -> None:
    """An approval that a dead gateway had taken counts again when its lease ends; nothing had left."""
    eve = "eve-" + "k" * 24
    (tmp_path / "guard.yaml").write_text("penstock: 1\nsteps: [{use: human-review, with: {at: [input]}}]\n")
    (tmp_path / "operators.txt").write_text(line_of_key("eve", eve) + "\n")
    gate = Gate()
    with FakeProvider([Sent("never seen", Wire(gate=gate)), "It is done."]) as provider:
        (tmp_path / "gateway.yaml").write_text(
            "gateway: 1\npolicy: guard.yaml\nreviews: {store: reviews.db, operators: operators.txt, lease: 2s}\n"
            f"upstreams: {{up: {{url: '{provider.url}'}}}}\n"
        )

        async def send(base):
            url = f"{base}/v1/chat/completions"
            async with aiohttp.ClientSession() as session, session.post(url, json=BODY) as reply:
                return reply.headers.get("x-penstock-review", ""), await reply.text()

        async with served("gateway.yaml", cwd=tmp_path) as (process, base):
            waits = (await send(base))[0].partition(";")[0]
            process.kill()
        async with served("gateway.yaml", cwd=tmp_path) as (process, base):
            url, headers = f"{base}/v1/reviews/{waits}/approve", {"authorization": f"Bearer {eve}"}
            async with aiohttp.ClientSession() as session, session.post(url, json={}, headers=headers) as reply:
                assert reply.status == 200
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    group.start_soon(_ignored, send, base)
                    while not provider.requests:  # noqa: ASYNC110 - the provider is in threads
                        await anyio.sleep(0.01)
                    process.kill()
        async with served("gateway.yaml", cwd=tmp_path) as (process, base):
            with anyio.fail_after(60):
                while "It is done." not in (got := await send(base))[1]:
                    assert got[0] == f"{waits}; in-use"
                    await anyio.sleep(0.02)  # else it logs more than a pipe takes that nobody reads
            assert (await send(base))[0] == f"{waits}; waiting"
        gate.open()


async def _ignored(send, base) -> None:
    with suppress(aiohttp.ClientError):
        await send(base)
