"""Two gateways in front of one provider, with one state on a Valkey server."""

import warnings

import aiohttp
import pytest

from penstock.testing import FakeProvider
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway
from tests.stores.valkey import servers

BODY = {"model": "fake-1", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(scope="module")
def valkey():
    """A server."""
    reason = servers.why_not()
    if reason:
        with warnings.catch_warnings(action="default"):
            warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    with servers.running() as server:
        yield server


@pytest.fixture
def replica(tmp_path, valkey):
    """Makes a gateway of the replicas of a route."""

    def make(provider, name, route="{}"):
        (tmp_path / "guard.yaml").write_text("penstock: 1\nname: guard\nsteps: [unicode-normalizer]\n")
        path = tmp_path / "gateway.yaml"
        path.write_text(
            "gateway: 1\npolicy: guard.yaml\nlog: {format: none}\nstate: {url: '${STATE_URL}', name: "
            f"{name}}}\nupstreams: {{up: {{url: '{provider.url}'}}}}\nroutes: [{route}]\n"
        )
        return Gateway(lambda: read_gateway(path, environment={"STATE_URL": valkey.url}))

    return make


async def ask(base, **fields):
    """Return status and text of an answer."""
    url = f"{base}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json={**BODY, **fields}) as reply:
        return reply.status, await reply.text()


async def test_two_gateways_let_pass_what_one_would(replica, serving) -> None:
    """The address of their state is from the environment."""
    route = "{budget: {max_cost: 0.013, input_price: 1000, output_price: 1000, output_tokens: 0}}"
    with FakeProvider(["fine"], repeat_last=True) as provider:
        first, second = replica(provider, "b", route), replica(provider, "b", route)
        async with serving(first) as (one, _), serving(second) as (two, _):
            together = [(await ask(base))[0] for base in (one, two, one, two, one, two)]
        async with serving(replica(provider, "c", route)) as (one, _):
            alone = [(await ask(one))[0] for _ in range(6)]
    assert together == alone
    assert {*alone} == {200, 429}
