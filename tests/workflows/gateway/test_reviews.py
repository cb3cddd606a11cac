"""What guards ask an operator about waits in a store, and goes through once when the client sends it again."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from penstock import InMemoryStorage
from penstock.testing.provider import FakeProvider, Gate, Reply, Sent, Wire
from penstock.workflows.gateway.claims import ApprovalClaims, NotDecidedError
from penstock.workflows.gateway.config.client_keys import line_of_key
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway
from penstock.workflows.policies.problems import PolicyError
from penstock.workflows.review import Reviews, WaitingCall, only_reviewers
from tests.stores.stored import stored_bytes
from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401 - checks each run that is stored

EVE, CLIENT, OTHER = "eve-" + "k" * 24, "app-" + "k" * 24, "web-" + "k" * 24
SECRET = "ann@example.com"
PII = "{use: pii-detector, with: {strategy: redact, redaction_method: placeholder}}"
INPUT = f"penstock: 1\nsteps: [{{use: human-review, with: {{at: [input]}}}}, {PII}]\n"
CALLS = f"penstock: 1\nsteps: [{PII}, {{use: tool-policy, with: {{ask: [refund]}}}}]\n"
TOKENS = "{use: pii-detector, with: {strategy: redact, redaction_method: token}}"
RESTORED = f"penstock: 1\nsteps: [{TOKENS}, {{use: tool-policy, with: {{ask: [refund]}}}}, {{use: restore}}]\n"
BODY: dict[str, Any] = {
    "model": "fake-1",
    "messages": [{"role": "user", "content": f"Refund order 7 for {SECRET}"}],
    "tools": [{"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}],
}
CALL = {"text": "I will refund it.", "tool_calls": [{"name": "refund", "args": {"order": 7, "note": f"for {SECRET}"}}]}
OTHER_CALL = {"text": "Or so.", "tool_calls": [{"name": "refund", "args": {"order": 8}}]}


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """Makes a gateway with reviews in a file."""

    def make(provider: FakeProvider, policy: str, more: str = "", section: str = "") -> Gateway:
        (tmp_path / "guard.yaml").write_text(policy)
        (tmp_path / "operators.txt").write_text(line_of_key("eve", EVE) + "\n")
        (tmp_path / "keys.txt").write_text(f"{line_of_key('app', CLIENT)}\n{line_of_key('web', OTHER)}\n")
        path = tmp_path / "gateway.yaml"
        path.write_text(
            "gateway: 1\npolicy: guard.yaml\nlog: {format: none}\nkeys: keys.txt\n"
            f"reviews: {{store: reviews.db, operators: operators.txt{section}}}\n"
            f"upstreams: {{up: {{url: '{provider.url}'}}}}\nroutes: [{{{more}}}]\n"
        )
        return Gateway(lambda: read_gateway(path, environment={}))

    return make


async def send(base: str, body: Any = BODY, key: str = CLIENT, **fields: Any) -> tuple[Any, str]:
    """Send a request; return the number of what waits, or None, and the body of the reply."""
    headers = {"authorization": f"Bearer {key}"}
    url = f"{base}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json={**body, **fields}, headers=headers) as reply:
        text = await reply.text()
        assert reply.status == 200, text
        waits = reply.headers.get("x-penstock-review", "").partition(";")[0]
        return waits or None, text


async def operate(
    base: str, path: str = "", body: Any = None, key: str | None = EVE, data: bytes | None = None
) -> tuple[int, Any]:
    """Ask an endpoint of the operators; return status and answer."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    method = "GET" if body is None and data is None else "POST"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, f"{base}/v1/reviews{path}", json=body, data=data) as reply,
    ):
        return reply.status, await reply.json()


async def test_an_input_waits_and_goes_through_once_when_it_is_approved(
    made: Any, serving: Any, tmp_path: Path
) -> None:
    """The provider is asked after that only; the third time a person is asked again."""
    with FakeProvider(["It is done."], repeat_last=True) as provider:
        async with serving(made(provider, INPUT)) as (base, _):
            waits, text = await send(base)
            assert "waits for the approval of a person" in text
            assert waits in text
            assert (await send(base, stream=True))[0] == waits
            _, listed = await operate(base)
            (one,) = listed["data"]
            assert (one["run_id"], one["agent"], one["resource_id"]) == (waits, "gateway/route-1", "app")
            assert one["calls"][0]["arguments"]["text"].endswith("Refund order 7 for [EMAIL]")
            status, decided = await operate(base, f"/{waits}/approve", {})
            assert (status, decided["calls"][0]["decision"]["by"]) == (200, "eve")
            assert len(provider.requests) == 0
            assert (await send(base, key=OTHER))[0] not in (waits, None)  # another client's is another request
            found, text = await send(base)
            assert (found, "It is done." in text) == (None, True)
            again, _ = await send(base)
            assert again == waits
            _, over = await operate(base, "?status=ended")
            assert [run["calls"][0]["decision"]["by"] for run in over["data"]] == ["eve"]
        assert len(provider.requests) == 1
    assert SECRET.encode() not in stored_bytes(tmp_path, "reviews.db*")


async def test_each_decision_about_the_same_request_is_kept(made: Any, serving: Any) -> None:
    """Also when it is sent and approved again."""
    with FakeProvider(["It is done."], repeat_last=True) as provider:
        async with serving(made(provider, INPUT)) as (base, _):
            for _ in range(3):
                waits, _ = await send(base)
                await operate(base, f"/{waits}/approve", {})
                await send(base)
            await send(base)
            _, over = await operate(base, "?status=ended")
            assert [run["calls"][0]["decision"]["by"] for run in over["data"]] == ["eve"] * 3


async def test_a_refused_input_is_refused_each_time_with_the_reason(made: Any, serving: Any) -> None:
    """Nobody asks the provider."""
    with FakeProvider(["It is done."]) as provider:
        async with serving(made(provider, INPUT)) as (base, _):
            waits, _ = await send(base)
            await operate(base, f"/{waits}/reject", {"reason": "not today"})
            for _ in range(2):
                found, text = await send(base)
                assert (found, "A person has refused this request: not today" in text) == (waits, True)
            _, standing = await operate(base, f"/{waits}/status", key=CLIENT)
            assert standing == {"id": waits, "object": "review", "status": "rejected"}
        assert len(provider.requests) == 0


async def test_an_answer_to_a_question_fits_its_schema(made: Any, serving: Any) -> None:
    """A text in the place of the input is judged by the guards like any other."""
    with FakeProvider(["It is done."]) as provider:
        async with serving(made(provider, INPUT)) as (base, _):
            waits, _ = await send(base)
            call = (await operate(base, f"/{waits}"))[1]["calls"][0]["call_id"]
            assert (await operate(base, f"/{waits}/answer", {"call": call, "value": "yes"}))[0] == 409
            value = {"decision": "approve", "text": f"Tell {SECRET} no"}
            assert (await operate(base, f"/{waits}/answer", {"call": call, "value": value}))[0] == 200
            assert (await send(base))[0] is None
        assert "Tell [EMAIL] no" in provider.requests[0].all_text


@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_is_withheld_until_it_is_approved(made: Any, serving: Any, tmp_path: Path, streams: bool) -> None:
    """Then the stored answer leaves with it, once: the provider is not asked a second time."""
    with FakeProvider([CALL, OTHER_CALL]) as provider:
        async with serving(made(provider, CALLS)) as (base, _):
            waits, text = await send(base, stream=streams)
            assert "tool_calls" not in text.replace('"tool_calls":null', "")
            _, listed = await operate(base)
            waits = waits or listed["data"][0]["run_id"]
            assert waits in text
            (one,) = listed["data"]
            assert (one["question"], one["text"]) == ("Refund order 7 for [EMAIL]", "I will refund it.")
            assert one["calls"][0]["arguments"] == {"order": 7, "note": "for [EMAIL]"}
            assert (await send(base, stream=streams))[0] == waits
            await operate(base, f"/{waits}/approve", {})
            found, text = await send(base, stream=streams)
            assert found is None
            assert _call(text) == {"order": 7, "note": "for [EMAIL]"}
            assert "I will refund it." in _said(text)
            assert len(provider.requests) == 1
            await send(base, stream=streams)
            assert (await operate(base))[1]["data"][0]["calls"][0]["arguments"] == {"order": 8}
        assert len(provider.requests) == 2
    assert SECRET.encode() not in stored_bytes(tmp_path, "reviews.db*")


async def test_other_arguments_are_judged_before_the_call_leaves(made: Any, serving: Any) -> None:
    """As an operator's text that guards would hide."""
    with FakeProvider([CALL]) as provider:
        async with serving(made(provider, CALLS)) as (base, _):
            waits, _ = await send(base)
            await operate(base, f"/{waits}/approve", {"arguments": {"order": 1, "note": f"to {SECRET}"}})
            assert _call((await send(base))[1]) == {"order": 1, "note": "to [EMAIL]"}


async def test_an_approval_is_for_the_conversation_that_was_shown(made: Any, serving: Any) -> None:
    """One word more is another request."""
    with FakeProvider([CALL, CALL]) as provider:
        async with serving(made(provider, CALLS)) as (base, _):
            waits, _ = await send(base)
            await operate(base, f"/{waits}/approve", {})
            more = [*BODY["messages"], {"role": "user", "content": "And order 9"}]
            found, text = await send(base, messages=more)
            assert found not in (waits, None)
            assert "refund" not in text


async def test_an_approval_is_used_by_one_of_two_gateways(made: Any, serving: Any) -> None:
    """They share a store; whoever asks meanwhile is told that it is in use."""
    gate = Gate()
    with FakeProvider([Sent("It is done.", Wire(gate=gate)), "Twice!"], repeat_last=True) as provider:
        async with serving(made(provider, INPUT)) as (one, _), serving(made(provider, INPUT)) as (two, _):
            waits, _ = await send(one)
            assert (await operate(two, f"/{waits}/approve", {}))[0] == 200
            got: list[tuple[Any, str]] = []

            async def keep(base: str) -> None:
                got.append(await send(base))

            async with anyio.create_task_group() as group:
                for base in (one, two, one, two):
                    group.start_soon(keep, base)
                gate.open()
        assert len([text for found, text in got if found is None and "It is done." in text]) == 1
        assert len(provider.requests) == 1


async def test_wrong_keys_neither_see_nor_decide(made: Any, serving: Any) -> None:
    """None and unknown ones get 401, a client's 403; a client sees how its own request stands, and nothing else."""
    with FakeProvider(["It is done."]) as provider:
        async with serving(made(provider, INPUT)) as (base, _):
            waits, _ = await send(base)
            for path, body in (("", None), (f"/{waits}", None), (f"/{waits}/approve", {}), (f"/{waits}/reject", {})):
                assert [(await operate(base, path, body, key))[0] for key in (None, "x" * 30, CLIENT)] == [
                    401,
                    401,
                    403,
                ]
            assert [(await operate(base, f"/{waits}/status", key=key))[0] for key in (None, OTHER)] == [401, 404]
            assert (await operate(base, f"/{waits}/status", key=CLIENT))[1]["status"] == "waiting"
            assert (await operate(base, f"/{waits}"))[1]["calls"][0]["decision"] is None


async def test_what_operators_send_is_checked(made: Any, serving: Any) -> None:
    """Each fault is said in words."""
    with FakeProvider([]) as provider:
        async with serving(made(provider, INPUT)) as (base, _):
            waits, _ = await send(base)
            assert (await operate(base, "/gw-nothing"))[0] == 404
            assert (await operate(base, "/other"))[0] == 404
            for query in ("?status=odd", "?limit=0", "?limit=x", "?after=odd"):
                assert (await operate(base, query))[0] == 400
            for body in ({"calls": 1}, {"call": 1}, [1]):
                assert (await operate(base, f"/{waits}/approve", body))[0] == 400
            assert (await operate(base, f"/{waits}/approve", data=b"{"))[0] == 400
            assert (await operate(base, f"/{waits}/answer", {}))[0] == 400
            assert (await operate(base, f"/{waits}/reject", {"call": "odd"}))[0] == 409


async def test_an_approval_that_was_not_used_stays(made: Any, serving: Any) -> None:
    """If the provider fails, nothing has left: it counts the next time."""
    with FakeProvider([Reply("", 500), "It is done."]) as provider:
        async with serving(made(provider, INPUT, "retries: {attempts: 1}")) as (base, _):
            waits, _ = await send(base)
            await operate(base, f"/{waits}/approve", {})
            headers = {"authorization": f"Bearer {CLIENT}"}
            url = f"{base}/v1/chat/completions"
            async with aiohttp.ClientSession() as session, session.post(url, json=BODY, headers=headers) as reply:
                assert reply.status == 500
            found, text = await send(base)
            assert (found, "It is done." in text) == (None, True)


async def test_a_lost_store_lets_nothing_pass(
    made: Any, serving: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that would wait fails, and nobody asks the provider."""
    with FakeProvider(["It is done."]) as provider:
        (tmp_path / "reviews.db").write_bytes(b"no database" * 100)
        async with serving(made(provider, INPUT)) as (base, _):
            headers = {"authorization": f"Bearer {CLIENT}"}
            url = f"{base}/v1/chat/completions"
            async with aiohttp.ClientSession() as session, session.post(url, json=BODY, headers=headers) as reply:
                assert reply.status == 500
            assert (await operate(base))[0] == 503
        assert len(provider.requests) == 0
    told = [record for record in caplog.records if "the store of reviews" in record.getMessage()]
    assert [record.exc_info for record in told] == [None]  # the words of a driver may quote what is stored


async def test_the_log_has_who_decided_and_nothing_of_what(
    made: Any, serving: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Numbers and names only."""
    caplog.set_level(logging.INFO)
    with FakeProvider([CALL]) as provider:
        async with serving(made(provider, CALLS)) as (base, _):
            waits, _ = await send(base)
            await operate(base, f"/{waits}/reject", {"reason": "the parcel has come"})
    assert f"review {waits}: reject by the operator eve" in caplog.text
    assert "asked" in caplog.text
    assert not [word for word in ("parcel", "order", SECRET, "Refund") if word in caplog.text]


async def test_an_answer_that_an_approval_let_pass_is_not_cached(made: Any, serving: Any) -> None:
    """Else it would pass again and again. With values that were put back, it comes from the provider again."""
    with FakeProvider([CALL, CALL, CALL]) as provider:
        async with serving(made(provider, RESTORED, "cache: {}")) as (base, _):
            waits, _ = await send(base)
            await operate(base, f"/{waits}/approve", {})
            assert _call((await send(base))[1])["order"] == 7
            assert (await send(base))[0] == waits
        assert len(provider.requests) == 3


async def test_the_approval_of_an_input_is_used_up_before_its_answer_leaves(made: Any, serving: Any) -> None:
    """A gateway that dies in the middle of a stream has used it."""
    gate = Gate()
    with FakeProvider([Sent("one two three", Wire(gate=gate))]) as provider:
        async with serving(made(provider, INPUT)) as (base, _), aiohttp.ClientSession() as session:
            waits, _ = await send(base)
            await operate(base, f"/{waits}/approve", {})
            headers, url = {"authorization": f"Bearer {CLIENT}"}, f"{base}/v1/chat/completions"
            async with session.post(url, json={**BODY, "stream": True}, headers=headers) as stream:
                gate.let(2)
                assert await stream.content.readany()
                assert (await operate(base, f"/{waits}"))[1]["status"] == "ended"
                gate.open()
                await stream.read()


def _said(text: str) -> str:
    """Return the text of an answer, whole or streamed."""
    return "".join(one.get("content") or "" for one in _messages(text))


def _call(text: str) -> Any:
    """Return the arguments of the call in an answer, whole or streamed."""
    pieces = [call["function"].get("arguments", "") for one in _messages(text) for call in one.get("tool_calls") or ()]
    return json.loads("".join(pieces))


def _messages(text: str) -> list[Any]:
    if not text.startswith("data:"):
        return [json.loads(text)["choices"][0]["message"]]
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]


NAMED = "penstock: 1\nsteps: [{use: human-review, with: {at: [input], reviewers: [eve]}}]\n"


@pytest.mark.parametrize("who", ["eve", "bob"])
async def test_reviewers_of_a_question_are_the_operators_who_may_decide(made: Any, serving: Any, who: str) -> None:
    """If the file says so; who decided is the name of the key."""
    policy = NAMED.replace("eve", who)
    with FakeProvider(["It is done."]) as provider:
        async with serving(made(provider, policy, section=", may_decide: reviewers")) as (base, _):
            waits, _ = await send(base)
            status, told = await operate(base, f"/{waits}/approve", {})
            assert status == (200 if who == "eve" else 409)
            assert who == "eve" or "'eve' may not decide" in told["error"]["message"]
            by = [
                call["decision"] and call["decision"]["by"] for call in (await operate(base, f"/{waits}"))[1]["calls"]
            ]
            assert by == ["eve" if who == "eve" else None]


async def test_a_rule_is_found_from_the_folder_of_the_gateway_file(made: Any, serving: Any, tmp_path: Path) -> None:
    """One that is not there is a fault of the file."""
    (tmp_path / "rules.py").write_text("def nobody(run, by):\n    return False\n")
    with FakeProvider(["It is done."]) as provider:
        async with serving(made(provider, INPUT, section=", may_decide: rules.py:nobody")) as (base, _):
            waits, _ = await send(base)
            assert (await operate(base, f"/{waits}/approve", {}))[0] == 409
        with pytest.raises(PolicyError, match="has no 'gone'"):
            made(provider, INPUT, section=", may_decide: rules.py:gone")


async def test_a_question_that_is_asked_again_keeps_its_rule() -> None:
    """Also if the gateway that asks again has none."""
    store = InMemoryStorage()
    asked = WaitingCall("q", "human-review", {}, "question", "digest")
    shown: dict[str, Any] = {"question": "", "text": ""}
    for rule, expires_in in ((only_reviewers, 1e-6), (None, 60.0)):
        reviews = Reviews(store, expires_in=expires_in, may_decide=rule)
        with pytest.raises(NotDecidedError):
            await ApprovalClaims(reviews, "chat", "policy", "ann").decisions("gw-1", [asked], shown)
    [run] = (await Reviews(store).runs()).items
    assert run.has_rule
