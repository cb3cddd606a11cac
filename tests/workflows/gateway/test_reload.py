"""The files of a gateway while it runs: changes are taken over whole, broken files change nothing, links count."""

import json
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest

from penstock.testing.provider import FakeProvider, Gate, Sent, Wire
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway

BODY = {"model": "fake-1", "messages": [{"role": "user", "content": "say forbidden"}]}


def policy(word):
    """A policy that blocks a word."""
    return f"penstock: 1\nsteps: [{{use: regex-filter, with: {{rules: [{{name: word, pattern: {word}}}]}}}}]\n"


@pytest.fixture
def followed(serving):
    """Serves a gateway that follows its file; yields its URL."""

    @asynccontextmanager
    async def run(path):
        gateway = Gateway(lambda: read_gateway(path), look_after=0.02)
        async with serving(gateway) as (base, _):
            yield base, gateway

    return run


async def status(base):
    """Whether the words pass: the provider's answer, or a verdict."""
    async with aiohttp.ClientSession() as session, session.post(f"{base}/v1/chat/completions", json=BODY) as reply:
        return "passed" if "fine" in await reply.text() else "blocked"


async def until(holds):
    """Wait until a condition holds."""
    with anyio.fail_after(60):
        while not await holds():  # noqa: ASYNC110 - of a server
            await anyio.sleep(0.01)


def files(folder, url, word):
    """Write a gateway and its policy."""
    (folder / "guard.yaml").write_text(policy(word))
    text = f"gateway: 1\npolicy: guard.yaml\nlog: {{format: none}}\nupstreams: {{up: {{url: '{url}'}}}}\n"
    (folder / "gateway.yaml").write_text(text)


async def test_a_changed_policy_is_used_by_the_next_request(followed, tmp_path) -> None:
    """One that runs keeps the guards that it began with."""
    gate = Gate()
    with FakeProvider([Sent("fine", Wire(gate=gate)), "fine"], repeat_last=True) as provider:
        files(tmp_path, provider.url, "other")
        async with followed(tmp_path / "gateway.yaml") as (base, gateway):
            done = []

            async def first():
                done.append(await status(base))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first)

                async def asked():
                    return len(provider.requests) == 1

                await until(asked)
                (tmp_path / "guard.yaml").write_text(policy("forbidden"))

                async def blocked():
                    return await status(base) == "blocked"

                await until(blocked)
                gate.open()

    assert done == ["passed"]
    assert 'reloads_total{result="ok"} 1' in gateway.metrics.page().decode()


async def test_a_broken_file_changes_nothing_and_is_told(followed, tmp_path, caplog) -> None:
    """It is logged once, and stands in the readiness, until it is good again."""
    with FakeProvider(["fine"], repeat_last=True) as provider:
        files(tmp_path, provider.url, "forbidden")
        async with followed(tmp_path / "gateway.yaml") as (base, gateway), aiohttp.ClientSession() as session:
            for broken in ("guard.yaml", "gateway.yaml"):
                good = (tmp_path / broken).read_text()
                (tmp_path / broken).write_text("penstock: 1\nsteps: [{use: nothing}]\n")

                async def told():
                    return gateway.files.error is not None

                await until(told)
                assert await status(base) == "blocked"
                async with session.get(f"{base}/readyz") as reply:
                    ready = json.loads(await reply.text())
                assert (reply.status, ready["files"]) == (200, "the last good ones are in use")
                assert broken in ready["problems"][0]
                (tmp_path / broken).write_text(good)

                async def mended():
                    return gateway.files.error is None

                await until(mended)
    assert caplog.text.count("the files have problems") == 2
    assert 'reloads_total{result="failed"} 2' in gateway.metrics.page().decode()


async def test_the_swap_of_a_config_map_is_followed(followed, tmp_path) -> None:
    """Kubernetes swaps a link to a folder; all files change at once."""
    with FakeProvider(["fine"], repeat_last=True) as provider:
        for name, word in (("..1", "other"), ("..2", "forbidden")):
            (tmp_path / name).mkdir()
            files(tmp_path / name, provider.url, word)
        (tmp_path / "..data").symlink_to("..1")
        for name in ("gateway.yaml", "guard.yaml"):
            (tmp_path / name).symlink_to(f"..data/{name}")
        async with followed(tmp_path / "gateway.yaml") as (base, _):
            assert await status(base) == "passed"
            (tmp_path / "..new").symlink_to("..2")
            (tmp_path / "..new").rename(tmp_path / "..data")

            async def blocked():
                return await status(base) == "blocked"

            await until(blocked)


async def test_a_raised_budget_forgets_no_costs(followed, tmp_path) -> None:
    """And a state that no route needs any more is dropped."""
    with FakeProvider(["fine"], repeat_last=True) as provider:
        files(tmp_path, provider.url, "other")
        path = tmp_path / "gateway.yaml"
        text = path.read_text()
        budget = "budget: {{max_cost: {most}, input_price: 1000, output_price: 1000, output_tokens: 0}}"
        path.write_text(f"{text}routes: [{{{budget.format(most=0.01)}}}]\n")
        async with followed(path) as (base, gateway):
            assert [await status(base) for _ in range(2)] == ["passed", "blocked"]
            for most, expected in ((0.011, "blocked"), (5, "passed")):
                before = gateway.routes
                path.write_text(f"{text}routes: [{{{budget.format(most=most)}}}]\n")

                async def reloaded(before=before):
                    return gateway.routes is not before

                await until(reloaded)
                assert await status(base) == expected
            assert len(gateway._state.kept) == 3  # breaker, ledger, budget


async def test_limits_keep_their_counts_over_a_reload(followed, tmp_path) -> None:
    """A change of the policy gives nobody further requests."""
    with FakeProvider(["fine"], repeat_last=True) as provider:
        files(tmp_path, provider.url, "other")
        path = tmp_path / "gateway.yaml"
        path.write_text(path.read_text() + "routes: [{rate: {requests: 1, per: 1h}}]\n")
        async with followed(path) as (base, gateway):
            assert await status(base) == "passed"
            before = gateway.routes
            (tmp_path / "guard.yaml").write_text(policy("another"))

            async def reloaded():
                return gateway.routes is not before

            await until(reloaded)
            assert await status(base) == "blocked"  # 429
