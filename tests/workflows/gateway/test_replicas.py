"""Two gateways in front of one provider, with one state on a Valkey server."""

import itertools

import aiohttp
import anyio
import pytest

from penstock.testing.provider import FakeProvider, Gate, Reply, Sent, Wire
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway
from tests.stores.replicas.servers import running

BODY = {"model": "fake-1", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(scope="module")
def valkey():
    """A server."""
    with running("valkey") as server:
        yield server


@pytest.fixture
def replica(tmp_path, valkey):
    """Makes a gateway of the replicas of a route."""

    def make(provider, name, route="{}", url=None):
        (tmp_path / "guard.yaml").write_text("penstock: 1\nname: guard\nsteps: [unicode-normalizer]\n")
        path = tmp_path / "gateway.yaml"
        path.write_text(
            "gateway: 1\npolicy: guard.yaml\nlog: {format: none}\nstate: {url: '${STATE_URL}', name: "
            f"{name}}}\nupstreams: {{up: {{url: '{provider.url}'}}}}\nroutes: [{route}]\n"
        )
        return Gateway(lambda: read_gateway(path, environment={"STATE_URL": url or valkey.url}))

    return make


async def ask(base, **fields):
    """Return status and text of an answer."""
    url = f"{base}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json={**BODY, **fields}) as reply:
        return reply.status, await reply.text()


async def passed(*bases):
    """Return how many requests pass, one after another, until several in a row are refused.

    One alone may be refused although there is money left: what an answer did not take is given back behind it.
    """
    count = refused = 0
    turns = itertools.cycle(bases)
    while refused < 6:
        status, _ = await ask(next(turns))
        assert status in {200, 429}
        count += status == 200
        refused = refused + 1 if status == 429 else 0
    return count


async def test_two_gateways_let_pass_what_one_would(replica, serving) -> None:
    """The address of their state is from the environment."""
    route = "{budget: {max_cost: 0.013, input_price: 1000, output_price: 1000, output_tokens: 0}}"
    with FakeProvider(["fine"], repeat_last=True) as provider:
        first, second = replica(provider, "b", route), replica(provider, "b", route)
        async with serving(first) as (one, _), serving(second) as (two, _):
            together = await passed(one, two)
        async with serving(replica(provider, "c", route)) as (one, _):
            alone = await passed(one)
    assert together == alone == 3


async def test_two_gateways_count_the_requests_of_a_client_together(replica, serving) -> None:
    """Over the limit, each says when to try again."""
    route = "{rate: {requests: 3, per: 1h}}"
    with FakeProvider(["fine"], repeat_last=True) as provider:
        first, second = replica(provider, "r", route), replica(provider, "r", route)
        async with serving(first) as (one, _), serving(second) as (two, _):
            assert [(await ask(base))[0] for base in (one, two, one, two, one)] == [200, 200, 200, 429, 429]


@pytest.mark.parametrize(("on_error", "status"), [("refuse", 503), ("allow", 200)])
async def test_while_the_state_is_lost_a_rate_refuses_or_lets_pass(replica, serving, on_error, status, caplog) -> None:
    """As the route says; nothing tells the address."""
    with FakeProvider(["fine"], repeat_last=True) as provider:
        route = f"{{rate: {{requests: 3, on_error: {on_error}}}}}"
        gateway = replica(provider, "r", route, "valkey://:pass-word@localhost:1/0")
        for state in gateway._state.states.values():
            state._server._retry_for = 0
        async with serving(gateway) as (base, _):
            assert (await ask(base))[0] == status
    assert "cannot be asked: StorageError" in caplog.text
    assert "localhost:1" not in caplog.text


async def test_equal_requests_at_two_gateways_make_one_call(replica, serving) -> None:
    """Those that come meanwhile wait for its answer, and later ones get it, too."""
    gate, answers = Gate(), []

    async def keep(base) -> None:
        answers.append(await ask(base))

    with FakeProvider([Sent("fine", Wire(gate=gate)), "other"], repeat_last=True) as provider:
        first, second = replica(provider, "c", "{cache: {}}"), replica(provider, "c", "{cache: {}}")
        async with serving(first) as (one, _), serving(second) as (two, _):
            async with anyio.create_task_group() as group:
                for base in (one, two, one, two):
                    group.start_soon(keep, base)
                await anyio.sleep(0.2)
                gate.open()
            await keep(two)
        assert len(provider.requests) == 1
    assert {status for status, _ in answers} == {200}
    assert len({text for _, text in answers}) == 1


async def test_an_answer_that_is_not_kept_keeps_no_request_waiting(replica, serving) -> None:
    """Each asks for itself as soon as that is known."""
    with FakeProvider([Reply("", 400)], repeat_last=True) as provider:
        first, second = replica(provider, "n", "{cache: {}}"), replica(provider, "n", "{cache: {}}")
        async with serving(first) as (one, _), serving(second) as (two, _):
            with anyio.fail_after(60):
                assert [(await ask(base))[0] for base in (one, two)] == [400, 400]
        assert len(provider.requests) == 2


async def test_a_circuit_that_one_gateway_opened_is_open_for_the_other(replica, serving) -> None:
    """It asks no provider that is down."""
    route = "{retries: {attempts: 1, failures: 2, pause: 1m}}"
    with FakeProvider([Reply("", 500)], repeat_last=True) as provider:
        first, second = replica(provider, "d", route), replica(provider, "d", route)
        async with serving(first) as (one, _), serving(second) as (two, _):
            assert [(await ask(base))[0] for base in (one, one, two)] == [500, 500, 503]
        assert len(provider.requests) == 2


async def test_a_client_that_lost_its_stream_comes_back_to_another_gateway(replica, serving) -> None:
    """While the first one still runs its request."""
    gate = Gate()
    with FakeProvider([Sent("one two three", Wire(gate=gate))]) as provider:
        first, second = replica(provider, "s", "{resumable: true}"), replica(provider, "s", "{resumable: true}")
        async with serving(first) as (one, _), serving(second) as (two, _), aiohttp.ClientSession() as session:
            path, body = "/v1/chat/completions", {**BODY, "stream": True}
            gate.let(1)
            async with session.post(one + path, json=body) as reply:
                stream = reply.headers["x-penstock-stream"]
                await reply.content.readuntil(b"\n\n")
            with anyio.fail_after(60):
                while True:
                    async with session.get(two + path, params={"after": f"{stream}/1"}) as rest:
                        if rest.status == 200:  # 404 until the first event is in the state
                            gate.open()
                            text = await rest.text()
                            break
            async with session.get(f"{one}{path}/streams/{stream}") as reply:
                whole = await reply.text()
        assert len(provider.requests) == 1
    assert "[DONE]" in text
    assert whole.partition("/1\n\n")[2] == text
