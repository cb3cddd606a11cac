"""Budgets, shadows, traces, and the middleware form of the gateway."""

import json
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from penstock.testing.provider import FakeProvider, Sent, Wire
from penstock.workflows.gateway.config.client_keys import line_of_key, new_key
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway
from penstock.workflows.gateway.serving.middleware import GatewayMiddleware
from penstock.workflows.telemetry import OpenTelemetryObserver
from penstock.workflows.telemetry.http_spans import HttpSpans

POLICY = "penstock: 1\nsteps: [{use: regex-filter, with: {rules: [{name: word, pattern: forbidden}]}}]\n"
PATH = "/v1/chat/completions"


def asked(text="Hello", **fields):
    """The body of a chat completion."""
    return {"model": "fake-1", "messages": [{"role": "user", "content": text}], **fields}


@pytest.fixture
def written(tmp_path):
    """Writes a gateway file in front of a provider; returns a function that reads it."""

    def write(url, more=""):
        (tmp_path / "guard.yaml").write_text(POLICY)
        text = f"gateway: 1\npolicy: guard.yaml\nlog: {{format: none}}\nupstreams: {{up: {{url: '{url}'}}}}\n{more}"
        (tmp_path / "gateway.yaml").write_text(text)
        return lambda: read_gateway(tmp_path / "gateway.yaml")

    return write


@asynccontextmanager
async def posting(base):
    """A function that posts a body and returns status and text."""
    async with aiohttp.ClientSession() as session:

        async def post(body, **headers):
            async with session.post(base + PATH, json=body, headers=headers) as reply:
                return reply.status, await reply.text()

        yield post


async def until(holds):
    """Wait until a condition holds."""
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - of a server
            await anyio.sleep(0.005)


async def most_of(reply):
    """Read until most of the words have come, so that they are paid for when the client leaves."""
    got = b""
    while got.count(b"word") < 20:
        got += await reply.content.readany()


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_budget_stops_the_key_that_has_spent_it(written, serving, tmp_path, leaves) -> None:
    """Streams count, also of a client that leaves in time; another key has its own budget."""
    keys = {name: new_key() for name in ("a", "b")}
    (tmp_path / "keys.txt").write_text("".join(f"{line_of_key(name, key)}\n" for name, key in keys.items()))
    budget = "{max_cost: 0.0015, input_price: 1, output_price: 100, output_tokens: 10}"
    more = f"keys: keys.txt\nroutes: [{{name: r, budget: {budget}}}]\n"
    records = []
    first = Sent("word " * 30, Wire(endless="events")) if leaves else "word " * 30
    with FakeProvider([first, "word"], repeat_last=True) as provider:
        gateway = Gateway(written(provider.url, more), on_served=records.append)
        async with serving(gateway) as (base, _), aiohttp.ClientSession() as session:
            for sent, name in enumerate(("a", "a", "b"), 1):
                headers = {"authorization": f"Bearer {keys[name]}"}
                async with session.post(base + PATH, json=asked(stream=True), headers=headers) as reply:
                    await (most_of(reply) if leaves and not records else reply.read())
                    reply.close()
                await until(lambda sent=sent: len(records) == sent)
        assert len(provider.requests) == 2

    assert [(one.client, one.outcome, one.step) for one in records] == [
        ("a", "gone" if leaves else "ok", ""), ("a", "blocked", "budget-r"), ("b", "ok", "")
    ]  # fmt: skip


async def test_a_shadow_changes_nothing_and_is_seen_by_the_observers(written, serving, tmp_path) -> None:
    """It runs for its share of the requests."""
    (tmp_path / "next.yaml").write_text(POLICY.replace("forbidden", "Hello"))
    seen = []

    class Watching:
        def on_record(self, record):
            seen.append((record.shadow, record.tripwire is not None, record.stage))

    with FakeProvider(["Hi"], repeat_last=True) as provider:
        more = "routes: [{shadow: [{policy: next.yaml, rate: 1.0}]}]\n"
        gateway = Gateway(written(provider.url, more), observers=[Watching()])
        async with serving(gateway) as (base, _), posting(base) as post:
            status, text = await post(asked())
            await until(lambda: (True, True, "process_input") in seen)
            route = gateway.routes.routes[0]
            assert route.workflow(lambda: 1.0) is route.guards.workflow
            assert route.workflow(lambda: 0.5) is route.workflow(lambda: 0.1)

    assert status == 200
    assert "Hi" in text


async def test_metrics_count_what_shadows_would_have_done(written, serving, tmp_path) -> None:
    """By policy, verdict, and whether the guards in force did the same; of streams too, and in the log."""
    (tmp_path / "next.yaml").write_text(POLICY.replace("forbidden", "Hello"))
    (tmp_path / "edits.yaml").write_text("penstock: 1\nsteps: [{use: pii-detector, with: {strategy: redact}}]\n")
    records = []
    answers = ["Hi", "mail ann@example.com", "Hi", "Hi"]
    with FakeProvider(answers) as provider:
        shadows = (
            "[{policy: next.yaml, rate: 1.0}, {policy: edits.yaml, rate: 1.0}, {policy: guard.yaml, rate: 1.0e-9}]"
        )
        gateway = Gateway(written(provider.url, f"routes: [{{shadow: {shadows}}}]\n"), on_served=records.append)
        async with serving(gateway) as (base, _), posting(base) as post:
            for text, stream in (("Hello", False), ("Mail", True), ("forbidden", False), ("Hello forbidden", False)):
                await post(asked(text, stream=stream))
            await until(lambda: len(records) == 4)
            page = gateway.metrics.page().decode()
    assert [(one.outcome, dict(one.shadows)) for one in records] == [
        ("ok", {"next.yaml": "blocked", "edits.yaml": "passed"}),
        ("ok", {"next.yaml": "passed", "edits.yaml": "edited"}),
        ("blocked", {"next.yaml": "passed", "edits.yaml": "passed"}),
        ("blocked", {"next.yaml": "blocked", "edits.yaml": "passed"}),
    ]
    assert [line for line in page.splitlines() if line.startswith("penstock_gateway_shadow")] == [
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="edits.yaml",verdict="edited",agrees="no"} 1',
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="edits.yaml",verdict="passed",agrees="no"} 2',
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="edits.yaml",verdict="passed",agrees="yes"} 1',
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="next.yaml",verdict="blocked",agrees="no"} 1',
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="next.yaml",verdict="blocked",agrees="yes"} 1',
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="next.yaml",verdict="passed",agrees="no"} 1',
        'penstock_gateway_shadow_verdicts_total{route="route-1",shadow="next.yaml",verdict="passed",agrees="yes"} 1',
    ]
    assert "shadows=next.yaml:blocked,edits.yaml:passed" in str(records[0])


async def test_a_trace_goes_from_the_client_to_the_provider(written, serving) -> None:
    """Its spans are those of the request and of the guards; none holds a text."""
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    trace = "0af7651916cd43dd8448eb211c80319c"
    records = []
    with FakeProvider(["planted"], repeat_last=True) as provider:
        gateway = Gateway(
            written(provider.url),
            traces=HttpSpans(tracers),
            observers=[OpenTelemetryObserver(tracers, content=False)],
            on_served=records.append,
        )
        async with serving(gateway) as (base, _), posting(base) as post:
            await post(asked("planted"), traceparent=f"00-{trace}-b7ad6b7169203331-01")
            await until(lambda: records)
        sent = provider.requests[0].headers["traceparent"]
    spans = exporter.get_finished_spans()
    served = next(span for span in spans if span.name == f"POST {PATH}")

    assert {f"{span.context.trace_id:032x}" for span in spans} == {trace}
    assert (served.kind.name, records[0].trace_id) == ("SERVER", trace)
    assert len(spans) > 1
    assert sent.split("-")[1] == trace
    assert sent.split("-")[2] in {f"{span.context.span_id:016x}" for span in spans}
    assert served.attributes["penstock.outcome"] == "ok"
    assert "planted" not in "".join(span.to_json() for span in spans)


async def test_without_traces_the_context_goes_on_as_it_came(written, serving) -> None:
    """The provider may be traced all the same."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with FakeProvider(["Hi"]) as provider:
        async with serving(Gateway(written(provider.url))) as (base, _), posting(base) as post:
            await post(asked(), traceparent=parent)
        assert provider.requests[0].headers["traceparent"] == parent


async def test_an_application_gets_the_endpoints_by_a_middleware(written, tmp_path, plainly_served) -> None:
    """Everything else is its own, its lifespan too."""
    lived = []

    @asynccontextmanager
    async def lifespan(app):
        lived.append("up")
        yield
        lived.append("down")

    async def home(request):
        return PlainTextResponse("mine")

    with FakeProvider(["Hi"]) as provider:
        written(provider.url)
        app = Starlette(routes=[Route("/", home)], lifespan=lifespan)
        guarded = GatewayMiddleware(app, tmp_path / "gateway.yaml")
        async with plainly_served(guarded) as base, posting(base) as post, aiohttp.ClientSession() as session:
            assert json.loads((await post(asked()))[1])["choices"][0]["message"]["content"] == "Hi"
            assert (await post(asked("forbidden")))[0] == 200
            async with session.get(base) as reply:
                assert await reply.text() == "mine"
            async with session.get(f"{base}/metrics") as reply:
                assert reply.status == 404
        assert len(provider.requests) == 1

    assert lived == ["up", "down"]


async def test_a_client_that_leaves_any_server_ends_its_request(written, tmp_path, plainly_served) -> None:
    """Also one that does not say so by itself, so that a task waits for it."""
    with FakeProvider([Sent("a b c", Wire(endless="silence"))]) as provider:
        written(provider.url)
        guarded = GatewayMiddleware(Starlette(), tmp_path / "gateway.yaml")
        async with plainly_served(guarded) as base:
            async with aiohttp.ClientSession() as session, session.post(base + PATH, json=asked(stream=True)) as reply:
                await reply.content.readany()
            assert await anyio.to_thread.run_sync(provider.requests[0].hung_up.wait, 60)


async def test_checks_for_other_products_need_a_key_of_the_gateway(written, serving, tmp_path) -> None:
    """And a policy; without an upstream there is nothing else."""
    key = new_key()
    (tmp_path / "keys.txt").write_text(f"{line_of_key('a', key)}\n")
    (tmp_path / "guard.yaml").write_text(POLICY)
    (tmp_path / "gateway.yaml").write_text("gateway: 1\nchecks: guard.yaml\nkeys: keys.txt\nlog: {format: none}\n")
    made = Gateway(lambda: read_gateway(tmp_path / "gateway.yaml"))
    async with serving(made) as (base, _), aiohttp.ClientSession() as session:

        async def post(path, body, **headers):
            async with session.post(base + path, json=body, headers=headers) as reply:
                return reply.status, await reply.text()

        replies = [
            await post("/v1/check", {"text": "forbidden"}),
            await post("/v1/check", {"text": "forbidden"}, **{"x-api-key": key}),
            await post(PATH, asked(), **{"x-api-key": key}),
        ]
    with FakeProvider() as provider:
        async with serving(Gateway(written(provider.url))) as (base, _), posting(base + "/v1/check#") as post:
            replies.append(await post({"text": "forbidden"}))

    assert [status for status, _ in replies] == [401, 200, 403, 404]
    assert json.loads(replies[1][1])["verdict"] == "blocked"


SPENT = "{max_cost: 0.0015, window: day, input_price: 1, output_price: 100, output_tokens: 10}"


async def test_a_stream_without_usage_costs_what_its_text_has(written, serving) -> None:
    """Not a flat number; and log and metrics show the tokens."""
    records = []
    more = "routes: [{name: r, budget: {max_cost: 1, input_price: 1, output_price: 100}}]\n"
    with FakeProvider(["word " * 30], repeat_last=True) as provider:
        gateway = Gateway(written(provider.url, more), on_served=records.append)
        async with serving(gateway) as (base, _), posting(base) as post:
            await post(asked(stream=True))
            await until(lambda: records)

    assert 25 <= records[0].output_tokens <= 40
    assert 5 <= records[0].input_tokens <= 20
    assert b'tokens_total{route="r",kind="output"}' in gateway.metrics.page()


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_the_limit_of_the_client_is_reserved(written, serving, limit) -> None:
    """An answer of 5 tokens fits where one of 1,000 does not."""
    more = "routes: [{budget: {max_cost: 0.001, input_price: 1, output_price: 100}}]\n"
    with FakeProvider(["word"], repeat_last=True) as provider:
        async with serving(Gateway(written(provider.url, more))) as (base, _), posting(base) as post:
            assert (await post(asked()))[0] == 429
            assert (await post(asked(**{limit: 100})))[0] == 429
            assert (await post(asked(**{limit: 5})))[0] == 200
            assert (await post(asked(**{limit: 5}, n=10)))[0] == 429


async def test_a_spent_budget_is_429_in_each_protocol(written, serving) -> None:
    """With the time when the day ends; the reason is for the operator."""
    records = []
    more = f"routes: [{{name: r, budget: {SPENT}}}]\n"
    with FakeProvider(["word " * 30], repeat_last=True) as provider:
        gateway = Gateway(written(provider.url, more), on_served=records.append)
        async with serving(gateway) as (base, _), aiohttp.ClientSession() as session:
            for path, body, kind in (
                (PATH, asked(), None),
                (PATH, asked(stream=True), "insufficient_quota"),
                ("/v1/messages", {**asked(), "max_tokens": 5}, "rate_limit_error"),
            ):
                async with session.post(base + path, json=body) as reply:
                    told = json.loads(await reply.text())
                    if kind is not None:
                        assert reply.status == 429
                        assert told["error"]["type"] == kind
                        assert 1 <= int(reply.headers["retry-after"]) <= 86_400
                        assert "usd" not in str(told)

    assert [(one.outcome, one.error) for one in records[1:]] == [("blocked", "insufficient_quota")] * 2
    assert "are spent" in records[1].reason


async def test_a_model_without_a_price_is_an_error_that_the_operator_can_mend(written, serving, caplog) -> None:
    """Not the answer of a model."""
    records = []
    more = "routes: [{name: r, budget: {max_cost: 1}}]\n"
    with FakeProvider(["word"], repeat_last=True) as provider:
        gateway = Gateway(written(provider.url, more), on_served=records.append)
        async with serving(gateway) as (base, _), posting(base) as post:
            status, text = await post(asked())

    assert status == 500
    assert json.loads(text)["error"]["code"] == "guard_failed"
    assert records[0].outcome == "error"
    assert "input_price:" in records[0].reason
    assert records[0].request_id in caplog.text


@pytest.mark.parametrize(("path", "field"), [("/v1/embeddings", "input"), ("/v1/completions", "prompt")])
async def test_a_note_for_a_model_is_dropped_where_no_conversation_is(written, serving, tmp_path, path, field) -> None:
    """What was hidden stays hidden."""
    with FakeProvider(["word"], repeat_last=True) as provider:
        read = written(provider.url)
        (tmp_path / "gateway.yaml").write_text((tmp_path / "gateway.yaml").read_text().replace("guard.yaml", "privacy"))
        async with serving(Gateway(read)) as (base, _), aiohttp.ClientSession() as session:
            body = {"model": "fake-1", field: "Write to ada.lovelace@analytical.org"}
            async with session.post(base + path, json=body) as reply:
                text = await reply.text()

    assert "guard_failed" not in text
    assert provider.requests
    assert "ada.lovelace" not in str(provider.requests[0].body)


async def test_checks_are_logged_and_counted(written, serving) -> None:
    """Each with its path and status."""
    records = []
    gateway = Gateway(written("http://127.0.0.1:9/v1", "checks: guard.yaml\n"), on_served=records.append)
    async with serving(gateway) as (base, _), aiohttp.ClientSession() as session:
        async with session.post(f"{base}/v1/check", json={"text": "Hello"}) as reply:
            assert reply.status == 200
        await until(lambda: records)

    assert (records[0].endpoint, records[0].status, records[0].outcome) == ("check /v1/check", 200, "ok")
    assert b'endpoint="check /v1/check",status="200"' in gateway.metrics.page()
